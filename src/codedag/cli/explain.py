"""`codedag explain`: why one operation of a plan is where it is, and what would change that."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.ir import RunDirectory
    from codedag.plan.explain import Elsewhere, Explanation


@click.command("explain", short_help="Say why an operation runs where the plan puts it.")
@click.argument("run")
@click.argument("op", required=False)
@click.option("--patch", "as_patch", is_flag=True, help="Show what was changed as code to adopt without CodeDAG.")
@click.option("-o", "--output", metavar="FILE", help="With --patch: write one patch of all changes, for `git apply`.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(run: str, op: str | None, as_patch: bool, output: str | None, as_json: bool) -> None:
    """Say why operation OP of RUN is where its plan puts it; OP is a name as `codedag view` shows it, or an id.

    Of a hot place of `codedag run` it says what was done there, or why not. Shows what it costs on every PU, its
    copies, what the plan would take with only this operation moved, the runner-up, and what would change the decision.
    With --patch, and without OP, shows the changes of RUN as code, each of which was tried beside the original first.
    """
    from codedag.ir import BadGraph, RunDirectory, load
    from codedag.plan.explain import Explainer, find_op

    directory = RunDirectory(run)
    if not directory.path.is_dir():
        load(directory.path)  # says what is wrong with it
    if as_patch:
        from codedag.cli.patch import show

        show(directory, as_json, output)
        return
    if op is None:
        raise click.UsageError("Name an operation (as `codedag view` shows it, or its id), or ask for --patch.")
    if not as_json and (told := _hot(directory, op)):
        tell(*told)
    try:
        number = find_op(directory.graph, op)
    except BadGraph:
        if as_json or not told:
            raise
        return
    found = Explainer(directory.graph, directory.costs, directory.machine, directory.plan).explain(number)
    if as_json:
        import msgspec

        tell(json.dumps(msgspec.to_builtins(found)))
    else:
        tell(*_lines(found), f"next: codedag plan {quote(run)}, after new measurements")


def _hot(run: RunDirectory, text: str) -> list[str]:
    """What the sampler saw of the hot places that the text names: what was done there, or why not."""
    from codedag.view.places import places, told

    if text.isdigit() or not run.has("report"):
        return []
    name, _, at = text.partition("@")
    return [
        line
        for place in places(run.report)
        if place.is_named(name) and (not at or place.where.endswith(at))
        for line in told(place)
    ]


def _lines(found: Explanation) -> list[str]:
    lines = [
        f"{found.label}: {found.chosen} in a plan of {found.makespan:.6g} s",
        f"why: {found.why}",
        *(f"  {_option(one, found)}" for one in found.options),
    ]
    for copy in found.transfers:
        what = "its value" if copy.op == found.op else f"its input from op {copy.op}"
        lines.append(f"  copies {what} {copy.src} -> {copy.dst}: {copy.end - copy.start:.3g} s")
    if found.runner_up:
        lines.append(f"runner-up: {found.runner_up}")
    return [*lines, f"what would change it: {found.change}"]


def _option(one: Elsewhere, found: Explanation) -> str:
    if one.seconds is None:
        return f"{one.pu}: {one.why_not}"
    spread = f" ({one.low:.3g} to {one.high:.3g})" if one.low is not None and one.high is not None else ""
    if one.makespan is None:
        return f"{one.pu}/{one.variant}: {one.seconds:.3g} s{spread}; {one.why_not}"
    others = f"; other variants: {', '.join(one.variants)}" if one.variants else ""
    return f"{one.pu}/{one.variant}: {one.seconds:.3g} s{spread}; the plan would take {one.makespan:.6g} s{others}"
