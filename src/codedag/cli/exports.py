"""What `codedag view` writes for other tools: trace events, tables, Graphviz text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codedag.cli.options import F
from codedag.ir.errors import BadFile

if TYPE_CHECKING:
    from codedag.ir import Graph, RunDirectory

# Before this nobody wonders what is going on; a million operations take longer.
PATIENCE_SECONDS = 2.0

_TEXTS = {
    "perfetto": "Write what happened when as trace events, for ui.perfetto.dev.",
    "speedscope": "Write where time went as stacks, for speedscope.app and other flame graphs.",
    "csv": "Write the operations as a table.",
    "parquet": "Write the operations as a Parquet table (needs pyarrow).",
    "dot": "Write the dataflow graph as Graphviz text.",
}


def export_options(function: F) -> F:
    """Adds an option for each kind of file to a command."""
    for name, text in reversed(_TEXTS.items()):
        function = click.option(f"--{name}", metavar="FILE", help=text)(function)
    return function


def check_exports(asked: dict[str, str | None]) -> None:
    """Raises if one of the files cannot be made here, before any is written."""
    if asked.get("parquet") is not None:
        from codedag.view.tables import check_parquet

        check_parquet()


def export(
    found: RunDirectory, graph: Callable[[], Graph], asked: dict[str, str | None], quiet: bool = False
) -> dict[str, str]:
    """Writes the files that were asked for; returns their places by kind."""
    from codedag.ir import write_atomically

    wanted = {name: file for name, file in asked.items() if file is not None}
    for name, file in wanted.items():
        with _patience(f"writing {file} ...", quiet):
            write_atomically(Path(file), _EXPORTS[name](found, graph()), parents=False)
    return wanted


@contextmanager
def _patience(words: str, quiet: bool) -> Iterator[None]:
    """Says what is going on if it takes long."""
    note = threading.Timer(PATIENCE_SECONDS, lambda: click.echo(f"codedag: {words}", err=True))
    note.daemon = True
    if not quiet:
        note.start()
    try:
        yield
    finally:
        note.cancel()


def _perfetto(found: RunDirectory, graph: Graph) -> Iterable[bytes]:
    from codedag.view.perfetto import trace_events

    events = found.events if found.has("events") else None
    plan = found.plan if found.has("plan") else None
    if events is None and not (plan and plan.schedule):
        raise BadFile(
            f"{found.path}: this run has neither events nor a schedule, so there is no time line",
            hint="`codedag trace -o RUN SCRIPT` records events.",
        )
    return trace_events(graph, events, plan)


def _speedscope(found: RunDirectory, graph: Graph) -> bytes:
    from codedag.view.call_tree import hot_stacks, speedscope, stacks

    heat = found.report.heat if found.has("report") else None
    found_stacks = list(hot_stacks(heat) if heat is not None and heat.functions else stacks(graph))
    if not found_stacks:
        raise BadFile(
            f"{found.path}: this run has neither hot functions nor recorded operations",
            hint="`codedag trace -o RUN SCRIPT` records operations.",
        )
    return speedscope(Path(found.run.script or found.run.argv[0]).name, found_stacks)


def _csv(found: RunDirectory, graph: Graph) -> Iterable[bytes]:
    from codedag.view.tables import csv_table

    return csv_table(graph, found.costs if found.has("costs") else None, found.plan if found.has("plan") else None)


def _parquet(found: RunDirectory, graph: Graph) -> bytes:
    from codedag.view.tables import parquet_table

    return parquet_table(graph, found.costs if found.has("costs") else None, found.plan if found.has("plan") else None)


def _dot(found: RunDirectory, graph: Graph) -> Iterable[bytes]:
    from codedag.view.dot import digraph

    title = Path(found.run.script or found.run.argv[0]).name
    return (f"{line}\n".encode(errors="backslashreplace") for line in digraph(graph, title))


_EXPORTS: dict[str, Callable[[RunDirectory, Graph], bytes | Iterable[bytes]]] = {
    "perfetto": _perfetto,
    "speedscope": _speedscope,
    "csv": _csv,
    "parquet": _parquet,
    "dot": _dot,
}
