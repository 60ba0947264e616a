"""Whether a captured call may be run again: only one that is known to change nothing but what it was given."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from codedag.backends.known import Effect, Known, known_call, known_operator
from codedag.backends.registry import attempt, find
from codedag.ir.verdict import No, Verdict, Yes

_LIBRARIES = frozenset((
    "builtins", "operator", "math", "cmath", "json", "zlib", "numpy", "cv2", "PIL", "torch", "scipy", "skimage",
    "librosa", "soundfile", "pandas",
))  # fmt: skip
_HARMLESS = (Effect.PURE, Effect.READS, Effect.WRITES)  # what a call writes is given back by who runs it


def function_of(name: str) -> Callable[..., Any] | No:
    """The function behind the name of an operation; methods take their object as the first argument."""
    if name.startswith("__main__.") or name.endswith(".__call__"):
        return No("what was called is an object of the program, which is not kept")
    library = name.partition(".")[0] if "." in name else "builtins"
    if library not in _LIBRARIES and not find(name):  # a file of samples must not make us import just anything
        return No(f"what the functions of {library} do beside their results is not known")
    found = attempt(pkgutil.resolve_name, name if "." in name else f"builtins.{name}")
    if not callable(found.value):
        return No(f"{name} cannot be found in a process of our own{f' ({found.error})' if found.error else ''}")
    return found.value  # type: ignore[no-any-return]


def repeatable(name: str, function: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Verdict:
    """Yes if running the call again changes nothing outside its own arguments, else the reason against it."""
    if find(name):
        return Yes  # a substitution is proven by running its original
    if name.startswith("operator."):
        answer = known_operator(name.removeprefix("operator."), args)
    else:
        answer = known_call(*_as_called(name, function, args), dict(keywords))
    if isinstance(answer, Known):
        return Yes if answer.effect in _HARMLESS else No(f"it {answer.effect.value}, and is not run again")
    return answer if isinstance(answer, No) else No(f"{name} is code of the program")


def _as_called(name: str, function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """A method of the first argument, bound as the program called it; other functions as they are."""
    last = name.rpartition(".")[2]
    if (
        args
        and isinstance(getattr(type(args[0]), last, None), object)
        and getattr(type(args[0]), last, None) is function
    ):
        return getattr(args[0], last), args[1:]
    return function, args
