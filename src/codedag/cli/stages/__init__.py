"""`codedag stages`: staged models over several processing units, one file per command."""

from __future__ import annotations

import click

from codedag.cli.lazy import LazyGroup

COMMANDS = {name: f"codedag.cli.stages.{name}" for name in ("show", "profile", "plan", "run", "export")}


@click.group(
    "stages", cls=LazyGroup, modules=COMMANDS, short_help="Profile, plan and run a staged model over CPU, GPU and NPU."
)
def command() -> None:
    """Profile a model stage by stage on every PU, plan what runs where, run it, and prove that it is the same.

    Begin with `codedag stages profile MODEL -o DIR`; MODEL is `sage7`, a file.onnx, or file.py:name.
    """
