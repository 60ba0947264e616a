"""FLOP of ONNX nodes as sums of products of sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, Protocol

from codedag.stages.model import Tensor
from codedag.stages.sizes import Dim

Terms = Mapping[str, int]  # a factor by the product of sizes that it multiplies, "" for none

_MOVES = frozenset((
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Concat", "Split", "Slice", "Gather",
    "Shape", "Cast", "Expand", "Tile", "Pad", "Constant", "ConstantOfShape", "Size", "GatherND", "GatherElements",
    "Range", "DepthToSpace", "SpaceToDepth", "Dropout", "ScatterND", "If", "Loop", "Scan",
))  # fmt: skip
_VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Size", "Dropout"))
_COSTS = {"Softmax": 5, "LayerNormalization": 8, "Gelu": 8, "Erf": 8, "Sigmoid": 4, "Tanh": 6, "Exp": 4,
          "BatchNormalization": 2}  # fmt: skip


class Known(Protocol):
    """The tensors whose shapes are known."""

    def get(self, name: str) -> Tensor | None:
        """A tensor, or None."""


def is_view(node: Any) -> bool:
    """Whether a node moves no bytes."""
    return node.op_type in _VIEWS


def flop_of(node: Any, shapes: Known) -> Terms:
    """The FLOP of a node: products by their formula, others one for each element made; 0 where shapes are not known."""
    made = shapes.get(node.output[0]) if node.output else None
    if made is None or node.op_type in _MOVES:
        return {}
    inner = _inner(node, shapes)
    if inner is not None:
        return _product((2, *made.shape, *inner))
    if node.op_type.startswith(("Reduce", "ScatterElements", "AveragePool", "MaxPool", "Global")):
        read = [tensor for name in node.input if (tensor := shapes.get(name)) is not None]
        return _product(max((made, *read), key=lambda tensor: len(tensor.shape)).shape)
    return _product((_COSTS.get(node.op_type, 1), *made.shape))


def _inner(node: Any, shapes: Known) -> tuple[Dim, ...] | None:
    """The length of the sums that a product makes for each of its elements."""
    if node.op_type in ("Conv", "ConvInteger", "QLinearConv"):
        weight = shapes.get(node.input[3 if node.op_type == "QLinearConv" else 1])
        return weight.shape[1:] if weight is not None else None
    if node.op_type in ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "FusedMatMul"):
        left = shapes.get(node.input[0])
        if left is None or not left.shape:
            return None
        turned = any(each.name == "transA" and each.i for each in node.attribute)
        return (left.shape[0 if turned else -1],)
    if node.op_type in ("LSTM", "GRU", "RNN"):
        weights = [shapes.get(name) for name in node.input[1:3]]
        return (sum(prod(int(dim) for dim in each.shape[2:]) for each in weights if each is not None) * 4,)
    return None


def _product(dims: Iterable[Dim]) -> Terms:
    numbers, names = [], []
    for dim in dims:
        numbers.append(dim) if isinstance(dim, int) else names.append(dim)
    counts = Counter(names)
    parts = [(name if name.isidentifier() else f"({name})") + (f"**{n}" if n > 1 else "") for name, n in counts.items()]
    return {"*".join(sorted(parts)): prod(numbers)}


def summed(nodes: Iterable[Terms]) -> Dim:
    """The sum as an expression of the sizes."""
    total: Counter[str] = Counter()
    for terms in nodes:
        total.update(terms)
    parts = [f"{factor}*{names}" if names else str(factor) for names, factor in total.items() if factor]
    if all(part.isdecimal() for part in parts):
        return sum(map(int, parts))
    return " + ".join(parts)
