"""Runtimes that can compute a block of stages: one file each, found by the first part of a PU's name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from codedag.stages.model import Tensor
from codedag.stages.sizes import Sizes

#: The module of each runtime; what is not named here is a device of torch's (cuda:0, xpu:0, mps, one made in Python).
RUNTIMES = {
    "torch": "torch_",
    "inductor": "inductor_",
    "ov": "openvino_",
    "ort": "onnxruntime_",
    "numba": "numba_",
}


class Unsupported(Exception):  # noqa: N818 - control flow inside one request
    """This PU does not take the block; nothing went wrong."""


class RanElsewhere(Exception):  # noqa: N818 - control flow inside one request
    """A part of the block ran on another device than the PU: its time is not the PU's."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a runtime needs of a block: its ONNX file, its tensors, what its stages are, and torch's form as bytes."""

    name: str
    onnx: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    kinds: tuple[str, ...] = ()
    weights: str = ""  # the .npz file of all weights
    layer: int = 0  # of a stack of layers, counted from 0: which weights the kinds mean
    torch: bytes = field(default=b"", repr=False)
    rows: tuple[int, int] | None = None  # of the results that are wanted, first and behind the last; None: all

    @staticmethod
    def of(facts: Mapping[str, Any], payload: bytes = b"") -> Program:
        """The program that `facts` described in another process."""
        tensors = {name: Tensor(name, dtype, tuple(shape)) for name, (dtype, shape) in facts["tensors"].items()}
        return Program(
            facts["name"], facts["onnx"], tuple(facts["inputs"]), tuple(facts["outputs"]), tensors,
            tuple(facts["kinds"]), facts["weights"], facts["layer"], payload,
            tuple(facts["rows"]) if facts["rows"] else None,
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """The program as JSON, without torch's bytes."""
        tensors = {name: [each.dtype, list(each.shape)] for name, each in self.tensors.items()}
        return {
            "name": self.name, "onnx": self.onnx, "inputs": list(self.inputs), "outputs": list(self.outputs),
            "tensors": tensors, "kinds": list(self.kinds), "weights": self.weights, "layer": self.layer,
            "rows": self.rows,
        }  # fmt: skip


class Loaded(Protocol):
    """A block that is ready to run at certain sizes, from given input arrays into given output arrays."""

    def bring(self) -> None:
        """Makes the inputs available to the PU; ends when they are there."""

    def run(self) -> None:
        """Computes; ends when the outputs are complete, in the output arrays if the PU works in host memory."""

    def fetch(self) -> None:
        """Makes the outputs available in the output arrays; nothing to do for a PU that works in host memory."""

    def ran_on(self) -> str:
        """The device that really ran it, as the runtime itself says; raises RanElsewhere if a part did not."""

    @property
    def precision(self) -> str:
        """The type that floats are computed in, as the runtime itself says: f32, f16, bf16."""


class Runner(Protocol):
    """One runtime in this process."""

    version: str  # of the library: figures of another one are not its figures

    def load(self, program: Program, sizes: Sizes, inputs: dict[str, Any], outputs: dict[str, Any]) -> Loaded:
        """The block, compiled for these sizes and bound to these arrays."""


def cores_of(pu: str) -> tuple[int, ...]:
    """The cores that a PU is bound to, which its name says (`ov:cpu@0-3`); none if it may use all."""
    first, _, last = pu.partition("@")[2].partition("-")
    return tuple(range(int(first), int(last or first) + 1)) if first.isdecimal() else ()


def runner_of(pu: str, threads: int) -> Runner:
    """The runner of a PU, with its library loaded; raises ImportError if that is not there."""
    pu = pu.partition("@")[0]
    name = RUNTIMES.get(pu.partition(":")[0], "torch_")
    made: Runner = importlib.import_module(f"codedag.stages.runners.{name}").Runner(pu, threads)
    return made
