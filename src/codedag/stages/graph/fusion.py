"""Fusion of graph stages: a block of the seven kinds, over one or more layers, as few kernel calls as can be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from codedag.stages.model import BadInput

if TYPE_CHECKING:
    from codedag.stages.graph.kernels import Csr, GraphKernels, LayerWeights

KINDS = ("GATHER", "MESSAGE", "REDUCE_SUM", "REDUCE_COUNT", "NORMALIZE", "TRANSFORM", "ACTIVATE")
Step = Callable[["Csr"], None]


@dataclass
class Layer:
    """The stages of a block that are in one layer, what is given to the layer from outside, and what is wanted of it.

    Tensors have the names of their roles: x, x_j, messages, aggregated, degree, mean, transformed, out.
    """

    number: int
    kinds: tuple[str, ...]
    given: dict[str, Any] = field(default_factory=dict)
    wanted: dict[str, Any] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all of the layer is in the block, and nothing but its result is wanted."""
        return self.kinds == KINDS and not self.wanted.keys() - {"out"}


def layers_of(kinds: Sequence[str], first: int, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> list[Layer]:
    """The block layer by layer, with its arrays by their roles; the kinds follow each other as in `KINDS`."""
    layers = [Layer(first + at, part) for at, part in enumerate(_by_layer(tuple(kinds)))]
    layers[0].given = {_role(name, "x"): array for name, array in inputs.items() if name != "edge_index"}
    for layer in layers:
        layer.wanted = {_role(n, "out"): a for n, a in outputs.items() if _made_in(n, layers) == layer.number}
    return layers


def _by_layer(kinds: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    begun = [0, *(at for at in range(1, len(kinds)) if kinds[at] == KINDS[0]), len(kinds)]
    return (kinds[a:b] for a, b in pairwise(begun))


def _role(name: str, features: str) -> str:
    """`mean` for `1.mean`; features between layers (`x`, `out.0`, `out`) are what they are to this block."""
    return features if re.fullmatch(r"x|out(\.\d+)?", name) else re.sub(r"^\d+\.", "", name)


def _made_in(name: str, layers: list[Layer]) -> int:
    """The layer that makes a tensor; `out` is made by the last one."""
    if name == "out":
        return layers[-1].number
    found = re.match(r"(\d+)\.|out\.(\d+)$", name)
    return int(found[1] or found[2]) if found else 0


class Fusion:
    """The steps of a block: what nobody asks for is not made, and what can be computed at once is."""

    def __init__(
        self, kernels: GraphKernels, weights: Callable[[int], LayerWeights], layers: list[Layer],
        rows: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        self._kernels, self._weights, self._layers, self._rows = kernels, weights, layers, rows
        first = layers[0].given
        self.nodes = next((len(first[role]) for role in ("x", "aggregated", "mean", "transformed") if role in first), 0)
        self.reads_edges = False
        self.steps: list[Step] = []
        x = first.get("x")
        for layer in layers:
            x = self._add_layer(layer, {**layer.given, "x": x})

    def _add_layer(self, layer: Layer, known: dict[str, Any]) -> Any:
        """Adds the steps of a layer; gives the features after it, None if the block ends before."""
        self._add_edge_stages(layer, known)
        self._add_node_stages(layer, known)
        if "TRANSFORM" in layer.kinds:
            self._add_transform(layer, known)
        if "ACTIVATE" in layer.kinds and "out" not in known:
            known["out"] = self._place(layer, known["transformed"].shape[1])
            self._add(self._kernels.relu, known["transformed"], known["out"])
        return known.get("out")

    def _add(self, kernel: Callable[..., None], *arguments: Any) -> None:
        self.steps.append(lambda csr: kernel(*arguments))

    def _add_on_edges(self, kernel: Callable[..., None], *arguments: Any) -> None:
        self.reads_edges = True
        self.steps.append(lambda csr: kernel(csr, *arguments))

    def _add_edge_stages(self, layer: Layer, known: dict[str, Any]) -> None:
        """GATHER and MESSAGE, only where their results are wanted."""
        for role in ("x_j", "messages"):
            if role not in layer.wanted:
                continue
            out = layer.wanted[role]
            if role == "messages" and "x_j" in known:
                self._add(self._kernels.copy, known["x_j"], out)
            else:
                self._add_on_edges(self._kernels.gather, known["x"], out)
            known[role] = out

    def _add_node_stages(self, layer: Layer, known: dict[str, Any]) -> None:
        """REDUCE_SUM, REDUCE_COUNT and NORMALIZE, only where their results are wanted."""
        wanted = layer.wanted
        if "aggregated" in wanted:
            self._add_sum(layer, known, wanted["aggregated"], mean=False)
        if "degree" in wanted:
            self._add_on_edges(self._kernels.count, wanted["degree"])
        known |= {role: wanted[role] for role in ("aggregated", "degree") if role in wanted}
        if "mean" in wanted:
            self._add_mean(layer, known, wanted["mean"])

    def _add_sum(self, layer: Layer, known: dict[str, Any], out: Any, mean: bool) -> None:
        if "GATHER" in layer.kinds:
            self._add_on_edges(self._kernels.aggregate, known["x"], out, mean)
        else:
            messages = known["x_j" if "MESSAGE" in layer.kinds else "messages"]
            self._add_on_edges(self._kernels.reduce, messages, out, mean)

    def _add_mean(self, layer: Layer, known: dict[str, Any], out: Any) -> None:
        if "aggregated" not in known:
            self._add_sum(layer, known, out, mean=True)
        else:
            if "degree" not in known:
                known["degree"] = self._kernels.buffer("degree", self.nodes)
                self._add_on_edges(self._kernels.count, known["degree"])
            self._add(self._kernels.divide, known["aggregated"], known["degree"], out)
        known["mean"] = out

    def _add_transform(self, layer: Layer, known: dict[str, Any]) -> None:
        """TRANSFORM with all before it that nobody else wants, and ACTIVATE if that is in the block."""
        weights = self._checked_weights(layer, known["x"])
        relu = "ACTIVATE" in layer.kinds and "transformed" not in layer.wanted
        role = "out" if relu else "transformed"
        out = self._place(layer, weights.outputs) if relu else layer.wanted[role]
        if self._rows is not None:  # of a part of a graph: layers one by one, aggregated before the products
            self._add_on_edges(self._kernels.layer_rows, known["x"], weights, out, *self._rows, relu)
        elif "GATHER" in layer.kinds and not known.keys() & {"aggregated", "mean"}:
            self._add_on_edges(self._kernels.layer, known["x"], weights, out, relu)
        else:
            if "mean" not in known:
                self._add_mean(layer, known, self._kernels.buffer("mean of block", self.nodes, weights.inputs))
            self._add(self._kernels.transform, known["mean"], known["x"], weights, out, relu)
        known[role] = out

    def _checked_weights(self, layer: Layer, x: Any) -> LayerWeights:
        weights = self._weights(layer.number)
        if x.shape[1] != weights.inputs:
            raise BadInput(f"layer {layer.number} reads {weights.inputs} features; there are {x.shape[1]} before it")
        return weights

    def _place(self, layer: Layer, width: int) -> Any:
        """Where the features after a layer go: if they are not wanted, into the block's result if that is safe."""
        if "out" in layer.wanted:
            return layer.wanted["out"]
        result = self._layers[-1].wanted.get("out")
        if result is not None and result.shape[1] == width and all(map(self._may_overwrite, self._after(layer))):
            return result
        return self._kernels.buffer(f"features {layer.number % 2}", self.nodes, width)

    def _after(self, layer: Layer) -> list[Layer]:
        return [each for each in self._layers if each.number > layer.number]

    def _may_overwrite(self, layer: Layer) -> bool:
        """Whether a layer has read all its features before it writes the first."""
        return layer.is_whole and self._weights(layer.number).transforms_first
