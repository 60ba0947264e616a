"""`codedag check`: whether a run is slower than another by more than is allowed, for a CI service."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.view.run_diff import Measure, RunDiff

MEASURES = ("turn", "cpu", "wall", "recorded")
PARTS_NAMED = 5


@click.command("check", short_help="Fail if a run is slower than another one: for CI.")
@click.argument("run")
@click.option("--against", "base", required=True, metavar="BASE", help="The run to compare with.")
@click.option("--max-slower", default="10%", show_default=True, metavar="SHARE", help="How much slower is allowed.")
@click.option("--measure", type=click.Choice(MEASURES), help="The figure that judges; the first that both runs have.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(run: str, base: str, max_slower: str, measure: str | None, as_json: bool) -> int:
    """Fail if RUN is slower than BASE by more than --max-slower.

    What judges is the seconds of a turn (batch, item, request) where both runs have them, else the CPU seconds of the
    process, else the seconds on the clock. A run is too slow if its ratio is above what is allowed and the interval
    of the ratio, where there is one, lies above 1.

    Exit code: 0 if it is not too slow, 1 if it is, 2 on an error, also for runs of different programs.
    """
    from codedag.cli.diff import compared, facts

    allowed = 1 + share_of(max_slower)
    found = compared(base, run)
    chosen = _chosen(found, measure)
    is_slower = chosen.ratio > allowed and (chosen.low is None or chosen.low > 1)
    if as_json:
        tell(json.dumps({**facts(found), "measure": chosen.name, "allowed": allowed, "is_slower": is_slower}))
    else:
        tell(*_lines(found, chosen, allowed, is_slower))
    return int(is_slower)


def share_of(text: str) -> float:
    """A share from text such as 10% or 0.1; raises UsageError for anything else."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise click.UsageError(f"--max-slower {text}: not a share, such as 10% or 0.1")
    return share


def _chosen(found: RunDiff, name: str | None) -> Measure:
    if not found.same_program:
        raise click.UsageError(f"{found.notes[0]}: `codedag diff` shows both, a check needs two runs of one program.")
    for measure in found.measures:
        if name in (None, measure.name):
            return measure
    what = f"no {name} figure" if name else "no figure"
    has = f" (they have: {', '.join(m.name for m in found.measures)})" if found.measures else ""
    raise click.UsageError(f"{found.base} and {found.other} have {what} in common{has}.")


def _lines(found: RunDiff, measure: Measure, allowed: float, is_slower: bool) -> list[str]:
    from codedag.view.run_diff_text import ratio_text
    from codedag.view.text import time_text

    times = f"{time_text(measure.base_seconds)} -> {time_text(measure.other_seconds)}"
    word = "TOO SLOW" if is_slower else "ok"
    lines = [f"{word}: {ratio_text(measure)} the {measure.words} ({times}), {allowed:.2f}x is allowed"]
    if not is_slower and measure.ratio > allowed:
        lines.append("its interval holds 1, so this may be chance: a longer run would tell")
    worse = [part for part in found.parts if part.status in ("slower", "new")][: PARTS_NAMED if is_slower else 0]
    lines += [f"  {part.name} ({part.where}): +{time_text(part.delta_seconds)}" for part in worse]
    lines += [f"  no longer changed: {each}" for each in (found.changes_gone if is_slower else [])]
    lines += [f"note: {note}" for note in found.notes]
    return [*lines, f"next: codedag diff {quote(found.base)} {quote(found.other)}"]
