"""`%load_ext codedag`: the cell magic `%%codedag` runs a cell and shows what its operations cost."""

from __future__ import annotations

import argparse
import ast
import html
import shlex
from pathlib import Path
from typing import Any

from codedag.api.run import Run
from codedag.ir import Graph, Plan
from codedag.trace.live import Live
from codedag.view.svg import drawing
from codedag.view.text import planned

_LAST = "__codedag_last__"


def load(shell: Any) -> None:
    """Gives a shell of IPython the magic."""

    def codedag(line: str, cell: str) -> Any:
        """%%codedag [--most N] [NAME]: runs the cell, shows its hottest operations; NAME becomes its Run."""
        return run_cell(shell, line, cell)

    shell.register_magic_function(codedag, "cell", "codedag")
    shown = shell.display_formatter.formatters
    shown["text/html"].for_type(Graph, _picture)
    shown["text/plain"].for_type(Plan, lambda plan, printer, _: printer.text("\n".join(planned(plan))))


def _picture(graph: Graph) -> str:
    """The graph as a cell shows it."""
    return f'<div style="overflow:auto;max-height:40em">{drawing(graph).svg}</div>'


def run_cell(shell: Any, line: str, cell: str) -> Any:
    """The value of the cell's last expression; the cell ran in the notebook's own names and was recorded."""
    asked = _asked(line)
    typed = shell.transform_cell(cell)
    source, has_value = _with_last(typed, shell.compile.cache(typed, shell.execution_count))
    names = shell.user_ns
    # beside what was typed, modules of the working directory are looked into
    live = Live([Path.cwd()], body=False, samples=True)
    live.start()
    run = Run(live)
    try:
        code = live.load(shell.compile.cache(source, shell.execution_count), source.encode())
        exec(code, names)  # noqa: S102 - running the user's cell is the job
        run.status = "ok"
    finally:
        run.status = "failed" if run.status == "running" else run.status
        live.stop()
        if asked.name:
            names[asked.name] = run
    _display(Shown(run, asked.most))
    return names.pop(_LAST) if has_value else None


def _asked(line: str) -> argparse.Namespace:
    """What stands beside the magic; anything else is an error that ends the cell, not the notebook."""
    parser = argparse.ArgumentParser(prog="%%codedag", add_help=False, exit_on_error=False)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--most", type=int, default=10)
    try:
        asked, rest = parser.parse_known_args(shlex.split(line))
    except (argparse.ArgumentError, ValueError) as error:
        raise _usage(str(error)) from None
    if rest or (asked.name and not asked.name.isidentifier()):
        raise _usage(f"cannot make sense of {' '.join(rest) or asked.name!r}")
    return asked


def _usage(problem: str) -> Exception:
    from IPython.core.error import UsageError

    words = f"{problem}; it is %%codedag [--most N] [NAME], and NAME becomes the run of the cell"
    error: Exception = UsageError(words)
    return error


def _with_last(source: str, name: str) -> tuple[str, bool]:
    """The cell with its last expression kept under a name of ours, on the same lines; and whether there is one."""
    body = ast.parse(source, name).body
    last = body[-1] if body else None
    if not isinstance(last, ast.Expr) or source.rstrip().endswith(";"):  # a semicolon says: do not show it
        return source, False
    lines = source.encode().split(b"\n")
    at, end = last.lineno - 1, (last.end_lineno or last.lineno) - 1
    ends = last.end_col_offset or 0
    lines[end] = lines[end][:ends] + b")" + lines[end][ends:]
    lines[at] = lines[at][: last.col_offset] + f"{_LAST} = (".encode() + lines[at][last.col_offset :]
    return b"\n".join(lines).decode(), True


class Shown:
    """A run as a notebook shows it: the table of its hottest operations, and its picture on a click."""

    def __init__(self, run: Run, most: int) -> None:
        self._run, self._most = run, most

    def __repr__(self) -> str:
        return "\n".join([self._run.hottest(self._most), *(f"note: {note}" for note in self._run.notes)])

    def _repr_html_(self) -> str:
        table = f"<pre>{html.escape(repr(self))}</pre>"
        return f"{table}<details><summary>dataflow</summary>{self._run._repr_html_()}</details>"


def _display(shown: Shown) -> None:
    from IPython.display import display

    display(shown)
