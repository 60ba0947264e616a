"""Ranks that a launcher starts: each of them is a program of its own, under `codedag run` of its own.

The launcher itself is not observed: it only waits.  That of torch asks `PYTHON_EXEC` for the interpreter of its ranks,
and gets one that begins with us.  That of accelerate does the same for several, and uses its own interpreter for one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import join, quote
from typing import Any

from codedag.instrument import launch
from codedag.instrument.launch import Ending, Target

#: What asks for that interpreter, by its module or by its script.
TORCH = ("torch.distributed.run", "torch.distributed.launch", "torchrun")
ACCELERATE = ("accelerate", "accelerate.commands.accelerate_cli", "accelerate-launch", "accelerate.commands.launch")
_ASKED = "PYTHON_EXEC"
#: The launcher calls `python [-u] script`, or `-m module`; the ranks must not write over each other's run.
_SCRIPT = """#!/bin/sh
unbuffered=
[ "$1" = -u ] && shift && unbuffered=-u
exec {python} $unbuffered -m codedag {quiet}run {words}{output} "$@"
"""


def are_started_by(target: Target) -> bool:
    """Whether a program starts ranks for which we can stand in; an interpreter of the user's own is left alone."""
    launches = Path(target.name).name in TORCH or _is_accelerate(target)
    return launches and os.name == "posix" and _ASKED not in os.environ


def _is_accelerate(target: Target) -> bool:
    """Whether this is `accelerate launch`, and not one of its other commands."""
    name = Path(target.name).name
    return name in ACCELERATE and ("launch" in name or target.args[:1] == ("launch",))


def run(target: Target, asked: dict[str, Any], output: str | None, quiet: bool) -> Ending:
    """Runs the launcher as it is, and its ranks with what was asked for; says how the launcher ended."""
    from tempfile import TemporaryDirectory  # with all that it can unpack

    with TemporaryDirectory(prefix="codedag-ranks-") as folder:
        interpreter = Path(folder) / "python"
        interpreter.write_text(_interpreter(asked, output, quiet))
        interpreter.chmod(0o700)
        os.environ[_ASKED] = str(interpreter)
        if _is_accelerate(target):
            sys.executable = str(interpreter)
        return launch.run(target, lambda path, source: compile(source, path, "exec", dont_inherit=True))


def _interpreter(asked: dict[str, Any], output: str | None, quiet: bool) -> str:
    flags = [f"--{name.replace('_', '-')}" for name, value in asked.items() if value is True]
    valued = {name: value for name, value in asked.items() if value not in (None, False, True)}
    words = join([*flags, *(f"--{name.replace('_', '-')}={value}" for name, value in valued.items())])
    place = f' -o {quote(output)}/rank"${{RANK:-0}}"' if output else ""
    return _SCRIPT.format(python=quote(sys.executable), quiet="-q " if quiet else "", words=words, output=place)
