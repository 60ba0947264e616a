"""The pilot of one running program: observe each function, plan it, put it on trial, switch, and at the end restore.

Observation is per function: once a function's operations have been seen often enough, it is settled, planned in a
background thread and given lean code, while other functions (the training loop after the data preparation) are still
being observed.  The program never waits for any of this.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from codedag.autopilot.applied import PLACE, Applied, Function, Refused, Watch
from codedag.autopilot.budget import KERNEL_SECONDS, Budget, unlimited
from codedag.autopilot.judging import Judging
from codedag.autopilot.knowledge import Proven
from codedag.autopilot.moves import find
from codedag.autopilot.moves.items import Items
from codedag.autopilot.moves.memoised_calls import Recalled
from codedag.autopilot.moves.replay import Replay
from codedag.autopilot.moves.row_apply import Rows
from codedag.autopilot.openings import Openings
from codedag.autopilot.options import MAX_OVERHEAD
from codedag.autopilot.planning import Planning
from codedag.autopilot.processes.exchange import WorkerExchange
from codedag.autopilot.proving import Proving, WhenProven
from codedag.autopilot.settings.openmp_wait import OpenMPWait
from codedag.backends.registry import EXACT, Equivalence
from codedag.instrument import sites as site_module
from codedag.instrument.hidden_thread import HiddenThread
from codedag.instrument.program import InstrumentedFile, Program
from codedag.ir import Plan
from codedag.ir import clock as time
from codedag.migrate.fuse.kernel_pool import KernelPool
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.malloc_trim import FreedMemory
from codedag.migrate.memo.store import Memory
from codedag.trace.events import Log
from codedag.trace.idle import Idle
from codedag.trace.recorder import Recorder, Template, shown_path

if TYPE_CHECKING:
    from codedag.autopilot.heat import Heat
    from codedag.autopilot.moves.placement import Placed

OBSERVE = 40  # executions of one operation after which its function has been seen enough
FEW, LONG = 6, 1.5  # or this many, if they took so many seconds
TICK = 0.2  # seconds between looks at functions that move no data, and at what workers have proven
GRACE = 3.0  # seconds that observing may always take
MOST_PLANNING = 6.0  # seconds of the processor that planning may always take
BEATS = 4  # looks at a proof that runs, between two others
SLOWEST = 1.0  # seconds between them once nothing happens any more
PATIENCE = 1.0  # seconds that a fork waits for planning to reach a safe point

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
    watches: dict[Function, Watch] = field(default_factory=dict)
    left_alone: frozenset[Function] = frozenset()  # earlier runs have found nothing to change in them
    barren: set[Function] = field(default_factory=set)  # nothing could be changed in them
    first_change_at: float | None = None
    started_at: float = 0.0
    forked: int = 0
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
    _inbox: queue.Queue[Callable[[], None] | None] = field(default_factory=queue.Queue)
    _thread: HiddenThread | None = None
    _paused: bool = False
    _ending: bool = False  # the program has ended: what is not begun is not done
    _working: threading.Lock = field(default_factory=threading.Lock)  # held while something is being planned
    _forking: bool = False
    _beats: int = 0
    inline: float = 0.0  # seconds of planning in the program's own thread
    beside: float = 0.0  # seconds of the processor that planning took
    waiting: list[Callable[[], None]] = field(default_factory=list)  # for answers of the compiler process
    unplanned: list[Function] = field(default_factory=list)  # settled, and their planning has not ended

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.program.names, self._saw)
        self.prove = Proving(self.synchronous, self._aside, self.is_beside, self.budget)
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
        return self.beside + self.prove.cpu_seconds() + opening

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
        self._start_thread()

    def _prepare(self, file: InstrumentedFile) -> set[int]:
        """Makes the known changes of a file as it is loaded; the sites that it needs."""
        self._begin(file)
        changed = {index for index, site in enumerate(file.sites) if site.variant is not None}
        return changed | self.replay.reserved(file)

    def _begin(self, file: InstrumentedFile) -> None:
        """Makes the changes that need no observing, as a file is loaded."""
        self.replay.from_known(file)
        attempt(self.rows.begin, file)

    def _start_thread(self) -> None:
        self._paused = False
        self._thread = HiddenThread(self._work)
        self._thread.start()

    def _end_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join(5)
            self._paused = not self._thread.is_alive()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """A block for which a fork need not wait."""
        held = self.is_beside()
        if held:
            self._working.release()
        try:
            yield
        finally:
            if held:
                self._working.acquire()

    def go_on(self) -> bool:
        """Whether the program still runs: nobody waits for plans once it has ended."""
        return not self._ending

    def stop(self) -> int:
        """Ends everything and puts every function back; the number of functions that had to be changed."""
        self._ending = True
        self.prove.end()
        site_module.native.stop()
        site_module.native.idle_by(None)
        self.team.stop()
        if self.openings is not None and self.judging is not None:
            attempt(self.openings.stop)
            attempt(self.judging.stop)
        attempt(self.rest.restore)
        self._end_thread()
        self.prove.rest()
        for then in self.prove.left():
            attempt(then)
        if self.placed is not None:
            attempt(self.placed.stop)
        self._thread, self._paused = None, False
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
        """Brings planning to a safe point before a fork."""
        self.forked += 1
        attempt(self.rest.pause)
        if self.is_beside():
            return
        # From 3.12 on Python warns the program about a fork with threads, and this thread is ours.  It starts again
        # with the next operation: Python 3.13 counts the threads when everything after the fork is done.
        if sys.version_info >= (3, 12):
            self._end_thread()
        self._forking = self._working.acquire(timeout=PATIENCE)

    def resume(self) -> None:
        """Goes on planning in the process that forked."""
        if self._forking:
            self._forking = False
            self._working.release()

    def begin_anew(self) -> tuple[int, int]:
        """Goes on in a process that was just forked, where nothing of the parent's threads is left.

        Returns how many chains of sites and templates are the parent's.
        """
        self._inbox, self._working, self._forking = queue.Queue(), threading.Lock(), False
        self.prove.forget()
        self.idle = Idle(self.program, self.recorder)  # the lock of the parent's may be held
        site_module.native.idle_by(self.idle)
        self.program.fresh_lock()
        self.memory.paused = True  # what a worker keeps is gone with it, and each would keep its own
        self._thread, self._paused = None, True
        self.refused, self.log = [], Log()
        for applied in self.applied:
            applied.trial.renew()
        self.watches = {function: watch for function, watch in self.watches.items() if watch.ended is not None}
        for function in self.unplanned:
            self._inbox.put(partial(self._try_to_plan, function))
        if self.judging is not None:
            attempt(self.judging.renew)
        known: tuple[int, int] = self.recorder.gatherer.rebase()
        return known

    def tick(self) -> None:
        """Looks around now and then from now on, also if nothing is observed."""
        if self._thread is None:
            self._start_thread()

    def take_over(self, file: InstrumentedFile, moves: Iterable[Proven], settled: Iterable[str]) -> None:
        """Makes changes that were proven elsewhere, and ends observing functions of which nothing more is to learn."""
        for move in moves:
            self.replay.known(file, move, "a worker")
        owners = set(settled)
        for owner in owners:
            watch = self.watches.setdefault((file.path, owner), Watch(time.perf_counter()))
            watch.ended = watch.ended or time.perf_counter()
            self.program.settle(file.path, owner)
        if owners:
            self.planning.install(file.path, [*owners])

    def settings(self) -> dict[str, Any]:
        """What was asked of this pilot, for that of another process."""
        return {
            "observe_only": self.observe_only, "synchronous": self.synchronous, "plan": self.plan,
            "allow": self.allow, "max_overhead": self.max_overhead, "memory": Memory(self.memory.most_nbytes),
        }  # fmt: skip

    # -- observing (called for every recorded operation: keep it short)

    def _saw(self, template: Template) -> None:
        if self._paused:
            self._start_thread()
        info = template.site.info
        watch = self.watches.get((info.file, info.owner))
        if watch is None:
            watch = self.watches[info.file, info.owner] = Watch(time.perf_counter() - template.total_ns / 1e9)
        # by site too: once an enclosing function is settled, the same operation has another context and counts anew
        seen = watch.seen[info.index] = watch.seen.get(info.index, 0) + 1
        if template.count < FEW or watch.ended is not None or self.observe_only:
            return
        now = time.perf_counter()
        if template.count >= OBSERVE or seen >= OBSERVE or now - watch.started > LONG:
            watch.ended = now
            self._settle((info.file, info.owner))

    def is_planned(self, function: Function) -> bool:
        """Whether observing a function has ended."""
        watch = self.watches.get(function)
        return watch is not None and watch.ended is not None

    def settle(self, function: Function) -> None:
        """Ends observing a function now, and plans what it has shown."""
        watch = self.watches.setdefault(function, Watch(time.perf_counter()))
        if watch.ended is None:
            watch.ended = time.perf_counter()
            self._settle(function)

    def _settle(self, function: Function) -> None:
        """Ends observing a function, and has the rest of it planned."""
        self.unplanned.append(function)
        self.program.settle(*function)
        self.recorder.freeze_around(*function)
        self.later(partial(self._try_to_plan, function))

    def later(self, job: Callable[[], None]) -> None:
        """Has a job done by the background thread, or at once."""
        if self.synchronous or self._thread is None:
            started = time.perf_counter()
            job()
            self.inline += time.perf_counter() - started
        else:
            self._inbox.put(job)

    def is_beside(self) -> bool:
        """Whether this is the background thread."""
        return self._thread is not None and self._thread.is_current

    def observing(self) -> float:
        """Seconds for which the program was held up by observing; what was planned meanwhile does not count."""
        spent: int = site_module.native.spent()
        return max(spent / 1e9 - self.inline, 0.0)

    # -- planning (in the background thread)

    def _work(self) -> None:
        if self.openings is not None:
            self.openings.heat.exclude_this_thread()
        pace = TICK
        while True:
            try:
                job, pace = self._inbox.get(timeout=TICK / BEATS if self.prove.waits() else pace), TICK
            except queue.Empty:  # less and less often while nothing happens
                job, pace = self._look_around, min(1.2 * pace, SLOWEST)
                if self.prove.waits():
                    job, pace = self._look_at_proofs, TICK
            if job is None:
                return
            if self._ending:
                continue
            with self._working:
                job()
            self.beside = time.thread_time()
            if self._inbox.empty():
                self.prove.rest()

    def _look_at_proofs(self) -> None:
        attempt(self.prove.look)
        self._beats += 1
        if self._beats % BEATS == 0:
            self._look_around()

    def _look_around(self) -> None:
        """What is done now and then: functions without data are left alone, and processes hear of each other."""
        self.log.sample()
        self.on_tick()
        if self.kernels and find.is_loaded("numpy"):  # not before the program has loaded it as it wants it
            wanted, self.kernels = self.kernels, []
            attempt(self.shelf.stock, wanted)
        attempt(self.planning.reach)
        self._settle_known_functions()
        self._end_costly_observing()
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

    def _try_to_plan(self, function: Function) -> None:
        if self.openings is not None and not self.openings.has_answers(function[0]):
            self.waiting.append(partial(self._try_to_plan, function))
            return
        passed = time.perf_counter() - self.started_at
        if self.beside > max(MOST_PLANNING, 2 * MAX_OVERHEAD * passed):  # hundreds of functions in one large file
            planned: Any = Failed(f"planning others has taken {self.beside:.0f} s already")
            attempt(self.planning.install, function[0], [function[1]])
        else:
            before = self.prove.questions, len(self.applied), len(self.refused)
            planned = attempt(self.planning.plan, *function)
            if (self.prove.questions, len(self.applied), len(self.refused)) == before:
                self.barren.add(function)
        if isinstance(planned, Failed):
            self.refused.append(Refused("planning", f"{shown_path(function[0])} {function[1]}", planned.reason))
        if function in self.unplanned:
            self.unplanned.remove(function)

    def _end_costly_observing(self) -> None:
        """Ends observing what is left if it has cost more than it may; what was seen until then is planned."""
        spent, passed = self.observing(), time.perf_counter() - self.started_at
        most = self.max_overhead * passed
        allowed = max(most, GRACE) if self.max_overhead == MAX_OVERHEAD else most
        if self.observe_only or self.synchronous or spent <= allowed:
            return
        open_ = [(path, owner) for path, file in list(self.program.files.items()) for owner in find.recorded(file)]
        for function in open_:
            watch = self.watches.setdefault(function, Watch(time.perf_counter()))
            watch.ended = watch.ended or time.perf_counter()
            self._settle(function)
        if open_:
            self.notes.append(
                f"observing was ended after {spent:.1f} s, {spent / passed:.0%} of the time (--max-overhead)"
            )

    def _settle_known_functions(self) -> None:
        """Functions whose changes were known from the start may show nothing else: they are planned all the same.

        By heat they are opened like any other: there may be more to change in them than an earlier run had time for.
        """
        if self.openings is not None:
            return
        for applied in [each for each in self.applied if each.known and each.trial.calls >= OBSERVE]:
            if not self.observe_only:
                self.settle((applied.path, applied.owner))
