"""The clock of the program's turns: forms blocks of turns, gives them to the judge, and flips the flags of changes.

Turns come from a loop switch that counts, or from a library's method such as `DataLoader.__next__`.  All of this runs
in the program's own thread at the end of a block.  Other threads hold `lock` while they add or remove changes; the
program's thread never waits for it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from codedag.autopilot.judge.judge import Block, Decision, Judge, Verdict
from codedag.instrument.guard import Failed, attempt
from codedag.instrument.sites import CALL, PASS, SiteInfo, make, native
from codedag.ir import clock as time
from codedag.migrate.placeholder import Method, Placeholder

LOADER = ("torch.utils.data.dataloader", "_BaseDataLoaderIter", "__next__")  # a batch, with or without workers
FETCHER = ("torch.utils.data._utils.fetch", "_MapDatasetFetcher", "fetch")  # a batch inside a worker process
SPEEDS_MAX = 4096  # blocks whose speed is kept for the report
_NEVER = 1 << 62  # turns


@dataclass(frozen=True, slots=True)
class Speed:
    """One block for the curve of speed over time."""

    at: float  # seconds of the judge's clock at its end
    on: bool
    turns: int
    seconds: float


class Flags:
    """The flag of each change, which all of its sites read; off is the program as written."""

    def __init__(self) -> None:
        self._set: dict[int, Callable[[bool], None]] = {}

    def add(self, change: int, first: Iterable[Any], later: Iterable[Any] = ()) -> Any:
        """Gives the sites of a change one flag, which is on; `later` sites resolve placeholders while it is off.

        A site between two steps of a chain gets none: it must see what is under way, and passes on everything else.
        """
        native.placeholders((Placeholder, Method))
        flag = native.Flag(True)
        for follows, sites in ((0, first), (1, later)):
            for site in sites:
                site.follows, site.flag = follows, flag
        self._set[change] = lambda on: setattr(flag, "on", on)
        return flag

    def add_setting(self, change: int, turn: Callable[[bool], None]) -> None:
        """Gives a setting of the process its function that turns it on and off."""
        self._set[change] = turn

    def remove(self, change: int) -> None:
        """Forgets a change, whose sites keep the flag as it is."""
        self._set.pop(change, None)

    def set(self, enabled: Iterable[int]) -> None:
        """Turns these changes on and all others off."""
        chosen = set(enabled)
        for change, turn in list(self._set.items()):
            turn(change in chosen)


class TurnClock:
    """Counts turns into blocks, and has the judge decide at the end of each."""

    def __init__(
        self,
        judge: Judge,
        flags: Flags,
        wall: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.process_time,
        on_verdict: Callable[[Verdict], None] | None = None,  # in the program's thread: it should only take a note
    ) -> None:
        self.judge, self.flags, self._wall, self._cpu, self._on_verdict = judge, flags, wall, cpu, on_verdict
        self.lock = threading.Lock()
        self.failure: Failed | None = None  # why it stopped
        self.speeds: list[Speed] = []
        self.turns = 0  # counted in blocks
        self._leave: Callable[[], None] | None = None
        self._process, self._thread = os.getpid(), 0
        self._counter: Any = native.Counter()
        self._enabled: frozenset[int] | None = None
        self._on, self._dirty, self._is_timed, self._left = True, False, False, 0
        self._block_turns = 0
        self._wall_began = self._cpu_began = 0.0

    # -- where turns come from

    def follow_switch(self, switch: Any) -> None:
        """Takes the turns of one loop, which may be running already; the first thread that turns is followed."""
        self.leave()
        self._counter = native.Counter()
        switch.count_into(self._counter, 1, self._reached)
        self._leave = switch.uncount

    def follow_site(self, site: Any) -> None:
        """Takes the calls at one site of a change as turns; the first thread that calls is followed."""
        self.leave()
        self._counter, switch = native.Counter(), native.Switch()
        switch.count_into(self._counter, 1, self._reached)
        site.turns = switch
        self._leave = lambda: setattr(site, "turns", None)

    def follow_method(self, module: str, owner: str, method: str) -> bool:
        """Takes the ends of a library's method as turns; False if it is not loaded or not written in Python."""
        self.leave()
        kind = getattr(sys.modules.get(module), owner, None)
        original = vars(kind).get(method) if kind is not None else None
        code = getattr(original, "__code__", None)
        if kind is None or code is None:
            return False
        site = make(SiteInfo(0, CALL, "", code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0, ""))
        site.watch, site.always, site.mode = self._ended, 1, PASS
        patched = native.method(site, original)
        setattr(kind, method, patched)
        self._thread = self._left = 0
        self._leave = lambda: _put_back(kind, method, patched, original)
        return True

    def leave(self) -> None:
        """Follows nothing more: the loop or method is as it was, and all changes that are active are on."""
        leave, self._leave = self._leave, None
        self._is_timed = False
        if leave is not None:
            leave()
            self._flip(self.judge.active)

    def dirty(self) -> None:
        """Voids the block that is under way: something was compared, swapped or proven in it."""
        self._dirty = True

    # -- turns

    def _ended(self, args: tuple[Any, ...], result: Any, raised: Any) -> None:
        """A call of the followed method has ended; one that raised (the end of a loader) is no turn."""
        here = threading.get_ident()
        self._thread = self._thread or here
        if raised is not None or here != self._thread:
            return
        self._left -= 1
        if self._left <= 0:
            self._left = self._reached()

    def _reached(self) -> int:
        """The turns that were waited for are over; how many come next."""
        if os.getpid() != self._process:
            return _NEVER  # a forked child has its own judge
        if not self.lock.acquire(blocking=False):
            self._dirty = True
            return 1  # the judge is being told something: again after the next turn
        try:
            found = attempt(self._next)
        finally:
            self.lock.release()
        if isinstance(found, Failed):
            self.failure = found
            attempt(self.leave)
            return _NEVER
        return found

    def _next(self) -> int:
        if self._is_timed:
            self._end_block()
            if self._leave is None:  # a verdict ended it
                return _NEVER
        elif self._enabled is not None:  # the turns after a flip have passed
            return self._begin_block()
        return self._prepare()

    def _prepare(self) -> int:
        """Asks the judge for the next block; after a flip some turns are not counted."""
        self._on = self.judge.begins()
        enabled = self.judge.enabled()
        if enabled == self._enabled:
            return self._begin_block()
        self._flip(enabled)
        self._is_timed = False
        return self.judge.carry_over_turns()

    def _flip(self, enabled: frozenset[int]) -> None:
        self.flags.set(enabled)
        self._enabled = enabled

    def _begin_block(self) -> int:
        self._block_turns = self.judge.block_turns()
        self._is_timed, self._dirty = True, False
        self._counter.longest = self._counter.last = 0
        self._wall_began, self._cpu_began = self._wall(), self._cpu()
        return self._block_turns

    def _end_block(self) -> None:
        seconds, cpu = self._wall() - self._wall_began, self._cpu() - self._cpu_began
        self._is_timed = False
        self.turns += self._block_turns
        block = Block(self._on, self._block_turns, seconds, cpu, self._dirty or self._has_outlier(seconds))
        verdict = self.judge.block(block)
        if not block.dirty:
            self._note(Speed(self.judge.now(), self._on, block.turns, seconds))
        if verdict.decision is not Decision.OPEN and self._on_verdict is not None:
            self._on_verdict(verdict)

    def _has_outlier(self, seconds: float) -> bool:
        """Whether one turn was far longer than the others: the process was suspended, an epoch ended."""
        longest, ratio = self._counter.longest * 1e-9, self.judge.policy.outlier_turn_ratio
        others = (seconds - longest) / max(self._block_turns - 1, 1)
        return bool(longest > ratio * max(others, 0.0) and self._block_turns > 1 and longest > 0)

    def _note(self, speed: Speed) -> None:
        self.speeds.append(speed)
        if len(self.speeds) > SPEEDS_MAX:  # of those with changes, every second one goes
            on = [each for each in self.speeds if each.on]
            dropped = set(map(id, on[::2] or self.speeds[::2]))
            self.speeds = [each for each in self.speeds if id(each) not in dropped]


def _put_back(kind: Any, method: str, patched: Any, original: Any) -> None:
    """Gives a class its own method again, unless the program has put another one there meanwhile."""
    if vars(kind).get(method) is patched:
        setattr(kind, method, original)
