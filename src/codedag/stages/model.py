"""StagedModel: a DAG of named stages over named tensors with symbolic sizes, and the programs that compute them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from codedag.ir.errors import CodedagError
from codedag.ir.verdict import No
from codedag.stages.sizes import Dim, Sizes, evaluate

if TYPE_CHECKING:
    from pathlib import Path

    from codedag.stages.reference import Reference

Arrays = dict[str, Any]  # numpy arrays by the name of their tensor


class BadModel(CodedagError):  # noqa: N818 - reads as what happened
    """A model that cannot be read, cut or exported; names the file, node or cut."""

    slug = "bad-model"


class BadInput(CodedagError):  # noqa: N818
    """Inputs that do not fit a staged model; names the file and the array."""

    slug = "bad-input"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array between stages: numpy's name of its type, and a shape of numbers and expressions of the sizes."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]

    def at(self, sizes: Sizes) -> tuple[int, ...]:
        """The shape at these sizes."""
        return tuple(evaluate(dim, sizes) for dim in self.shape)

    def nbytes(self, sizes: Sizes) -> int:
        """The bytes at these sizes."""
        import numpy as np

        return prod(self.at(sizes)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its number from 1, its name, the tensors it reads and makes, and its FLOP as an expression."""

    number: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    flop: Dim = 0
    kind: str = ""  # what kernels of ours know it by: GATHER, REDUCE_SUM, ...; empty for stages of other models


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring stages that run as one program, with the tensors that go in and come out."""

    first: int
    last: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """`3` for one stage, `1-5` for several."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def stages(self) -> range:
        """The numbers of its stages."""
        return range(self.first, self.last + 1)


class Programs(Protocol):
    """What computes the stages of one model; a program that cannot be had is a No with the reason."""

    @property
    def digest(self) -> str:
        """What the stages compute, in one number: graphs and weights."""

    def onnx(self, stage: Stage) -> Any:
        """The stage as an onnx.ModelProto with its tensors' names and symbolic sizes, nothing baked in."""

    def torch(self, block: Block) -> Any:
        """The block as a torch module: tensors in, in the order of its inputs; a tuple of tensors out. Or a No."""

    def weights(self) -> Arrays:
        """The weights by name."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model came from, so that another process can make it again: MODEL of the command line, and its cuts."""

    model: str
    stages: int | None = None
    cuts: tuple[str, ...] = ()
    weights: str = ""


@dataclass
class StagedModel:
    """Named stages in an order in which they can run, the tensors between them, and their programs."""

    name: str
    stages: tuple[Stage, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: tuple[str, ...]
    programs: Programs
    example: Arrays = field(default_factory=dict)
    source: Source = Source("")
    notes: tuple[str, ...] = ()  # what its user should know: sizes that are fixed, results that differ by rounding

    def __post_init__(self) -> None:
        check(self)

    # -- builders

    @staticmethod
    def from_modules(modules: Sequence[Any], example: Any, **options: Any) -> StagedModel:
        """The model whose stages are these torch modules, one after the other or as named entries."""
        from codedag.stages.torch_models.from_torch import from_modules

        return from_modules(modules, example, **options)

    @staticmethod
    def from_module(module: Any, example: Any, stages: int | None = None, **options: Any) -> StagedModel:
        """A torch module cut into stages."""
        from codedag.stages.torch_models.from_torch import from_module

        return from_module(module, example, stages=stages, **options)

    @staticmethod
    def from_onnx(path: str | Path, cuts: Sequence[str] = (), stages: int | None = None) -> StagedModel:
        """An ONNX file cut at named tensors, or where its graph is narrow."""
        from codedag.stages.onnx_models.from_onnx import from_onnx

        return from_onnx(path, cuts=cuts, stages=stages)

    # -- facts

    def stage(self, number: int) -> Stage:
        """The stage with this number, from 1."""
        return self.stages[number - 1]

    def block(self, first: int, last: int) -> Block:
        """Stages first to last as one: what they read from outside, and what others or the caller read of them."""
        inside = self.stages[first - 1 : last]
        made = [name for stage in inside for name in stage.outputs]
        reads = dict.fromkeys(name for stage in inside for name in stage.inputs if name not in made)
        wanted = {name for stage in (*self.stages[: first - 1], *self.stages[last:]) for name in stage.inputs}
        kept = tuple(name for name in made if name in wanted or name in self.outputs)
        return Block(first, last, tuple(reads), kept)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks of neighbouring stages, single ones included: they are convex, since stages are in order."""
        count = len(self.stages)
        return tuple(self.block(a, b) for a in range(1, count + 1) for b in range(a, count + 1))

    @cached_property
    def producer(self) -> Mapping[str, int]:
        """The number of the stage that makes each tensor; 0 for the inputs of the model."""
        return {**dict.fromkeys(self.inputs, 0), **{name: s.number for s in self.stages for name in s.outputs}}

    def sizes_of(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """The sizes that these inputs have; raises BadInput naming an array that does not fit."""
        found: dict[str, int] = {}
        for name in self.inputs:
            self._match(name, arrays, found)
        return {name: found[name] for name in self.sizes if name in found}

    def _match(self, name: str, arrays: Mapping[str, Any], found: dict[str, int]) -> None:
        tensor = self.tensors[name]
        if name not in arrays:
            raise BadInput(f"there is no array `{name}`", hint=f"The model reads {', '.join(self.inputs)}.")
        shape, dtype = tuple(arrays[name].shape), str(arrays[name].dtype)
        if dtype != tensor.dtype:
            raise BadInput(f"`{name}` is {dtype}; the model reads {tensor.dtype}")
        if len(shape) != len(tensor.shape):
            raise BadInput(f"`{name}` has shape {shape}; the model reads {shown_shape(tensor)}")
        for have, want in zip(shape, tensor.shape, strict=True):
            if isinstance(want, str) and want.isidentifier():
                want = found.setdefault(want, have)
            if isinstance(want, int) and have != want:
                raise BadInput(f"`{name}` has shape {shape}; the model reads {shown_shape(tensor)}")

    # -- running

    @cached_property
    def reference(self) -> Reference:
        """The stages as the model was given, ready to compute."""
        from codedag.stages.reference import Reference

        return Reference(self)

    def run(self, inputs: Mapping[str, Any]) -> Arrays:
        """Every tensor by its name: the reference, stage after stage, as the model was given."""
        return self.reference.tensors(inputs)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The outputs for inputs in their order, computed stage after stage; torch tensors for torch tensors."""
        from codedag.stages.reference import called

        return called(self, args, keywords)


def shown_shape(tensor: Tensor) -> str:
    """A shape as people read it: `[nodes, 500]`."""
    return f"[{', '.join(map(str, tensor.shape))}]"


def check(model: StagedModel) -> None:
    """Raises BadModel unless every tensor is made once, before it is read, and every output is made."""
    known = set(model.inputs)
    for at, stage in enumerate(model.stages, 1):
        if stage.number != at:
            raise BadModel(f"stage `{stage.name}` has number {stage.number}; it is at place {at}")
        for name in stage.inputs:
            if name not in known:
                raise BadModel(f"stage {at} `{stage.name}` reads `{name}`, which nothing before it makes")
        for name in stage.outputs:
            if name in known:
                raise BadModel(f"stage {at} `{stage.name}` makes `{name}`, which is there already")
        known |= set(stage.outputs)
    missing = [name for name in model.outputs if name not in known]
    if missing or not model.stages:
        raise BadModel(f"`{model.name}` has no stage that makes `{missing[0]}`" if missing else "there are no stages")
    untold = [name for name in known if name not in model.tensors]
    if untold:
        raise BadModel(f"the shape of `{untold[0]}` is not known")


def need(program: Any) -> Any:
    """A program, or BadModel with the reason why there is none."""
    if isinstance(program, No):
        raise BadModel(program.reason)
    return program
