"""A kept value of a prefix on its way along the calls that are skipped; settles to their value if one differs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from io import BufferedReader
from typing import TYPE_CHECKING, Any

from codedag.migrate.caller import Caller

if TYPE_CHECKING:
    from codedag.migrate.memo.prefix import Prefix


class _Kind:
    """Has the methods of a class; any other attribute is said to be no method."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name, None)


@dataclass(slots=True)
class Recall:
    """A value that was kept, on its way along the calls that are skipped; what `Deferred` is to a chain."""

    prefix: Prefix
    kept: Any
    key: Any
    steps: list[tuple[Caller, Any, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    done: bool = False
    value: Any = None
    opened: Any = None  # the value of the first call, if it had to be made: a `with` statement closes it

    @property
    def sample(self) -> Any:
        """What can be asked for the methods of this value; the value itself is not made for that."""
        return _Kind(self.prefix.kinds[len(self.steps) - 1])

    def settle(self, space: dict[str, Any] | None = None) -> Any:
        """The value that the calls so far give when each runs as written."""
        if not self.done:
            value = None
            for number, (caller, function, args, keywords) in enumerate(self.steps):
                at = self.prefix.links[number].at
                if number and at < 0:
                    function = getattr(value, function)
                elif number:
                    args = (*args[:at], value, *args[at + 1 :])
                call = caller.in_module(space) if space is not None else None
                value = call(function, args, keywords) if call else function(*args, **keywords)
                self.opened = value if number == 0 else self.opened
            self.value, self.done = value, True
        return self.value

    def entered(self, placeholder: Any) -> Any:
        """What a `with` statement gets: what stands for the value, if entering that gives the value itself."""
        if getattr(self.prefix.kinds[0], "__enter__", None) in _themselves():
            return placeholder
        value = self.settle()
        return type(value).__enter__(value)

    def left(self, *raised: Any) -> Any:
        """What leaving a `with` statement gives: nothing, unless something had to be opened."""
        return None if self.opened is None else type(self.opened).__exit__(self.opened, *raised)


def _themselves() -> list[Any]:
    """The methods of files and pictures that give the object itself to a `with` statement."""
    pillow = sys.modules.get("PIL.Image")
    return [BufferedReader.__enter__, *([pillow.Image.__enter__] if pillow is not None else [])]
