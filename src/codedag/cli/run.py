"""`codedag run`: the program, once, with less waiting."""

from __future__ import annotations

from shlex import quote

import click

from codedag.cli.options import (
    PROGRAM_SETTINGS,
    conclude,
    is_disabled,
    output_option,
    program_arguments,
    say,
    target_of,
)
from codedag.instrument import launch
from codedag.instrument import sites as site_module


@click.command(
    "run", context_settings=PROGRAM_SETTINGS, short_help="Run a program with less waiting, and the same results."
)
@click.option(
    "--plan", "plan_file", metavar="FILE", help="Apply a saved plan.json from the start instead of observing."
)
@click.option("--observe-only", is_flag=True, help="Observe and report, change nothing.")
@output_option
@program_arguments
@click.pass_context
def command(
    ctx: click.Context,
    plan_file: str | None,
    observe_only: bool,
    output: str | None,
    module: bool,
    arguments: tuple[str, ...],
) -> object:
    """Run a program: observe its first batches, prove faster variants, switch to them while it runs.

    Its output, exit code and results stay its own.  Five lines on stderr say what was gained and how it was checked.
    """
    target = target_of(module, arguments)
    if is_disabled():
        return launch.run(target, lambda path, source: compile(source, path, "exec", dont_inherit=True)).leave
    # what is needed after the program is loaded before it: it may leave nothing to load from
    import codedag.view.summary  # noqa: F401
    from codedag.autopilot import session
    from codedag.ir import Plan, load
    from codedag.trace.rundir import Keeper

    plan = load(plan_file, "plan") if plan_file else None
    assert plan is None or isinstance(plan, Plan)
    if site_module.why_twin:
        say(ctx, f"note: the plain-Python recorder is in use: {site_module.why_twin}")
    keeper = Keeper("run", target, output)
    finished = session.run(target, keeper, observe_only=observe_only, plan=plan)
    conclude(ctx, _report, ctx, finished)
    return finished.ending.leave


def _report(ctx: click.Context, finished: object) -> None:
    from codedag.autopilot.session import Finished
    from codedag.view.summary import five_lines

    assert isinstance(finished, Finished)
    if finished.forked:
        return
    if finished.outcome is None:
        say(ctx, f"the report could not be made: {finished.failure}; the program itself was not affected")
        return
    place = f"not written ({finished.keeper.broken})" if finished.keeper.broken else str(finished.keeper.path)
    outcome = finished.outcome
    say(ctx, *five_lines(outcome.report, outcome.since_switch(), place), *finished.keeper.notes)
    if not finished.keeper.broken:
        say(ctx, f"next: open {quote(place + '/report.html')} in a browser, or codedag view {quote(place)}")
