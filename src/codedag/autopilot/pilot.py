"""The pilot of one running program: observe each function, plan it, put it on trial, switch, and at the end restore.

Observation is per function: once a function's operations have been seen often enough, it is settled, planned in a
background thread and given lean code, while other functions (the training loop after the data preparation) are still
being observed.  The program never waits for any of this.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from codedag.autopilot import find
from codedag.backends.effects import Effects
from codedag.backends.proof import proven_here
from codedag.backends.registry import EXACT
from codedag.instrument import sites as site_module
from codedag.instrument.program import InstrumentedFile, Program
from codedag.instrument.sites import PASS, RECORD
from codedag.ir import Move, Plan
from codedag.ir.verdict import No
from codedag.migrate.chain import Chain
from codedag.migrate.chain import Link as ChainLink
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.kernels import Shelf
from codedag.migrate.substitute import Substitute
from codedag.migrate.trial import Trial
from codedag.trace.recorder import Recorder, Template, shown_path

OBSERVE = 40  # executions of one operation after which its function has been seen enough
FEW, LONG = 6, 1.5  # or this many, if they took so many seconds
SCALAR = 5_000  # executions without data after which a function is left alone
TICK = 0.2  # seconds between looks at functions that move no data

Function = tuple[str, str]  # file and qualified name


@dataclass(slots=True)
class Applied:
    """A change on trial in the running program."""

    kind: str
    path: str
    owner: str
    sites: list[int]
    names: list[str]
    trial: Trial
    variant: str

    def lines(self, file: InstrumentedFile) -> tuple[int, int]:
        """First and last source line of the change."""
        infos = [file.infos[index] for index in self.sites]
        return min(i.line for i in infos), max(i.end_line for i in infos)


@dataclass(slots=True)
class Refused:
    """A change that was considered and not made."""

    what: str
    where: str
    reason: str


@dataclass(slots=True)
class Watch:
    """How long one function has been observed, and whether that is over."""

    started: float
    ended: float | None = None


@dataclass(slots=True)
class Pilot:
    """Everything that happens to one program between its first and its last line."""

    program: Program
    observe_only: bool = False
    synchronous: bool = False  # plan and build at once instead of in the background: slower, but repeatable
    plan: Plan | None = None
    on_tick: Callable[[], None] = lambda: None
    recorder: Recorder = field(init=False)
    shelf: Shelf = field(init=False)
    applied: list[Applied] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    watches: dict[Function, Watch] = field(default_factory=dict)
    switched_at: float | None = None
    started_at: float = 0.0
    forked: int = 0
    _effects: Effects = field(default_factory=Effects)
    _inbox: queue.Queue[Callable[[], None] | None] = field(default_factory=queue.Queue)
    _grown: dict[Function, int] = field(default_factory=dict)
    _thread: threading.Thread | None = None
    _paused: bool = False
    _pid: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.program.names, self._saw)
        self.shelf = Shelf(synchronous=self.synchronous)

    # -- the life of a run

    def start(self) -> None:
        """Begins to observe (or, with a plan, to apply it) and starts the planning thread."""
        self.started_at = time.perf_counter()
        os.register_at_fork(after_in_child=self._in_child, before=self._before_fork)
        if self.plan is not None:
            self.program.prepare = self._from_plan
            return
        site_module.native.start(self.recorder, self.program.names)
        self._start_thread()

    def _start_thread(self) -> None:
        self._paused = False
        self._thread = threading.Thread(target=self._work, name="codedag-pilot", daemon=True)
        self._thread.start()

    def _end_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join(5)
            self._paused = not self._thread.is_alive()

    def stop(self) -> int:
        """Ends everything and puts every function back; the number of functions that had to be changed."""
        site_module.native.stop()
        self._end_thread()
        self._thread, self._paused = None, False
        if self.plan is not None:
            loaded = {shown_path(path) for path in self.program.files}
            for move in self.plan.moves:
                if move.file not in loaded:
                    where = f"{move.file}:{move.line}"
                    self.refused.append(Refused(f"{move.kind} of the plan", where, "the program has no such file"))
        failure = site_module.native.failure()
        if self.forked:
            self.notes.append(
                f"{self.forked} forked processes were not observed; they ran what was switched before them"
            )
        if failure:
            self.notes.append(f"observation ended early: {failure}")
        return self.program.restore()

    def owns_this_process(self) -> bool:
        """Whether this is the process that the pilot started in, not a fork of it."""
        return os.getpid() == self._pid

    def _before_fork(self) -> None:
        self.forked += 1
        # From 3.12 on Python warns the program about a fork with threads, and this thread is ours.  It starts again
        # with the next operation: Python 3.13 counts the threads when everything after the fork is done.
        if sys.version_info >= (3, 12) and self._thread is not threading.current_thread():
            self._end_thread()

    def _in_child(self) -> None:
        """A forked worker keeps what is already switched and is not observed."""
        site_module.native.stop()
        self._thread, self._paused = None, False

    # -- observing (called for every recorded operation: keep it short)

    def _saw(self, template: Template) -> None:
        if self._paused:
            self._start_thread()
        info = template.site.info
        watch = self.watches.get((info.file, info.owner))
        if watch is None:
            watch = self.watches[info.file, info.owner] = Watch(time.perf_counter() - template.total_ns / 1e9)
        if template.count < FEW or watch.ended is not None or self.observe_only:
            return
        now = time.perf_counter()
        if template.count >= OBSERVE or now - watch.started > LONG:
            watch.ended = now
            self.program.settle(info.file, info.owner)
            self.recorder.freeze_around(info.file, info.owner)
            self._later(partial(self._try_to_plan, (info.file, info.owner)))

    def _later(self, job: Callable[[], None]) -> None:
        """Has a job done by the background thread, or at once."""
        if self.synchronous or self._thread is None:
            job()
        else:
            self._inbox.put(job)

    # -- planning (in the background thread)

    def _work(self) -> None:
        while True:
            try:
                job = self._inbox.get(timeout=TICK)
            except queue.Empty:
                self.on_tick()
                self._settle_scalar_functions()
                continue
            if job is None:
                return
            job()

    def _try_to_plan(self, function: Function) -> None:
        planned = attempt(self._plan_function, *function)
        if isinstance(planned, Failed):
            self.refused.append(Refused("planning", f"{shown_path(function[0])} {function[1]}", planned.reason))

    def _settle_scalar_functions(self) -> None:
        """Functions that only juggle numbers get their plain code back: there is nothing in them to see."""
        for path, file in list(self.program.files.items()):
            busy: dict[str, int] = {}
            for info, site in zip(file.infos, file.sites, strict=True):
                if site.mode == RECORD:
                    busy[info.owner] = max(busy.get(info.owner, 0), site.calls)
            idle = [o for o, calls in busy.items() if calls > SCALAR and not self._moves_data(path, o)]
            for owner in idle:
                self.program.settle(path, owner)
            if idle:
                self.program.install(path, idle)

    def _moves_data(self, path: str, owner: str) -> bool:
        """Whether a function has moved data since this was last asked."""
        own = [t for t in list(self.recorder.templates) if t.site.info.owner == owner and t.site.info.file == path]
        before, now = self._grown.get((path, owner), -1), sum(t.count for t in own)
        self._grown[path, owner] = now
        return now != before and bool(own)

    def _take_back(self, applied: Applied, indexes: Iterable[int]) -> None:
        """Takes a change out of the program's code once its trial has ended badly."""
        attempt(self.program.retire, applied.path, applied.owner, indexes)

    def _plan_function(self, path: str, owner: str) -> None:
        file = self.program.files[path]
        seen = [t for t in list(self.recorder.templates) if t.site.info.file == path and t.site.info.owner == owner]
        taken: set[int] = set()
        for found in find.chains(file, owner, seen):
            self._apply_chain(file, owner, found.links, found.between)
            taken |= {link.site.info.index for link in found.links} | set(found.between)
        for call in find.calls(file, owner, seen):
            if call.site not in taken:
                self._apply_call(file, owner, call)
        self.program.install(path, [owner])

    def _apply_chain(
        self, file: InstrumentedFile, owner: str, links: tuple[ChainLink, ...], between: tuple[int, ...]
    ) -> None:
        names = [link.name for link in links]
        trial = Trial(" ".join(names))
        chain = Chain(
            links,
            [file.sites[i] for i in between if file.sites[i].mode == PASS],
            self.shelf.take,
            trial,
            self._effects,
        )
        sites = [link.site.info.index for link in links]
        applied = Applied("fuse", file.path, owner, sites, names, trial, "table")
        self._switch(file, applied, chain.variants())

    def _apply_call(self, file: InstrumentedFile, owner: str, call: find.FoundCall) -> None:
        substitution = call.substitution
        verdict = self._may_substitute(substitution)
        if not verdict:
            where = f"{shown_path(file.path)}:{file.infos[call.site].line}"
            self.refused.append(Refused(substitution.name, where, verdict.reason))
            return
        trial = Trial(substitution.source)
        change = Substitute(file.sites[call.site], substitution, trial)
        names, variant = [substitution.source], substitution.into
        applied = Applied("substitute", file.path, owner, [call.site], names, trial, variant)
        self._switch(file, applied, change.variants())

    def _may_substitute(self, substitution: Any) -> Any:
        if substitution.equivalence is not EXACT:
            return No(f"it is {substitution.equivalence.value}, not exact")
        return substitution.available() and proven_here(substitution)

    def _switch(self, file: InstrumentedFile, applied: Applied, variants: dict[int, Any]) -> None:
        self.applied.append(applied)
        applied.trial.on_stop = partial(self._later, partial(self._take_back, applied, list(variants)))
        self.program.plan(file.path, applied.owner, variants)
        if self.switched_at is None:
            self.switched_at = time.perf_counter()

    # -- replaying a plan

    def _from_plan(self, file: InstrumentedFile) -> set[int]:
        """Applies the moves of a saved plan to a file as it is loaded; the sites that it needs."""
        assert self.plan is not None
        source = next((s for s in self.plan.sources if s.file == shown_path(file.path)), None)
        moves = [m for m in self.plan.moves if m.file == shown_path(file.path)]
        if not moves:
            return set()
        if source is None or source.sha256 != file.sha256:
            for move in moves:
                self.refused.append(
                    Refused(
                        f"{move.kind} of the plan",
                        f"{move.file}:{move.line}",
                        "the plan was made for another version of this file",
                    )
                )
            return set()
        for move in moves:
            done = attempt(self._replay, file, move)
            if isinstance(done, Failed):
                self.refused.append(Refused(f"{move.kind} of the plan", f"{move.file}:{move.line}", done.reason))
        return {index for info in file.infos if file.sites[info.index].variant is not None for index in (info.index,)}

    def _replay(self, file: InstrumentedFile, move: Move) -> None:
        if move.kind == "substitute":
            from codedag.backends.registry import find as substitutes

            for substitution in substitutes(move.chain[0])[:1]:
                self._apply_call(file, move.function, find.FoundCall(move.sites[0], substitution))
            return
        operand = {(link.source, link.target): link.operand for link in file.links}
        places = [None, *(operand[pair] for pair in zip(move.sites, move.sites[1:], strict=False))]
        links = tuple(ChainLink(file.sites[s], n, p) for s, n, p in zip(move.sites, move.chain, places, strict=True))
        self._apply_chain(file, move.function, links, find.between(list(links)))
