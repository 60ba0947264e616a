"""Torch programs of stages: modules over named tensors, exported by torch.export with symbolic sizes, and as ONNX."""

from __future__ import annotations

import copy
import hashlib
import io
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch

from codedag.instrument.guard import Failed, attempt
from codedag.stages.model import Arrays, BadModel, Block, Stage, Tensor
from codedag.stages.onnx_models.onnx_graphs import named
from codedag.stages.sizes import Dim
from codedag.stages.torch_models.torch_symbols import expression, flop_of, is_open

#: torch's exporter writes this version of ONNX's operators without converting; the runtimes here read it.
OPSET = 20


@dataclass(frozen=True)
class Part:
    """A stage as it is given: a module that takes these tensors in their order and makes those."""

    name: str
    module: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kind: str = ""
    prefix: str = ""  # of the names of its weights


class Chain(torch.nn.Module):  # type: ignore[misc]
    """Parts that run one after the other over named tensors: tensors in, in the order of `reads`; a tuple out."""

    def __init__(self, parts: Sequence[Part], reads: Sequence[str], gives: Sequence[str]) -> None:
        super().__init__()
        self.modules_of_parts = torch.nn.ModuleList(part.module for part in parts)
        self._wiring = [(part.inputs, part.outputs) for part in parts]
        self._reads, self._gives = tuple(reads), tuple(gives)

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        """The tensors that the parts give."""
        known = dict(zip(self._reads, tensors, strict=True))
        for module, (inputs, outputs) in zip(self.modules_of_parts, self._wiring, strict=True):
            made = as_tuple(module(*(known[name] for name in inputs)))
            known.update(zip(outputs, made, strict=True))
        return tuple(known[name] for name in self._gives)


def as_tuple(result: Any) -> tuple[Any, ...]:
    """What a module returned as a tuple of tensors."""
    return tuple(result) if isinstance(result, tuple | list) else (result,)


@contextmanager
def quiet() -> Iterator[None]:
    """A block in which torch's exporters neither warn, log nor print: what matters is raised."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def shared_registry() -> Iterator[None]:
    """A block in which torch's ONNX exporter builds its table of operators once, not for each stage.

    The table takes 60 % of the time of a small stage (measured with torch 2.13) and depends on the opset alone; a
    version of torch that has it elsewhere is only slower.
    """
    registration = sys.modules.get("torch.onnx._internal.exporter._registration")
    registry = getattr(registration, "ONNXRegistry", None)
    own = registry.__dict__.get("from_torchlib") if registry is not None else None
    if registry is None or not isinstance(own, classmethod):
        yield
        return

    def once(kind: Any, *args: Any, **keywords: Any) -> Any:
        return _registry(own, kind, args, tuple(sorted(keywords.items())))

    registry.from_torchlib = classmethod(once)
    try:
        yield
    finally:
        registry.from_torchlib = own


@cache
def _registry(own: Any, kind: Any, args: tuple[Any, ...], keywords: tuple[tuple[str, Any], ...]) -> Any:
    return own.__func__(kind, *args, **dict(keywords))


def exported(module: Any, tensors: Sequence[Any], shapes: Sequence[Sequence[Dim]], what: str) -> Any:
    """The exported program of a module with `*tensors`, dynamic where a shape is symbolic; raises BadModel."""
    spec = tuple(
        {axis: torch.export.Dim.AUTO for axis, dim in enumerate(shape) if isinstance(dim, str)} for shape in shapes
    )
    with quiet(), torch.no_grad():
        made = attempt(torch.export.export, Flat(module), tuple(tensors), dynamic_shapes=(spec,))
    if isinstance(made, Failed):
        raise BadModel(f"{what} cannot be exported: {short(made.reason)}")
    check_dynamic(made, shapes, what)
    return made


class Flat(torch.nn.Module):  # type: ignore[misc]
    """A module that takes tensors one by one and gives a tuple."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        """What the module gives, as a tuple."""
        return as_tuple(self.module(*tensors))


def check_dynamic(program: Any, shapes: Sequence[Sequence[Dim]], what: str) -> None:
    """Raises BadModel if a size that should stay symbolic was fixed by the export."""
    for value, shape in zip(input_values(program), shapes, strict=True):
        for have, want in zip(value.shape, shape, strict=True):
            if isinstance(want, str) and not is_open(have):
                raise BadModel(
                    f"{what} only works for `{want}` = {have}, so its size cannot stay open",
                    hint="Write the size as tensor.shape[...], not as a number, or leave the size fixed.",
                )


def input_values(program: Any) -> list[Any]:
    """The fake tensors of the inputs of an exported program, in their order."""
    names = set(program.graph_signature.user_inputs)
    return [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in names]


def output_values(program: Any) -> list[Any]:
    """The fake tensors of its outputs."""
    result = next(node for node in program.graph.nodes if node.op == "output")
    return [node.meta["val"] for node in result.args[0]]


def short(reason: str, limit: int = 400) -> str:
    """The first lines of a long message of torch's."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    text = " ".join(lines[:4])
    return text if len(text) <= limit else f"{text[:limit]}..."


@dataclass
class Exported:
    """One stage as an exported program, with its tensors and FLOP in the sizes of the model."""

    program: Any
    outputs: tuple[Tensor, ...]
    flop: Dim
    example: tuple[Any, ...]

    @staticmethod
    def of(part: Part, inputs: Sequence[Tensor], example: Sequence[Any]) -> Exported:
        """The part, exported with inputs of these shapes."""
        program = exported(part.module, example, [tensor.shape for tensor in inputs], f"stage `{part.name}`")
        symbols = _symbols(program, inputs)
        values = output_values(program)
        if len(values) != len(part.outputs):
            raise BadModel(f"stage `{part.name}` gives {len(values)} tensors, not {len(part.outputs)}")
        outputs = tuple(
            Tensor(name, dtype_name(value.dtype), tuple(expression(dim, symbols) for dim in value.shape))
            for name, value in zip(part.outputs, values, strict=True)
        )
        with torch.no_grad():
            made = as_tuple(part.module(*example))
        return Exported(program, outputs, flop_of(program, symbols), made)


def _symbols(program: Any, inputs: Sequence[Tensor]) -> dict[str, Dim]:
    """The size of the model that each symbol of the program stands for."""
    found: dict[str, Dim] = {}
    for value, tensor in zip(input_values(program), inputs, strict=True):
        for have, want in zip(value.shape, tensor.shape, strict=True):
            if not isinstance(have, int) and have.node.expr.is_Symbol:
                found.setdefault(str(have.node.expr), want)
    return found


def dtype_name(dtype: Any) -> str:
    """Numpy's name of a torch type."""
    name = str(dtype).removeprefix("torch.")
    if name.startswith(("bfloat", "complex32", "float8", "quint", "qint")):
        raise BadModel(f"tensors of type {name} cannot pass between stages: numpy has no such type")
    return name


class TorchPrograms:
    """The stages of one model as torch modules, exported when they are needed."""

    def __init__(self, parts: Sequence[Part], inputs: Sequence[Tensor], example: Mapping[str, Any]) -> None:
        self.parts = tuple(parts)
        self.tensors: dict[str, Tensor] = {tensor.name: tensor for tensor in inputs}
        self._example = dict(example)
        self._exported: dict[int, Exported] = {}
        self._protos: dict[int, Any] = {}

    def describe(self) -> list[Dim]:
        """Finds the tensors of all stages by exporting each; the FLOP of the stages."""
        for place, part in enumerate(self.parts):
            made = self.exported(place)
            self.tensors.update({tensor.name: tensor for tensor in made.outputs})
            self._example.update(zip(part.outputs, made.example, strict=True))
        return [self.exported(place).flop for place in range(len(self.parts))]

    def exported(self, place: int) -> Exported:
        """A stage as an exported program."""
        if place not in self._exported:
            part = self.parts[place]
            tensors = [self.tensors[name] for name in part.inputs]
            self._exported[place] = Exported.of(part, tensors, [self.example(name) for name in part.inputs])
        return self._exported[place]

    def example(self, name: str) -> Any:
        """A tensor as the example has it; those between stages are computed when one is asked for."""
        if name not in self._example:
            with torch.no_grad():
                for part in self.parts:
                    made = as_tuple(part.module(*(self._example[each] for each in part.inputs)))
                    self._example.update(zip(part.outputs, made, strict=True))
        return self._example[name]

    # -- as the protocol Programs has it

    def torch(self, block: Block) -> Any:
        """The block as a module: tensors in, a tuple of tensors out."""
        return Chain(self.parts[block.first - 1 : block.last], block.inputs, block.outputs).eval()

    def onnx(self, stage: Stage) -> Any:
        """The stage as an ONNX model with the names of its tensors, weights and sizes."""
        if stage.number not in self._protos:
            self._protos[stage.number] = self._proto(stage)
        return self._protos[stage.number]

    def weights(self) -> Arrays:
        """The weights by name, each one once."""
        return {name: value.detach().cpu().numpy() for name, value in self._named_weights.items()}

    @cached_property
    def digest(self) -> str:
        """What the stages compute, in one number: their graphs and their weights."""
        whole = hashlib.sha256(f"{torch.__version__} opset {OPSET}".encode())
        for place, part in enumerate(self.parts):
            tensors = [self.tensors[name] for name in (*part.inputs, *part.outputs)]
            whole.update(repr((part.name, part.inputs, part.outputs, tensors)).encode())
            own = part.module if isinstance(part.module, torch.fx.GraphModule) else None
            whole.update((own or self.exported(place).program.graph_module).code.encode())
        for name, value in self.weights().items():
            whole.update(f"{name} {value.dtype} {value.shape}".encode())
            whole.update(value.tobytes())
        return whole.hexdigest()

    # -- other forms

    def packed(self, block: Block) -> bytes:
        """The block's exported program as bytes that `torch.export.load` reads."""
        shapes = [self.tensors[name].shape for name in block.inputs]
        tensors = [self.example(name) for name in block.inputs]
        program = exported(self.torch(block), tensors, shapes, f"block {block.name}")
        stream = io.BytesIO()
        with quiet():
            torch.export.save(program, stream)
        return stream.getvalue()

    def exact(self, block: Block) -> Any:
        """The block in float64, for a result that rounding has not decided."""
        parts = [
            Part(each.name, doubled(self.exported(at - 1).program), each.inputs, each.outputs)
            for at in block.stages
            for each in [self.parts[at - 1]]
        ]
        return Chain(parts, block.inputs, block.outputs)

    def _proto(self, stage: Stage) -> Any:
        program = self.exported(stage.number - 1).program
        with quiet(), shared_registry():
            made = attempt(
                torch.onnx.export, program, (), dynamo=True, verbose=False, external_data=False, opset_version=OPSET
            )
        if isinstance(made, Failed):
            raise BadModel(f"stage `{stage.name}` cannot be written as ONNX: {short(made.reason)}")
        aliases = {f"module.{own}": name for own, name in self._aliases(stage.number - 1).items()}
        return named(made.model_proto, stage, self.tensors, aliases, self.weights())

    @cached_property
    def _named_weights(self) -> dict[str, Any]:
        return {name: value for each in range(len(self.parts)) for name, value in self._weights_of(each)}

    def _weights_of(self, place: int) -> Iterator[tuple[str, Any]]:
        names = self._aliases(place)
        for own, value in _state(self.parts[place].module).items():
            yield names[own], value

    def _aliases(self, place: int) -> dict[str, str]:
        """The weights' names in the whole model by their names in one part."""
        return {own: self._global_names[id(value)] for own, value in _state(self.parts[place].module).items()}

    @cached_property
    def _global_names(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for part in self.parts:
            for own, value in _state(part.module).items():
                found.setdefault(id(value), f"{part.prefix}{own}")
        return found


def _state(module: Any) -> dict[str, Any]:
    """Parameters and buffers by name; one that has two names is there twice, as the same object."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    return {**parameters, **dict(module.named_buffers(remove_duplicate=False))}


def doubled(program: Any) -> Any:
    """An exported program as a module that computes in float64."""
    with quiet():
        module = copy.deepcopy(program.module(check_guards=False))
    module.graph.set_codegen(torch.fx.CodeGen())
    for node in module.graph.nodes:
        node.args = torch.fx.node.map_aggregate(node.args, _double)
        node.kwargs = torch.fx.node.map_aggregate(node.kwargs, _double)
    module.recompile()
    return module.double()


def _double(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
