"""`codedag runs`: the runs that are kept, newest first."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.ir import Report, RunInfo


@click.command("runs", short_help="List the runs that are kept.")
@click.option("--most", type=click.IntRange(1), default=20, show_default=True, help="How many to list.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(most: int, as_json: bool) -> None:
    """List the runs in the data folder, newest first: what was run, how it ended, and what it gained.

    Runs that were written elsewhere with -o are not listed.
    """
    from codedag.ir import data_dir

    folder = data_dir() / "runs"
    found = kept_runs(folder)
    facts = [_facts(path) for path in found[:most]]
    if as_json:
        tell(json.dumps({"folder": str(folder), "count": len(found), "runs": facts}))
        return
    for each in facts:
        tell(_line(each))
    if len(found) > most:
        tell(f"and {len(found) - most} more (--most N)")
    if not facts:
        tell(f"no runs in {folder}")
    tell(f"next: codedag view {quote(facts[0]['path'])}" if facts else "next: codedag run SCRIPT")


def kept_runs(folder: Path) -> list[Path]:
    """The directories that hold a run, the newest first; their names begin with the time."""
    try:
        return sorted((path.parent for path in folder.glob("*/run.json")), key=lambda path: path.name, reverse=True)
    except OSError:
        return []


def newest() -> str:
    """The newest run in the data folder."""
    from codedag.ir import data_dir

    found = kept_runs(data_dir() / "runs")
    if not found:
        raise click.UsageError(f"Name a run directory: none is kept in {data_dir() / 'runs'} yet.")
    return str(found[0])


def _facts(path: Path) -> dict[str, Any]:
    """What is known about one run; a file that cannot be read is named, and the others are listed all the same."""
    from codedag.ir import CodedagError, RunDirectory
    from codedag.view.claim import verdict

    run = RunDirectory(path)
    facts: dict[str, Any] = {"path": str(path)}
    try:
        info = run.run
        facts |= {"command": info.command, "argv": info.argv, "status": ended(info), "started": info.started}
        if run.has("report"):
            report = run.report
            facts |= {
                "seconds": report.optimised_seconds, "gain": _gain(report), "told": verdict(report).sentence,
                "changes": len(report.changes), "identical": report.verdict.identical,
                "mismatches": report.verdict.mismatches,
            }  # fmt: skip
    except CodedagError as error:
        facts["problem"] = error.message
    return facts


def ended(info: RunInfo) -> str:
    """How the run ended, in words."""
    if info.exit_code is not None and info.exit_code < 0:
        return f"ended by {signal.Signals(-info.exit_code).name}"
    return info.status


def _gain(report: Report) -> float | None:
    """The gain that the run claims or estimates, if it does."""
    if report.claim is not None:
        return report.claim.ratio if report.claim.known else None
    return None if report.void else report.gain


def _line(facts: dict[str, Any]) -> str:
    name = Path(facts["path"]).name
    if "argv" not in facts:
        return f"{name}: {facts['problem']}"
    words = [f"{facts['command']} {join(facts['argv'])}", facts["status"]]
    if "problem" in facts:
        words.append(facts["problem"])
    elif facts.get("changes"):
        same = "identical" if facts["identical"] else "results DIFFERED" if facts["mismatches"] else "within tolerance"
        words.append(f"{facts['changes']} change{'' if facts['changes'] == 1 else 's'}, {facts['told']}, {same}")
    elif "changes" in facts:
        words.append("nothing was changed")
    return f"{name}: {', '.join(words)}"
