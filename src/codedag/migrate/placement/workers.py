"""Plans in other processes of the program: each applies them and leaves what it counted in a file when it ends.

A forked process has the plans already; a spawned one applies them before it imports the program.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codedag.backends.registry import Equivalence
from codedag.instrument.children import Follower, ReportFolder, follow, unfollow
from codedag.ir.errors import CannotWrite
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.patches.call_counts import CallCounts, summed
from codedag.migrate.placement.modes import Mode
from codedag.migrate.placement.requests import Request, Requests

if TYPE_CHECKING:
    from codedag.migrate.placement.migrator import Migrator


class _Left(msgspec.Struct):
    """What a process has left for the one that applied the plan: a first word when it begins, and its counts."""

    counts: dict[str, CallCounts] = {}
    ended: bool = False


_DECODER = msgspec.json.Decoder(_Left)


class _Plans(Follower):
    """The migrators that are in force in this process, and where its children leave what they counted."""

    def __init__(self) -> None:
        self.migrators: list[Migrator] = []
        self.numbers: dict[int, str] = {}
        self.inherited: set[int] = set()  # those that another process applied: their counts belong there
        self.reports: ReportFolder | None = None
        self.next = 0

    def before_fork(self) -> None:
        """Makes the folder in which the child will leave its counts."""
        self.made()

    def in_fork(self) -> None:
        """Counts anew in a forked process."""
        for migrator in self.migrators:
            self.inherited.add(id(migrator))
            attempt(migrator.begin_count)

    def begin_worker(self) -> None:
        """Leaves word that this process has begun, so that it is known of however it ends."""
        for migrator in self.migrators:
            attempt(_keep, migrator, ended=False)

    def end_worker(self) -> None:
        """Leaves what this process counted."""
        for migrator in self.migrators:
            attempt(_keep, migrator)

    def ticket(self, main: str | None) -> dict[str, Any]:
        """The plans that a spawned process applies, and where it reports."""
        plans = [{**terms(one), "number": self.numbers[id(one)]} for one in self.migrators]
        return {"folder": str(self.made().path), "plans": plans}

    def made(self) -> ReportFolder:
        """The folder of the reports."""
        if self.reports is None:
            self.reports = ReportFolder.temporary("codedag-counts-")
        return self.reports

    @staticmethod
    def arrive(ticket: dict[str, Any]) -> None:
        """Applies the plans in a spawned process; one that fails leaves the others."""
        _here.reports = ReportFolder(Path(ticket["folder"]))
        for plan in ticket["plans"]:
            attempt(_apply, plan)


_here = _Plans()


def join(migrator: Migrator) -> None:
    """From now on new processes come up with this migrator too."""
    _here.migrators.append(migrator)
    if id(migrator) not in _here.inherited:
        _here.next += 1
        _here.numbers[id(migrator)] = f"{os.getpid()}-{_here.next}"
    follow(_here)


def leave(migrator: Migrator) -> None:
    """From now on new processes come up without this migrator; what the others counted is taken in."""
    collect(migrator)
    attempt(_keep, migrator)
    _here.migrators = [one for one in _here.migrators if one is not migrator]
    _here.numbers.pop(id(migrator), None)
    _here.inherited.discard(id(migrator))
    if not _here.migrators:
        unfollow(_here)


def collect(migrator: Migrator) -> None:
    """Takes in what the processes counted that this one started."""
    number = _here.numbers.get(id(migrator))
    if _here.reports is None or number is None or id(migrator) in _here.inherited:
        return
    parts = {path.name: attempt(_read, path) for path in _here.reports.paths(f"{number}-")}
    read = [part for part in parts.values() if not isinstance(part, Failed)]
    migrator.elsewhere = summed([part.counts for part in read])
    migrator.missing = tuple(_missing(parts))


def _read(path: Path) -> _Left:
    return _DECODER.decode(path.read_bytes())


def _missing(parts: dict[str, _Left | Failed]) -> Iterator[str]:
    """What is not known of other processes, in words."""
    for name, part in parts.items():
        if isinstance(part, Failed):
            yield f"the counts of a process in {name} cannot be read: {part.reason}"
    silent = sum(isinstance(part, _Left) and not part.ended for part in parts.values())
    if silent:
        yield (
            f"{silent} of {len(parts)} processes are at work or were ended from outside: what they counted is missing, "
            "in the verdict too"
        )


def _keep(migrator: Migrator, *, ended: bool = True) -> None:
    """Leaves what this process counted, or that it has begun, for the one that applied the plan."""
    if _here.reports is None or id(migrator) not in _here.inherited:
        return
    content = msgspec.json.encode(_Left(migrator.counted(), ended=True) if ended else _Left())
    try:
        _here.reports.write(f"{_here.numbers[id(migrator)]}-{os.getpid()}", content)
    except CannotWrite:  # the folder was removed: the other process has ended
        return


def terms(migrator: Migrator) -> dict[str, Any]:
    """All that another process must know to come up with this migrator."""
    wanted = [[request.function, request.context, request.pu, request.variant] for request in migrator.requests.wanted]
    mode = migrator.mode
    return {
        "wanted": wanted,
        "mode": [mode.name, mode.first, mode.every],
        "allow": [one.value for one in migrator.allow],
        "demote": migrator.demote,
    }


def _apply(plan: dict[str, Any]) -> None:
    from codedag.migrate.placement.migrator import Migrator

    requests = Requests(tuple(Request(*request) for request in plan["wanted"]))
    allow = [Equivalence(one) for one in plan["allow"]]
    migrator = Migrator(requests, Mode(*plan["mode"]), allow, plan["demote"])
    _here.numbers[id(migrator)] = plan["number"]
    _here.inherited.add(id(migrator))
    migrator.passages.waits = True
    migrator.apply()
