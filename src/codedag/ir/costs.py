"""What every operation costs on every processing unit, as measured here."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from codedag.ir.fields import NBytes, OpId, Seconds, Status


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """Another variant of the same op on the same PU, which is not the best there."""

    variant: str
    seconds: Seconds | None = None
    low: Seconds | None = None
    high: Seconds | None = None
    status: Status
    reason: str = ""
    scratch_nbytes: NBytes = 0

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

    def __post_init__(self) -> None:
        _need_seconds(self.status, self.seconds)


class CostTable(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """costs.json: one row per (op, pu); a pair without a row was not measured."""

    format: Literal["codedag/costs"] = "codedag/costs"
    version: Literal[1] = 1
    pus: list[str]
    rows: list[CostRow]

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


def _need_seconds(status: str, seconds: float | None) -> None:
    if status == "ok" and seconds is None:
        raise ValueError("status is `ok` but there are no seconds")
