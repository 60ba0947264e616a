"""`codedag view`: a recorded run, shown again."""

from __future__ import annotations

import json

import click


@click.command("view")
@click.argument("run")
@click.option("--most", default=20, show_default=True, help="How many operations to show.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(run: str, most: int, as_json: bool) -> None:
    """Show a run: its hottest operations, what was changed, and the verdict."""
    from codedag.ir import RunDirectory, load
    from codedag.view import text

    found = load(run)
    if not isinstance(found, RunDirectory):
        raise click.UsageError(f"{run} is a file; name the run directory that holds it.")
    if as_json:
        click.echo(json.dumps(_facts(found, most)))
        return
    info = found.run
    click.echo(f"{' '.join(info.argv)}  ({info.command}, {info.started}, {_status(info.status)})")
    lines = text.hottest(found.graph, most) if found.has("graph") else ["no graph: the program did not get to its end"]
    if found.has("report"):
        lines += ["", *text.report(found.report)]
    if found.has("plan") and found.plan.moves:
        lines += [
            "",
            *text.moves(found.plan),
            "",
            f"next: codedag run --plan {found.path / 'plan.json'} {' '.join(info.argv)}",
        ]
    else:
        lines += ["", f"next: codedag run {' '.join(info.argv)}"]
    click.echo("\n".join(lines))


def _status(status: str) -> str:
    return "still running, or killed" if status == "running" else status


def _facts(found: object, most: int) -> dict[str, object]:
    import msgspec

    from codedag.ir import RunDirectory

    assert isinstance(found, RunDirectory)
    facts: dict[str, object] = {"run": msgspec.to_builtins(found.run)}
    if found.has("graph"):
        hot = sorted(
            (op for op in found.graph.ops if op.kind not in ("region", "source")),
            key=lambda op: -op.self_seconds,
        )
        facts["hottest"] = [msgspec.to_builtins(op) for op in hot[:most]]
    if found.has("report"):
        facts["report"] = msgspec.to_builtins(found.report)
    if found.has("plan"):
        facts["moves"] = msgspec.to_builtins(found.plan.moves)
    return facts
