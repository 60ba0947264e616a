"""The pilot of one running program: observe each function, plan it, put it on trial, switch, and at the end restore.

Observation is per function (`observing.py`): once a function's operations have been seen often enough, it is settled,
planned in a background thread and given lean code, while other functions (the training loop after the data preparation)
are still being observed.  The program never waits for any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codedag.autopilot.applied import PLACE, Applied, Function, Refused
from codedag.autopilot.background import Background
from codedag.autopilot.budget import KERNEL_SECONDS, Budget, unlimited
from codedag.autopilot.judge.judging import Judging
from codedag.autopilot.knowledge import Proven
from codedag.autopilot.moves import find
from codedag.autopilot.moves.items import Items
from codedag.autopilot.moves.memoised_calls import Recalled
from codedag.autopilot.moves.replay import Replay
from codedag.autopilot.moves.row_apply import Rows
from codedag.autopilot.observing import Observing
from codedag.autopilot.openings import Openings
from codedag.autopilot.options import MAX_OVERHEAD
from codedag.autopilot.planning import Planning
from codedag.autopilot.processes.exchange import WorkerExchange
from codedag.autopilot.proving import Proving, WhenProven
from codedag.autopilot.settings.openmp_wait import OpenMPWait
from codedag.backends.registry import EXACT, Equivalence
from codedag.instrument import sites as site_module
from codedag.instrument.program import InstrumentedFile, Program
from codedag.ir import Plan
from codedag.ir import clock as time
from codedag.migrate.fuse.kernel_pool import KernelPool
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.malloc_trim import FreedMemory
from codedag.migrate.memo.store import Memory
from codedag.trace.events import Log
from codedag.trace.idle import Idle
from codedag.trace.recorder import Recorder, shown_path

if TYPE_CHECKING:
    from codedag.autopilot.heat import Heat
    from codedag.autopilot.moves.placement import Placed

__all__ = ["Applied", "Pilot", "Refused"]


@dataclass(slots=True, eq=False, repr=False)
class Pilot:
    """Everything that happens to one program between its first and its last line."""

    program: Program
    observe_only: bool = False
    synchronous: bool = False  # plan and build at once instead of in the background: slower, but repeatable
    plan: Plan | None = None
    allow: tuple[Equivalence, ...] = (EXACT,)
    max_overhead: float = MAX_OVERHEAD
    budget: Budget = field(default_factory=unlimited)
    on_tick: Callable[[], None] = lambda: None
    earlier_verdict: Callable[[Applied], str] = lambda _: ""  # why an earlier run's verdict forbids a trial
    recorder: Recorder = field(init=False)
    shelf: KernelPool = field(init=False)
    rest: OpenMPWait = field(default_factory=OpenMPWait)
    applied: list[Applied] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    log: Log = field(default_factory=Log)
    left_alone: frozenset[Function] = frozenset()  # earlier runs have found nothing to change in them
    first_change_at: float | None = None
    started_at: float = 0.0
    team: WorkerExchange = field(init=False)
    replay: Replay = field(init=False)
    heap: FreedMemory = field(init=False)
    idle: Idle = field(init=False)  # code that moves no data
    planning: Planning = field(init=False)
    prove: Proving = field(init=False)
    when_proven: WhenProven = field(init=False)
    judging: Judging | None = None
    openings: Openings | None = None  # of hot functions; None: everything is observed as it is loaded
    placed: Placed | None = None  # what the plan places on units
    rows: Rows = field(init=False)
    recalled: Recalled = field(init=False)
    items: Items = field(init=False)
    known: list[Proven] = field(default_factory=list)  # proven elsewhere: made as soon as their file is loaded
    memory: Memory = field(default_factory=Memory)
    kernels: list[tuple[int, int]] = field(default_factory=list)  # that the known changes will want
    background: Background = field(init=False)
    observed: Observing = field(init=False)
    waiting: list[Callable[[], None]] = field(default_factory=list)  # for answers of the compiler process

    def __post_init__(self) -> None:
        self.observed = Observing(self)
        self.recorder = Recorder(self.program.names, self.observed.saw)
        self.background = Background(self.synchronous, self._begin_beside, self._look_around)
        self.prove = Proving(self.synchronous, self.background.aside, self.background.is_beside, self.budget)
        self.background.prove = self.prove
        self.budget.cpu_clock = self._cpu_seconds
        self.shelf = KernelPool(synchronous=self.synchronous, may_compile=self._may_compile_kernel)
        self.team, self.replay = WorkerExchange(self), Replay(self)
        self.planning = Planning(self)
        self.rows, self.recalled, self.when_proven = Rows(self), Recalled(self), WhenProven(self)
        self.items = Items(self)
        self.heap, self.idle = FreedMemory(self.memory.most_nbytes), Idle(self.program, self.recorder)

    def _cpu_seconds(self) -> float:
        """CPU seconds of our thread and of the processes that work for it."""
        opening = 0.0 if self.openings is None else self.openings.cpu_seconds()
        return self.background.beside + self.prove.cpu_seconds() + opening

    def _may_compile_kernel(self) -> bool:
        """Whether the price list allows a kernel now; then it counts as paid."""
        share = 1.0 if self.openings is None else self.openings.hot_share
        if not self.budget.may(KERNEL_SECONDS, share):
            return False
        self.budget.spend(KERNEL_SECONDS, "kernels")
        return True

    # -- the life of a run

    def start(self, heat: Heat | None = None, started_at: float | None = None) -> None:
        """Begins to observe (or, with a plan, to apply it) and starts the planning thread.

        With `heat`, only functions that it says are hot are observed; the program may run already, since `started_at`.
        """
        self.started_at = time.perf_counter() if started_at is None else started_at
        self.team.start()
        if self.plan is not None:
            self.program.prepare = self.replay.from_plan
            if self.placed is not None:
                attempt(self.placed.start)
            return
        if heat is not None:
            self.openings, self.judging = Openings(self, heat), Judging(self)
            self.program.prepare = self._prepare
        self.program.begin = self._begin
        site_module.native.start(self.recorder, self.program.names)
        site_module.native.idle_by(self.idle)
        self.background.start()

    def _prepare(self, file: InstrumentedFile) -> set[int]:
        """Makes the known changes of a file as it is loaded; the sites that it needs."""
        self._begin(file)
        changed = {index for index, site in enumerate(file.sites) if site.variant is not None}
        return changed | self.replay.reserved(file)

    def _begin(self, file: InstrumentedFile) -> None:
        """Makes the changes that need no observing, as a file is loaded."""
        self.replay.from_known(file)
        attempt(self.rows.begin, file)

    def stop(self) -> int:
        """Ends everything and puts every function back; the number of functions that had to be changed."""
        self.background.is_ending = True
        self.prove.end()
        site_module.native.stop()
        site_module.native.idle_by(None)
        self.team.stop()
        if self.openings is not None and self.judging is not None:
            attempt(self.openings.stop)
            attempt(self.judging.stop)
        attempt(self.rest.restore)
        self.background.end()
        self.prove.rest()
        for then in self.prove.left():
            attempt(then)
        if self.placed is not None:
            attempt(self.placed.stop)
        self.background.close()
        if self.plan is not None:
            loaded = {shown_path(path) for path in self.program.files}
            for move in self.plan.moves:
                if move.file not in loaded and move.kind != PLACE:
                    where = f"{move.file}:{move.line}"
                    self.refused.append(Refused(f"{move.kind} of the plan", where, "the program has no such file"))
        self.notes += [*self.team.conclude(), *self.heap.notes(), *self.rest.notes()]
        if self.known:
            made = sum(applied.known for applied in self.applied)
            words = f"{made} change{'' if made == 1 else 's'} known from an earlier run made from the start"
            self.notes += [f"{words} (--fresh: none)"] if made else []
        failure = site_module.native.failure()
        if failure:
            self.notes.append(f"observation ended early: {failure}")
        return self.program.restore()

    # -- forks (what they mean for the changes is told by the team)

    def pause(self) -> None:
        """Brings everything to a safe point before a fork."""
        attempt(self.rest.pause)
        self.background.pause()

    def begin_anew(self) -> tuple[int, int]:
        """Goes on in a process that was just forked, where nothing of the parent's threads is left.

        Returns how many chains of sites and templates are the parent's.
        """
        self.background.renew()
        self.prove.forget()
        self.idle = Idle(self.program, self.recorder)  # the lock of the parent's may be held
        site_module.native.idle_by(self.idle)
        self.program.fresh_lock()
        self.memory.paused = True  # what a worker keeps is gone with it, and each would keep its own
        self.refused, self.log = [], Log()
        for applied in self.applied:
            applied.trial.renew()
        self.observed.renew()
        if self.judging is not None:
            attempt(self.judging.renew)
        known: tuple[int, int] = self.recorder.gatherer.rebase()
        return known

    def take_over(self, file: InstrumentedFile, moves: Iterable[Proven], settled: Iterable[str]) -> None:
        """Makes changes that were proven elsewhere, and ends observing functions of which nothing more is to learn."""
        for move in moves:
            self.replay.known(file, move, "a worker")
        owners = set(settled)
        for owner in owners:
            self.observed.end((file.path, owner))
            self.program.settle(file.path, owner)
        if owners:
            self.planning.install(file.path, [*owners])

    def settings(self) -> dict[str, Any]:
        """What was asked of this pilot, for that of another process."""
        return {
            "observe_only": self.observe_only, "synchronous": self.synchronous, "plan": self.plan,
            "allow": self.allow, "max_overhead": self.max_overhead, "memory": Memory(self.memory.most_nbytes),
        }  # fmt: skip

    # -- in the background thread

    def _begin_beside(self) -> None:
        if self.openings is not None:
            self.openings.heat.exclude_this_thread()

    def _look_around(self) -> None:
        """What is done now and then: functions without data are left alone, and processes hear of each other."""
        self.log.sample()
        self.on_tick()
        if self.kernels and find.is_loaded("numpy"):  # not before the program has loaded it as it wants it
            wanted, self.kernels = self.kernels, []
            attempt(self.shelf.stock, wanted)
        attempt(self.planning.reach)
        self.observed.look()
        waiting, self.waiting = self.waiting, []
        for job in waiting:
            attempt(job)
        if self.openings is not None:
            report = attempt(self.openings.look)
            if self.judging is not None and not isinstance(report, Failed):
                attempt(self.judging.look, report)
                self.budget.saved_seconds = self.judging.saved_seconds()
                attempt(self.items.look, report)
        elif not self.observe_only:
            attempt(self.items.look, None)
        attempt(self.team.look)
        if not self.observe_only:
            attempt(self.heap.look)
            attempt(self.rest.enter)
