"""Ways to divide a block over PUs: by a size whose rows are independent, or by parts of a graph with their halos."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

from codedag.stages.graph.layers import has_layers
from codedag.stages.model import Block, StagedModel, Tensor
from codedag.stages.sizes import Sizes, symbols_of

#: Ways to divide that are no size: all sizes alike (nothing is known of the model), parts of a graph with their halos.
ALIKE, PARTS = "", "parts"
#: Stages of graphs that read rows other than their own, and the only size that they can be divided by.
_ACROSS_ROWS: Mapping[str, str] = {"GATHER": "edges", "REDUCE_SUM": "", "REDUCE_COUNT": ""}


def divisible_size(model: StagedModel, block: Block) -> str | None:
    """The size by whose rows a block can be divided: the first dimension of all it makes; None if there is none.

    That rows do not depend on each other is not proven here: every result is compared with the reference.
    """
    made = {model.tensors[name].shape[:1] for name in block.outputs}
    name = str(next(iter(made))[0]) if len(made) == 1 and next(iter(made)) else ""
    if name not in model.sizes:
        return None
    kinds = {model.stage(number).kind for number in block.stages}
    if any(_ACROSS_ROWS.get(kind, name) != name for kind in kinds):
        return None
    names = (*block.inputs, *block.outputs)
    return name if all(_is_cut_once(model.tensors[each], name) for each in names) else None


def _is_cut_once(tensor: Tensor, name: str) -> bool:
    """Whether at most one of the first two dimensions is the size itself, and none other depends on it."""
    places = [at for at, dim in enumerate(tensor.shape) if name in symbols_of(dim)]
    return not places or (places in ([0], [1]) and tensor.shape[places[0]] == name)


def division(model: StagedModel | None, first: int, last: int) -> str | None:
    """How the stages first to last can be divided: a size, ALIKE or PARTS; None if they cannot."""
    if model is None:
        return ALIKE
    name = divisible_size(model, model.block(first, last))
    is_whole = (first, last) == (1, len(model.stages))
    return PARTS if name is None and is_whole and has_layers(model) else name


def share_of(sizes: Sizes, ratio: float, way: str) -> dict[str, float]:
    """The sizes of a share; of parts with the halo that edges between random nodes give, METIS finds less."""
    divided = sizes if way in (ALIKE, PARTS) else (way,)
    made = {name: value * ratio if name in divided else float(value) for name, value in sizes.items()}
    if way == PARTS and sizes["nodes"]:
        others = sizes["nodes"] - made["nodes"]
        made["nodes"] += others * (1 - exp(-made["edges"] / sizes["nodes"]))
    return made
