"""`codedag run`: the program, once, with less waiting."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from codedag.cli import BEGUN, ranks
from codedag.cli.options import (
    PROGRAM_SETTINGS,
    WITHOUT_C,
    conclude,
    has_block_characters,
    is_disabled,
    is_terminal,
    out_of_the_way,
    output_option,
    program_arguments,
    say,
    say_lines,
    target_of,
    words_width,
)
from codedag.instrument import launch
from codedag.instrument import sites as site_module
from codedag.instrument.python import uncollected

if TYPE_CHECKING:
    from codedag.autopilot.options import Options
    from codedag.autopilot.report.finished import Finished
    from codedag.instrument.launch import Target
    from codedag.ir import Plan, Report
    from codedag.migrate.placement.requests import Requests
    from codedag.trace.rundir import Keeper
    from codedag.view.summary import Line, Screen
#: What starts other programs rather than doing the work.
LAUNCHERS = (*ranks.TORCH, *ranks.ACCELERATE, "deepspeed")
WHAT_IF = "Change nothing; say what a device that is not here would bring: pu=cuda:0[,machine=FILE][,allow=ulp+level1]."
_INSIDE = "use torchrun --no-python ... codedag run SCRIPT"


@click.command(
    "run", context_settings=PROGRAM_SETTINGS, short_help="Run a program with less waiting, and the same results."
)
@click.option(
    "--plan", metavar="FILE", help="Apply a saved plan.json or migration_plan.json from the start instead of observing."
)
@click.option("--what-if", metavar="pu=NAME", help=WHAT_IF)
@click.option("--observe-only", is_flag=True, help="Observe and report, change nothing.")
@click.option("--fresh", is_flag=True, help="Ignore what earlier runs of this program have proven.")
@click.option(
    "--allow",
    metavar="CLASSES",
    help="Also use variants that round differently: ulp, level1 (one grey level).",
)
@click.option("--budget-ram", metavar="SIZE", help="Memory for what is kept between epochs, such as 2G.")
@click.option("--budget-disk", metavar="SIZE", help="Disk for arrays that memory has no room for; none unless given.")
@click.option("--no-samples", is_flag=True, help="Keep no inputs, on which `explain --patch` tries its code.")
@click.option("--max-overhead", metavar="SHARE", help="Share of the time that observing may cost, such as 2%.")
@output_option
@program_arguments
@click.pass_context
def command(
    ctx: click.Context, /, output: str | None, module: bool, arguments: tuple[str, ...], what_if: str | None,
    **asked: Any,
) -> object:  # fmt: skip
    """Run a program: observe its first batches, prove faster variants, switch to them while it runs.

    Its output, exit code and results stay its own.  A few lines on stderr say what was gained, how it was
    checked and what is slow; `codedag -v run` says everything.  What was proven is kept: the next run of the same
    program begins with it.

    The options can also be set in pyproject.toml, below [tool.codedag].
    """
    target = target_of(module, arguments)
    if is_disabled():
        return launch.run(target, lambda path, source: compile(source, path, "exec", dont_inherit=True)).leave
    if what_if is not None:
        from codedag.cli.what_if import record, wish

        if site_module.why_twin:
            say(ctx, WITHOUT_C)
        return record(ctx, target, output, wish(what_if), samples=not asked["no_samples"])
    if ranks.are_started_by(target):
        say(ctx, f"{target.name} starts its ranks as programs of their own: each of them runs under codedag run")
        return ranks.run(target, asked, output, bool((ctx.obj or {}).get("quiet"))).leave
    options = _options(asked)
    if is_terminal() and options.plan is None:
        options = replace(options, announce=partial(say, ctx))
    if site_module.why_twin:
        say(ctx, WITHOUT_C)
    finished = _run(ctx, target, options, output)
    conclude(ctx, _report, ctx, finished, options)
    return finished.ending.leave


def _run(ctx: click.Context, target: Target, options: Options, output: str | None) -> Finished:
    """Runs the program under the sampler, or, where everything has to be observed, with all its files rewritten."""
    new_keeper = partial(_keeper, target, output)
    if options.plan is None and not options.observe_only and not options.synchronous:
        with uncollected():
            from codedag.autopilot import sampled_run
        out_of_the_way()

        def report(finished: Finished) -> None:
            conclude(ctx, _report, ctx, finished, options)

        return sampled_run.run(target, new_keeper, options, asked=output is not None, report=report)
    with uncollected():
        # what is needed after the program is loaded before it: it may leave nothing to load from
        import codedag.view.summary  # noqa: F401
        from codedag.autopilot import session
    out_of_the_way()
    return session.run(target, new_keeper(), options)


def _keeper(target: Target, output: str | None) -> Keeper:
    from codedag.trace.rundir import Keeper

    keeper = Keeper("run", target, output)
    if Path(target.name).name in LAUNCHERS:
        keeper.notes.append(
            f"{target.name} starts its ranks as programs of their own, which are not observed: {_INSIDE}"
        )
    return keeper


def _options(asked: dict[str, Any]) -> Options:
    """What was asked on the command line, else in pyproject.toml; the first word wins."""
    from codedag.autopilot.options import Options
    from codedag.backends.registry import Equivalence
    from codedag.cli.settings import SETTINGS, settings

    words = {
        name.replace("_", "-"): value
        for name, value in asked.items()
        if value not in (None, False) and name != "no_samples"
    }
    chosen = settings(Path.cwd()) | {name: SETTINGS[name](value) for name, value in words.items()}
    plan, requests = _plan(chosen["plan"]) if "plan" in chosen else (None, None)
    found = Options(plan, requests, chosen.get("observe-only", False), chosen.get("fresh", False))
    allow = tuple(map(Equivalence, chosen.get("allow", ("exact",))))
    return replace(
        found, allow=allow, budget_nbytes=chosen.get("budget-ram"), disk_nbytes=chosen.get("budget-disk", 0),
        samples=not asked.get("no_samples"), max_overhead=chosen.get("max-overhead", found.max_overhead), begun=BEGUN,
        synchronous=os.environ.get("CODEDAG_SYNCHRONOUS", "") not in ("", "0"),
    )  # fmt: skip


def _plan(path: str) -> tuple[Plan, Requests]:
    from codedag.autopilot.moves.placement import read  # with all that library patches need

    return read(path)


def _report(ctx: click.Context, finished: Finished, options: Options) -> None:
    if finished.forked or finished.keeper is None:
        return
    if _is_silent(finished, finished.keeper, options) and not (ctx.obj or {}).get("verbose"):
        finished.keeper.drop()
        return
    if finished.report is None:
        say(ctx, f"the report could not be made: {finished.failure}; the program itself was not affected")
        return
    place = f"not written ({finished.keeper.broken})" if finished.keeper.broken else str(finished.keeper.path)
    finished.keeper.notes += _unobserved()
    if (rank := os.environ.get("RANK", "0")) != "0":  # every rank is a program of its own; one of them speaks for all
        say(ctx, f"rank {rank}: run directory: {place}")
        return
    if (ctx.obj or {}).get("verbose"):
        say(ctx, *_long_lines(finished.report, finished.keeper, place))
    else:
        say_lines(ctx, _lines(finished.report, finished.keeper, place))


def _unobserved() -> list[str]:
    """A note on worker processes that nobody followed: those of joblib's loky are started in a way of their own."""
    executors = sys.modules.get("joblib.externals.loky.reusable_executor")
    if executors is None or getattr(executors, "_executor", None) is None:
        return []
    return ["joblib's worker processes (loky) ran as written, unobserved"]


def _is_silent(finished: Finished, keeper: Keeper, options: Options) -> bool:
    """Whether nothing is said and no run directory is kept: after a mistake, and of programs under a second.

    Never where the user asked for a directory, a plan or to observe, or where a result differed.
    """
    from codedag.autopilot.sampled_run import SILENT_SECONDS

    report = finished.report
    is_asked = keeper.asked or options.plan is not None or options.observe_only
    if is_asked or report is None or report.verdict.mismatches:
        return False
    start = report.claim.start_seconds if report.claim is not None else 0.0
    return finished.ending.is_mistake or (report.optimised_seconds or 0.0) - start < SILENT_SECONDS


def _screen(keeper: Keeper) -> Screen:
    from codedag.view.summary import Screen

    return Screen(words_width(), not has_block_characters(), keeper.notes, keeper.home)


def _lines(report: Report, keeper: Keeper, place: str) -> list[Line]:
    """What is said at the end of a run: at most twelve lines."""
    from codedag.view.summary import end_lines

    page = f"page: {quote(place + '/report.html')}" if keeper.has_page else f"next: codedag view {quote(place)}"
    return end_lines(report, f"run directory: {place}" if keeper.broken else page, _screen(keeper))


def _long_lines(report: Report, keeper: Keeper, place: str) -> list[str]:
    """What is said with -v: everything."""
    from codedag.view.summary import every_line

    page = f"open {quote(place + '/report.html')} in a browser, or " if keeper.has_page else ""
    said = every_line(report, place, _screen(keeper))
    return [*said, *([] if keeper.broken else [f"next: {page}codedag view {quote(place)}"])]
