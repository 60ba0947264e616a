"""Memo of Python functions that draw nothing and have no effect: what a call gave, kept by its plain arguments.

`load(path)` of the program's own, or of a package, is made once while its files and all that it reads stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath
from sys import _getframe
from types import FunctionType, MethodType
from typing import Any

from codedag.migrate.caller import Caller
from codedag.migrate.guard import attempt
from codedag.migrate.memo.checked_memo import CheckedMemo, Kept, Wanted
from codedag.migrate.memo.key import is_plain, told_apart

#: Calls below this are not kept: looking whether all is as it was may take 50 to 100 us (estimated from items).
CALL_SECONDS_MIN = 0.4e-3
OBJECT_CALLS_MIN = 16  # of methods of one object before they are followed: what is short-lived is left alone
_PATHS = frozenset({type(Path()), type(PurePath())})
HOPEFUL_CALLS = 400  # calls without one whose arguments came again, after which none is expected


class FunctionMemo(CheckedMemo):
    """The variant of one call site whose function is written in Python."""

    refusals_max = 3  # what one call may not do, the others will not either; each costs as much as a call

    def variant(self, site: Any) -> Callable[..., Any]:
        """What the site runs instead."""
        caller = Caller(site.info)

        def called(function: Any, /, *args: Any, **keywords: Any) -> Any:
            call = caller.in_module(_getframe(1).f_globals)
            wanted = attempt(self._wanted, function, args, keywords) if self._is_open() else None
            if type(wanted) is not Wanted:
                return call(function, args, keywords)
            value = self.given(wanted, call, None, is_open=True)  # to ask a frame for its variables would hold them
            attempt(self._give_up_where_nothing_repeats, wanted)
            return value

        return called

    def _is_open(self) -> bool:
        return self.trial.active and not self.memory.paused

    def _wanted(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Wanted | None:
        """The call as a holder (the function, or the object that it is a method of) and a key; None if it has none."""
        is_method = type(function) is MethodType
        inner = function.__func__ if is_method else function
        if type(inner) is not FunctionType:
            self.trial.decline("it is not written in Python")
            return None
        if inner.__code__.co_freevars not in ((), ("__class__",)):
            self.trial.decline("it holds variables of the function that made it")  # and would live on with them
            return None
        kind = function.__self__ if is_method and isinstance(function.__self__, type) else None  # of a class method
        holder = function.__self__ if is_method and kind is None else inner
        if not all(map(_is_key, (*args, *keywords.values()))):
            self.trial.decline("arguments that cannot be compared")
            return None
        parts = (*map(_told_apart, args), *map(_told_apart, keywords.values()))
        key = (inner, kind, len(args), tuple(keywords), *parts)
        return Wanted(holder, key, function, args, keywords)

    def _may_fill(self, kept: Kept, has_come: bool) -> bool:
        return (kept.is_function or kept.calls > OBJECT_CALLS_MIN) and super()._may_fill(kept, has_come)

    def _give_up_where_nothing_repeats(self, wanted: Wanted) -> None:
        kept = self._of(wanted.holder)
        if not self.trial.calls and len(kept.seen) > HOPEFUL_CALLS:
            self._stop(f"none of {HOPEFUL_CALLS} arguments came again")

    def _refuse(self, kept: Kept, index: Any, why: str) -> None:
        super()._refuse(kept, index, why)
        if self._is_hopeless(kept):
            self._stop(why)

    def _stop(self, why: str) -> None:
        self.trial.stop(why)
        self._forget()
        self._holders.clear()


def _is_key(value: Any) -> bool:
    return is_plain(value) or type(value) in _PATHS


def _told_apart(value: Any) -> Any:
    return (type(value), value) if type(value) in _PATHS else told_apart(value)
