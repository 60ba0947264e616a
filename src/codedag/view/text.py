"""A run as text: the hottest operations, the moves, the verdict."""

from __future__ import annotations

from codedag.ir import Graph, Op, Plan, Report

WIDTH = 34


def hottest(graph: Graph, most: int = 20) -> list[str]:
    """A table of the operations that took most time themselves."""
    working = [op for op in graph.ops if op.kind not in ("region", "source")]
    total = sum(op.self_seconds for op in working)
    if not working:
        return ["no operation that moves data was seen"]
    lines = [f"{'operation':{WIDTH}} {'calls':>8} {'self':>10} {'share':>6} {'out':>9}  where"]
    for op in sorted(working, key=lambda op: -op.self_seconds)[:most]:
        share = op.self_seconds / total if total else 0.0
        times = f"{op.count:8d} {time_text(op.self_seconds):>10} {share:6.1%}"
        lines.append(f"{_short(op):{WIDTH}} {times} {size_text(op.out_nbytes):>9}  {op.file}:{op.line}")
    left = len(working) - most
    return lines + ([f"... and {left} more"] if left > 0 else [])


def _short(op: Op) -> str:
    return op.name if len(op.name) <= WIDTH else "..." + op.name[-(WIDTH - 3) :]


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
