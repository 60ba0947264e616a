"""Exchange of changes between the processes of a program: what one worker has proven, later ones begin with."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codedag.autopilot.processes import worker_heat
from codedag.autopilot.processes.report_folder import BEGUN, WorkerReports
from codedag.autopilot.processes.worker_report import Refusal, WorkerReport, move_of, share_of
from codedag.autopilot.settings.cv2_threads import WORKER, Capping, workers_here
from codedag.backends.registry import known_sources
from codedag.devices import cgroup
from codedag.instrument import sites as site_module
from codedag.instrument.children import Follower, follow, unfollow
from codedag.instrument.guard import attempt
from codedag.ir import clock as time
from codedag.trace.events import Log
from codedag.trace.gathered import Gathered
from codedag.trace.records import join

if TYPE_CHECKING:
    from codedag.autopilot.pilot import Pilot
WORKERS_MAX = 16  # that may share the memory for what is kept
#: The kinds of changes that processes take over from each other; memory and threads are each one's own.
SHARED = ("fuse", "substitute")


class WorkerExchange(Follower):
    """Follower that reports the changes of this process and adopts those of others; one lives in each process."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot
        self.crew = WorkerReports(None)
        self.capping = Capping(pilot.program)
        self._adopted: set[tuple[str, str, tuple[int, ...]]] = set()
        self._began = 0.0
        self._began_worker = 0  # the process in which that was told
        self._capped = False  # whether cv2 has one thread in this worker

    def start(self) -> None:
        """Is told of processes that the program starts from now on."""
        follow(self)

    def stop(self) -> None:
        """Is told of no more processes."""
        unfollow(self)

    # -- the life of processes

    def before_fork(self) -> None:
        """Takes over what workers have proven, for the process to come."""
        self.pilot.pause()
        self.adopt()
        if self._may_change:
            attempt(self.capping.look)
            if WORKER in sys.modules:  # those of a DataLoader may keep for each other what they read
                attempt(self.pilot.memory.share)

    @property
    def _may_change(self) -> bool:
        return not self.pilot.observe_only and self.pilot.plan is None

    def after_fork(self) -> None:
        """Goes on in the process that forked."""
        self.pilot.background.resume()

    def in_fork(self) -> None:
        """Goes on in a process that was just forked."""
        self._began = time.perf_counter()
        self.crew.in_fork(self.pilot.begin_anew())

    def begin_worker(self) -> None:
        """Tells the program what this worker does, from now on."""
        if self._began_worker != self.crew.process:
            self._began_worker = self.crew.process
            self.pilot.rest.forget()
            attempt(self._share_memory)
            self.pilot.memory.in_worker = self._may_change and workers_here() > 0
            self._capped = self._may_change and attempt(self.capping.begin_worker) is True
        attempt(self.crew.write, self._fill, BEGUN)  # so that the program knows of this process, however it ends
        self.pilot.background.tick()

    def _share_memory(self) -> None:
        """Workers do not know of each other: each may keep as much as lets many of them stay below the budget."""
        memory = self.pilot.memory
        whole = _free_nbytes() // 4 if memory.most_nbytes is None else memory.most_nbytes
        memory.most_nbytes = memory.nbytes + max(whole - memory.nbytes, 0) // WORKERS_MAX

    def end_worker(self) -> None:
        """Writes what this worker did, as the last thing."""
        if self.crew.is_worker and self.crew.folder is not None and self.pilot.openings is not None:
            attempt(worker_heat.write, self.pilot.openings.heat, self.crew.folder)
        attempt(self.crew.write, self._fill, self._state(), last=True)

    def look(self) -> None:
        """What is done now and then: a worker tells, the program listens."""
        if self.crew.is_worker:
            self.crew.write(self._fill, self._state())
        elif not self.pilot.synchronous:
            self.adopt()

    # -- reporting

    def ticket(self, main: str | None) -> dict[str, Any]:
        """What a spawned process must know to do as this one."""
        self.adopt()
        pilot, folder = self.pilot, self.crew.folder
        moves = [move_of(a, pilot.program) for a in pilot.applied if a.trial.active and a.kind in SHARED]
        return {
            "program": pilot.program.terms(), "parent": self.crew.process,
            "folder": None if folder is None else str(folder), "settings": pilot.settings(),
            "root": site_module.native.path(), "main": main, "is_sampled": pilot.openings is not None,
            "known": [msgspec.to_builtins(move) for move in [*pilot.known, *moves]],
        }  # fmt: skip

    @staticmethod
    def arrive(ticket: dict[str, Any]) -> None:
        """Starts a pilot in a spawned process."""
        from codedag.autopilot.processes.spawned import begin

        begin(ticket)

    @staticmethod
    def stay_away(ticket: dict[str, Any], reason: str) -> None:
        """Reports why a spawned process runs as written."""
        if ticket["folder"] is not None:
            report = WorkerReport(
                process=os.getpid(), parent=ticket["parent"], started=time.time(), failure=reason, ended=True
            )
            report.write(Path(ticket["folder"]))

    def _state(self) -> tuple[int, ...]:
        """What changes when there is news to tell."""
        pilot = self.pilot
        trials = [applied.trial for applied in pilot.applied]
        checked, stopped = sum(t.checked for t in trials), sum(not t.active for t in trials)
        return len(trials), checked, stopped, len(pilot.refused), len(pilot.observed.unplanned), len(pilot.shelf.ready)

    def _fill(self, report: WorkerReport) -> None:
        pilot = self.pilot
        report.shares = [share_of(applied, pilot.program) for applied in pilot.applied]
        undecided = {
            (s.move.file, s.move.function)
            for s in report.shares
            if s.active and s.move.kind in SHARED and not s.is_proven  # what is kept ends with the worker anyway
        }
        own = {
            function: watch for function, watch in list(pilot.observed.watches.items()) if watch.started >= self._began
        }
        ended = {function for function, watch in own.items() if watch.ended is not None}
        report.settled = sorted(ended - undecided - set(pilot.observed.unplanned))
        report.refused = [Refusal(r.what, r.where, r.reason) for r in pilot.refused]
        report.kernels = sorted({*pilot.shelf.specs()})
        report.engines = pilot.shelf.engines()
        report.records = self.crew.records(pilot.recorder.gathered())
        if report.ended:  # thousands of calls: written once
            report.records.log = self._log()
        report.capped = self._capped
        now = time.perf_counter()
        report.spans = [(file, owner, (w.ended or now) - w.started) for (file, owner), w in own.items()]

    # -- adopting

    def gathered(self) -> Gathered:
        """What all processes observed, with what each saw of itself over time."""
        others = [report.records for report in self.crew.reports if report.records is not None]
        own, log = self.pilot.recorder.gathered(), self._log()
        if not others:
            own.logs.append(log)
            return own
        records = self.crew.records(own)
        records.log = log
        return join([records, *others]).gathered

    def _log(self) -> Log:
        log = self.pilot.log
        log.process = self.crew.process
        log.fill(self.pilot.recorder.gatherer.events())
        return log

    def conclude(self) -> list[str]:
        """What is to be said about other processes once the program has ended: whose report is missing or cut."""
        self.crew.read()
        reports = self.crew.reports
        notes = [f"process {r.process} ran as written: {r.failure}" for r in reports if r.failure]
        capped = sum(report.capped for report in reports)
        if capped:
            notes.append(f"cv2 had one thread in {capped} of {len(reports)} workers: together they keep all cores busy")
        cut = sum(not report.ended for report in reports)
        if cut:
            notes.append(
                f"{cut} of {len(reports)} worker processes were still at work or were ended from outside: "
                "what they did last is not in the report"
            )
        return [*notes, *self.crew.bad]

    def adopt(self) -> None:
        """Makes the changes that workers have proven, for the processes that are started from now on."""
        pilot = self.pilot
        if not self._may_change or not self.crew.read():
            return
        self._take_back_what_disappoints()
        pilot.background.later(_load_registry)  # here, once, and not in every worker that plans
        have = self._adopted | {(a.kind, a.path, tuple(a.sites)) for a in pilot.applied}
        wanted = [move for move in self.crew.proven() if move.kind in SHARED]
        # what workers keep for each other is proven by those that come later: each compares it first
        wanted += self.crew.kept() if pilot.memory.common is not None else []
        moves = [move for move in wanted if move.key not in have]
        settled = [function for function in self.crew.settled() if function not in pilot.observed.watches]
        for path, file in list(pilot.program.files.items()):
            here = [move for move in moves if move.file == path and move.sha256 == file.sha256]
            self._adopted |= {move.key for move in here}
            attempt(pilot.take_over, file, here, [owner for of, owner in settled if of == path])
        kernels = self.crew.kernels()
        if kernels:
            pilot.background.later(partial(pilot.shelf.stock, kernels))

    def _take_back_what_disappoints(self) -> None:
        others = self.crew.by_change()
        for applied in self.pilot.applied:
            every = others.get((applied.kind, applied.path, tuple(applied.sites)), ())
            stopped = [share for share in every if not share.active]
            wrong = [share for share in stopped if share.mismatches]
            if applied.trial.active and (wrong or 2 * len(stopped) > len(every)):
                applied.trial.stop((wrong or stopped)[0].reason)


def _load_registry() -> None:
    known_sources()


def _free_nbytes() -> int:
    """The memory that machine and container leave, without loading a library in every worker; 0 if neither says."""
    found = []
    group = cgroup.find()
    limit = group.memory_limit() if group is not None else None
    if group is not None and limit is not None:
        found.append(limit - group.memory_nbytes())
    try:
        found.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        pass
    return max(min(found, default=0), 0)
