"""A progress bar on stderr with the time left, for whatever takes more than two seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Advance = Callable[[float, str], None]


@contextmanager
def progress(context: click.Context, what: str, total: float) -> Iterator[Advance]:
    """A function that is told how far things are and what is at work; it draws only for people who look on."""
    if (context.obj or {}).get("quiet") or not sys.stderr.isatty():
        yield lambda done, at: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[at]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, at="")
        yield lambda done, at: bar.update(task, completed=done, at=at)
