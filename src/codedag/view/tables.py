"""The operations of a run as a table: one row each, with what it cost and what the plan says of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from codedag.ir import CostTable, Graph, Plan
from codedag.ir.errors import MissingPackage

COLUMNS = (
    "op", "name", "kind", "file", "line", "context", "count", "self_seconds", "total_seconds", "share", "out_nbytes",
    "peak_nbytes", "effects", "best_pu", "best_variant", "best_seconds", "planned_pu", "planned_variant",
)  # fmt: skip

ROWS_AT_ONCE = 10_000


def rows(graph: Graph, costs: CostTable | None = None, plan: Plan | None = None) -> Iterator[tuple[Any, ...]]:
    """The rows in the order of the graph; None where nothing was measured or planned."""
    best: dict[int, tuple[str, str, float | None]] = {}
    for row in costs.rows if costs else ():
        known = best.get(row.op)
        if row.status == "ok" and row.seconds is not None and (known is None or row.seconds < (known[2] or 0.0)):
            best[row.op] = (row.pu, row.variant, row.seconds)
    placed = {each.op: (each.pu, each.variant) for each in (plan.placement if plan else ())}
    whole = sum(graph.op_columns.self_seconds) or 1.0
    for op in graph.ops:
        yield (
            op.id, op.name, op.kind, op.file, op.line, op.context, op.count, op.self_seconds, op.total_seconds,
            op.self_seconds / whole, op.out_nbytes, op.peak_nbytes, op.effects, *best.get(op.id, (None, None, None)),
            *placed.get(op.id, (None, None)),
        )  # fmt: skip


def csv_table(graph: Graph, costs: CostTable | None = None, plan: Plan | None = None) -> Iterator[bytes]:
    """The table as CSV in pieces, with a line of names; text is UTF-8."""
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n")
    write.writerow(COLUMNS)
    for number, row in enumerate(rows(graph, costs, plan), 1):
        write.writerow(row)
        if number % ROWS_AT_ONCE == 0:
            yield _emptied(text)
    yield _emptied(text)


def _emptied(text: io.StringIO) -> bytes:
    written = text.getvalue().encode(errors="backslashreplace")
    text.seek(0)
    text.truncate()
    return written


def check_parquet() -> None:
    """Raises if Parquet files cannot be written here."""
    if find_spec("pyarrow") is None:
        raise MissingPackage(
            "Parquet files are written by pyarrow, which is not installed",
            hint="`pip install 'codedag[parquet]'` brings it; --csv needs nothing.",
        )


def parquet_table(graph: Graph, costs: CostTable | None = None, plan: Plan | None = None) -> bytes:
    """The table as a Parquet file; raises MissingPackage if pyarrow is not there."""
    check_parquet()
    import pyarrow
    import pyarrow.parquet

    columns = list(zip(*rows(graph, costs, plan), strict=True)) or [()] * len(COLUMNS)
    table = pyarrow.table(
        [_column(pyarrow, name, values) for name, values in zip(COLUMNS, columns, strict=True)], COLUMNS
    )
    written = io.BytesIO()
    pyarrow.parquet.write_table(table, written)
    return written.getvalue()


_INTEGERS = ("op", "line", "count", "out_nbytes", "peak_nbytes")
_FLOATS = ("self_seconds", "total_seconds", "share", "best_seconds")


def _column(pyarrow: Any, name: str, values: tuple[Any, ...]) -> Any:
    if name in _INTEGERS or name in _FLOATS:
        return pyarrow.array(values, pyarrow.int64() if name in _INTEGERS else pyarrow.float64())
    safe = (value if value is None else value.encode(errors="backslashreplace").decode() for value in values)
    return pyarrow.array(list(safe), pyarrow.string())
