"""`codedag trace`: the dataflow of a program, with times and bytes."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import (
    PROGRAM_SETTINGS,
    WITHOUT_C,
    F,
    conclude,
    is_disabled,
    out_of_the_way,
    output_option,
    program_arguments,
    say,
    target_of,
)
from codedag.instrument import launch
from codedag.instrument import sites as site_module
from codedag.instrument.python import uncollected

if TYPE_CHECKING:
    from codedag.trace.rundir import Keeper
    from codedag.trace.session import Traced


def _several(flag: str, name: str, metavar: str, text: str) -> Callable[[F], F]:
    return click.option(flag, name, multiple=True, metavar=metavar, help=f"{text} May be given several times.")


@click.command(
    "trace", context_settings=PROGRAM_SETTINGS, short_help="Run a program and record its dataflow, times and bytes."
)
@output_option
@_several("--drill", "drill", "PACKAGE", "Look into this installed package too.")
@_several("--include", "include", "MODULE", "Look only into modules of this name or pattern.")
@_several("--exclude", "exclude", "MODULE", "Do not look into modules of this name or pattern.")
@_several("--function", "function", "NAME", "Look only into functions of this name or pattern.")
@_several("--no-function", "no_function", "NAME", "Do not look into functions of this name or pattern.")
@click.option(
    "--max-depth", type=click.IntRange(1), metavar="N", help="Calls inside calls to look into; all unless given."
)
@click.option("--memory", is_flag=True, help="Measure the peak bytes of each operation; its times are then too long.")
@click.option("--no-samples", is_flag=True, help="Keep no inputs of operations for `codedag profile`.")
@program_arguments
@click.pass_context
def command(
    ctx: click.Context, output: str | None, drill: tuple[str, ...], include: tuple[str, ...], exclude: tuple[str, ...],
    function: tuple[str, ...], no_function: tuple[str, ...], max_depth: int | None, memory: bool,
    no_samples: bool, module: bool, arguments: tuple[str, ...],
) -> object:  # fmt: skip
    """Run a program and record its dataflow graph: operations, edges, times and bytes.

    Worker processes are recorded too. The run directory can be shown again with `codedag view`.
    """
    target = target_of(module, arguments)
    if is_disabled():
        return launch.run(target, lambda path, source: compile(source, path, "exec", dont_inherit=True)).leave
    with uncollected():
        # what is needed after the program is loaded before it: it may leave nothing to load from
        import codedag.view.text  # noqa: F401
        from codedag.backends.known_graph import with_effects
        from codedag.instrument.program import Program
        from codedag.instrument.selection import FilterConfig
        from codedag.trace.rundir import Keeper
        from codedag.trace.session import trace
    out_of_the_way()
    if site_module.why_twin:
        say(ctx, WITHOUT_C)
    keeper = Keeper("trace", target, output)
    program = Program([target.root()], drill, FilterConfig(include, exclude, function, no_function))
    depth, samples = max_depth or 0, not no_samples
    traced = trace(target, keeper, program=program, max_depth=depth, memory=memory, samples=samples, known=with_effects)
    conclude(ctx, _report, ctx, keeper, traced)
    return traced.ending.leave


def _report(ctx: click.Context, keeper: Keeper, traced: Traced) -> None:
    from codedag.view.text import floor, hottest

    if traced.forked:
        return
    table = [] if traced.graph is None else hottest(traced.graph, 10, floor(traced))
    say(ctx, *table, *keeper.notes)
    if broken := traced.failure or keeper.broken:
        say(ctx, f"the run could not be written: {broken}; the program itself was not affected")
    else:
        say(ctx, f"run directory: {keeper.path}", f"next: codedag view {quote(str(keeper.path))}")
