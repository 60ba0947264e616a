"""`codedag demo`: one ordinary program, plain and under `codedag run`, on pictures that it makes itself."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.experiment.demo import Shown


@click.command("demo", short_help="Show what CodeDAG does, on a program and pictures of its own.")
@click.option("-o", "--output", metavar="RUN", help="Write the run to this directory (default: run in the folder).")
@click.option("--folder", metavar="FOLDER", help="Keep program and pictures here (default: in the cache folder).")
@click.option("--pictures", type=click.IntRange(1), default=320, show_default=True, help="How many pictures.")
@click.option(
    "--epochs", type=click.IntRange(1), default=20, show_default=True, help="How often they are gone through."
)
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.pass_context
def command(
    ctx: click.Context, output: str | None, folder: str | None, pictures: int, epochs: int, as_json: bool
) -> None:
    """Train a small model on JPEGs, plain and under `codedag run`, and compare every batch bit for bit.

    The program is an ordinary one that knows nothing of CodeDAG; it is left in the folder, to be read and run. It needs
    OpenCV and PyTorch. Exit code 1: a batch differs, or nothing was changed.
    """
    from codedag.experiment.demo import Demo, show
    from codedag.ir import cache_dir

    place = Path(folder).absolute() if folder else cache_dir() / "demo"
    run = Path(output).absolute() if output else place / "run"
    quiet = as_json or ctx.obj["quiet"]
    shown = show(Demo(place, run, pictures, epochs), (lambda line: None) if quiet else tell, quiet=quiet)
    if as_json:
        tell(json.dumps(shown.facts()))
    else:
        tell(*_lines(shown))
    ctx.exit(0 if shown.is_identical and shown.report.changes else 1)


def _lines(shown: Shown) -> list[str]:
    before, after, run = max(shown.plain), max(shown.changed), shown.demo.run
    lines = [
        f"4. {shown.ratio:.2f}x in the best epoch: {before:.0f} images/s plain, {after:.0f} under codedag",
        f"   batches bit-equal: {shown.equal} of {shown.batches}",
        "   (one run each on a machine that may be busy; `codedag compare` interleaves the two and shows the spread)",
        f"   the program: {shown.demo.folder}",
    ]
    if not shown.is_identical:
        lines.append("demo: FAILED: a batch differs")
    elif not shown.report.changes:
        lines.append("demo: FAILED: no change was applied; `codedag doctor` says what works here")
    page = run / "report.html"
    opened = f"open {quote(str(page))} in a browser, or " if page.is_file() else ""
    return [*lines, f"next: {opened}codedag view {quote(str(run))}"]
