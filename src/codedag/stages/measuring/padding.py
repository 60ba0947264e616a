"""Static sizes for PUs that take no others: few of them, inputs padded up to one, results cut back.

Edges that are added begin and end in a row that is added too, so no node's sum, count or mean changes. Rows that are
added to a batch are zeros. Whether a model may be padded at all is shown by its results, which are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codedag.stages.model import Tensor
from codedag.stages.runners import Loaded, Program, Runner
from codedag.stages.sizes import GRAPH, Sizes

STEPS = 4  # static sizes from one power of two to the next: at most a quarter is added


def static_size(size: int) -> int:
    """The least static size that holds so many."""
    if size <= STEPS:
        return max(size, 1)
    step = 1 << ((size - 1).bit_length() - 3)
    return -(-size // step) * step


def static_sizes(sizes: Sizes) -> dict[str, int]:
    """The static sizes that hold these; a graph gets one row more, for the edges that are added."""
    spare = 1 if tuple(sizes) == GRAPH else 0
    return {name: static_size(value + (spare if name == "nodes" else 0)) for name, value in sizes.items()}


def filling(tensor: Tensor, padded: Sizes) -> int:
    """What is written into the places that are added: ids of the last row for edges, else zero."""
    return padded["nodes"] - 1 if tensor.dtype == "int64" and "edges" in tensor.shape and "nodes" in padded else 0


class Padded:
    """A block that runs at static sizes with arrays of any size that fits."""

    def __init__(
        self, runner: Runner, program: Program, sizes: Sizes, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> None:
        self.sizes = static_sizes(sizes)
        self._inputs, self._outputs = inputs, outputs
        self._in = {name: self._room(program.tensors[name]) for name in inputs}
        self._out = {name: self._room(program.tensors[name]) for name in outputs}
        self._inner: Loaded = runner.load(program, self.sizes, self._in, self._out)

    def _room(self, tensor: Tensor) -> Any:
        import numpy as np

        return np.full(tensor.at(self.sizes), filling(tensor, self.sizes), tensor.dtype)

    def bring(self) -> None:
        """Copies the inputs into their places; what was added stays as it is."""
        for name, array in self._inputs.items():
            self._in[name][tuple(map(slice, array.shape))] = array
        self._inner.bring()

    def run(self) -> None:
        """Computes at the static sizes and cuts the results back."""
        self._inner.run()
        self._inner.fetch()
        for name, array in self._outputs.items():
            array[...] = self._out[name][tuple(map(slice, array.shape))]

    def fetch(self) -> None:
        """Nothing: the results are cut back already."""

    def ran_on(self) -> str:
        """The device that ran it."""
        return self._inner.ran_on()

    @property
    def precision(self) -> str:
        """The type that floats are computed in."""
        return self._inner.precision
