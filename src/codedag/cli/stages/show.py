"""`codedag stages show`: the stages of a model, the tensors between them, their bytes and FLOP."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.stages.model import Stage, StagedModel

#: A graph that is worth looking at; the example of sage7 is a few nodes.
GRAPH_SIZES = {"nodes": 1000, "edges": 5000}
BAR_WIDTH, NAME_WIDTH, TENSORS_WIDTH = 12, 34, 44


@click.command("show", short_help="Show the stages of a model, their tensors, bytes and FLOP.")
@click.argument("model")
@click.option("--stages", type=click.IntRange(1), metavar="K", help="Cut the model into K stages.")
@click.option("--cuts", metavar="NAME,NAME", default="", help="Cut the model at these tensors.")
@click.option("--weights", metavar="FILE.npz", default="", help="Weights of sage7.")
@click.option("--size", metavar="NAME=N,...", default="", help="Count bytes and FLOP at these sizes.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(model: str, stages: int | None, cuts: str, weights: str, size: str, as_json: bool) -> None:
    """Show how MODEL is cut: its stages, the tensors that pass between them, their bytes and FLOP.

    MODEL is `sage7`, a file.onnx, or file.py:name: a function that returns a module (or a list of modules) and example
    inputs. Without --stages and --cuts a model is cut where few bytes cross and the work is even.
    """
    from codedag.stages.sources import model_of

    names = tuple(name.strip() for name in cuts.split(",") if name.strip())
    found = model_of(model, stages=stages, cuts=names, weights=weights)
    sizes = _sizes(found, size)
    if as_json:
        tell(json.dumps(_facts(found, sizes)))
    else:
        more = "".join(
            f" {option} {quote(str(value))}" for option, value in (("--stages", stages), ("--cuts", cuts)) if value
        )
        tell(*_lines(found, sizes), f"next: codedag stages profile {quote(model)}{more} -o DIR")


def _sizes(model: StagedModel, text: str) -> dict[str, int]:
    """The sizes to count at: those that are named, else the example's."""
    from codedag.stages.sizes import GRAPH

    sizes = dict(GRAPH_SIZES) if model.sizes == GRAPH else model.sizes_of(model.example)
    for part in filter(None, text.split(",")):
        name, sign, number = part.partition("=")
        if not sign or name not in model.sizes or not number.isdecimal():
            raise click.UsageError(f"--size {part}: the sizes are {', '.join(model.sizes) or 'fixed'} (NAME=NUMBER).")
        sizes[name] = int(number)
    return sizes


def _facts(model: StagedModel, sizes: dict[str, int]) -> dict[str, Any]:
    from codedag.stages.onnx_models.export import facts_of
    from codedag.stages.sizes import evaluate

    facts = facts_of(model)
    for name, tensor in facts["tensors"].items():
        tensor["nbytes"] = model.tensors[name].nbytes(sizes)
    for stage, entry in zip(model.stages, facts["stages"], strict=True):
        entry.pop("onnx")
        entry["flop_at"] = evaluate(stage.flop, sizes)
        entry["input_nbytes"], entry["output_nbytes"] = (_nbytes(model, each, sizes) for each in _ends(stage))
    return {**facts, "at": sizes, "weights_nbytes": _weights(model)}


def _ends(stage: Stage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return stage.inputs, stage.outputs


def _nbytes(model: StagedModel, names: tuple[str, ...], sizes: dict[str, int]) -> int:
    return sum(model.tensors[name].nbytes(sizes) for name in names)


def _weights(model: StagedModel) -> int:
    return sum(int(array.nbytes) for array in model.programs.weights().values())


# -- as people read it


def _lines(model: StagedModel, sizes: dict[str, int]) -> list[str]:
    from codedag.stages.sizes import evaluate

    flops = [evaluate(stage.flop, sizes) for stage in model.stages]
    lines = [
        f"{model.name}: {len(model.stages)} stages, {_bytes(_weights(model))} of weights, {_count(sum(flops))}FLOP"
        f" at {', '.join(f'{name}={value}' for name, value in sizes.items()) or 'fixed sizes'}",
        *_tensors("in", model, model.inputs, sizes),
        *_tensors("out", model, model.outputs, sizes),
        "",
        *_table(model, sizes, flops),
        "",
    ]
    return [*lines, *(f"note: {note}" for note in model.notes)]


def _tensors(title: str, model: StagedModel, names: tuple[str, ...], sizes: dict[str, int]) -> list[str]:
    return [f"  {title:<4}{_described(model, name):<52} {_bytes(_nbytes(model, (name,), sizes)):>9}" for name in names]


def _described(model: StagedModel, name: str) -> str:
    from codedag.stages.model import shown_shape

    return f"{name}  {model.tensors[name].dtype} {shown_shape(model.tensors[name])}"


def _table(model: StagedModel, sizes: dict[str, int], flops: list[int]) -> list[str]:
    names = [_short(stage.name, NAME_WIDTH) for stage in model.stages]
    wide = max(len("stage"), *map(len, names))
    reads = [_short(", ".join(stage.inputs), TENSORS_WIDTH) for stage in model.stages]
    reach = max(len("reads"), *map(len, reads))
    makes = [_short(_made(model, stage), TENSORS_WIDTH) for stage in model.stages]
    span = max(len("makes"), *map(len, makes))
    head = f"  {'#':>2}  {'stage':<{wide}}  {'reads':<{reach}}  {'makes':<{span}}  {'in':>9}  {'out':>9}  {'FLOP':>8}"
    rows = [head]
    for stage, name, read, made, flop in zip(model.stages, names, reads, makes, flops, strict=True):
        into, out = (_bytes(_nbytes(model, each, sizes)) for each in _ends(stage))
        bar = "█" * round(BAR_WIDTH * flop / max(*flops, 1))
        words = f"  {stage.number:>2}  {name:<{wide}}  {read:<{reach}}  {made:<{span}}"
        rows.append(f"{words}  {into:>9}  {out:>9}  {_count(flop):>8} {bar}".rstrip())
    return rows


def _made(model: StagedModel, stage: Stage) -> str:
    from codedag.stages.model import shown_shape

    return ", ".join(f"{name} {shown_shape(model.tensors[name])}" for name in stage.outputs)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _bytes(number: int) -> str:
    return _scaled(number, ("B", "KB", "MB", "GB", "TB"))


def _count(number: int) -> str:
    return _scaled(number, ("", "k", "M", "G", "T", "P")).replace(" ", "")


def _scaled(number: float, units: tuple[str, ...]) -> str:
    """A number with three digits and its unit."""
    for unit in units[:-1]:
        if number < 1000:
            return f"{number:.3g} {unit}".rstrip()
        number /= 1000
    return f"{number:.3g} {units[-1]}"
