"""Builtin functions whose answer in a checked item depends on less than on all of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from codedag.backends.known_operators import static
from codedag.migrate.memo.reads import ABSENT

if TYPE_CHECKING:
    from codedag.migrate.memo.checker import Checker


def _isinstance(checker: Checker, value: Any, kinds: Any) -> Any:
    """`isinstance` with classes that do not decide themselves."""
    every = kinds if type(kinds) is tuple else (kinds,)
    plain = all(isinstance(each, type) and _decides_plainly(each) for each in every)
    return (
        isinstance(value, kinds)
        if plain and static(type(value), "__class__") is object.__dict__["__class__"]
        else ABSENT
    )


def _decides_plainly(kind: type) -> bool:
    if type(kind) is type:
        return True
    module = kind.__module__.partition(".")[0]
    return module in ("torch", "collections", "numbers", "typing", "enum", "numpy", "PIL") and kind is not ABSENT


def _len(checker: Checker, value: Any) -> Any:
    """`len` of a container that the item did not make depends on its length only."""
    if type(value) in (list, dict) and not checker.is_own(value):
        checker.reads.again(len, (value,), len(value))
        return len(value)
    found = static(type(value), "__len__")
    return checker.call(found, value) if type(found) is FunctionType else ABSENT


def _getattr(checker: Checker, value: Any, name: Any, *otherwise: Any) -> Any:
    """`getattr` is an attribute."""
    checker.is_general = False
    return checker.member(value, name) if type(name) is str and not otherwise else ABSENT


#: By the identity of the function; each gives ABSENT if the call is to be looked at like any other.
SPECIAL: dict[int, Callable[..., Any]] = {id(isinstance): _isinstance, id(len): _len, id(getattr): _getattr}
