"""Reports of a program's worker processes: what each has done with the changes, in one file per process.

A worker writes its report now and then.  The program reads the reports and makes the same changes, so that processes
that it starts later begin with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from codedag.autopilot.knowledge import Proven
from codedag.autopilot.processes import worker_report
from codedag.autopilot.processes.worker_report import Share, WorkerReport
from codedag.instrument.children import ReportFolder
from codedag.ir import clock as time
from codedag.ir.errors import CodedagError
from codedag.trace.gathered import Gathered
from codedag.trace.records import Records

REPORT_SECONDS = 1.0  # between two reports of a worker, once the first is written
BEGUN = (-1,)  # the state of a worker that has only begun


@dataclass(slots=True)
class WorkerReports:
    """The reports of all worker processes of one program, and the one that this process writes."""

    folder: Path | None
    process: int = field(default_factory=os.getpid)
    parent: int = 0  # 0: the program itself
    known: tuple[int, int] = (0, 0)  # chains and templates that are the parent's
    root: int = -1  # the chain of sites at which a spawned process was started
    started: float = field(default_factory=time.time)
    failure: str = ""
    bad: list[str] = field(default_factory=list)  # reports that cannot be read
    ended: bool = False
    _written: tuple[int, ...] = ()
    _due: float = 0.0
    _files: ReportFolder = field(init=False)
    _reports: dict[str, WorkerReport] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._files = ReportFolder(self.folder)

    @property
    def is_worker(self) -> bool:
        """Whether this is another process than the program's first."""
        return self.parent != 0

    def in_fork(self, known: tuple[int, int]) -> None:
        """Begins anew in a process that was just forked, which knows so many chains and templates of its parent."""
        self.known = known
        self.parent, self.process, self.started = self.process, os.getpid(), time.time()
        self._written, self._due, self.ended = (), 0.0, False

    def prepare(self) -> None:
        """Makes an empty folder for the reports; without one, processes keep to themselves."""
        self._files.prepare()
        self.folder, self.failure = self._files.path, self._files.failure

    def records(self, gathered: Gathered) -> Records:
        """What this process observed, as its file has it."""
        made = Records(
            process=self.process, parent=self.parent, known_paths=self.known[0], known_templates=self.known[1],
            root=self.root,
        )  # fmt: skip
        made.fill(gathered)
        return made

    # -- writing

    def write(self, make: Callable[[WorkerReport], None], state: tuple[int, ...], *, last: bool = False) -> None:
        """Writes the report of this worker if there is news in it; a full disk must not disturb the program."""
        now = time.monotonic()
        if self.folder is None or (not last and (state == self._written or now < self._due)):
            return
        report = WorkerReport(
            process=self.process, parent=self.parent, started=self.started, seconds=time.time() - self.started,
            ended=last,
        )  # fmt: skip
        make(report)
        try:
            report.write(self.folder)
        except CodedagError as error:
            self.failure = error.message
        self._written, self._due = state, 0.0 if state == BEGUN else now + REPORT_SECONDS

    # -- reading

    def read(self) -> bool:
        """Reads the reports that are new; says whether there were any."""
        changed = self._files.changed()
        for path in changed:
            found, bad = worker_report.read([path])
            self.bad += bad
            if found:
                self._reports[path.name] = found[0]
        return bool(changed)

    @property
    def reports(self) -> list[WorkerReport]:
        """The reports of the other processes so far."""
        return [report for report in tuple(self._reports.values()) if report.process != self.process]

    def by_change(self) -> dict[tuple[str, str, tuple[int, ...]], list[Share]]:
        """The shares of the other processes in each change."""
        found: dict[tuple[str, str, tuple[int, ...]], list[Share]] = {}
        for report in self.reports:
            for share in report.shares:
                found.setdefault(share.move.key, []).append(share)
        return found

    def proven(self) -> list[Proven]:
        """The changes that another process recommends and none has found wrong, or mostly found slow."""
        return [each[0].move for each in self.by_change().values() if _recommended(each)]

    def kept(self) -> list[Proven]:
        """The prefixes that other processes keep, and none has taken back."""
        every = [each for each in self.by_change().values() if each[0].move.kind == "remember"]
        return [each[0].move for each in every if all(share.active for share in each)]

    def settled(self) -> set[tuple[str, str]]:
        """The functions of which another process has learned all there is."""
        return {(file, owner) for report in self.reports for file, owner in report.settled}

    def kernels(self) -> set[tuple[int, int]]:
        """The kernels that other processes use."""
        return {kernel for report in self.reports for kernel in report.kernels}


def _recommended(each: Iterable[Share]) -> bool:
    every = list(each)
    slow = sum(not share.active for share in every)
    return sum(s.is_proven for s in every) > slow and not any(s.mismatches for s in every)
