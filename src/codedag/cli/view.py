"""`codedag view`: a recorded run, shown again."""

from __future__ import annotations

import json
import sys
from dataclasses import astuple
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from codedag.ir import Graph


@click.command("view")
@click.argument("run")
@click.option("--most", default=20, show_default=True, help="How many operations to show.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(run: str, most: int, as_json: bool) -> None:
    """Show a run: its hottest operations, what was changed, and the verdict."""
    from codedag.ir import RunDirectory, load
    from codedag.view import text

    found = load(run)
    if not isinstance(found, RunDirectory):
        raise click.UsageError(f"{run} is a file; name the run directory that holds it.")
    if as_json:
        click.echo(json.dumps(_facts(found, most)))
        return
    info = found.run
    click.echo(f"{' '.join(info.argv)}  ({info.command}, {info.started}, {_status(info.status)})")
    if found.has("graph"):
        _show_operations(found.graph, most)
    else:
        click.echo("no graph: the program did not get to its end")
    lines = []
    if found.has("report"):
        lines += ["", *text.report(found.report)]
    if found.has("plan") and found.plan.moves:
        lines += [
            "",
            *text.moves(found.plan),
            "",
            f"next: codedag run --plan {found.path / 'plan.json'} {' '.join(info.argv)}",
        ]
    else:
        lines += ["", f"next: codedag run {' '.join(info.argv)}"]
    click.echo("\n".join(lines))


def _show_operations(graph: Graph, most: int) -> None:
    """The table of operations: drawn on a terminal, plain text elsewhere."""
    from codedag.view import text

    if not sys.stdout.isatty() or not len(graph):
        click.echo("\n".join(text.hottest(graph, most)))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in astuple(text.HEADINGS):
        table.add_column(
            heading, justify="left" if heading in ("operation", "where") else "right", no_wrap=heading != "operation"
        )
    for op in text.hot_ops(graph, most):
        table.add_row(*astuple(op))
    Console().print(table)


def _status(status: str) -> str:
    return "still running, or killed" if status == "running" else status


def _facts(found: object, most: int) -> dict[str, object]:
    import msgspec

    from codedag.ir import RunDirectory

    assert isinstance(found, RunDirectory)
    facts: dict[str, object] = {"run": msgspec.to_builtins(found.run)}
    if found.has("graph"):
        hot = sorted(
            (op for op in found.graph.ops if op.kind not in ("region", "source")),
            key=lambda op: -op.self_seconds,
        )
        facts["hottest"] = [msgspec.to_builtins(op) for op in hot[:most]]
    if found.has("report"):
        facts["report"] = msgspec.to_builtins(found.report)
    if found.has("plan"):
        facts["moves"] = msgspec.to_builtins(found.plan.moves)
    return facts
