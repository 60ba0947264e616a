"""Code that only juggles numbers: after many executions without data it runs without sites.

A function that was called a thousand times leaves its sites, and gets its plain code back when there is time for that.
A loop of a function that still runs leaves its sites too.  Both only if every site in them was executed: a branch not
yet taken may move data.  What a `raise` says does not count, a function that ran many thousand times has shown enough,
and of a loop that did, the sites that were executed rest.  All are looked at again now and then, at growing intervals,
because they may begin to move data later.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument.codes import owner_of
from codedag.instrument.program import Program
from codedag.instrument.sites import ITERATE, PASS, RECORD, RETURN
from codedag.instrument.table import info_of
from codedag.ir import clock as time
from codedag.trace.recorder import Recorder

Part = tuple[str, str, int]  # file, qualified name, and the number of a loop or -1 for the whole function
AGAIN = 1.0  # seconds until a part is looked at again, the first time; then twice as long each time
TOGETHER = 0.05  # seconds between two changes of code: finding the functions of a program takes some milliseconds
SHARE = 50  # changing code, and what decides about it, may each take this part of the time
ENOUGH = 8_192  # executions of a function after which its other branches are no longer waited for


@dataclass(slots=True)
class Idle:
    """Told of sites that were executed many times without data; puts their code to rest, and wakes it again."""

    program: Program
    recorder: Recorder
    seen: set[Part] = field(default_factory=set)  # that ever were idle
    _resting: dict[Part, float] = field(default_factory=dict)  # when to look again
    _waits: dict[Part, float] = field(default_factory=dict)
    _busy: set[Part] = field(default_factory=set)
    _ripe: set[Part] = field(default_factory=set)  # that will rest
    _light: set[Part] = field(default_factory=set)  # that rest and run plain code
    _lines: dict[str, list[bytes]] = field(default_factory=dict)  # of the sources
    _lock: Any = field(default_factory=threading.Lock)
    _known: int = 0  # templates that `_busy` knows of
    _rest_at: float = 0.0
    _lighten_at: float = 0.0

    def __call__(self, site: Any, function: Any) -> None:
        """This site was executed some thousand times without data; each time it called this function, if it did."""
        if self._lock.acquire(blocking=False):  # who comes while another thread is at it will come again
            try:
                self._look_at(site, function)
            finally:
                self._lock.release()

    def _look_at(self, site: Any, function: Any) -> None:
        self._learn()
        for part in self._parts_of(site, function):
            if part in self._resting or part in self._busy:
                continue
            if self._has_shown(part, site.calls):
                self._ripe.add(part)
                break
            if part[2] >= 0 and site.calls >= ENOUGH:
                self._rest_partly(part)
                break
        now = time.perf_counter()
        if self._ripe and now >= self._rest_at:
            self._rest(now)

    def _parts_of(self, site: Any, function: Any) -> Iterator[Part]:
        """What may rest, the best first: what is called, the loops around it, the function in which it stands."""
        if isinstance(function, types.MethodType):
            function = function.__func__
        if isinstance(function, types.FunctionType) and function.__code__.co_filename in self.program.files:
            yield function.__code__.co_filename, owner_of(function.__code__.co_qualname), -1
        info = info_of(site)
        if info.file in self.program.files:
            for loop in info.loops:
                yield info.file, info.owner, loop
            if not info.loops and info.owner:
                yield info.file, info.owner, -1

    def _has_shown(self, part: Part, calls: int) -> bool:
        """Whether every site of a part was executed."""
        path, owner, loop = part
        if loop < 0 and calls >= ENOUGH:
            return True
        sites = self.program.files[path].sites_in(owner, loop)
        left = [info_of(site) for site in sites if not site.calls and site.kind not in (RETURN, ITERATE)]
        raised = [info for info in left if self._line(path, info.line).startswith(b"raise ")]
        lines = {line for info in raised for line in range(info.line, info.end_line + 1)}
        return all(info.line in lines for info in left)

    def _line(self, path: str, number: int) -> bytes:
        if path not in self._lines:
            self._lines[path] = self.program.files[path].source.splitlines()
        return self._lines[path][number - 1].lstrip()

    def _learn(self) -> None:
        """Takes note of the functions and loops that have moved data since the last time."""
        new = self.recorder.gatherer.templates(self._known)
        self._known += len(new)
        for template in new:
            info = info_of(template.site)
            self._busy.update((info.file, info.owner, loop) for loop in (-1, *info.loops))

    def _rest(self, now: float) -> None:
        """Puts loops to rest at once, and functions when their code may be changed: what rests tells nothing more."""
        self._ripe -= self._busy
        ready = {part for part in self._ripe if part[2] >= 0 or now >= self._lighten_at}
        for part in ready:
            self._note_rest(part, now)
        self.program.rest(ready)
        self._ripe -= ready
        ended = time.perf_counter()
        self._rest_at = ended + SHARE * (ended - now)
        whole = {part for part in ready if part[2] < 0}
        if whole:
            self.program.lighten(whole)
            self._light |= whole
            self._paid(ended)

    def _rest_partly(self, part: Part) -> None:
        """Puts those sites of a loop to rest that were executed; calls of user code keep telling who called."""
        for site in self.program.files[part[0]].sites_in(*part[1:]):
            if site.calls and not site.regions and site.mode == RECORD:
                site.mode = PASS
        self._note_rest(part, time.perf_counter())

    def _note_rest(self, part: Part, now: float) -> None:
        wait = self._waits[part] = 2 * self._waits.get(part, AGAIN / 2)
        self._resting[part] = now + wait
        self.seen.add(part)

    def _paid(self, begun: float) -> None:
        ended = time.perf_counter()
        self._lighten_at = ended + max(TOGETHER, SHARE * (ended - begun))

    def look_again(self) -> None:
        """Observes those parts again whose time has come."""
        now = time.perf_counter()
        if self._lock.acquire(blocking=False):
            try:
                due = {part for part, when in self._resting.items() if when <= now}
                self._wake(due if now >= self._lighten_at else due - self._light, now)
            finally:
                self._lock.release()

    def end(self) -> None:
        """Gives everything its sites back, so that whoever put them there finds them."""
        self._wake(set(self._resting), time.perf_counter())

    def _wake(self, due: set[Part], now: float) -> None:
        for part in due:
            del self._resting[part]
        light = due & self._light
        self._light -= due
        if due:
            self.program.wake(due, light)
        if light:
            self._paid(now)
