"""Report of one worker process: what it did with each change, what it observed, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from codedag.autopilot.knowledge import Proven
from codedag.instrument.program import Program
from codedag.ir.fields import Natural, Seconds
from codedag.ir.files import write_atomically
from codedag.migrate.trial import FIRST, Trial
from codedag.trace.records import Records

PAIRS_MAX = 100  # timings that one process reports per change
CHECKED_CALLS_MIN = FIRST - 2  # checked calls without a difference after which others may begin with a change


class Share(msgspec.Struct, kw_only=True):
    """What one process did with one change: its trial as plain data."""

    move: Proven
    calls: Natural = 0
    checked: Natural = 0
    mismatches: Natural = 0
    unverified: Natural = 0
    active: bool = True
    reason: str = ""
    declined: dict[str, Natural] = {}
    pairs: list[tuple[Seconds, Seconds]] = []

    @property
    def is_proven(self) -> bool:
        """Whether this process has seen enough of the change to recommend it."""
        return self.active and self.checked >= CHECKED_CALLS_MIN and not self.mismatches


class Refusal(msgspec.Struct, frozen=True):
    """A change that one process considered and did not make."""

    what: str
    where: str
    reason: str


class WorkerReport(msgspec.Struct, kw_only=True):
    """What one worker process has done so far."""

    format: Literal["codedag/worker"] = "codedag/worker"
    version: Literal[1] = 1
    process: Natural
    parent: Natural
    started: float  # seconds since the epoch
    seconds: Seconds = 0.0
    shares: list[Share] = []
    records: Records | None = None  # what it observed
    spans: list[tuple[str, str, Seconds]] = []  # file, function, and how long it was observed
    settled: list[tuple[str, str]] = []  # functions of which nothing more is to be learned
    refused: list[Refusal] = []
    kernels: list[tuple[Natural, Natural]] = []  # bytes per element and channels of the kernels that it uses
    engines: list[str] = []
    capped: bool = False  # cv2 had one thread
    failure: str = ""  # why this process did nothing
    ended: bool = False  # it came to its end: nothing is missing

    def write(self, folder: Path) -> None:
        """Replaces the file of this process."""
        write_atomically(folder / f"{self.process}.json", msgspec.json.encode(self), parents=False)


def move_of(applied: Any, program: Program) -> Proven:
    """The change as plain data."""
    return Proven(
        kind=applied.kind, file=applied.path, sha256=program.files[applied.path].sha256, function=applied.owner,
        sites=list(applied.sites), chain=list(applied.names), variant=applied.variant,
        equivalence=applied.equivalence,
    )  # fmt: skip


def share_of(applied: Any, program: Program) -> Share:
    """What this process did with a change so far."""
    trial: Trial = applied.trial
    return Share(
        move=move_of(applied, program), calls=trial.calls, checked=trial.checked, mismatches=trial.mismatches,
        unverified=trial.unverified,
        active=trial.active, reason=trial.reason, declined=dict(trial.declined.most_common(10)),
        pairs=thinned(trial.pairs, PAIRS_MAX),
    )  # fmt: skip


def thinned(pairs: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most so many of the timings, evenly chosen; the first one, which pays for warming up, stays first."""
    pairs = list(pairs)
    return pairs if len(pairs) <= most else [pairs[number * len(pairs) // most] for number in range(most)]


def read(paths: Iterable[Path]) -> tuple[list[WorkerReport], list[str]]:
    """The reports in these files, and which could not be read and why."""
    found: list[WorkerReport] = []
    bad: list[str] = []
    for path in paths:
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=WorkerReport))
        except (OSError, msgspec.MsgspecError) as error:
            bad.append(f"the report of a worker in {path.name} cannot be read: {error}")
    return found, bad


def join(trial: Trial, shares: Iterable[Share]) -> Trial:
    """One trial with what it and others have seen of the same change."""
    every = list(shares)
    joined = Trial(trial.what)
    joined.calls = trial.calls + sum(s.calls for s in every)
    joined.checked = trial.checked + sum(s.checked for s in every)
    joined.mismatches = trial.mismatches + sum(s.mismatches for s in every)
    joined.unverified = trial.unverified + sum(s.unverified for s in every)
    joined.pairs = [*trial.pairs, *(pair for s in every for pair in s.pairs[1:] or s.pairs)]
    joined.declined.update(trial.declined)
    for share in every:
        joined.declined.update(share.declined)
    stopped = [share for share in every if not share.active]
    proven = [share for share in every if share.is_proven]
    better = len(proven) > len(stopped) or (trial.active and trial.checked > 0) if stopped else trial.active
    joined.active = better and not joined.mismatches
    reasons = [trial.reason, *(share.reason for share in stopped)]
    joined.reason = "" if joined.active else next((reason for reason in reasons if reason), "")
    return joined
