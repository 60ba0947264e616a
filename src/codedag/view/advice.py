"""What passes over the graph have found, as text."""

from __future__ import annotations

from collections.abc import Iterable

from codedag.ir import Graph
from codedag.ir.findings import ChainBytes, Finding
from codedag.view.text import size_text, time_text

MOST = 5  # findings that are shown
MOST_CHAINS, LEAST_NBYTES = 3, 1_000_000  # chains that are shown, and what they move in all calls without need


def advice(graph: Graph, found: list[Finding], critical_seconds: float, floor_seconds: float = 0.0) -> list[str]:
    """What could be saved, a line each; what is faster than the recorder can measure is left out."""
    seen = [one for one in found if one.kind != "in place" and _is_measured(graph, one, floor_seconds)]
    fresh = [one for one in found if one.kind == "in place" and _is_measured(graph, one, floor_seconds)]
    total = _total(graph)
    lines = []
    if seen:
        saved = sum(one.seconds for one in seen)
        many = "1 operation" if len(seen) == 1 else f"{len(seen)} operations"
        lines.append(f"to save by hand: {time_text(saved)} of {time_text(total)} in {many}")
        lines += [f"  {_words(graph, one)}" for one in seen[:MOST]]
        lines += [f"  and {len(seen) - MOST} more (--json)"] if len(seen) > MOST else []
    lines += [f"  {_words(graph, one)}" for one in fresh[:MOST]]
    if total and critical_seconds:
        share = critical_seconds / total
        lines.append(f"longest chain within an iteration: {time_text(critical_seconds)}, {share:.0%} of all operations")
    return lines


def lines_of(places: Iterable[str]) -> set[str]:
    """Each line of places such as `train.py:12` and `train.py:12-15`, as `file:line`."""
    found = set()
    for place in places:
        file, _, lines = place.rpartition(":")
        first, _, last = lines.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found |= {f"{file}:{line}" for line in range(int(first), int(last or first) + 1)}
    return found


def _is_measured(graph: Graph, one: Finding, floor_seconds: float) -> bool:
    op = graph.op(one.op)
    return op.self_seconds >= floor_seconds * op.count


def _total(graph: Graph) -> float:
    columns = graph.op_columns
    return sum(own for own, kind in zip(columns.self_seconds, columns.kind, strict=True) if kind != "region")


def _words(graph: Graph, one: Finding) -> str:
    op = graph.op(one.op)
    what = f"{op.name} at {op.where}"
    if one.kind == "unused":
        return f"{what}: nothing reads its result ({time_text(one.seconds)})"
    if one.kind == "twice":
        return f"{what} computes again what line {graph.op(one.other).line} has computed ({time_text(one.seconds)})"
    if one.kind == "constant":
        return f"{what} gives the same in each of {op.count} calls ({time_text(one.seconds)})"
    where = graph.op(one.other).line
    return f"{what} could be written over the result of line {where} ({size_text(one.nbytes)} less allocated)"


def chains(graph: Graph, found: list[ChainBytes]) -> list[str]:
    """The chains that move most bytes in vain, a line each."""
    large = [one for one in found if _in_vain(graph, one) >= LEAST_NBYTES]
    return [f"  {_walk(graph, one)}" for one in large[:MOST_CHAINS]]


def _in_vain(graph: Graph, one: ChainBytes) -> int:
    return (one.apart_nbytes - one.together_nbytes) * graph.op(one.ops[0]).count


def _walk(graph: Graph, one: ChainBytes) -> str:
    lines = sorted({graph.op(number).line for number in one.ops})
    where = f"{graph.op(one.ops[0]).file}:{lines[0]}" + (f"-{lines[-1]}" if len(lines) > 1 else "")
    gain = "" if one.gain is None else f", predicted {one.gain:.1f}x"
    moved = f"{size_text(one.apart_nbytes)} in each call, {size_text(one.together_nbytes)} in one walk"
    return f"{len(one.ops)} operations in a row at {where} move {moved}{gain}"
