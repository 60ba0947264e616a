"""`codedag stages run`: execute a plan on its PUs, compare every result with the model as given."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from codedag.cli.options import say, tell
from codedag.cli.stages.int8_options import allow_option

if TYPE_CHECKING:
    from codedag.stages.execution.running import Ran


@click.command("run", short_help="Run a model as planned, on several PUs, and verify it.")
@click.argument("directory", metavar="DIR")
@click.option("--input", "input_file", metavar="FILE.npz", help="Its inputs by name [drawn, at the plan's size].")
@click.option("--graph", metavar="FILE|synthetic:flickr", help="A graph: `edge_index` and `x`.")
@click.option("-o", "--output", metavar="OUT.npz", help="Write every output by its name.")
@click.option("--parts", type=click.IntRange(1), metavar="K", help="Run a graph in so many parts.")
@click.option("--pep", metavar="FILE", help="Run this plan [pep.json of DIR, else the best for the input's size].")
@click.option("--items", type=click.IntRange(1), default=1, show_default=True, help="Run a stream of so many items.")
@click.option("--goal", type=click.Choice(["latency", "throughput"]), help="Plan for this goal.")
@click.option("--queue", type=click.IntRange(1), default=2, show_default=True, help="Items that wait before a block.")
@click.option("--pus", metavar="A,B", help="Plan for these PUs only.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=120.0, show_default=True,
              help="Seconds that a PU may take to compile a block.")  # fmt: skip
@allow_option("f16", text="Plans may use PUs that compute in float16.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.pass_context
def command(ctx: click.Context, /, directory: str, output: str | None, as_json: bool, **options: Any) -> int:
    """Run the model of DIR as planned: a process per PU, tensors in shared memory, every result verified.

    A PU that crashes, hangs, has no memory or gives wrong results is left; its items go to the next plan. The exit code
    is 1 if a result is off and could not be replaced.
    """
    from codedag.stages.execution.running import run

    if options["input_file"] and options["graph"]:
        raise click.UsageError("Name --input or --graph, not both.")
    _check_output(output)
    ran = run(_request(directory, options), lambda line: say(ctx, line))
    if output:
        from codedag.stages.npz import write_npz

        write_npz(Path(output), ran.execution.outputs[0])
    tell(json.dumps(ran.facts())) if as_json else _tell(ran, directory, output)
    return 0 if ran.execution.is_right else 1


def _request(directory: str, options: dict[str, Any]) -> Any:
    from codedag.stages.execution.running import Request

    return Request(
        Path(directory), Path(options["input_file"]) if options["input_file"] else None, options["graph"],
        Path(options["pep"]) if options["pep"] else None, options["items"], options["goal"], options["queue"],
        tuple(filter(None, (part.strip() for part in (options["pus"] or "").split(",")))), options["timeout"],
        options["parts"] or 1, options["allow"],
    )  # fmt: skip


def _check_output(output: str | None) -> None:
    """Says before anything runs that results could not be written."""
    if output and not Path(output).resolve().parent.is_dir():
        raise click.UsageError(f"There is no directory for -o {output}.")


def _tell(ran: Ran, directory: str, output: str | None) -> None:
    facts, done = ran.facts(), ran.execution
    equals = f"is within {facts['max_error']:g} of" if facts["max_error"] else "equals"
    for name, near in facts["outputs"].items():
        how = "bit for bit" if near["bit_equal"] else f"{near['worst']:.1e}"
        tell(f"{name} is OFF: {near['wrong']}" if near["wrong"] else f"{name} {equals} the model as given ({how})")
    items = f" for {facts['items']} items" if facts["items"] > 1 else ""
    label = " (simulated: not from figures of this machine)" if done.plan.simulated else ""
    told = f", predicted {_ms(ran.predicted_seconds)}{label}" if ran.predicted_seconds else label
    tell(f"{_ms(done.seconds)}{items}{told}; set-up {done.setup_seconds:.2f} s; PUs: {', '.join(done.pus)}")
    tell(*(f"{pu} computes in {precision}, not in float32" for pu, precision in facts["precisions"].items()))
    tell(*(f"note: {note}" for note in done.notes))
    for each in done.left:
        stage = f" (stage {each.stage} is off)" if each.stage else ""
        tell(f"left: {each.pu}: {each.reason}{stage}; replaced by {each.replaced_by}")
    if output:
        tell(f"outputs: {output}")
    tell(f"next: codedag view {quote(directory)}")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
