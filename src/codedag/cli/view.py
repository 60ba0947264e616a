"""`codedag view`: a recorded run, shown again."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from codedag.ir import Graph, RunDirectory


# A picture of a million operations takes some seconds; before this nobody wonders.
PATIENCE_SECONDS = 2.0


@click.command("view", short_help="Show a run: hottest operations, changes, a picture.")
@click.argument("run")
@click.option("--most", default=20, show_default=True, help="How many operations to show.")
@click.option("--svg", metavar="FILE", help="Draw the dataflow graph to this file instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.pass_context
def command(ctx: click.Context, run: str, most: int, svg: str | None, as_json: bool) -> None:
    """Show a run: its hottest operations, what was changed, and the verdict.

    With --svg the dataflow graph is drawn: operations in frames of your functions, with bytes on the arrows and
    colours by time. Loops are rolled and small things folded, so that there are at most about 150 boxes.
    """
    from codedag.ir import RunDirectory, load

    found = load(run)
    if not isinstance(found, RunDirectory):
        raise click.UsageError(f"{run} is a file; name the run directory that holds it.")
    drawn = _draw(found, svg, quiet=as_json or ctx.obj["quiet"]) if svg else {}
    if as_json:
        click.echo(json.dumps({**_facts(found, most), **drawn}))
    elif svg:
        click.echo(f"picture: {svg} ({drawn['svg_boxes']} boxes)\nnext: open it in a browser, or codedag view {run}")
    else:
        _show(found, most)


def _show(found: RunDirectory, most: int) -> None:
    """The whole run as text."""
    from codedag.view import text

    info = found.run
    click.echo(f"{' '.join(info.argv)}  ({info.command}, {info.started}, {_status(info.status)})")
    graph = _graph(found)
    if graph is not None:
        _show_operations(graph, most, text.floor(info))
    else:
        click.echo("no graph: the program did not get to its end")
    for note in info.notes:
        click.echo(f"note: {note}")
    lines = []
    if found.has("report"):
        lines += ["", *text.report(found.report)]
    if found.has("plan") and found.plan.moves:
        plan = found.path / "plan.json"
        lines += ["", *text.moves(found.plan), "", f"next: codedag run --plan {plan} {' '.join(info.argv)}"]
    else:
        lines += ["", f"next: codedag run {' '.join(info.argv)}"]
    click.echo("\n".join(lines))


def _graph(found: RunDirectory) -> Graph | None:
    """The graph of the run; of one that was killed, what its processes had kept until then."""
    if found.has("graph"):
        return found.graph
    from codedag.trace.session import recovered

    graph = recovered(found.path)
    if graph is not None:
        click.echo("codedag: the run did not get to its end: this is what was recorded until shortly before", err=True)
    return graph


def _draw(found: RunDirectory, file: str, quiet: bool) -> dict[str, object]:
    """Writes the picture and returns the facts about it; says that it is at work if it takes long."""
    from codedag.ir import write_atomically
    from codedag.view.svg import drawing

    graph = _graph(found) or found.graph
    note = threading.Timer(PATIENCE_SECONDS, _still_drawing, (len(graph),))
    note.daemon = True
    if not quiet:
        note.start()
    try:
        made = drawing(graph, title=" ".join(Path(word).name for word in found.run.argv[:1]))
        write_atomically(Path(file), made.svg.encode())
    finally:
        note.cancel()
    return {"svg": file, "svg_boxes": made.boxes, "svg_notes": made.notes}


def _still_drawing(length: int) -> None:
    click.echo(f"codedag: drawing {length:,} operations ...", err=True)


def _show_operations(graph: Graph, most: int, floor_seconds: float) -> None:
    """The table of operations: drawn on a terminal, plain text elsewhere."""
    from codedag.view import text

    if not sys.stdout.isatty() or not len(graph):
        click.echo("\n".join(text.hottest(graph, most, floor_seconds)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = text.hot_ops(graph, most, floor_seconds)
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [at for at, heading in enumerate(astuple(text.HEADINGS)) if heading != "peak" or text.has_peaks(lines)]
    for at in shown:
        heading = astuple(text.HEADINGS)[at]
        left = heading in ("operation", "where")
        table.add_column(heading, justify="left" if left else "right", no_wrap=not left, overflow="fold")
    for op in lines:
        table.add_row(*(Text(astuple(op)[at]) for at in shown))
    console = Console()
    console.print(table)
    for line in text.below(text.ranking(graph, most, floor_seconds), floor_seconds):
        console.print(line, highlight=False, markup=False)


def _status(status: str) -> str:
    return "still running, or killed" if status == "running" else status


def _facts(found: RunDirectory, most: int) -> dict[str, object]:
    import msgspec

    from codedag.view import text

    facts: dict[str, object] = {"run": msgspec.to_builtins(found.run)}
    graph = _graph(found)
    if graph is not None:
        floor = text.floor(found.run)
        ranked, ops = text.ranking(graph, most, floor), graph.ops
        facts["hottest"] = [
            {**msgspec.to_builtins(ops[row]), "share": ops[row].self_seconds / ranked.total_seconds, "which": which}
            for row, which in zip(ranked.rows, ranked.which, strict=True)
        ]
        facts["not_ranked"] = {"count": ranked.too_fast, "faster_than_seconds": floor}
    if found.has("report"):
        facts["report"] = msgspec.to_builtins(found.report)
    if found.has("plan"):
        facts["moves"] = msgspec.to_builtins(found.plan.moves)
    return facts
