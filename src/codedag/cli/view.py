"""`codedag view`: a recorded run, shown again."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import threading
from dataclasses import astuple, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.exports import check_exports, export, export_options
from codedag.cli.options import has_block_characters, tell
from codedag.cli.options import shown as shown_text
from codedag.cli.runs import ended, newest
from codedag.ir.errors import BadFile, CannotWrite

if TYPE_CHECKING:
    from codedag.ir import Events, Graph, Heat, Report, RunDirectory, RunInfo


# A picture of a million operations takes some seconds; before this nobody wonders.
PATIENCE_SECONDS = 2.0
MOST_ADVISED = 50_000  # operations; beyond, looking for what could be saved takes longer than one waits
FIGURES_WIDTH = 60  # of the table of operations: everything but the names, with places of some length


@click.command("view", short_help="Show a run: hottest operations, changes, a picture.")
@click.argument("run", required=False)
@click.option("--most", type=click.IntRange(1), default=20, show_default=True, help="How many operations to show.")
@click.option("--svg", metavar="FILE", help="Draw the dataflow graph to this file instead.")
@click.option("--html", metavar="FILE", help="Write the report to this file: everything in one offline page.")
@click.option("--serve", is_flag=True, help="Serve the report to this machine's browser, live while the run goes on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port for --serve; a free one unless given.")
@export_options
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    run: str | None,
    most: int,
    svg: str | None,
    html: str | None,
    serve: bool,
    port: int,
    as_json: bool,
    **exports: str | None,
) -> None:
    """Show a run: its hottest operations, what was changed, and the verdict; the newest that is kept unless named.

    With --html the report is written: summary, graph, timeline, operations, plan, log and memory, in one file that
    needs no network.

    With --svg the dataflow graph is drawn: operations in frames of your functions, with bytes on the arrows and
    colours by time. Loops are rolled and small things folded, so that there are at most about 150 boxes.
    """
    from codedag.ir import RunDirectory, load

    run = run or newest()
    found = load(run)
    if not isinstance(found, RunDirectory):
        raise click.UsageError(f"{run} is a file; name the run directory that holds it.")
    for file in filter(None, (svg, html, *exports.values())):
        _check_place(file)
    check_exports(exports)
    if serve:
        _serve(found, port)
        return
    quiet = as_json or ctx.obj["quiet"]
    drawn = _draw(found, svg, quiet) if svg else {}
    drawn |= _write_report(found, html, quiet) if html else {}
    exported = export(found, lambda: _graph(found) or found.graph, exports, quiet)
    if as_json:
        tell(json.dumps({**_facts(found, most), **drawn, **exported}))
    elif drawn or exported:
        tell(
            *_written(drawn, exported), f"next: {'open it in a browser, or ' if drawn else ''}codedag view {quote(run)}"
        )
    else:
        _show(found, most)


def _written(drawn: dict[str, object], exported: dict[str, str]) -> list[str]:
    """The files that were written, a line each."""
    lines = [f"report: {drawn['html']} ({drawn['html_nbytes']:,} bytes)"] if "html" in drawn else []
    lines += [f"picture: {drawn['svg']} ({drawn['svg_boxes']} boxes)"] if "svg" in drawn else []
    return lines + [f"{kind}: {file}" for kind, file in exported.items()]


def _check_place(file: str) -> None:
    """Raises if the picture cannot be put there, before it is drawn; directories are not made."""
    folder = Path(file).absolute().parent
    if not folder.is_dir():
        raise CannotWrite(f"cannot write {file}: there is no directory {folder}", hint="Make it, or name another file.")


def _show(found: RunDirectory, most: int) -> None:
    """The whole run as text."""
    from codedag.view import text

    info = found.run
    tell(f"{shlex.join(info.argv)}  ({info.command}, {info.started}, {_status(info)})")
    report = found.report if found.has("report") else None
    width = shutil.get_terminal_size().columns
    if report is not None:
        tell("", *_wrapped(text.report(report, width), width))
        slow = _slow(report, report.heat, width) if report.heat is not None else []
        tell(*_wrapped(["", *slow] if slow else [], width), "")
    graph = _graph(found)
    if graph is not None:
        tell(
            *(
                ["recorded operations (share of their own time):"]
                if report is not None and report.heat is not None
                else []
            )
        )
        _show_operations(graph, most, text.floor(info))
        tell(*_covered(found, graph), *_advised(found, graph))
    else:
        tell(f"no graph: {_why_no_graph(info)}")
    tell(*(f"note: {note}" for note in info.notes))
    if found.has("plan") and (planned := text.moves(found.plan) or text.elsewhere(found.plan)):
        tell("", *planned)
    page = found.path / "report.html"
    tell("", *([f"report: {page}"] if page.is_file() else []), f"next: {_next(found)}")


def _slow(report: Report, seen: Heat, width: int) -> list[str]:
    """What is slow: hot places, the parts of a DataLoader and of pools, hot functions."""
    from codedag.view import heat, loader, places, pools

    functions = heat.lines(seen, width, not has_block_characters())
    return [*places.lines(report, width), *loader.lines(seen), *pools.lines(seen), *functions]


def _wrapped(lines: list[str], width: int) -> list[str]:
    """Lines that a terminal of this width has room for; elsewhere a fact stays one line, for other programs."""
    if not _is_terminal():
        return lines
    from textwrap import wrap

    return [part for line in lines for part in wrap(line, width, subsequent_indent="    ", drop_whitespace=False)]


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _timed(found: RunDirectory) -> tuple[Events, int] | None:
    """The timeline of the run and the number of its workers; None where there is none that can be read."""
    try:
        return (found.events, found.report.workers if found.has("report") else 0) if found.has("events") else None
    except BadFile:
        return None  # the rest can be shown all the same


def _covered(found: RunDirectory, graph: Graph) -> list[str]:
    from codedag.view import text

    timed = _timed(found)
    words = text.covered(graph, timed[0], found.run.command, timed[1]) if timed else ""
    return [words] if words else []


def _advised(found: RunDirectory, graph: Graph) -> list[str]:
    """What of the work could be saved, as far as the graph and the source show."""
    from codedag.api.advice import advice_of, chains_of
    from codedag.plan.passes import critical_path
    from codedag.view import text
    from codedag.view.advice import advice, chains, lines_of

    if len(graph) > MOST_ADVISED:
        return [f"more than {MOST_ADVISED:,} operations: what could be saved was not looked for"]
    done = lines_of(change.where for change in found.report.changes) if found.has("report") else set()
    left = [one for one in advice_of(found, graph) if graph.op(one.op).where not in done]
    rows = [one for one in chains_of(found, graph) if graph.op(one.ops[0]).where not in done]
    return [*advice(graph, left, critical_path(graph).seconds, text.floor(found.run)), *chains(graph, rows)]


def _next(found: RunDirectory) -> str:
    """The command that one would give next: a trace that was cut short is made again."""
    from codedag.view import text

    program = shlex.join(found.run.argv)
    if found.run.command.startswith("stages"):
        return f"codedag stages {'run' if found.has('plan') else 'plan'} {quote(str(found.path))}"
    if found.has("plan") and (found.plan.moves or text.elsewhere(found.plan)):
        return f"codedag run --plan {quote(str(found.path / 'plan.json'))} {program}"
    if found.run.command == "trace" and (found.run.status == "running" or not found.has("graph")):
        return f"codedag trace {program}"
    return f"codedag run {program}"


def _why_no_graph(info: RunInfo) -> str:
    if info.status == "running":
        return "the program still runs, was killed, or the run could not be written when it ended"
    return "graph.json could not be written when the program ended, or was removed since"


def _graph(found: RunDirectory) -> Graph | None:
    """The graph of the run; of one that was killed, what its processes had kept until then."""
    if found.has("graph"):
        return found.graph
    from codedag.trace.session import recovered

    graph = recovered(found.path)
    if graph is not None:
        why = (
            "the run did not get to its end, or could not be written there"
            if found.run.status == "running"
            else "the graph was not written"
        )
        click.echo(f"codedag: {why}: this is what was recorded until shortly before", err=True)
    return graph


def _draw(found: RunDirectory, file: str, quiet: bool) -> dict[str, object]:
    """Writes the picture and returns the facts about it; says that it is at work if it takes long."""
    from codedag.ir import write_atomically
    from codedag.view.svg import drawing

    graph = _graph(found)
    graph = found.graph if graph is None else graph
    note = threading.Timer(PATIENCE_SECONDS, _still_drawing, (len(graph),))
    note.daemon = True
    if not quiet:
        note.start()
    try:
        made = drawing(graph, title=Path(found.run.script or found.run.argv[0]).name)
        write_atomically(Path(file), made.svg.encode())
    finally:
        note.cancel()
    return {"svg": file, "svg_boxes": made.boxes, "svg_notes": made.notes}


def _write_report(found: RunDirectory, file: str, quiet: bool) -> dict[str, object]:
    """Writes the report and returns the facts about it; a run without a graph has a report all the same."""
    from codedag.view.html.page import write_page

    recovered = None if found.has("graph") else _graph(found)
    note = threading.Timer(PATIENCE_SECONDS, lambda: click.echo("codedag: writing the report ...", err=True))
    note.daemon = True
    if not quiet:
        note.start()
    try:
        graph = recovered if recovered is not None else _graph(found) if found.has("graph") else None
        lines = _advised(found, graph) if graph is not None else []
        advised = list(dict.fromkeys(line.strip() for line in lines if line.startswith("  ") and "--json" not in line))
        return {"html": file, "html_nbytes": write_page(found, Path(file), recovered, advised)}
    finally:
        note.cancel()


def _serve(found: RunDirectory, port: int) -> None:
    """Serves the report until it is interrupted, on what the run leaves of the processors."""
    from codedag.trace.session import recovered
    from codedag.view.serve import Server

    if hasattr(os, "nice"):
        os.nice(19)
    with Server(found.path, port, recovered) as server:
        tell(f"report: {server.address}", "Ctrl+C ends it")
        server.serve()


def _still_drawing(length: int) -> None:
    click.echo(f"codedag: drawing {length:,} operations ...", err=True)


def _show_operations(graph: Graph, most: int, floor_seconds: float) -> None:
    """The table of operations: drawn on a terminal, plain text elsewhere."""
    from codedag.view import text

    if not _is_terminal() or not len(graph):
        tell(*text.hottest(graph, most, floor_seconds))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = text.hot_ops(graph, most, floor_seconds)
    console = Console()
    names = fitting([op.name for op in lines], console.width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [at for at, heading in enumerate(astuple(text.HEADINGS)) if heading != "peak" or text.has_peaks(lines)]
    for at in shown:
        heading = astuple(text.HEADINGS)[at]
        left = heading in ("operation", "where")
        table.add_column(heading, justify="left" if left else "right", no_wrap=not left, overflow="fold")
    for name, op in zip(names, lines, strict=True):
        cells = astuple(replace(op, name=name))
        table.add_row(*(Text(shown_text(cells[at])) for at in shown))
    console.print(table)
    for line in text.below(text.ranking(graph, most, floor_seconds), floor_seconds):
        console.print(line, highlight=False, markup=False)


def fitting(names: list[str], width: int) -> list[str]:
    """The names of operations as a terminal of this width has room for: whole, or short, all of them alike."""
    from codedag.view.labels import short_name

    fits = max(map(len, names), default=0) <= width - FIGURES_WIDTH
    return names if fits else [short_name(name) for name in names]


def _status(info: RunInfo) -> str:
    return "still running, or killed" if info.status == "running" else ended(info)


def _saved(found: RunDirectory, graph: Graph) -> dict[str, object]:
    """What the passes found, what is left of the graph without it, and its longest chain."""
    import msgspec

    from codedag.api.advice import advice_of, chains_of
    from codedag.plan.passes import critical_path, without

    if len(graph) > MOST_ADVISED:
        return {"advice": None}
    advice = advice_of(found, graph)
    left = without(graph, advice)
    return {
        "advice": msgspec.to_builtins(advice),
        "advised": {"ops": len(graph), "ops_left": len(left), "seconds": sum(one.seconds for one in advice)},
        "chains": msgspec.to_builtins(chains_of(found, graph)),
        "critical_path": {"ops": (path := critical_path(graph)).ops, "seconds": path.seconds},
    }


def _facts(found: RunDirectory, most: int) -> dict[str, object]:
    import msgspec

    from codedag.view import text

    facts: dict[str, object] = {"run": msgspec.to_builtins(found.run)}
    graph = _graph(found)
    if graph is None:
        facts["no_graph"] = _why_no_graph(found.run)
    else:
        floor = text.floor(found.run)
        ranked, ops = text.ranking(graph, most, floor), graph.ops
        facts["hottest"] = [
            {**msgspec.to_builtins(ops[row]), "share": ops[row].self_seconds / ranked.total_seconds, "which": which}
            for row, which in zip(ranked.rows, ranked.which, strict=True)
        ]
        timed = _timed(found)
        facts["coverage"] = text.coverage(graph, *timed) if timed else None
        facts |= _saved(found, graph)
        facts["not_ranked"] = {"count": ranked.too_fast, "faster_than_seconds": floor, "shown": ranked.doubtful}
    if found.has("report"):
        facts["report"] = msgspec.to_builtins(found.report)
    if found.has("plan"):
        facts["moves"] = msgspec.to_builtins(found.plan.moves)
    return facts
