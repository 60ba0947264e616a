"""`codedag tune`: find a fast schedule for a product, a named operator or a function of numpy arrays."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.tune.report import TuningReport
    from codedag.tune.task import Task

SEARCHES = ("gradient", "evolution", "random")


@click.command("tune", short_help="Find a fast kernel for a product, a named operator or a function.")
@click.argument("what")
@click.option("--shape", metavar="N,N,...", help="Sizes of a named operator (matmul: rows, inner, columns).")
@click.option("--size", "sizes", metavar="AXIS=N,...", help="Sizes of the axes of an index text.")
@click.option("--like", metavar="ARRAYS", help='Arrays like a function\'s own, such as "f4[300,1000],f4[1000]".')
@click.option("--dtype", default="f4", show_default=True, help="Type of the elements (names and texts).")
@click.option("--measurements", type=click.IntRange(0), default=64, show_default=True, help="Most points to measure.")
@click.option("--budget", type=click.FloatRange(0), metavar="SECONDS", help="Most seconds to search.")
@click.option("--search", type=click.Choice(SEARCHES), default="gradient", show_default=True, help="How to search.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the search.")
@click.option("--allow", type=click.Choice(["ulp"]), multiple=True, help="Allow results that differ by rounding.")
@click.option("--show", type=click.Choice(["c", "steps"]), help="Also print the C text or the loop program.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(
    what: str, shape: str | None, sizes: str | None, like: str | None, dtype: str, measurements: int,
    budget: float | None, search: str, seed: int, allow: tuple[str, ...], show: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Find a fast schedule for WHAT and say how fast it is beside numpy.

    WHAT is a name (matmul, softmax, layernorm, normalise, standardise, decibel), an index text such as
    "n i k, n k j -> n i j", or FILE.py:FUNCTION. Candidates are compiled, checked against numpy and timed in another
    process; what was measured is kept for later searches.
    """
    from codedag.tune.declined import CannotTune
    from codedag.tune.report import tune

    with contextlib.redirect_stdout(sys.stderr), _task(what, shape, sizes, like, dtype, allow) as task:
        try:  # what a tuned function prints is not what this command prints
            report = tune(task, search, seed, measurements, budget)
        except KeyboardInterrupt:
            click.echo(f"codedag: {_interrupted(task)}", err=True)
            raise click.exceptions.Abort from None
        facts = report.facts()
        shown = _shown(report, show)
    if as_json:
        tell(json.dumps({**facts, **({"shown": shown} if show else {})}))
    elif not report.failed:
        tell(*report.lines(), *shown.splitlines(), "next: docs/tuning.md says how to use the kernel from Python")
    if report.failed:
        raise CannotTune(report.failed)


def _task(
    what: str, shape: str | None, sizes: str | None, like: str | None, dtype: str, allow: tuple[str, ...]
) -> Task:
    from codedag.tune.program.load_function import load_function
    from codedag.tune.program.operators import OPERATORS
    from codedag.tune.task import Task

    if "->" not in what and ":" in what:
        _unused(f"{what} is a function, whose arrays --like names", {"--shape": shape, "--size": sizes})
        return Task.of(load_function(what), like=like, allow=allow)
    if "->" in what:
        _unused(f"{what!r} is an index text, whose sizes --size names", {"--shape": shape, "--like": like})
    elif what in OPERATORS:
        _unused(f"{what} is a name, whose sizes --shape names", {"--size": sizes, "--like": like})
    return Task.of(
        what, sizes=_sizes(sizes), dtype=dtype, allow=allow, shape=None if shape is None else _numbers("--shape", shape)
    )


def _unused(why: str, options: dict[str, str | None]) -> None:
    for option, value in options.items():
        if value is not None:
            raise click.UsageError(f"{option} does not fit: {why}.")


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"Invalid value for '{option}': {text!r} is no list of whole numbers.") from None


def _sizes(text: str | None) -> dict[str, int]:
    found = {}
    for part in text.split(",") if text else ():
        name, equals, number = part.partition("=")
        if not equals or not number.strip().lstrip("-").isdigit():
            raise click.UsageError(f"Invalid value for '--size': {part!r} is not AXIS=NUMBER.")
        if name.strip() in found:
            raise click.UsageError(f"Invalid value for '--size': axis {name.strip()} has two sizes.")
        found[name.strip()] = int(number)
    return found


def _interrupted(task: Task) -> str:
    """What is left of a search that was interrupted."""
    from codedag.tune.schedule.space import point_text

    ran = [(one.seconds, point_text(one.point)) for one in task.measured if one.seconds is not None]
    if not ran:
        return "interrupted before anything was measured"
    seconds, text = min(ran)
    return f"interrupted; {len(ran)} measurements are kept, the best so far is {text} ({seconds * 1e6:.1f} us)"


def _shown(report: TuningReport, show: str | None) -> str:
    """The text that was asked for."""
    if show == "steps":
        return str(report.task)
    if show == "c" and report.best is not None:
        return report.task.family.emitted(report.best).source
    return ""
