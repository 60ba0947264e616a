"""The other processes of the program: each has a pilot of its own and tells the others what it has proven.

A forked process goes on where its parent stood.  A spawned one is told through multiprocessing's own preparation data,
before it imports the program.  What a process has proven lies in a file of the run directory; the program reads it and
makes the same changes, so that processes that it starts later begin with them.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from codedag.autopilot import shares
from codedag.autopilot.shares import Proven, Share, WorkerReport
from codedag.instrument.guard import Failed, attempt
from codedag.ir import clock as time
from codedag.ir.errors import CodedagError
from codedag.trace.gathered import Gathered
from codedag.trace.records import Records

AGAIN = 1.0  # seconds between two reports of a worker, once the first is written
FIRST_WORD = (-1,)  # the state of a worker that has only begun


class Told(Protocol):
    """Who is told of the life of processes: the team."""

    def in_fork(self) -> None: ...  # noqa: D102
    def begin_worker(self) -> None: ...  # noqa: D102
    def before_fork(self) -> None: ...  # noqa: D102
    def after_fork(self) -> None: ...  # noqa: D102
    def ticket(self) -> dict[str, Any]: ...  # noqa: D102


@dataclass(slots=True)
class Crew:
    """The files by which the processes of one program tell each other what they have done."""

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
    _seen: dict[str, int] = field(default_factory=dict)
    _reports: dict[str, WorkerReport] = field(default_factory=dict)

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
        if self.folder is not None:
            try:
                if self.folder.exists():  # of an earlier run
                    import shutil

                    shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(parents=True)
            except OSError as error:
                self.folder, self.failure = None, f"workers could not report: {error.strerror or error}"

    def records(self, gathered: Gathered) -> Records:
        """What this process observed, as its file has it."""
        made = Records(
            process=self.process, parent=self.parent, known_paths=self.known[0], known_templates=self.known[1],
            root=self.root,
        )  # fmt: skip
        made.fill(gathered)
        return made

    # -- telling

    def tell(self, make: Callable[[WorkerReport], None], state: tuple[int, ...], *, last: bool = False) -> None:
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
        self._written, self._due = state, 0.0 if state == FIRST_WORD else now + AGAIN

    # -- hearing

    def hear(self) -> bool:
        """Reads the reports that are new; says whether there were any."""
        if self.folder is None:
            return False
        changed = self._changed(self.folder)
        for path in changed:
            found, bad = shares.read([path])
            self.bad += bad
            if found:
                self._reports[path.name] = found[0]
        return bool(changed)

    def _changed(self, folder: Path) -> list[Path]:
        """The reports that were written since they were last read."""
        changed = []
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries if entry.name.endswith(".json"))
        except OSError:  # no worker has written yet
            return []
        for name in names:
            try:
                written = os.stat(folder / name).st_mtime_ns  # noqa: PTH116
            except OSError:  # gone meanwhile: nothing was read of it, and the others are
                continue
            if self._seen.get(name) != written:
                self._seen[name] = written
                changed.append(folder / name)
        return changed

    @property
    def reports(self) -> list[WorkerReport]:
        """What the other processes have told so far."""
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

    def concurrency(self) -> float:
        """How many worker processes were at work at once, on average over the time when there were any."""
        spans = sorted((r.started, r.started + r.seconds) for r in self.reports if r.seconds > 0)
        total, covered, until = 0.0, 0.0, 0.0
        for start, end in spans:
            total += end - start
            covered += max(0.0, end - max(start, until))
            until = max(until, end)
        return max(1.0, total / covered) if covered > 0 else 1.0


def _recommended(each: Iterable[Share]) -> bool:
    every = list(each)
    slow = sum(not share.active for share in every)
    return sum(s.is_proven for s in every) > slow and not any(s.mismatches for s in every)


# -- spawned processes


class Lookout:
    """Finds nothing, but sees when multiprocessing is about to start processes that inherit nothing."""

    _NAMES = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver", "multiprocessing.forkserver")

    def __init__(self, team: Told) -> None:
        self._team = team
        self._original: Callable[[str], dict[str, Any]] | None = None

    def start(self) -> None:
        """Begins to watch imports; what is loaded already is seen at once."""
        sys.meta_path.insert(0, self)
        if any(name in sys.modules for name in self._NAMES):
            self._ride_along()

    def stop(self) -> None:
        """Ends watching and puts everything back."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self._original is not None:
            sys.modules["multiprocessing.spawn"].get_preparation_data = self._original  # type: ignore[attr-defined]
            self._original = None

    def find_spec(self, name: str, path: Any, target: types.ModuleType | None = None) -> None:
        """None: others find modules."""
        if name in self._NAMES and self._original is None:
            attempt(self._ride_along)

    def _ride_along(self) -> None:
        spawn: Any = importlib.import_module("multiprocessing.spawn")
        original = self._original = spawn.get_preparation_data

        @functools.wraps(original)
        def get_preparation_data(name: str) -> dict[str, Any]:
            data: dict[str, Any] = original(name)
            ticket = attempt(self._team.ticket)
            if not isinstance(ticket, Failed):
                data["codedag"] = _Passenger({**ticket, "main": data.get("init_main_from_path")})
            return data

        spawn.get_preparation_data = get_preparation_data


class _Passenger:
    """Travels with the preparation data of a spawned process, and takes its place there when it arrives."""

    def __init__(self, ticket: dict[str, Any]) -> None:
        self._ticket = ticket

    def __reduce__(self) -> tuple[Callable[..., None], tuple[dict[str, Any]]]:
        return arrive, (self._ticket,)


def arrive(ticket: dict[str, Any]) -> None:
    """Begins to observe in a spawned process; if that fails, the process runs as it would have."""
    from codedag.autopilot.arrival import begin

    begun = attempt(begin, ticket)
    if isinstance(begun, Failed) and ticket["folder"] is not None:
        report = WorkerReport(
            process=os.getpid(), parent=ticket["parent"], started=time.time(), failure=begun.reason, ended=True
        )
        attempt(report.write, Path(ticket["folder"]))


# -- forked processes: Python cannot forget whom it tells of forks, so it tells this module once

_here: Told | None = None
_listening = False


def listen(team: Told | None) -> None:
    """Has this team told of forks from now on, or nobody."""
    global _here, _listening
    _here = team
    if not _listening and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
        _listening = True


def _before() -> None:
    if _here is not None:
        attempt(_here.before_fork)


def _after() -> None:
    if _here is not None:
        attempt(_here.after_fork)


def _in_child() -> None:
    if _here is None:
        return
    attempt(_here.in_fork)
    await_worker()


def await_worker() -> None:
    """Has multiprocessing tell when it has made this process one of its own; it forgets what was registered before."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(_anchor, _in_worker)


def _in_worker(anchor: object) -> None:
    """In a process of multiprocessing: it ends without Python's exit functions, but with these."""
    if _here is not None:
        attempt(_here.begin_worker)


class _Anchor:
    """Something that lives as long as this module: multiprocessing wants an object."""


_anchor = _Anchor()
