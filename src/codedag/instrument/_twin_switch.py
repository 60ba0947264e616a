"""Flags of variants and counting switches of loops in plain Python, as in _site.c."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.ir.clock import perf_counter_ns


class Flag:
    """Turns the variants of many sites on and off at once."""

    __slots__ = ("on",)

    def __init__(self, on: bool = True) -> None:
        self.on = on


class Counter:
    """How many turns a loop has begun, and how long the longest of them took, in nanoseconds."""

    __slots__ = ("last", "longest", "turns")

    def __init__(self) -> None:
        self.turns = self.longest = self.last = 0

    def turn(self) -> None:
        """Counts a turn that begins now."""
        now = perf_counter_ns()
        self.longest = max(self.longest, now - self.last if self.last else 0)
        self.last = now
        self.turns += 1


class Switch:
    """Chooses the body of one loop: with sites (on) or plain."""

    __slots__ = ("_callback", "_counter", "_every", "_left", "_owner", "on")

    def __init__(self) -> None:
        self.on = False
        self._counter: Counter | None = None

    def count_into(self, counter: Counter, every: int, callback: Callable[[], object], /) -> None:
        """Counts turns of one thread; calls back after so many, then after what the callback returns."""
        if every < 1:
            raise ValueError("a callback comes after at least one turn")
        self._counter, self._callback, self._owner = counter, callback, 0
        self._every = self._left = every
        self.__class__ = CountingSwitch

    def uncount(self) -> None:
        """Counts no more."""
        self._counter = None
        self.__class__ = Switch


_ON: Any = vars(Switch)["on"]  # the slot, which the counting switch hides


class CountingSwitch(Switch):
    """A switch that counts the turns of its loop."""

    __slots__ = ()

    @property
    def on(self) -> bool:
        """Whether the loop runs the body with sites; reading it is a turn."""
        here = threading.get_ident()
        self._owner = self._owner or here
        if self._counter is not None and self._owner == here:
            self._counter.turn()
            self._left -= 1
            if self._left <= 0:
                self._call_back()
        return bool(_ON.__get__(self))

    @on.setter
    def on(self, value: bool) -> None:
        _ON.__set__(self, value)

    def _call_back(self) -> None:
        self._left = self._every
        every = attempt(self._callback)
        if isinstance(every, Failed):
            self.uncount()
        elif isinstance(every, int) and every > 0:
            self._every = self._left = every
