"""`codedag run` as it begins: the program runs as it is under a sampler; the pilot is loaded once something is hot.

A program that is over before that pays for the sampler alone.
"""

from __future__ import annotations

import threading
from os import getpid, getppid  # by name: a program may leave a mock on the module
from signal import SIGTERM
from typing import TYPE_CHECKING

from codedag.autopilot.budget import ADVANCE_SECONDS, LOAD_SECONDS, Budget
from codedag.autopilot.heat import Heat, HeatReport
from codedag.autopilot.hot import changeable_share, first_opening_price
from codedag.autopilot.report.finished import Finished
from codedag.instrument import launch
from codedag.instrument.children import Follower, ReportFolder, follow, unfollow
from codedag.instrument.guard import Failed, after, attempt
from codedag.instrument.hidden_thread import HiddenThread
from codedag.instrument.launch import Ending
from codedag.instrument.pickled_code import OriginalCode
from codedag.instrument.program import Program
from codedag.instrument.termination import concluding
from codedag.ir.clock import perf_counter

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from codedag.autopilot.knowledge_store import Store
    from codedag.autopilot.options import Options
    from codedag.autopilot.session import Loaded
    from codedag.instrument.launch import Target
    from codedag.trace.rundir import Keeper

LOOK_SECONDS = 0.5  # between two looks at the heat
#: Of a hot part that could be changed: how likely a faster variant is found, times the share that it saves then.
EXPECTED_SAVING = 0.4
JOIN_SECONDS_MAX = 5.0  # of waiting for our thread before a fork and at the end
#: Until then a program without a turn is taken to be starting: imports run code of packages that is never hot again.
START_SECONDS_MAX = 10.0
TELL_SECONDS = 5.0  # between two reports of a worker's heat
QUIET_HZ = 10.0  # looks a second at a program in which an earlier run has found nothing to gain
SILENT_SECONDS = 1.0  # a program that ended earlier gets no run directory and no word, unless one was asked for


def run(
    target: Target, new_keeper: Callable[[], Keeper], options: Options, *, asked: bool = False,
    report: Callable[[Finished], object] | None = None,
) -> Finished:  # fmt: skip
    """Runs a program under the sampler; `asked`: the user named a run directory.

    `report` hears of the end if that is a SIGTERM, after which this process is no more.
    """
    return SampledRun(target, new_keeper, options, asked, report).run()


class SampledRun(Follower):
    """One program under the sampler, with the pilot once there is work for it; goes on in forked processes."""

    def __init__(
        self, target: Target, new_keeper: Callable[[], Keeper], options: Options, asked: bool,
        report: Callable[[Finished], object] | None = None,
    ) -> None:  # fmt: skip
        self._report = report
        self.target, self.options, self._new_keeper, self._asked = target, options, new_keeper, asked
        self.program, self.heat = Program([target.root()]), Heat()
        self._original_code = OriginalCode(self.program.original_of)
        self.loaded: Loaded | None = None
        self._keeper: Keeper | None = None
        self._first_process, self._worker_of = getpid(), 0
        self._started_at = 0.0
        self._thread: HiddenThread | None = None
        self._wake = threading.Event()
        self._store: Store | None = None
        self._budget = Budget(perf_counter, advance_seconds=ADVANCE_SECONDS)
        self._before: HeatReport | None = None  # the heat at the last look
        self._left_alone: frozenset[tuple[str, str]] = frozenset()  # functions in which nothing can be changed
        self._is_left_alone = False  # an earlier run has found nothing to gain

    # -- the life of a run

    def run(self) -> Finished:
        """Runs the program to its end; in a forked child that comes to its end here, nothing follows."""
        if self._asked:
            self._keep()
        after(self._begin_with_what_is_known)
        self._started_at = perf_counter()
        follow(self)
        self._original_code.start()
        self.heat.start()
        self._start_thread()
        with concluding(self._terminated):
            ending = launch.run(self.target, self._main)
        ended = perf_counter()
        if getpid() != self._first_process:
            after(self._end_in_fork)
            return Finished(ending, None, forked=True)
        done = after(self._end, ending, ended)
        return Finished(ending, self._keeper, failure=done.reason) if isinstance(done, Failed) else done

    def _terminated(self) -> None:
        """Concludes the run in a thread of ours while the program stands still, before the process dies of SIGTERM."""
        ending = Ending.by_signal(SIGTERM)
        done = after(self._end, ending, perf_counter())
        if self._report is not None:
            self._report(Finished(ending, self._keeper, failure=done.reason) if isinstance(done, Failed) else done)

    def _main(self, path: str, source: bytes) -> types.CodeType:
        """The code of the main file: with its known changes, or with loops that can be switched while they run."""
        goes_by_row = (
            b".apply(" in source and b"axis" in source
        )  # such a call is often made only once: no heat shows it
        if goes_by_row and self.loaded is None and not self._is_left_alone:
            attempt(self._load)
        known = [] if self.loaded is None else self.loaded.pilot.known
        has_changes = any(move.file == path for move in known) or (goes_by_row and self.loaded is not None)
        return self.program.load(path, source, main=True, doubled_only=not has_changes)

    def _keep(self) -> Keeper:
        if self._keeper is None:
            self._keeper = self._new_keeper()
            self._keeper.begin()
        return self._keeper

    def _end(self, ending: Ending, ended: float) -> Finished:
        self._end_thread()
        self.heat.stop()
        unfollow(self)
        self._original_code.stop()
        if self.loaded is None and self._have_workers_reported():
            self._load()
        if self.loaded is not None:
            from codedag.autopilot.session import finish

            return finish(self.loaded, ending, ended)
        self.program.restore()
        if ended - self._started_at < SILENT_SECONDS and not self._asked:
            return Finished(ending, None)
        from codedag.autopilot.report.unchanged import conclude

        return conclude(self._keep(), self._store, self.heat, ending, self._budget, self._is_left_alone)

    def _have_workers_reported(self) -> bool:
        keeper = self._keeper
        return keeper is not None and keeper.has_workers and bool(ReportFolder(keeper.path / "workers").paths())

    # -- the pilot

    def _begin_with_what_is_known(self) -> None:
        """Loads the pilot before the program where an earlier run has left changes or proofs to begin with."""
        from codedag.autopilot.knowledge_store import Store

        self._store = Store(self.target, self.options.looser)
        known = None if self.options.fresh else self._store.load()
        if known is None:
            return
        expected, self._left_alone = known.expected_seconds(self.target.args), known.left_alone()
        self._budget = Budget(
            perf_counter, run_seconds=() if expected is None else (expected,), runs=len(known.runs),
            advance_seconds=known.credit_seconds,
        )  # fmt: skip
        if known.in_use() or self._store.first():
            self._load()
        elif not self._asked and self._store.nothing() is not None:
            self._is_left_alone = True
            self.heat.set_rate(QUIET_HZ)

    def _load(self) -> None:
        from codedag.autopilot import session

        self.loaded = session.load(
            self.target, self._keep(), self.options, self.program, self.heat, self._started_at or None, self._store,
            self._worker_of, self._budget,
        )  # fmt: skip
        self._budget.spend(LOAD_SECONDS, "loading")
        if self._worker_of:
            self.loaded.pilot.team.begin_worker()

    def _watch(self) -> None:
        self.heat.exclude_this_thread()
        told = perf_counter()
        while not self._wake.wait(LOOK_SECONDS):
            if self._worker_of and perf_counter() - told >= TELL_SECONDS:  # it may be ended from outside
                attempt(self._tell)
                told = perf_counter()
            if self._is_worth_loading(self.heat.look()):
                attempt(self._load)
                return

    def _is_worth_loading(self, report: HeatReport) -> bool:
        """Whether what can be expected to be saved in the rest of the run pays for the pilot and its first function."""
        before, self._before = self._before, report
        if report.turn is None and self._budget.elapsed() < START_SECONDS_MAX:
            return False
        share = changeable_share(report, before, self._left_alone)
        if not self._budget.is_worth(LOAD_SECONDS, share, EXPECTED_SAVING):
            return False
        price = LOAD_SECONDS + first_opening_price(report, self._left_alone)
        return self._budget.is_worth(price, share, EXPECTED_SAVING)

    def _start_thread(self) -> None:
        if self.loaded is None and not self._is_left_alone:
            self._wake.clear()
            self._thread = HiddenThread(self._watch)
            self._thread.start()

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None and not thread.is_current:
            self._wake.set()
            thread.join(JOIN_SECONDS_MAX)

    # -- forked processes

    def before_fork(self) -> None:
        """Ends our threads, since none is there when a process is copied, and makes a place for the child's report."""
        self._end_thread()
        self.heat.pause()
        keeper = self._keep()
        if not keeper.has_workers:
            keeper.has_workers = True
            ReportFolder(None if keeper.broken else keeper.path / "workers").prepare()

    def after_fork(self) -> None:
        """Goes on in the process that forked."""
        self.heat.resume(after_fork=True)
        self._start_thread()

    def in_fork(self) -> None:
        """Goes on in the new process."""
        self._started_at, self._wake, self._worker_of = perf_counter(), threading.Event(), getppid()
        self._budget, self._before = Budget(perf_counter), None
        self.heat.in_fork()
        self._start_thread()

    def end_worker(self) -> None:
        """Tells the program what was hot in this worker, as the last thing."""
        after(self._tell)

    def _tell(self) -> None:
        from codedag.autopilot.processes import worker_heat

        keeper = self._keeper
        if self._worker_of and self.loaded is None and keeper is not None and not keeper.broken:
            worker_heat.write(self.heat, keeper.path / "workers")

    def _end_in_fork(self) -> None:
        self._end_thread()
        after(self._tell)
        self.heat.stop()
        if self.loaded is not None:
            self.loaded.pilot.team.end_worker()
