"""The one place that may catch everything: a failure of ours becomes a recorded reason, never the program's problem."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec

from codedag.instrument.signals import raised_by_handler
from codedag.ir.errors import CodedagError

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("codedag.guard")


class Declined(Exception):  # noqa: N818 - control flow inside one change, turned into a reason by `attempt`
    """Something that a change does not take on; the program then runs as written."""


class Failed(msgspec.Struct, frozen=True):
    """Why something of ours did not work; `expected` if we declined it ourselves."""

    reason: str
    expected: bool = False


def attempt(function: Callable[P, T], /, *args: P.args, **keywords: P.kwargs) -> T | Failed:
    """The result of our own code, or Failed with the reason; the program's own operations are never run in here."""
    try:
        return function(*args, **keywords)
    except Declined as reason:
        return Failed(str(reason), expected=True)
    except Exception as error:
        if raised_by_handler(error.__traceback__):
            raise  # the program's own: a signal arrived while our code ran
        log.debug("a part of CodeDAG failed", exc_info=True)
        return Failed(_reason(error))


def after(function: Callable[P, T], /, *args: P.args, **keywords: P.kwargs) -> T | Failed:
    """The same once the program has ended: it may have left anything broken, and how it ended is settled."""
    try:
        return function(*args, **keywords)
    except Exception as error:
        return Failed(_reason(error))


def _reason(error: Exception) -> str:
    """What went wrong; no builtin is called, since a program may have replaced them too."""
    if CodedagError in error.__class__.__mro__:
        return error.message  # type: ignore[attr-defined, no-any-return]
    return f"{error.__class__.__name__}: {error}"
