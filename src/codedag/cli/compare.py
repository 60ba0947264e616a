"""`codedag compare`: a program plain against optimised, timed fairly, results compared."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

import click

from codedag.cli.options import PROGRAM_SETTINGS, target_of, tell

if TYPE_CHECKING:
    from codedag.experiment.comparison import Comparison, Subject
    from codedag.experiment.ratio import Ratio


@click.command(
    "compare", context_settings=PROGRAM_SETTINGS, short_help="Time a program plain against optimised; compare results."
)
@click.option("--rounds", type=click.IntRange(2), metavar="N", help="Rounds to time; as many as it takes unless given.")
@click.option("--budget", type=click.FloatRange(0), metavar="SECONDS", help="Begin no round after this long (but two).")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the order within rounds.")
@click.option("--files", multiple=True, metavar="PATTERN", help="Compare these files, which the program writes, too.")
@click.option("--value", "values", multiple=True, metavar="NAME", help="Compare this global variable at the end, too.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Longest time of one run.")
@click.option("--plan", "plan_file", metavar="FILE", help="The plan of the optimised runs; that of RUN unless given.")
@click.option("--allow", metavar="CLASSES", help="As in `codedag run`: ulp, level1; results may then differ by that.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.option("-m", "module", is_flag=True, help="Compare a module, as `python -m` runs it.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="RUN | SCRIPT [ARGS]...")
@click.pass_context
def command(
    ctx: click.Context, rounds: int | None, budget: float | None, seed: int, files: tuple[str, ...],
    values: tuple[str, ...], timeout: float | None, plan_file: str | None, allow: str | None, as_json: bool,
    module: bool, arguments: tuple[str, ...],
) -> int:  # fmt: skip
    """Run a program several times, plain and under `codedag run`, in fresh processes and in random order.

    Says how much faster it is, with an interval, and whether its output, exit code, batches, losses and weights are
    equal: bit for bit, unless --allow lets variants round differently. RUN is the directory of an earlier run: its
    program is compared, with its plan if it has one.

    Exit code: 0 if results are the same, 1 if they differ, 2 on an error, 3 if it is slower beyond noise.
    """
    from codedag.experiment.comparison import compare

    _check_names(values)
    subject = replace(_subject(module, arguments, plan_file), files=files, values=values, timeout=timeout)
    subject = replace(subject, allow=_allowed(allow, subject.cwd))
    with _Progress(quiet=as_json or ctx.obj["quiet"]) as progress:
        found = compare(subject, rounds=rounds, seed=seed, budget=budget, step=progress.step)
    tell(*([json.dumps(found.facts())] if as_json else _lines(found)))
    return found.exit_code


def _allowed(asked: str | None, cwd: Path) -> tuple[str, ...]:
    """The classes beside exact that the optimised runs may use: as asked, else as the project's settings say."""
    from codedag.cli.settings import classes, settings

    found = classes(asked) if asked is not None else settings(cwd).get("allow", ())
    return tuple(name for name in found if name != "exact")


def _check_names(values: tuple[str, ...]) -> None:
    for name in values:
        if not all(part.isidentifier() for part in name.split(".")):
            raise click.UsageError(f"--value {name}: not the name of a variable, such as loss or model.coef_")


def _subject(module: bool, arguments: tuple[str, ...], plan: str | None) -> Subject:
    from codedag.experiment.comparison import Subject
    from codedag.ir import load

    if plan is not None:
        load(plan, "plan")
    chosen = Path(plan).absolute() if plan else None
    if arguments and not module and (Path(arguments[0]) / "run.json").is_file():
        if arguments[1:]:
            words = join(arguments[1:])
            raise click.UsageError(f"{words}: a RUN has its own arguments; options of `compare` come before it.")
        return _of_run(Path(arguments[0]), chosen)
    target = target_of(module, arguments)
    argv = (*(("-m",) if module else ()), target.name, *target.args)
    return Subject(argv, Path.cwd(), chosen)


def _of_run(path: Path, plan: Path | None) -> Subject:
    """The program of an earlier run, with its plan if that changes anything."""
    from codedag.experiment.comparison import Subject
    from codedag.ir import BadFile, RunDirectory

    run = RunDirectory(path)
    cwd = Path(run.run.cwd)
    if not cwd.is_dir():
        raise BadFile(f"{path / 'run.json'}: cwd: there is no directory {cwd} any more", hint="Name the script itself.")
    if plan is None and run.has("plan") and run.plan.moves:
        plan = (path / "plan.json").absolute()
    return Subject(tuple(run.run.argv), cwd, plan)


def _lines(found: Comparison) -> list[str]:
    """The comparison as text: the verdict first."""
    from codedag.view.text import size_text

    kinds = {True: "equal", False: "DIFFERENT", None: "not comparable"}
    both = (found.plain, found.optimised)
    plain, optimised = (min(run.seconds for run in runs) for runs in both)
    peaks = [size_text(max(run.peak_nbytes for run in runs)) for runs in both]
    return [
        f"{join(found.subject.argv)}: {len(found.plain)} rounds, interleaved, order drawn with seed {found.seed}",
        f"time: {found.wall} ({_clearly(found.wall)}); best run {plain:.2f} s plain, {optimised:.2f} s optimised",
        f"CPU time: {found.cpu}; peak memory {peaks[0]} plain, {peaks[1]} optimised",
        f"results: {_verdict(found)}",
        *(f"  {each.what}: {kinds[each.equal]}{_counted(each.compared, each.detail)}" for each in found.same),
        *([f"the last optimised run's own estimate: {found.estimate}"] if found.estimate else []),
        *(f"changed: {change['where']} {change['what']}" for change in found.changes),
        *(f"note: {note}" for note in found.notes),
        f"next: {_next(found)}",
    ]


def _clearly(found: Ratio) -> str:
    return "unclear: more rounds would tell" if found.verdict == "unclear" else found.verdict


def _next(found: Comparison) -> str:
    program = join(found.subject.argv)
    return f"codedag run {program}" if found.is_same else f"codedag run -o RUN {program}, then codedag view RUN"


def _verdict(found: Comparison) -> str:
    if not found.is_same:
        return "DIFFERENT"
    if found.is_identical:
        return "identical in all that can be compared"
    return f"not bit-equal, but within what --allow {','.join(found.subject.allow)} lets differ"


def _counted(count: int, detail: str) -> str:
    parts = [*([str(count)] if count > 1 else []), *([detail] if detail else [])]
    return f" ({', '.join(parts)})" if parts else ""


class _Progress:
    """A bar on stderr that tells which run is under way and how many are left, at most."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("codedag: {task.description}"), BarColumn(), TimeElapsedColumn())
        is_seen = sys.stderr.isatty() and not quiet
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_seen)
        self._task = self._bar.add_task("starting", total=None)
        self._done = -1

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._bar.stop()

    def step(self, what: str, left: int) -> None:
        """Hears that a run begins, and how many are left with it."""
        self._done += 1
        self._bar.update(self._task, description=what, completed=self._done, total=self._done + left)
