"""What is there in the place of `_patch` where the C extension was not built: nothing is ever replaced."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

DECLINED = object()


class Layer:
    """One replacement, which is never called."""

    __slots__ = ("calls", "checked", "declined", "fast", "run")

    def __init__(self, run: Callable[..., Any] | None, /) -> None:
        self.run = run
        self.calls = self.fast = self.checked = self.declined = 0


class Proxy:
    """A class of which there is nothing."""


BindingProxy = HardProxy = HardBindingProxy = Proxy


class After:
    """A callable that runs another one and tells somebody."""

    __slots__ = ("callback", "function")

    def __init__(self, function: Callable[..., Any], callback: Callable[[Any], None], /) -> None:
        self.function, self.callback = function, callback

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The result of the function."""
        result = self.function(*args, **keywords)
        self.callback(args[0] if args else None)
        return result


def same_values(spaces: tuple[dict[str, Any], ...], values: tuple[tuple[Any, ...], ...], /) -> bool:
    """Whether dictionaries hold these very values, in this order."""
    return len(spaces) == len(values) and all(map(_holds, spaces, values))


def _holds(space: dict[str, Any], values: tuple[Any, ...]) -> bool:
    return len(space) == len(values) and all(map(is_, space.values(), values))


def set_reduce(function: Callable[[Any, int], Any], /) -> None:
    """Does nothing: there is no proxy to be pickled."""
