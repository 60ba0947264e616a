"""Kernels of ours, compiled by numba: blocks of the seven kinds of graph stages, fused, also over several layers."""

from __future__ import annotations

import threading
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codedag.stages.graph.fusion import KINDS, Fusion, layers_of
from codedag.stages.model import BadInput
from codedag.stages.npz import read_npz
from codedag.stages.runners import Program, Unsupported
from codedag.stages.sizes import Sizes

if TYPE_CHECKING:
    from codedag.stages.graph.kernels import GraphKernels, LayerWeights


class Runner:
    """Runs blocks of graph stages on threads of this process, one block at a time."""

    def __init__(self, pu: str, threads: int) -> None:
        import numba

        from codedag.stages.graph.kernels import GraphKernels

        self.version = str(numba.__version__)
        self._kernels = GraphKernels(threads)
        self._turn = threading.Lock()  # blocks share buffers
        self._weights: dict[tuple[str, int, int], LayerWeights] = {}

    def load(self, program: Program, sizes: Sizes, inputs: dict[str, Any], outputs: dict[str, Any]) -> _Loaded:
        """The block as a list of kernel calls on these arrays; its sizes are theirs."""
        check_kinds(program)
        layers = layers_of(program.kinds, program.layer, inputs, outputs)
        fusion = Fusion(self._kernels, partial(self._layer_weights, program.weights), layers, program.rows)
        return _Loaded(self._kernels, self._turn, fusion, inputs, f"cpu by numba {self.version}")

    def _layer_weights(self, path: str, layer: int) -> LayerWeights:
        file = Path(path)
        key = (path, file.stat().st_mtime_ns if file.exists() else 0, layer)
        if key not in self._weights:
            self._weights[key] = _read_weights(file, layer)
        return self._weights[key]


def check_kinds(program: Program) -> None:
    """Raises Unsupported naming the first stage that is none of a SAGE layer."""
    for at, kind in enumerate(program.kinds or ("",), 1):
        if kind not in KINDS:
            named = f"is {kind}" if kind else "is none of a SAGE layer"
            raise Unsupported(f"stage {at} of block {program.name} {named}: there is no kernel of ours for it")
    for kind, following in pairwise(program.kinds):
        if KINDS.index(following) != (KINDS.index(kind) + 1) % len(KINDS):
            raise Unsupported(f"block {program.name} has {following} after {kind}, which is no SAGE layer")


def _read_weights(path: Path, layer: int) -> LayerWeights:
    from codedag.stages.graph.kernels import LayerWeights

    arrays, here = read_npz(path), "" if layer == 0 else f"{layer}."
    names = [f"{here}{each}" for each in ("lin_l.weight", "lin_l.bias", "lin_r.weight")]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise BadInput(f"{path}: there is no array `{missing[0]}`")
    return LayerWeights.of(*(arrays[name] for name in names))


class _Loaded:
    def __init__(
        self, kernels: GraphKernels, turn: threading.Lock, fusion: Fusion, inputs: dict[str, Any], place: str
    ) -> None:
        self._kernels, self._turn, self._fusion, self._place = kernels, turn, fusion, place
        self._edges = inputs["edge_index"] if fusion.reads_edges else None

    def bring(self) -> None:
        return

    def run(self) -> None:
        with self._turn:
            # without edges no step looks at them
            csr: Any = None if self._edges is None else self._kernels.csr(self._edges, self._fusion.nodes)
            for step in self._fusion.steps:
                step(csr)

    def fetch(self) -> None:
        return

    precision = "f32"

    def ran_on(self) -> str:
        return self._place
