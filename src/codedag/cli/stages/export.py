"""`codedag stages export`: write a plan as files that run without CodeDAG."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote

import click

from codedag.cli.options import tell


@click.command("export", short_help="Write a plan as files that run without CodeDAG.")
@click.argument("directory", metavar="DIR")
@click.option("-o", "--output", metavar="BUNDLE", required=True, help="A new directory, or a bundle to replace.")
@click.option("--pep", metavar="FILE", help="Ship this plan [pep.json of DIR].")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(directory: str, output: str, pep: str | None, as_json: bool) -> None:
    """Write the plan of DIR as a bundle: ONNX per block, IR for OpenVINO, pep.json, an example, and run.py.

    run.py needs numpy and the runtimes of the plan; it checks itself on the example and prints its time.
    """
    from codedag.stages.execution.bundle import write_bundle

    bundle = write_bundle(Path(directory), Path(output), Path(pep) if pep else None)
    if as_json:
        tell(json.dumps(bundle.facts()))
        return
    label = " (simulated)" if bundle.plan.simulated else ""
    told = f", {bundle.plan.seconds * 1e3:.3g} ms predicted{label}" if bundle.plan.seconds else ""
    tell(f"{bundle.place}: {bundle.plan}{told}", *(f"note: {note}" for note in bundle.notes))
    tell(f"next: python {quote(str(bundle.place / 'run.py'))}")
