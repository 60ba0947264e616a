"""Code that only juggles numbers: after many executions without data it runs without sites.

A function that was called thousands of times gets its plain code back.  A loop of a function that still runs leaves its
sites, if every one of them was executed: a branch not yet taken may move data.  Both are looked at again now and then,
at growing intervals, because they may begin to move data later.
"""

from __future__ import annotations

import time
import types
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument.program import Program, owner_of
from codedag.instrument.sites import ITERATE, RETURN
from codedag.trace.recorder import Recorder

Part = tuple[str, str, int]  # file, qualified name, and the number of a loop or -1 for the whole function
AGAIN = 1.0  # seconds until a part is looked at again, the first time; then twice as long each time
TOGETHER = 0.05  # seconds between two changes of code: finding the functions of a program takes some milliseconds


@dataclass(slots=True)
class Idle:
    """Told of sites that were executed many times without data; puts their code to rest, and wakes it again."""

    program: Program
    recorder: Recorder
    seen: set[Part] = field(default_factory=set)  # that ever were idle
    _resting: dict[Part, float] = field(default_factory=dict)  # when to look again
    _waits: dict[Part, float] = field(default_factory=dict)
    _busy: set[Part] = field(default_factory=set)
    _ripe: set[Part] = field(default_factory=set)
    _changed: float = 0.0

    def __call__(self, site: Any, function: Any) -> None:
        """This site was executed some thousand times without data; each time it called this function, if it did."""
        part = self._part_of(site, function)
        if part is None or part in self._busy or part in self._resting or part[0] not in self.program.files:
            return
        if self._moves_data(part):
            self._busy.add(part)
            return
        self._ripe.add(part)
        now = time.perf_counter()
        if now - self._changed >= TOGETHER:
            self._rest(now)

    def _part_of(self, site: Any, function: Any) -> Part | None:
        if isinstance(function, types.MethodType):
            function = function.__func__
        if isinstance(function, types.FunctionType):
            return function.__code__.co_filename, owner_of(function.__code__.co_qualname), -1
        info = site.info
        return self._idle_loop(info.file, info.owner, info.loops) if info.loops else None

    def _idle_loop(self, path: str, owner: str, loops: tuple[int, ...]) -> Part | None:
        """The outermost of these loops all of whose sites were executed."""
        file = self.program.files.get(path)
        if file is None:
            return None
        for loop in loops:
            inside = [s for s in file.sites_of(owner) if loop in s.info.loops]
            if all(s.calls or s.kind in (RETURN, ITERATE) for s in inside):
                return path, owner, loop
        return None

    def _moves_data(self, part: Part) -> bool:
        path, owner, loop = part
        own = (t.site.info for t in self.recorder.templates)
        return any(i.file == path and i.owner == owner and (loop < 0 or loop in i.loops) for i in own)

    def _rest(self, now: float) -> None:
        for part in self._ripe:
            wait = self._waits[part] = 2 * self._waits.get(part, AGAIN / 2)
            self._resting[part] = now + wait
        self.seen |= self._ripe
        self.program.rest(self._ripe)
        self._ripe.clear()
        self._changed = time.perf_counter()

    def look_again(self) -> None:
        """Observes those parts again whose time has come."""
        self._wake(time.perf_counter())

    def end(self) -> None:
        """Gives everything its sites back, so that whoever put them there finds them."""
        self._wake(float("inf"))

    def _wake(self, now: float) -> None:
        due = {part for part, when in self._resting.items() if when <= now}
        if due:
            for part in due:
                del self._resting[part]
            self.program.wake(due)
            self._changed = time.perf_counter()
