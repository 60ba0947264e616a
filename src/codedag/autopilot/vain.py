"""What a short program tried in vain is remembered for its next few runs, which do not try it again.

Observing, planning and checking cost about the same however short a program is.  Where a run found nothing that is
faster, the next ones of the same sources, arguments, versions and machine run as written.  After a few runs everything
is tried again, since data and machine may have changed; after twice as many if that was in vain, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from codedag.autopilot.proven import Store, machine, versions
from codedag.ir.errors import CannotWrite
from codedag.ir.fields import Natural
from codedag.ir.files import write_atomically
from codedag.ir.sha256 import sha256
from codedag.ir.verdict import Code

if TYPE_CHECKING:
    from codedag.autopilot.outcome import Outcome
    from codedag.autopilot.pilot import Pilot

LEAST, MOST = 1.0, 60.0  # seconds of a program: a shorter one shows nothing, a longer one can pay for trying again
RUNS, MOST_RUNS = 4, 32  # for which it is remembered: at first, and if it is in vain again and again
MOST_ENTRIES = 200


class Entry(msgspec.Struct, kw_only=True, frozen=True):
    """What one program tried in vain."""

    format: Literal["codedag/vain"] = "codedag/vain"
    version: Literal[1] = 1
    program: str
    arguments: list[str]
    machine: str
    versions: dict[str, str]
    sources: dict[str, str]  # SHA-256 by file
    seconds: float
    left: Natural  # runs for which it is still remembered
    runs: Natural = RUNS  # and for which it was
    nothing: bool = False  # nothing at all was faster
    keeps_freed: bool = False  # but freed memory was worth keeping, which needs no observing


@dataclass(slots=True)
class Vain:
    """The entry of one program in the cache; a folder that cannot be used costs only time."""

    store: Store

    @property
    def path(self) -> Path:
        """The file of the entry."""
        facts = "\0".join([self.store.path.stem, *self.store.target.args])
        name = sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.store.path.parent.parent / "vain" / f"{name}.json"

    def load(self) -> Entry | None:
        """What earlier runs tried in vain, if all that it depends on is as it was."""
        entry = self._read()
        return entry if entry is not None and entry.left and self._holds(entry) else None

    def _read(self) -> Entry | None:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Entry)
        except (OSError, msgspec.MsgspecError):
            return None

    def _holds(self, entry: Entry) -> bool:
        same = entry.program == self.store.program and entry.arguments == list(self.store.target.args)
        if not same or entry.machine != machine() or versions(entry.versions) != entry.versions:
            return False
        return all(_hash_of(file) == known for file, known in entry.sources.items())

    def again(self, entry: Entry) -> None:
        """Counts a run that began with what an entry says."""
        self._write(msgspec.structs.replace(entry, left=entry.left - 1))

    def keep(self, pilot: Pilot, outcome: Outcome, seconds: float, libraries: Collection[str]) -> None:
        """Keeps that nothing was faster in this run, if that is so and nothing was left open."""
        if not LEAST <= seconds <= MOST or is_open(pilot) or outcome.proven:
            self.path.unlink(missing_ok=True)
            return
        runs = self._runs()
        names = dict.fromkeys(["python", "codedag", "rewriter", *libraries], "")
        sources = {path: file.sha256 for path, file in pilot.program.files.items()}
        self._write(
            Entry(
                program=self.store.program, arguments=list(self.store.target.args), machine=machine(),
                versions=versions(names), sources=sources, seconds=seconds, left=runs, runs=runs, nothing=True,
                keeps_freed=bool(pilot.heap.notes()),
            )
        )  # fmt: skip

    def _runs(self) -> int:
        """For how many runs this is remembered: for twice as many as the last time, if it was so then."""
        before = self._read()
        if before is None or not before.nothing or not self._holds(before):
            return RUNS
        return min(2 * before.runs, MOST_RUNS)

    def _write(self, entry: Entry) -> None:
        try:
            write_atomically(self.path, msgspec.json.encode(entry))
            found = sorted(self.path.parent.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
            for path in found[:-MOST_ENTRIES]:
                path.unlink(missing_ok=True)
        except (CannotWrite, OSError):
            return  # the next run tries again


def is_open(pilot: Pilot) -> bool:
    """Whether something was still being found out when the program ended."""
    active = [a for a in pilot.applied if a.trial.active and not (a.trial.checked and a.trial.pairs)]
    undecided = [a for a in active if a.kind != "recall" or a.trial.calls]  # no call came again
    return bool(undecided or pilot.unplanned) or any(refused.code is Code.ENDED for refused in pilot.refused)


def _hash_of(file: str) -> str:
    try:
        return sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""
