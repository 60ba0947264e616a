"""Measured cells of a staged model in appended lines of JSON (measurements.jsonl): a kill loses at most one line.

A line is a cell with its first calls, or further calls of a cell.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from codedag.ir import CannotWrite
from codedag.profile.figures import Batches
from codedag.stages.execution.verify import F32

FILE = "measurements.jsonl"
_KEPT = frozenset(("ok", "failed", "unsupported"))
_CALLS = {"key", "total_ms", "transfer_ms"}  # of a line with further calls of a cell


@dataclass(slots=True)
class Cell:
    """One block (or stage) on one PU at one size: every single call, or the reason why there is none."""

    sizes: dict[str, int]
    pu: str
    block: str  # "3" for a stage, "1-5" for a block
    key: str = ""  # of all that the figures depend on
    status: str = "ok"
    reason: str = ""
    ran_on: str = ""
    total_ms: list[float] = field(default_factory=list)
    transfer_ms: list[float] = field(default_factory=list)
    setup_ms: float = 0.0
    setup_call_ms: float = 0.0  # of the second call, before anything was timed
    peak_nbytes: int = 0
    variant: str = ""  # "" for float32 as given, "int8", ...
    again: bool = False  # it was not tried: the next profile does
    limit_seconds: float = 0.0  # that its process had for an answer, if it gave none or ended
    error: float | None = None  # largest difference to the reference by its largest value
    precision: str = F32  # that the PU computes floats in, as its runtime says

    @property
    def compute_ms(self) -> list[float]:
        """What each call took without bringing its inputs."""
        return [max(0.0, total - there) for total, there in zip(self.total_ms, self.transfer_ms, strict=True)]

    def take(self, total_ms: list[float], transfer_ms: list[float]) -> None:
        """Adds calls."""
        self.total_ms += total_ms
        self.transfer_ms += transfer_ms

    def batches(self) -> Batches:
        """Its calls, for comparing it with another cell that was measured in turn with it."""
        made = Batches()
        for value in self.compute_ms:
            made.add(value / 1e3, True, 0.0)
        return made


def key_of(*facts: object) -> str:
    """A digest of what a cell's figures depend on: program, sizes, PU, versions, settings."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:24]


class Cells:
    """The cells of one directory, the newest of each key."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE
        self._cells: dict[str, Cell] = {}
        for line in self._lines():
            self._take(line)

    def _lines(self) -> list[str]:
        try:
            return self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def _take(self, line: str) -> None:
        try:
            facts: dict[str, Any] = json.loads(line)
            if set(facts) == _CALLS:
                self._cells[facts["key"]].take(facts["total_ms"], facts["transfer_ms"])
                return
            cell = Cell(**facts)
        except (ValueError, TypeError, KeyError):  # the line that was being written when the process was killed
            return
        if cell.status in _KEPT:
            self._cells[cell.key] = cell

    def get(self, key: str, repeats: int, timeout_seconds: float = 0.0) -> Cell | None:
        """What was measured under this key with at least so many calls; a failure counts unless there is more time."""
        cell = self._cells.get(key)
        if cell is None or cell.again or (cell.limit_seconds and timeout_seconds > cell.limit_seconds):
            return None
        return cell if cell.status != "ok" or len(cell.total_ms) >= repeats else None

    def begun(self, key: str) -> Cell | None:
        """A cell that has calls, perhaps fewer than are wanted."""
        cell = self._cells.get(key)
        return cell if cell is not None and cell.status == "ok" else None

    def add(self, cell: Cell) -> None:
        """Keeps a cell."""
        self._cells[cell.key] = cell
        self._write(asdict(cell))

    def more(self, cell: Cell, total_ms: list[float], transfer_ms: list[float]) -> None:
        """Keeps further calls of a cell that is kept."""
        cell.take(total_ms, transfer_ms)
        self._write({"key": cell.key, "total_ms": total_ms, "transfer_ms": transfer_ms})

    def _write(self, facts: dict[str, Any]) -> None:
        """Appends one line, behind whatever a killed process left."""
        try:
            with self.path.open("ab+") as file:
                if file.tell() and not _ends_in_line(file):
                    file.write(b"\n")
                file.write(json.dumps(facts).encode() + b"\n")
        except OSError as error:
            why = error.strerror or str(error)
            raise CannotWrite(
                f"cannot write {self.path}: {why}; what was measured before is kept",
                hint="Make room or name another directory with -o, and run the command again: it goes on from here.",
            ) from error

    def forget(self, pu: str) -> None:
        """Leaves out what was measured on a PU, so that it is measured again."""
        self._cells = {key: cell for key, cell in self._cells.items() if cell.pu != pu}

    def all(self) -> list[Cell]:
        """Every cell, in the order in which they were measured."""
        return list(self._cells.values())


def _ends_in_line(file: Any) -> bool:
    file.seek(-1, 2)
    ends = bool(file.read(1) == b"\n")
    file.seek(0, 2)
    return ends
