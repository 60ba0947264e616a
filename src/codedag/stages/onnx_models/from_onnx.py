"""Staged models of ONNX files: cut at named tensors, or where the graph is narrow and its work even."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from codedag.ir.verdict import No
from codedag.stages.cuts import Flow, Groups, Unit, cut, cut_at
from codedag.stages.model import Arrays, Block, Source, Stage, StagedModel, Tensor
from codedag.stages.onnx_models.onnx_files import OnnxFile, read_onnx
from codedag.stages.onnx_models.onnx_flop import flop_of, is_view, summed
from codedag.stages.onnx_models.onnx_graphs import model_of, value_info
from codedag.stages.onnx_models.onnx_numbers import Numbers, is_leaf
from codedag.stages.onnx_models.onnx_shapes import Shapes, sample, shapes_of
from codedag.stages.reference import draw
from codedag.stages.sizes import evaluate, symbols_of

#: Sizes of the example: the first dimension of an input, and others that are open.
EXAMPLE_FIRST, EXAMPLE_OTHER = 2, 16


def from_onnx(path: str | Path, cuts: Sequence[str] = (), stages: int | None = None) -> StagedModel:
    """An ONNX file as a staged model; raises BadModel naming the file and what is wrong with it.

    `cuts` are names of tensors (or of nodes, for their first result); without them the graph is cut by itself.
    """
    file = read_onnx(Path(path))
    shapes = shapes_of(file)
    cutter = _Cutter(file, shapes)
    groups = cutter.groups(stages, cuts)
    source = Source(os.path.abspath(path), stages, tuple(cuts))
    return _staged(file, shapes, cutter, groups, source)


def _staged(file: OnnxFile, shapes: Shapes, cutter: _Cutter, groups: Groups, source: Source) -> StagedModel:
    nodes = [cutter.nodes_of(group) for group in groups]
    made = cutter.stages(groups, nodes)
    crossing = {*file.inputs, *(name for stage in made for name in (*stage.inputs, *stage.outputs))}
    tensors = {name: shapes.tensor(name) for name in shapes.order(crossing)}
    programs = OnnxPrograms(file, nodes, tensors)
    sizes = dict.fromkeys(
        size for name in file.inputs for dim in tensors[name].shape for size in sorted(symbols_of(dim))
    )
    model = StagedModel(
        file.path.stem, made, tensors, file.inputs, file.outputs, tuple(sizes), programs, {}, source, file.notes
    )
    sizes_here = example_sizes(model)
    drawn = draw(model, sizes_here)
    ones = {name: sample(tensors[name], sizes_here) for name in file.inputs if drawn[name].dtype.kind != "f"}
    return replace(model, example={**drawn, **ones})


def example_sizes(model: StagedModel) -> dict[str, int]:
    """Small sizes to begin with; a size that is somewhere the first dimension of an input is a batch."""
    firsts = {model.tensors[name].shape[0] for name in model.inputs if model.tensors[name].shape}
    return {name: EXAMPLE_FIRST if name in firsts else EXAMPLE_OTHER for name in model.sizes}


class _Cutter:
    """The nodes of a file as units to cut, and groups of them as stages."""

    def __init__(self, file: OnnxFile, shapes: Shapes) -> None:
        self._file, self._shapes = file, shapes
        self._nodes = {f"{at}": node for at, node in enumerate(file.nodes)}
        self._made = {name for node in file.nodes for name in node.output if name}

    @cached_property
    def _sizes(self) -> dict[str, int]:
        symbols = (
            size for name in self._file.inputs for dim in self._shapes.tensor(name).shape for size in symbols_of(dim)
        )
        return dict.fromkeys(symbols, EXAMPLE_OTHER)

    @cached_property
    def _numbers(self) -> Numbers:
        return Numbers(self._file, self._shapes, self._sizes)

    def _is_tensor(self, name: str) -> bool:
        """Whether a name is a value that can pass between stages: no weight, and no number that follows from shapes."""
        return (name in self._made or name in self._file.inputs) and name not in self._numbers.makers

    def flow(self) -> Flow:
        """The nodes as units, with bytes at small sizes; what cannot pass between files has no end of bytes."""
        numbers = {id(node) for node in self._numbers.makers.values()}
        units = [self._unit(key, node) for key, node in self._nodes.items() if id(node) not in numbers]
        names = {*self._made, *self._file.inputs}
        return Flow(units, {name: self._nbytes(name) for name in names}, self._file.outputs)

    def _unit(self, key: str, node: Any) -> Unit:
        reads = tuple(name for name in self._file.reads(node) if self._is_tensor(name))
        flop = evaluate(summed([flop_of(node, self._shapes)]), self._sizes)
        return Unit((key,), reads, tuple(filter(None, node.output)), float(flop), is_view(node))

    def _nbytes(self, name: str) -> float:
        tensor = self._shapes.get(name)
        return float("inf") if tensor is None else float(tensor.nbytes(self._sizes))

    def groups(self, stages: int | None, cuts: Sequence[str]) -> Groups:
        """The units of each stage."""
        flow = self.flow()
        if not cuts:
            return cut(flow, stages, str(self._file.path))
        by_node = {node.name: node.output[0] for node in self._file.nodes if node.name and node.output}
        names = [name if name in flow.producer else by_node.get(name, name) for name in cuts]
        return cut_at(flow, names, self._file.inputs, str(self._file.path))

    def nodes_of(self, group: Sequence[Unit]) -> list[Any]:
        """The nodes of a stage in the order of the file, with those that compute the numbers which it reads."""
        keys = sorted((key for unit in group for key in unit.members), key=int)
        nodes = [self._nodes[key] for key in keys]
        own = {name for node in nodes for name in node.output}
        reads = dict.fromkeys(name for node in nodes for name in self._file.reads(node))
        near = [name for name in reads if name not in own and self._is_tensor(name)]
        based = {
            id(node): self._numbers.based(node, own, near) if is_leaf(node) else node
            for node in self._numbers.needed(nodes)
        }
        chosen = {id(node) for node in nodes} | based.keys()
        return [based.get(id(node), node) for node in self._file.nodes if id(node) in chosen]

    def stages(self, groups: Groups, nodes: Sequence[Sequence[Any]]) -> tuple[Stage, ...]:
        """The stages with the tensors that pass between them."""
        reads = [dict.fromkeys(name for node in each for name in self._file.reads(node)) for each in nodes]
        labels = [_label([self._nodes[unit.members[-1]] for unit in group]) for group in groups]
        found = []
        for at, each in enumerate(nodes):
            own = [name for node in each for name in node.output if self._is_tensor(name)]
            inputs = [name for name in reads[at] if name not in own and self._is_tensor(name)]
            later = {name for other in reads[at + 1 :] for name in other} | set(self._file.outputs)
            title = labels[at] if labels.count(labels[at]) == 1 else f"{labels[at]}_{at + 1}"
            outputs = tuple(name for name in own if name in later)
            flop = summed(flop_of(node, self._shapes) for node in each)
            found.append(Stage(at + 1, title, tuple(inputs), outputs, flop))
        return tuple(found)


def _label(nodes: Sequence[Any]) -> str:
    """The scopes, else the operators, at which a stage begins and ends."""
    first, last = (_scope(node) for node in (nodes[0], nodes[-1]))
    return first if first == last else f"{first}..{last}"


def _scope(node: Any) -> str:
    scope = node.name.rpartition("/")[0].strip("/")
    return scope.rpartition("/")[2] or str(node.op_type)


class OnnxPrograms:
    """The stages of an ONNX file: subgraphs with the names of the file."""

    def __init__(self, file: OnnxFile, nodes: Sequence[Sequence[Any]], tensors: Mapping[str, Tensor]) -> None:
        self._file, self._nodes, self._tensors = file, nodes, tensors
        self._protos: dict[int, Any] = {}

    @cached_property
    def digest(self) -> str:
        """What the stages compute, in one number."""
        whole = hashlib.sha256(self._file.proto.SerializeToString(deterministic=True))
        whole.update(repr([[list(node.output) for node in each] for each in self._nodes]).encode())
        return whole.hexdigest()

    def onnx(self, stage: Stage) -> Any:
        """The stage as a model of its own."""
        if stage.number not in self._protos:
            self._protos[stage.number] = self._proto(stage)
        return self._protos[stage.number]

    def torch(self, block: Block) -> Any:
        """There is none."""
        return No("the model has no form that torch can run (it came from an ONNX file)")

    def weights(self) -> Arrays:
        """The initializers by name, as far as numpy has their types."""
        import onnx

        arrays = {each.name: onnx.numpy_helper.to_array(each) for each in self._file.initializers.values()}
        return {name: array for name, array in arrays.items() if array.dtype.kind in "fiub"}

    def _proto(self, stage: Stage) -> Any:
        import onnx

        nodes = self._nodes[stage.number - 1]
        read = dict.fromkeys(name for node in nodes for name in self._file.reads(node))
        graph = onnx.helper.make_graph(
            list(nodes),
            f"s{stage.number}",
            [value_info(self._tensors[name]) for name in stage.inputs],
            [value_info(self._tensors[name]) for name in stage.outputs],
            [self._file.initializers[name] for name in read if name in self._file.initializers],
        )
        return model_of(graph, self._file.proto)
