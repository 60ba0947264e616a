"""`codedag profile`: what every operation of a run costs, as written and by every other way there is."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.backends.registry import Equivalence
    from codedag.ir import CostRow, CostTable, Op
    from codedag.profile.run import Profiled

_CLASSES = ("exact", "ulp", "level1")


@click.command("profile", short_help="Measure every operation of a run on every processing unit that can do it.")
@click.argument("run")
@click.option("--budget", default=120.0, metavar="SECONDS", type=click.FloatRange(0), help="Time to measure [120].")
@click.option("--cell", default=1.0, metavar="SECONDS", type=click.FloatRange(0), help="Time for one variant [1].")
@click.option(
    "--timeout", default=30.0, metavar="SECONDS", type=click.FloatRange(0.1), help="Give up a call after this [30]."
)
@click.option("--pus", metavar="NAMES", help="Only these processing units, with commas between them.")
@click.option(
    "--allow", metavar="CLASSES", default="", help="Also count results of these classes as usable: ulp, level1."
)
@click.option("--fresh", is_flag=True, help="Measure again what is known from an earlier run.")
@click.option("--together", is_flag=True, help="Also measure what the hottest operations cost each other side by side.")
@click.option("--top", default=15, metavar="N", help="Operations to list [15].")
@click.option("--json", "as_json", is_flag=True, help="Print costs.json and what was measured as JSON.")
@click.pass_context
def command(
    ctx: click.Context, run: str, budget: float, cell: float, timeout: float, pus: str | None, allow: str, fresh: bool,
    together: bool, top: int, as_json: bool,
) -> None:  # fmt: skip
    """Measure the operations of RUN on the inputs that were kept when it was traced; writes costs.json, machine.json.

    What was measured before is not measured again; a command that was killed goes on where it was.
    """
    from codedag.cli.progress import progress
    from codedag.profile.run import Settings, profile

    settings = Settings(budget, cell, timeout, _names(pus), _allowed(allow), fresh, together)
    with progress(ctx, "measuring", 1.0) as advance:
        profiled = profile(run, settings, advance)
    if as_json:
        tell(_json(profiled))
    else:
        tell(*_lines(profiled, top), *_together(profiled), f"next: codedag plan {quote(run)}")
    if profiled.interrupted:
        ctx.exit(130)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _allowed(text: str) -> tuple[Equivalence, ...]:
    from codedag.backends.registry import Equivalence

    for name in _names(text):
        if name not in _CLASSES:
            raise click.BadParameter(f"`{name}` is none of {', '.join(_CLASSES)}", param_hint="--allow")
    return tuple(Equivalence(name) for name in dict.fromkeys(("exact", *_names(text))))


def _json(profiled: Profiled) -> str:
    import msgspec

    from codedag.cli.paired import facts as paired

    peak = profiled.peak
    facts = {
        "run": str(profiled.run.path), "cells": profiled.cells, "measured": profiled.measured,
        "known": profiled.known, "notes": profiled.notes,
        "peak": None if peak is None else {"op": peak.op, "nbytes": peak.nbytes, "scratch_nbytes": peak.scratch_nbytes},
        "training_peak_nbytes": profiled.training_nbytes, "costs": profiled.costs, "machine": profiled.machine,
        "together": None if profiled.together is None else paired(profiled.together),
    }  # fmt: skip
    return msgspec.json.encode(facts).decode()


def _together(profiled: Profiled) -> list[str]:
    from codedag.cli.paired import lines

    return [] if profiled.together is None else lines(profiled.together)


def _lines(profiled: Profiled, top: int) -> list[str]:
    ops = {op.id: op for op in profiled.run.graph.ops}
    rows = sorted(profiled.costs.rows, key=lambda row: -ops[row.op].self_seconds)
    head = f"{'operation':<34} {'PU':<10} {'variant':<28} {'a call':>10} {'+-':>5} {'gain':>7}  bound by"
    written = {row.op: _original(row) for row in profiled.costs.rows if row.pu == "cpu"}
    shown = [_line(ops[row.op], row, written.get(row.op)) for row in rows[:top]]
    rest = [f"... and {len(rows) - top} more rows in costs.json"] if len(rows) > top else []
    return [head, *shown, *rest, *_summary(profiled, ops)]


def _line(op: Op, row: CostRow, written: float | None) -> str:
    name = f"{op.name} :{op.line}"
    if row.seconds is None:
        return f"{_cut(name, 34):<34} {row.pu:<10} {_cut(row.variant, 28):<28} {row.status}: {row.reason}"
    each = row.seconds / op.count
    spread = "" if row.low is None or row.high is None or not row.seconds else (row.high - row.low) / 2 / row.seconds
    bound = row.roofline.bound_by if row.roofline else (row.source or "")
    around = f"{spread:.0%}" if isinstance(spread, float) else ""
    return (
        f"{_cut(name, 34):<34} {row.pu:<10} {_cut(row.variant, 28):<28} {_time(each):>10} {around:>5} "
        f"{_gain(row, written):>7}  {bound}"
    )


def _gain(row: CostRow, written: float | None) -> str:
    if row.ties:
        return "tie"
    if row.variant == "original" or not written or not row.seconds:
        return ""
    return f"{written / row.seconds:.2f}x"


def _original(row: CostRow) -> float | None:
    """What the operation takes as written."""
    if row.variant == "original":
        return row.seconds
    return next((each.seconds for each in row.alternatives if each.variant == "original"), None)


def _summary(profiled: Profiled, ops: dict[int, Op]) -> list[str]:
    lines = [
        f"{profiled.cells} cells, {profiled.measured} measured now, {profiled.known} known before; "
        f"{len(profiled.costs.rows)} rows in {profiled.run.path}/costs.json"
    ]
    lines += _gained(profiled.costs)
    if profiled.peak is not None:
        peak = profiled.peak
        lines.append(
            f"an iteration needs at most {peak.nbytes / 1e6:.1f} MB, at {ops[peak.op].label}, "
            f"{peak.scratch_nbytes / 1e6:.1f} MB of them scratch"
        )
        lines.append(f"forward and back through all of it, as in training, {profiled.training_nbytes / 1e6:.1f} MB")
    return [*lines, *(f"note: {note}" for note in profiled.notes)]


def _gained(costs: CostTable) -> list[str]:
    """What the best variants would bring on the CPU alone, before anything is planned."""
    from codedag.ir.costs import written_seconds

    written = written_seconds(costs)
    best = sum(row.seconds or 0.0 for row in costs.rows if row.pu == "cpu" and row.status == "ok")
    if not best or written <= best:
        return []
    return [
        f"all operations as written take {_time(written)}, by their best variants {_time(best)} ({written / best:.2f}x)"
    ]


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"...{text[-(width - 3) :]}"
