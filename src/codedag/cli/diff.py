"""`codedag diff`: two recorded runs side by side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.ir import RunDirectory
    from codedag.view.run_diff import RunDiff


@click.command("diff", short_help="Compare two recorded runs: what became slower, what changed.")
@click.argument("base")
@click.argument("other", required=False)
@click.option("--html", metavar="FILE", help="Write a page with everything that differs.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(base: str, other: str | None, html: str | None, as_json: bool) -> None:
    """Compare run directory BASE with OTHER (the newest run that is kept, unless named).

    Shows the seconds of a turn, of CPU time and on the clock, the functions or operations that became slower or faster,
    and the changes and versions that differ. Each run is one sample: a busy machine shows in it.
    """
    from codedag.cli.runs import newest
    from codedag.view import run_diff_text

    found = compared(base, other or newest())
    if html is not None:
        from codedag.ir import write_atomically

        write_atomically(Path(html), run_diff_text.page(found).encode(errors="backslashreplace"))
    if as_json:
        tell(json.dumps(facts(found)))
        return
    tell(*run_diff_text.lines(found, shutil.get_terminal_size().columns))
    check = f"codedag check {quote(found.other)} --against {quote(found.base)}"
    tell("", *([f"page: {html}"] if html else []), f"next: {check if found.same_program else 'codedag runs'}")


def compared(base: str, other: str) -> RunDiff:
    """The difference of two run directories by name."""
    from codedag.view.run_diff import difference

    return difference(_run(base), _run(other))


def _run(path: str) -> RunDirectory:
    from codedag.ir import RunDirectory, load

    found = load(path)
    if not isinstance(found, RunDirectory):
        raise click.UsageError(f"{path} is a file; name the run directory that holds it.")
    return found


def facts(found: RunDiff) -> dict[str, object]:
    """The difference for other programs."""
    import msgspec

    made: dict[str, object] = msgspec.to_builtins(found)
    return {**made, "measure": None if found.measure is None else found.measure.name}
