"""Sampling profiler of the running process: hot functions, loops, and the turn that a program repeats."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from codedag.autopilot.heat.call_tree import call_tree
from codedag.autopilot.heat.line_table import line_at, line_range, lines_of
from codedag.autopilot.heat.policy import RatePolicy
from codedag.autopilot.heat.report import HeatReport, HotCall, HotFunction, HotLine, HotLoop
from codedag.autopilot.heat.sampler import Sampler, native_sampler
from codedag.autopilot.heat.turn import choose_turn

if TYPE_CHECKING:
    from codedag.instrument._sampler import Function, Loop, Totals

__all__ = ["Heat", "HeatReport", "HotCall", "HotFunction", "HotLine", "HotLoop", "RatePolicy", "choose_turn"]

FUNCTIONS_IN_REPORT = 100
NAMES_MAX = 8192
SHORT_PERIOD_LOOKS = 3.0  # turns shorter than this many looks apart are partly unseen

Names = tuple[str, str, int, list[int]]


class Heat:
    """Sampler of this process.  There is one per process: a second one reads and controls the same thread."""

    def __init__(
        self,
        policy: RatePolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_python_only: bool = False,
    ) -> None:
        self.policy = policy or RatePolicy()
        self.is_running = False
        self._clock, self._started = clock, clock()
        self._sampler: Sampler | None = None if is_python_only else native_sampler()
        self.is_biased = self._sampler is None
        self._names: dict[int, Names | None] = {}
        self._turn: tuple[int, int, int] = (0, 0, 0)
        self._lock = threading.Lock()
        self._hz: float | None = None

    # -- life

    def start(self) -> None:
        """Begins to sample, with empty tables."""
        self._started = self._clock()
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler.forget()
        self._names.clear()
        self._turn = (0, 0, 0)
        atexit.register(self.stop)
        self.resume()

    def stop(self) -> None:
        """Ends the sampling thread and waits for it; look() still reports what was seen."""
        self.pause()
        atexit.unregister(self.stop)

    def pause(self) -> None:
        """Ends the sampling thread within a millisecond or two; for forks."""
        if self._sampler is not None:
            self._sampler.stop()
        self.is_running = False

    def resume(self, *, after_fork: bool = False) -> None:
        """Goes on sampling; after a fork of the parent only when Python has counted the threads, to warn of them."""
        hz = self._rate()
        if self._sampler is None or not self._begun(self._sampler, hz, after_fork):
            self._sampler, self.is_biased = self._twin(), True
            self._sampler.start(hz)
        self.is_running = True

    def in_fork(self) -> None:
        """Begins anew in a process that was just forked."""
        self._lock = threading.Lock()
        if self.is_biased:
            self._sampler = None
        self.start()

    def set_rate(self, hz: float | None) -> None:
        """Looks a second from now on; None: by the policy."""
        self._hz = hz
        self._apply_rate()

    def exclude_this_thread(self) -> None:
        """Counts the CPU time of the calling thread as the profiler's own, until the next start()."""
        if self._sampler is not None:
            self._sampler.exclude(threading.get_native_id())

    def _begun(self, sampler: Sampler, hz: float, after_fork: bool) -> bool:
        if after_fork and sys.version_info >= (3, 12) and sampler.start_soon(hz):
            return True
        try:
            sampler.start(hz, self.policy.own_cpu_share_max)
        except OSError:  # frames cannot be read here (seccomp, another interpreter)
            return False
        return True

    def _twin(self) -> Sampler:
        from codedag.autopilot.heat.python_sampler import PythonSampler

        return PythonSampler()

    def _rate(self) -> float:
        return self._hz or self.policy.hz_at(self._clock() - self._started)

    def _apply_rate(self) -> None:
        if self._sampler is not None:
            self._sampler.set_rate(self._rate())

    # -- reports

    def look(self, limit: int = FUNCTIONS_IN_REPORT) -> HeatReport:
        """What was seen so far, with the hottest functions; also sets the rate by the policy."""
        sampler = self._sampler
        if sampler is None:
            raise RuntimeError("Heat.look() before Heat.start()")
        with self._lock:
            self._apply_rate()
            totals = sampler.totals()
            loops = self._loops(sampler, totals)
            turn = choose_turn(tuple(loops.values()), totals["recent"], _main_thread())
            self._set_turn(sampler, loops, turn)
            functions = [found for row in sampler.functions(limit) if (found := self._function(sampler, row))]
            functions.sort(key=lambda function: -function.cumulative_seconds)
            return self._report(sampler.totals(), functions, loops, turn)

    def tree(self) -> list[HotCall]:
        """The call tree of all threads, callers first; what took little counts as its caller's own time."""
        sampler = self._sampler
        if sampler is None or not hasattr(sampler, "tree"):  # an extension that was built before there was one
            return []
        totals = sampler.totals()
        return call_tree(sampler.tree(), (totals["cpu"], totals["wall"]), sampler.names)

    def _report(
        self,
        totals: Totals,
        functions: list[HotFunction],
        loops: dict[tuple[int, int, int, int], HotLoop],
        turn: HotLoop | None,
    ) -> HeatReport:
        return HeatReport(
            cpu_seconds=totals["cpu"],
            wall_seconds=totals["wall"],
            waiting_seconds=totals["waiting"],
            unseen_cpu_seconds=totals["unseen"],
            recent_cpu_seconds=totals["recent"],
            own_cpu_seconds=totals["own"],
            rate_hz=totals["hz"],
            samples=totals["samples"],
            rejected_samples=totals["rejected"],
            is_biased=self.is_biased,
            functions=tuple(functions),
            loops=tuple(sorted(loops.values(), key=lambda loop: -loop.cumulative_seconds)),
            turn=turn,
            turn_seconds=totals["turn"],
        )

    def _set_turn(
        self, sampler: Sampler, loops: dict[tuple[int, int, int, int], HotLoop], turn: HotLoop | None
    ) -> None:
        """Counts below the chosen turn; while none fits, below the last one."""
        chosen = next((key[:3] for key, loop in loops.items() if loop is turn), self._turn)
        if chosen != self._turn:
            self._turn = chosen
            sampler.set_turn(*chosen)

    def _named(self, sampler: Sampler, serial: int) -> Names | None:
        if serial not in self._names:
            if len(self._names) >= NAMES_MAX:
                self._names.clear()
            found = sampler.names(serial)
            self._names[serial] = found and (*found[:3], lines_of(found[3], found[2]))
        return self._names[serial]

    def _function(self, sampler: Sampler, row: Function) -> HotFunction | None:
        serial, self_seconds, total, waiting, recent, recent_self, below, places = row
        names = self._named(sampler, serial)
        if names is None:
            return None
        file, qualname, first_line, lines = names
        hot = tuple(HotLine(line_at(lines, offset, first_line), offset, seconds) for offset, seconds in places)
        return HotFunction(
            file, qualname, first_line, self_seconds, total, below, recent, recent_self, waiting, hot
        )  # fmt: skip

    def _loops(self, sampler: Sampler, totals: Totals) -> dict[tuple[int, int, int, int], HotLoop]:
        look_seconds = totals["wall"] / totals["looks"] if totals["looks"] else 0.0
        loops = {}
        for row in sampler.loops():
            loop = self._loop(sampler, row, look_seconds)
            if loop is not None:
                loops[row[:4]] = loop
        return loops

    def _loop(self, sampler: Sampler, row: Loop, look_seconds: float) -> HotLoop | None:
        serial, start, end, thread, depth, is_call, turns, period, cpu, total, recent, ago = row
        names = self._named(sampler, serial)
        if names is None:
            return None
        file, qualname, first_line, lines = names
        first, last = line_range(lines, start, end, first_line)
        is_short = period < SHORT_PERIOD_LOOKS * look_seconds
        place = (file, qualname, first_line, first, last, start, end, thread, depth, is_call)
        return HotLoop(*place, turns, period, cpu, is_short, total, recent, ago)


def _main_thread() -> int:
    return threading.main_thread().ident or 0
