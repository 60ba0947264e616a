"""Layers of a graph model: the stages from one GATHER to the next, which read rows of nodes and make rows of nodes."""

from __future__ import annotations

from dataclasses import dataclass

from codedag.stages.model import BadInput, StagedModel
from codedag.stages.sizes import GRAPH

EDGES = "edge_index"


@dataclass(frozen=True, slots=True)
class Layer:
    """The stages of one layer: rows of nodes in, with the edges, and rows of nodes out."""

    first: int
    last: int
    reads: str
    makes: str


def layers_of(model: StagedModel) -> list[Layer]:
    """The layers of a graph model; raises BadInput for a model that cannot be run part by part."""
    starts = [stage.number for stage in model.stages if stage.kind == "GATHER"]
    if tuple(model.sizes) != GRAPH or EDGES not in model.inputs or starts[:1] != [1]:
        raise BadInput(f"`{model.name}` is no graph model that can be run in parts", hint="Leave out --parts.")
    ends = [*(start - 1 for start in starts[1:]), len(model.stages)]
    return [_layer(model, first, last) for first, last in zip(starts, ends, strict=True)]


def _layer(model: StagedModel, first: int, last: int) -> Layer:
    block = model.block(first, last)
    reads = [name for name in block.inputs if name != EDGES]
    if len(reads) != 1 or len(block.outputs) != 1 or model.tensors[block.outputs[0]].shape[:1] != ("nodes",):
        raise BadInput(f"stages {block.name} of `{model.name}` are no layer of their own: it cannot be run in parts")
    return Layer(first, last, reads[0], block.outputs[0])


def has_layers(model: StagedModel) -> bool:
    """Whether a model can be run part by part."""
    try:
        return bool(layers_of(model))
    except BadInput:
        return False
