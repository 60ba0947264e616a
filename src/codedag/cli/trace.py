"""`codedag trace`: the dataflow of a program, with times and bytes."""

from __future__ import annotations

import click

from codedag.cli.options import PROGRAM_SETTINGS, is_disabled, program_arguments, say, target_of
from codedag.instrument import launch
from codedag.instrument import sites as site_module


@click.command("trace", context_settings=PROGRAM_SETTINGS)
@click.option("-o", "--output", metavar="RUN", help="Write the run to this directory.")
@program_arguments
@click.pass_context
def command(ctx: click.Context, output: str | None, module: bool, arguments: tuple[str, ...]) -> object:
    """Run a program and record its dataflow graph: operations, edges, times and bytes."""
    target = target_of(module, arguments)
    if is_disabled():
        return launch.run(target, lambda path, source: compile(source, path, "exec", dont_inherit=True)).leave
    from codedag.trace.rundir import Keeper
    from codedag.trace.session import trace

    if site_module.why_twin:
        say(ctx, f"note: the plain-Python recorder is in use: {site_module.why_twin}")
    keeper = Keeper("trace", target, output)
    traced = trace(target, keeper)
    if isinstance(traced, launch.Ending):
        return traced.leave
    from codedag.view.text import hottest

    say(ctx, *hottest(traced.graph, most=10), *keeper.notes)
    if keeper.broken:
        say(ctx, f"the run was not written ({keeper.broken})")
    else:
        say(ctx, f"run directory: {keeper.path}", f"next: codedag view {keeper.path}")
    return traced.ending.leave
