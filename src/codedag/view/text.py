"""A run as text: the hottest operations, the moves, the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from codedag.ir import Graph, Op, Plan, Report

WIDTH = 34


@dataclass(frozen=True, slots=True)
class HotOp:
    """One line of the table of operations, as text."""

    name: str
    calls: str
    own: str
    share: str
    out: str
    where: str


HEADINGS = HotOp("operation", "calls", "self", "share", "out", "where")


def hot_ops(graph: Graph, most: int) -> list[HotOp]:
    """The operations that took most time themselves, hottest first."""
    working = [op for op in graph.ops if op.kind not in ("region", "source")]
    total = sum(op.self_seconds for op in working) or 1.0
    return [_line(op, total) for op in sorted(working, key=lambda op: -op.self_seconds)[:most]]


def _line(op: Op, total: float) -> HotOp:
    share, out = f"{op.self_seconds / total:.1%}", size_text(op.out_nbytes)
    return HotOp(op.name, str(op.count), time_text(op.self_seconds), share, out, f"{op.file}:{op.line}")


def hottest(graph: Graph, most: int = 20) -> list[str]:
    """The table of the hottest operations as plain text."""
    found = hot_ops(graph, most)
    if not found:
        return ["no operation that moves data was seen"]
    lines = []
    for op in (HEADINGS, *found):
        name = op.name if len(op.name) <= WIDTH else "..." + op.name[-(WIDTH - 3) :]
        lines.append(f"{name:{WIDTH}} {op.calls:>8} {op.own:>10} {op.share:>6} {op.out:>9}  {op.where}")
    left = sum(op.kind not in ("region", "source") for op in graph.ops) - most
    return lines + ([f"... and {left} more"] if left > 0 else [])


def moves(plan: Plan) -> list[str]:
    """The moves of a plan, one line each."""
    lines = []
    for move in plan.moves:
        chain = " > ".join(name.rpartition(".")[2] for name in move.chain)
        lines.append(f"{move.kind} {move.file}:{move.line}-{move.end_line} {move.function}: {chain} -> {move.variant}")
    return lines


def report(found: Report) -> list[str]:
    """The whole report, a line per fact."""
    lines = []
    if found.gain is not None:
        interval = f"[{found.gain_low:.2f} .. {found.gain_high:.2f}]"
        lines.append(f"estimated gain {found.gain:.2f}x {interval} over {found.optimised_seconds:.1f} s")
    word = "identical" if found.verdict.identical else "DIFFERENT"
    lines.append(
        f"results {word}: {found.verdict.checked} checked, {found.verdict.mismatches} differed; {found.verdict.how}"
    )
    lines += [f"changed  {c.where}  {c.what}  ({c.reason})" for c in found.changes]
    lines += [f"declined {d.where}  {d.what}: {d.reason}" for d in found.declined]
    return lines


def time_text(seconds: float) -> str:
    """Seconds with a unit that reads well."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.1f} {unit}"
    return "0 s"


def size_text(nbytes: int) -> str:
    """Bytes with a unit that reads well."""
    value = float(nbytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return str(nbytes)
