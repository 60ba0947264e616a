"""Code of the program that ran without being looked into, and why: nothing is passed over in silence."""

from __future__ import annotations

import os
from collections.abc import Iterator

from codedag.instrument.launch import Target
from codedag.instrument.nearby import functions_by_file
from codedag.instrument.places import is_of_autograph
from codedag.instrument.program import Program
from codedag.trace.gathered import shown_path

MOST_PLAIN = 3  # files that are named in the notes
_OTHERWISE = "it was not loaded by Python's import (but by exec, runpy or a tool such as pytest); run it as a script"


def not_looked_into(program: Program, target: Target, home: str) -> list[str]:
    """Which files were not looked into and what to do, as sentences; `home` is where the program was started."""
    plain = {**program.left_plain, **dict.fromkeys(_loaded_otherwise(program, home), _OTHERWISE)}
    said = [f"{shown_path(path)} was not looked into: {why}" for path, why in list(plain.items())[:MOST_PLAIN]]
    if len(plain) > MOST_PLAIN:
        said.append(f"{len(plain) - MOST_PLAIN} more files were not looked into")
    if not program.files and not target.by_runpy and target.path not in program.left_plain:
        said.append(f"{target.name} was not looked into: Python could not compile it, so nothing of it ran")
    elif not program.files:
        what = " ".join(["-m", target.name, *target.args] if target.module else [target.name, *target.args])
        roots = ", ".join(program.where.roots)
        said.append(
            f"no file was looked into: `{what}` ran no source file of its own that Python's import loads from "
            f"{roots}; trace the script itself, or name an installed package with --drill PACKAGE"
        )
    return said


def _loaded_otherwise(program: Program, home: str) -> Iterator[str]:
    """The program's own files of which there are functions, though neither the import nor the launcher loaded them."""
    known = {os.path.realpath(path) for path in (*program.files, *program.left_plain)}
    for name in sorted(functions_by_file()):
        if is_of_autograph(name):
            continue
        path = os.path.join(home, name)  # noqa: PTH118 - a name that is absolute stays so
        if os.path.isfile(path) and program.where.hold(path) and os.path.realpath(path) not in known:  # noqa: PTH113
            yield path
