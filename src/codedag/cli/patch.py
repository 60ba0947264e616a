"""What `codedag explain RUN --patch` prints: the changes of a run as code."""

from __future__ import annotations

import dataclasses
import json
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.autopilot.adopt import Adoption
    from codedag.ir import RunDirectory


def show(run: RunDirectory, as_json: bool) -> None:
    """Prints each change of the run: what to add once, and what to change."""
    from codedag.autopilot.adopt import adoptions

    found = adoptions(run)
    if as_json:
        tell(json.dumps([dataclasses.asdict(one) for one in found]))
        return
    shown: set[str] = set()
    for one in found:
        click.echo(_text(one, shown))
    if not found:
        tell("nothing was changed in this run")
    tell(f"next: codedag view {quote(str(run.path))}")


def _text(one: Adoption, shown: set[str]) -> str:
    parts = [f"# {one.where}: {one.what}"]
    if one.note:
        parts.append(f"# {one.note}")
    if one.helper and one.helper not in shown:
        shown.add(one.helper)
        parts += ["# add once:", one.helper, ""]
    if one.diff:
        parts += ["# then:", one.diff]
    return "\n".join(parts)
