"""What `codedag explain RUN --patch` prints or writes: the changes of a run as code that was tried."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.autopilot.adopt import Adoption, Patch
    from codedag.ir import RunDirectory


def show(run: RunDirectory, as_json: bool, output: str | None) -> None:
    """Prints each change of the run, or writes one patch of them all."""
    from codedag.autopilot.adopt import patch

    found = patch(run)
    if output is not None:
        _write(found, Path(output))
    if as_json:
        tell(json.dumps([dataclasses.asdict(one) for one in found.adoptions]))
        return
    if not found.adoptions:
        tell("nothing was changed in this run")
    if output is None:
        _print(found.adoptions)
    else:
        tell(*(f"{'in' if one.diff else 'not in'} the patch: {_line(one)}" for one in found.adoptions))
    where = quote(str(Path(run.run.cwd)))
    apply = f"cd {where} && git apply {quote(str(Path(output).absolute()))}" if output and found.diff else ""
    file = f"codedag explain {quote(str(run.path))} --patch -o my.patch" if found.diff and not output else ""
    tell(f"next: {apply or file or f'codedag view {quote(str(run.path))}'}")


def _line(one: Adoption) -> str:
    return f"{one.where} {one.what}" + (f": {one.note}" if one.note else "")


def _write(found: Patch, path: Path) -> None:
    from codedag.ir import write_atomically

    write_atomically(path, found.diff.encode())


def _print(found: list[Adoption]) -> None:
    shown: set[str] = set()
    for one in found:
        click.echo(_text(one, shown))


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
