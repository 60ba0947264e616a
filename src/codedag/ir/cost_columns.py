"""costs.json as columns, read piece by piece: a million ops on four PUs are four million rows."""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from codedag.ir.columns import floats, ints
from codedag.ir.costs import Alternative, Beside, CostTable
from codedag.ir.fields import NBytes, OpId, Seconds, Status
from codedag.ir.graph_file import _read_table
from codedag.ir.reject import Unreadable, check_header, decode, reading
from codedag.ir.store import _refuse_odd
from codedag.ir.stream import JsonStream


class _Line(msgspec.Struct, gc=False):
    """One row as the file spells it; what the planner does not use is read only to be checked."""

    op: OpId
    pu: str
    variant: str
    status: Status
    seconds: Seconds | None = None
    low: Seconds | None = None
    high: Seconds | None = None
    reason: str = ""
    scratch_nbytes: NBytes = 0
    alternatives: list[Alternative] = msgspec.field(default_factory=list)


_LINES = msgspec.json.Decoder(list[_Line])
_PUS = msgspec.json.Decoder(list[str])
_BESIDE = msgspec.json.Decoder(list[Beside])


@dataclass(slots=True)
class CostColumns:
    """The rows of costs.json by field; `seconds` is infinite where the op cannot run or was not measured."""

    pus: list[str] = field(default_factory=list)
    op: array[int] = field(default_factory=ints)
    pu: array[int] = field(default_factory=lambda: array("i"))
    seconds: array[float] = field(default_factory=floats)
    scratch_nbytes: array[int] = field(default_factory=ints)
    variant: array[int] = field(default_factory=lambda: array("i"))
    variants: list[str] = field(default_factory=list)
    saved: float = 0.0  # seconds that the rows of `cpu` are below the program as written, by better variants there
    beside: list[Beside] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.op)

    @classmethod
    def of(cls, table: CostTable) -> CostColumns:
        """The columns of a table in memory."""
        columns = cls(list(table.pus), beside=table.beside or [])
        columns.add(table.rows, {name: at for at, name in enumerate(table.pus)})
        return columns

    def add(self, rows: Any, numbers: dict[str, int]) -> None:
        """Appends rows (anything with the fields of a cost row); raises Unreadable naming the first bad one."""
        done = len(self.op)
        self.op.extend([row.op for row in rows])
        try:
            self.pu.extend([numbers[row.pu] for row in rows])
        except KeyError as error:
            at = next(at for at, row in enumerate(rows) if row.pu not in numbers)
            raise Unreadable(f"`{rows[at].pu}` is not in pus", field=f"rows[{done + at}].pu") from error
        for at, row in enumerate(rows):
            if row.status == "ok" and row.seconds is None:
                raise Unreadable("status is `ok` but there are no seconds", field=f"rows[{done + at}]")
        self.seconds.extend([row.seconds if row.status == "ok" else inf for row in rows])
        self.scratch_nbytes.extend([row.scratch_nbytes for row in rows])
        self.variant.extend([self._code(row.variant) for row in rows])
        self.saved += sum(_saved(row) for row in rows if row.alternatives and row.pu == "cpu")

    def _code(self, variant: str) -> int:
        code = self._codes.get(variant)
        if code is None:
            code = self._codes[variant] = len(self.variants)
            self.variants.append(variant)
        return code


def _saved(row: Any) -> float:
    """Seconds that the best variant of a row saves over the original among its alternatives."""
    if row.status != "ok" or row.variant == "original":
        return 0.0
    originals = (each.seconds for each in row.alternatives if each.variant == "original" and each.status == "ok")
    return float(max((next(originals, None) or row.seconds) - row.seconds, 0.0))


def read_cost_columns(path: str | os.PathLike[str]) -> CostColumns:
    """The rows of a costs.json; raises BadFile naming the file, the field and what to do."""
    place = Path(path)
    with reading(place):
        _refuse_odd(place)
        with place.open("rb") as source:
            return _read(JsonStream(source))


def _read(stream: JsonStream) -> CostColumns:
    columns, seen = CostColumns(), set[str]()
    held: list[Any] = []  # rows that stand before `pus`
    for key in stream.fields():
        if key in seen and key in ("pus", "rows"):
            raise Unreadable("appears twice", field=key)
        seen.add(key)
        if key == "pus":
            columns.pus = decode(stream.value(), _PUS, key)
        elif key == "beside":
            columns.beside = decode(stream.value(), _BESIDE, key)
        elif key == "rows" and "pus" in seen:
            numbers = {name: at for at, name in enumerate(columns.pus)}
            _read_table(stream, key, _LINES, lambda rows, numbers=numbers: columns.add(rows, numbers))  # type: ignore[misc]
        elif key == "rows":
            _read_table(stream, key, _LINES, held.extend)
        else:
            check_header("costs", key, stream.value())
    for needed in ("format", "version", "pus", "rows"):
        if needed not in seen:
            raise Unreadable("is missing", field=needed)
    if held:
        columns.add(held, {name: at for at, name in enumerate(columns.pus)})
    return columns
