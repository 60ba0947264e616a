"""Opening of hot functions: which functions the sampler's heat makes worth observing, the user's and installed ones.

An opened function records its operations until it has shown them often enough; then it is planned like any other.
Parsing and rewriting happen in the compiler process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from codedag.autopilot.applied import Watch
from codedag.autopilot.budget import COMPILER_PROCESS_SECONDS, OPEN_FUNCTION_SECONDS, SWAP_SECONDS
from codedag.autopilot.hot import busy_share, changeable_share, is_hot, opening_price, share_of
from codedag.instrument.cache import Cache
from codedag.instrument.codes import owner_of
from codedag.instrument.compiler_process import CompilerProcess
from codedag.instrument.instrumented_file import FULL
from codedag.ir import clock as time
from codedag.ir.sha256 import sha256
from codedag.ir.verdict import Code, No

if TYPE_CHECKING:
    from codedag.autopilot.applied import Function
    from codedag.autopilot.heat import Heat, HeatReport
    from codedag.autopilot.pilot import Pilot

OBSERVED_AT_ONCE_MAX = 12  # functions that record at the same time
OPENED_MAX = 100  # functions of one run
#: Seconds after which a function that moves little data is planned with what it has shown.
OBSERVE_SECONDS_MAX = 2.0


class Openings:
    """The functions of one program that are open or will be, by the heat of its process."""

    def __init__(self, pilot: Pilot, heat: Heat) -> None:
        self._pilot, self.heat = pilot, heat
        self._wanted: dict[Function, None] = {}
        self._filled: set[tuple[str, int]] = set()
        self.opened: dict[Function, float] = {}  # when
        self.refused: dict[Function, No] = {}
        self._is_rewritten: dict[str, bool] = {}  # by an earlier run, whether a source's code with sites is on disk
        self.hot_share = 0.0  # of the time, in functions that a change could reach

    @cached_property
    def compiler(self) -> CompilerProcess:
        """The process that parses and rewrites."""
        return CompilerProcess(may_start=self._may_compile, is_local=True)

    def _may_compile(self) -> bool:
        return self._pilot.budget.may(COMPILER_PROCESS_SECONDS, self.hot_share)

    def cpu_seconds(self) -> float:
        """CPU seconds of the compiler process."""
        return self.compiler.cpu_seconds() if "compiler" in self.__dict__ else 0.0

    def look(self) -> HeatReport:
        """Opens what has become hot, and ends observing what has been observed for long; the heat."""
        self._end_long_observing()
        report = self.heat.look()
        self.hot_share = changeable_share(report, left_alone=self._pilot.left_alone)
        if len(self.opened) >= OPENED_MAX:
            return report
        self._want(report)
        self._fill_running_loops(report)
        if self._wanted:
            self.compiler.poll()
            self._open()
        return report

    @property
    def is_waiting(self) -> bool:
        """Whether hot functions wait to be opened or are being observed."""
        return bool(self._wanted or self._observed())

    def has_answers(self, path: str, keep: Collection[int] | None = None) -> bool:
        """Whether planning a file (with `keep`: its lean code) needs no parsing in this process; asks for it if so."""
        self.compiler.poll()
        return self._pilot.program.files[path].ask_ahead(self.compiler, keep)

    def stop(self) -> None:
        """Ends the compiler process."""
        if "compiler" in self.__dict__:
            self.compiler.close()

    # -- which functions

    def _want(self, report: HeatReport) -> None:
        room = OBSERVED_AT_ONCE_MAX - len(self._wanted) - len(self._observed())
        for function in report.functions:
            if room <= 0:
                return
            key = (function.file, owner_of(function.qualname))
            if key in self._wanted or not self._is_new(key) or not is_hot(function, report):
                continue
            if self._may_open(function.file, share_of(function, report) * busy_share(report)):
                self._wanted[key] = None
                room -= 1

    def _may_open(self, path: str, share: float) -> bool:
        """Whether what changes in a function of this file could save pays for parsing and rewriting it."""
        if any(path == opened for opened, _ in (*self.opened, *self._wanted)):
            return self._pilot.budget.may(SWAP_SECONDS, share)
        if path not in self._is_rewritten:
            self._is_rewritten[path] = _is_on_disk(path)
        running = "compiler" in self.__dict__ and self.compiler.is_running()
        price = OPEN_FUNCTION_SECONDS if self._is_rewritten[path] else opening_price(path, is_compiler_running=running)
        return self._pilot.budget.may(price, share)

    def _is_new(self, key: Function) -> bool:
        is_known = key in self.opened or key in self.refused or key in self._pilot.left_alone
        return not is_known and not self._pilot.observed.is_over(key)

    def _observed(self) -> list[Function]:
        watches = self._pilot.observed.watches
        return [key for key in self.opened if key in watches and watches[key].ended is None]

    # -- opening

    def _open(self) -> None:
        by_file: defaultdict[str, set[str]] = defaultdict(set)
        for path, owner in self._wanted:
            by_file[path].add(owner)
        for key, result in self._pilot.program.open(by_file.items(), self.compiler).items():
            if isinstance(result, No) and result.code is Code.NOT_READY:
                continue
            self._wanted.pop(key, None)
            if isinstance(result, No):
                self.refused[key] = result
            else:
                self._begin(key)

    def _begin(self, key: Function) -> None:
        self.opened[key] = time.perf_counter()
        self.has_answers(key[0])
        self._pilot.observed.watches.setdefault(key, Watch(time.perf_counter()))

    def _fill_running_loops(self, report: HeatReport) -> None:
        """Switches loops of the main file that are running now to the body with sites: their frames keep their code."""
        for loop in report.loops:
            for path, number in self._loops_at(loop.file, loop.loop_first_line, loop.loop_last_line):
                self._filled.add((path, number))
                if not isinstance(self._pilot.program.fill(path, number), No):
                    self._begin((path, owner_of(loop.qualname) if loop.qualname != "<module>" else ""))

    def _loops_at(self, path: str, first: int, last: int) -> Iterator[tuple[str, int]]:
        """The loops of a file with doubled loops in these lines: the one that runs and those inside of it."""
        file = self._pilot.program.files.get(path)
        for number, (begin, end, is_doubled) in enumerate(file.entry.loop_lines if file is not None else ()):
            if is_doubled and first <= begin + 1 and end <= last + 1 and (path, number) not in self._filled:
                yield path, number

    # -- the end of observing

    def _end_long_observing(self) -> None:
        now = time.perf_counter()
        for key in self._observed():
            if now - self.opened[key] > OBSERVE_SECONDS_MAX:
                if not self._pilot.observed.watches[key].seen:
                    self._pilot.observed.barren.add(key)
                self._pilot.observed.settle(key)


def _is_on_disk(path: str) -> bool:
    try:
        digest = sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return False
    return Cache().load(path, digest, FULL) is not None
