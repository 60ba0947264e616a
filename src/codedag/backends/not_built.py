"""Stand-in for the C extension `_pixels` where it was not built, and which substitutions cannot do without it."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

NOT_BUILT = "the C extension was not built, because the installation found no C compiler"


class NotBuilt:
    """In place of the C extension: what a substitution wants of it raises, so that its proof fails."""

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"{name}: {NOT_BUILT}")


def wants_extension(function: Callable[..., Any]) -> bool:
    """Whether the function, or one of ours that it calls, uses the extension and that is not there."""
    if not isinstance(vars(sys.modules[__package__]).get("_pixels"), NotBuilt):
        return False
    seen: set[types.CodeType] = set()
    left: list[Any] = [function]
    while left:
        each = inspect.unwrap(left.pop())
        code = getattr(each, "__code__", None)
        if code is None or code in seen or not each.__module__.startswith(f"{__package__}."):
            continue
        seen.add(code)
        used = [each.__globals__[name] for name in _names(code) if name in each.__globals__]
        if any(isinstance(value, NotBuilt) for value in used):
            return True
        left += [getattr(value, "run", value) for value in used if callable(value)]
    return False


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)
