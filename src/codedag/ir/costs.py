"""What every operation costs on every processing unit, as measured here."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from codedag.ir.fields import Factor, Natural, NBytes, OpId, Seconds, Status

Source = Literal["measured", "traced", "predicted"]
Bound = Literal["compute", "memory", "overhead"]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one call was measured to take, in a process of its own; all figures are per call."""

    best_seconds: Seconds
    median_seconds: Seconds
    low_seconds: Seconds
    high_seconds: Seconds
    rounds: Natural  # batches of calls, taken in turn with those of the other variants
    clean: Natural  # batches during which the process was never put aside for another
    page_faults: float = 0.0
    peak_nbytes: NBytes = 0  # the most that one call allocated, its result included


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """What one call does against what the PU can do: its work, the bytes it must move, and what bounds it."""

    work_flop: float
    moved_nbytes: NBytes
    intensity: float  # operations per byte
    bound_by: Bound
    floor_seconds: Seconds  # the least that the measured peaks allow
    share_of_peak: float  # the floor by the measured time


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """Another variant of the same op on the same PU, which is not the best there."""

    variant: str
    seconds: Seconds | None = None
    low: Seconds | None = None
    high: Seconds | None = None
    status: Status
    reason: str = ""
    scratch_nbytes: NBytes = 0
    source: Source | UnsetType = UNSET
    equivalence: str | UnsetType = UNSET
    buffers: Literal["fresh", "reused"] | UnsetType = UNSET
    per_call: Measured | UnsetType = UNSET
    ties: list[str] | UnsetType = UNSET
    roofline: Roofline | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need_seconds(self.status, self.seconds)


class CostRow(msgspec.Struct, frozen=True, kw_only=True):
    """The best variant of one op on one PU: seconds (a sum over count) with an interval, or why not."""

    op: OpId
    pu: str
    variant: str
    seconds: Seconds | None = None
    low: Seconds | None = None
    high: Seconds | None = None
    status: Status
    reason: str = ""
    scratch_nbytes: NBytes = 0
    alternatives: list[Alternative] = msgspec.field(default_factory=list)
    traced_seconds: Seconds | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    equivalence: str | UnsetType = UNSET
    buffers: Literal["fresh", "reused"] | UnsetType = UNSET
    per_call: Measured | UnsetType = UNSET
    ties: list[str] | UnsetType = UNSET
    roofline: Roofline | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need_seconds(self.status, self.seconds)


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of one op takes while another one runs in a second thread, by what it takes alone."""

    op: OpId
    beside: OpId
    slowdown: Factor
    low: Factor
    high: Factor


class CostTable(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """costs.json: one row per (op, pu); a pair without a row was not measured."""

    format: Literal["codedag/costs"] = "codedag/costs"
    version: Literal[1] = 1
    pus: list[str]
    rows: list[CostRow]
    beside: list[Beside] | UnsetType = UNSET  # pairs of ops that were measured together

    def __post_init__(self) -> None:
        known, seen = set(self.pus), set()
        for at, row in enumerate(self.rows):
            if row.pu not in known:
                raise ValueError(f"rows[{at}].pu: `{row.pu}` is not in pus")
            if (row.op, row.pu) in seen:
                raise ValueError(f"rows[{at}]: a second row for op {row.op} on `{row.pu}`")
            seen.add((row.op, row.pu))

    @cached_property
    def _by_pair(self) -> dict[tuple[int, str], CostRow]:
        return {(row.op, row.pu): row for row in self.rows}

    def row(self, op: int, pu: str) -> CostRow | None:
        """The row of this op on this PU, or None if there is none."""
        return self._by_pair.get((op, pu))


def written_seconds(costs: CostTable) -> float:
    """What the program takes as written, where everything was measured: the originals on `cpu`, of all operations.

    A row holds the best variant of its PU; where that is another one, the original is among its alternatives.
    """
    total = 0.0
    for row in costs.rows:
        if row.pu == "cpu" and row.status == "ok":
            others = (each.seconds for each in row.alternatives if each.variant == "original" and each.status == "ok")
            total += (row.seconds if row.variant == "original" else next(others, row.seconds)) or 0.0
    return total


def _need_seconds(status: str, seconds: float | None) -> None:
    if status == "ok" and seconds is None:
        raise ValueError("status is `ok` but there are no seconds")
