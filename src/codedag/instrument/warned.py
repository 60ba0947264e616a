"""Warnings of our own work, which nobody hears, and of work of the program's that is kept or runs at another time.

Work that warns must run as written each time: who skips it skips the warning, and who runs it ahead shows it too early.
Whether anything is shown is up to the filters of the program, which may change.  So a filter that matches nothing
stands before all others while such work runs: it is asked about every warning that was not shown at its line already.
What the filters ignore has no effect and is not heard of.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from codedag.instrument.floating_point import float_mode


class Ear:
    """Stands before the filters of the program while it is open, and tells what these would not ignore.

    `warnings` asks an entry whether message and module match, and whether it is a category of it: all three are this.
    """

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._filters: list[Any] | None = None
        self._asked = _Asked()
        self._entry = ("ignore", self, self, _Module(self._asked), 0)

    def match(self, message: str) -> bool:
        """Is told the message."""
        self._asked.message, self._asked.module = message, None
        return True

    def __subclasscheck__(self, category: type) -> bool:
        """Is told the category last: tells of the warning, and matches none."""
        message, self._asked.message = self._asked.message, None
        if message is not None and not _is_ignored(self._filters or (), message, category, self._asked.module):
            self._heard(message)
        return False

    def open(self) -> None:
        """Hears of all warnings from now on."""
        filters: Any = warnings.filters
        if type(filters) is list and self._filters is None:
            self._filters = filters
            filters.insert(0, self._entry)

    def close(self) -> None:
        """Hears nothing any more; a program that has copied the filters meanwhile keeps one that matches nothing."""
        filters, self._filters = self._filters, None
        _remove(filters or [], self._entry)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Asked(threading.local):
    """What this thread is being asked about."""

    message: str | None = None  # none: somebody else goes through the filters
    module: str | None = None


class _Module:
    """Is told the module of a warning."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def match(self, module: str) -> bool:
        """Matches every module."""
        self._asked.module = module
        return True


def _is_ignored(filters: Iterable[Any], message: str, category: type, module: str | None) -> bool:
    """Whether nothing at all comes of a warning, as far as can be told without its line."""
    for action, text, kind, where, line in filters:
        if isinstance(text, Ear) or not (_matches(text, message) and issubclass(category, kind)):
            continue
        if where is not None and module is not None and not _matches(where, module):
            continue
        unsure = line != 0 or (where is not None and module is None)
        return action == "ignore" and not unsure
    return False


def _matches(pattern: Any, text: str) -> bool:
    if pattern is None:
        return True
    return pattern == text if isinstance(pattern, str) else bool(pattern.match(text))


class Heard(Ear):
    """Remembers whether it has heard of a warning."""

    def __init__(self) -> None:
        super().__init__(self._note)
        self.warned = False

    def _note(self, message: str) -> None:
        self.warned = True


def mode() -> tuple[Any, ...]:
    """The floating-point mode and what would be done about odd numbers and warnings: the same call may give another
    result, or have to raise, under other settings."""
    numpy = sys.modules.get("numpy")
    numbers = tuple(numpy.geterr().values()) if numpy is not None else ()
    return float_mode(), numbers, filters_now()


def filters_now() -> tuple[Any, ...]:
    """The filters of the program, without those of our own work, also in another thread."""
    return tuple(entry for entry in warnings.filters if not isinstance(entry[1], Ear | _Here))


def calls_back() -> bool:
    """Whether numpy tells a function or stream of the program about odd numbers, which would hear of them too early."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and not {"call", "print", "log"}.isdisjoint(numpy.geterr().values())


@contextmanager
def noticing() -> Iterator[list[str]]:
    """A list that tells, after the block, what numpy would have warned about or raised in it."""
    numpy: Any = sys.modules["numpy"]
    noticed: list[str] = []
    ways = {kind: "ignore" if way == "ignore" else "call" for kind, way in numpy.geterr().items()}
    with numpy.errstate(call=lambda kind, flag: noticed.append(kind), **ways):
        yield noticed


class _Here:
    """Matches every warning of the thread that made it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def match(self, message: str) -> bool:
        """Whether the warning is one of this thread."""
        return threading.get_ident() == self._thread


@contextmanager
def unheard(action: str = "ignore") -> Iterator[None]:
    """Compiling in here warns nobody (or fails, with "error"); other threads warn as ever.

    The user's own warnings come from Python's import, or from compiling the source as it stands.  The compiler warns
    that a text constant is not callable: ours is replaced before it runs.  catch_warnings() would make every warning
    that the program has already shown appear again, so the filter goes in and out by itself.
    """
    filters: Any = warnings.filters
    first = (action, _Here(), Warning, None, 0)
    filters.insert(0, first)
    try:
        yield
    finally:
        _remove(filters, first)


def _remove(filters: list[Any], entry: tuple[Any, ...]) -> None:
    """Takes an entry out; the program may have emptied the filters itself."""
    for at in reversed([at for at, each in enumerate(filters) if each is entry]):
        del filters[at]
