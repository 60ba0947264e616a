"""Stages of a torch graph: its operations as units to cut, and each group of them as a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from codedag.stages.cuts import Flow, Groups, Unit, cut, cut_at
from codedag.stages.model import BadModel
from codedag.stages.torch_models.torch_graph import Whole, is_item
from codedag.stages.torch_models.torch_programs import Part
from codedag.stages.torch_models.torch_symbols import is_view, node_flop, numel


class GraphCutter:
    """One graph, its units, and the modules made of groups of them."""

    def __init__(self, graph: Whole) -> None:
        self._graph = graph
        nodes = list(graph.module.graph.nodes)
        self._tensors = {node.name: node for node in nodes if _is_tensor(node) and node.op != "get_attr"}
        self._inputs = [node for node in nodes if node.op == "placeholder" and _is_tensor(node)]
        self._hints = _hints(self._inputs)
        self.units: dict[str, list[Any]] = {}
        self._owner: dict[str, str] = {}
        for node in nodes:
            self._take(node)

    def _take(self, node: Any) -> None:
        """Puts an operation on tensors into a unit: items of a tuple stay with what makes the tuple."""
        if node.op != "call_function" or _is_number(node):
            return
        owner = self._owner.get(node.args[0].name) if is_item(node) else None
        title = owner or node.name
        self.units.setdefault(title, []).append(node)
        self._owner[node.name] = title

    def title(self, node: Any) -> str:
        """The name of a tensor in the staged model."""
        own = str(node.target) if node.op == "placeholder" else node.name
        return self._graph.names.get(node.name, own)

    def flow(self) -> Flow:
        """The units as something to cut, with bytes at the sizes of the example."""
        units = [self._unit(title, nodes) for title, nodes in self.units.items()]
        nbytes = {self.title(node): self._nbytes(node) for node in self._tensors.values()}
        return Flow(units, nbytes, tuple(self._graph.names.values()))

    def _unit(self, title: str, nodes: Sequence[Any]) -> Unit:
        own = {node.name for node in nodes}
        reads = (each for node in nodes for each in node.all_input_nodes if each.name not in own)
        tensors = dict.fromkeys(self.title(each) for each in reads if each.name in self._tensors)
        makes = tuple(self.title(node) for node in nodes if node.name in self._tensors)
        return Unit(
            (title,), tuple(tensors), makes, sum(self._number(node_flop(node)) for node in nodes), is_view(nodes[0])
        )

    def _nbytes(self, node: Any) -> float:
        value = node.meta["val"]
        return self._number(numel(value)) * float(value.element_size())

    def _number(self, formula: Any) -> float:
        return float(formula.subs({each: self._hints.get(str(each), 2) for each in formula.free_symbols}))

    # -- groups as modules

    def parts(self, stages: int | None, cuts: Sequence[str]) -> list[Part]:
        """The stages: cut at names of tensors or layers, else where the graph is narrow."""
        flow = self.flow()
        if not flow.units:
            raise BadModel("the module has no operations on tensors")
        if cuts:
            inputs = [self.title(node) for node in self._inputs]
            groups = cut_at(flow, [self._last_of(name, flow) for name in cuts], inputs, "the module")
        else:
            groups = cut(flow, stages)
        return self._parts(groups)

    def _last_of(self, name: str, flow: Flow) -> str:
        """A layer's name as the last tensor that it makes; other names as they are."""
        if name in flow.producer:
            return name
        made = [
            self.title(node)
            for nodes in self.units.values()
            for node in nodes
            if node.name in self._tensors and any(path == name for path in layers_of(node))
        ]
        return made[-1] if made else name

    def _parts(self, groups: Groups) -> list[Part]:
        builders = [_Builder(self, self._graph, group) for group in groups]
        built = []
        for at, builder in enumerate(builders):
            later = set(self._graph.names.values()).union(*(each.reads for each in builders[at + 1 :]))
            built.append(builder.part(later))
        return _with_names(built, [self._label(group) for group in groups])

    def place_of(self, leaf: Any, near: Sequence[Any]) -> tuple[Any, int]:
        """A tensor with the size that a `sym_size` node reads, and its axis: near ones first, then inputs."""
        wanted = str(leaf.meta["val"])
        for node in (*near, *self._inputs):
            for axis, dim in enumerate(node.meta["val"].shape):
                if not isinstance(dim, int) and str(dim) == wanted:
                    return node, axis
        return leaf.args[0], leaf.args[1] if len(leaf.args) > 1 else 0

    def _label(self, group: Sequence[Unit]) -> str:
        """The layers at which a stage begins and ends."""
        paths = [paths[-1] for unit in group if (paths := layers_of(self.units[unit.members[-1]][0]))]
        if not paths:
            return group[-1].members[-1]
        return paths[0] if paths[0] == paths[-1] else f"{paths[0]}..{paths[-1]}"


def layers_of(node: Any) -> list[str]:
    """The paths of the layers that an operation belongs to, outermost first."""
    stack = (node.meta.get("nn_module_stack") or {}).values()
    return [str(path) for path, *_ in stack if path and not str(path).startswith("_empty_nn")]


def _with_names(parts: Sequence[Part], labels: Sequence[str]) -> list[Part]:
    return [
        Part(label if labels.count(label) == 1 else f"{label}_{at}", part.module, part.inputs, part.outputs)
        for at, (part, label) in enumerate(zip(parts, labels, strict=True), 1)
    ]


def _is_tensor(node: Any) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_number(node: Any) -> bool:
    """Whether a node computes a size: it is computed again wherever it is needed."""
    value = node.meta.get("val")
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)


def _number_leaves(node: Any) -> list[Any]:
    """The `sym_size` nodes that an operation's whole numbers are computed from."""
    found, todo, seen = [], [each for each in node.all_input_nodes if _is_number(each)], set()
    while todo:
        each = todo.pop()
        if each.name in seen:
            continue
        seen.add(each.name)
        tensors = [source for source in each.all_input_nodes if _is_tensor(source)]
        if tensors:
            found.append(each)
        todo += [source for source in each.all_input_nodes if _is_number(source)]
    return found


def _hints(inputs: Sequence[Any]) -> dict[str, int]:
    """The example's number for each symbol."""
    found: dict[str, int] = {}
    for node in inputs:
        for dim in node.meta["val"].shape:
            if not isinstance(dim, int) and dim.node.has_hint():
                found[str(dim.node.expr)] = int(dim.node.hint)
    return found


class _Builder:
    """One stage as a graph module: copies of its operations, with sizes computed from tensors that it has."""

    def __init__(self, cutter: GraphCutter, graph: Whole, group: Sequence[Unit]) -> None:
        self._cutter, self._source = cutter, graph
        own = {node.name for unit in group for name in unit.members for node in cutter.units[name]}
        self._nodes = [node for node in graph.module.graph.nodes if node.name in own]
        self._outside = self._found_outside(own)
        self._graph = torch.fx.Graph()
        self._copies: dict[str, Any] = {}

    def _found_outside(self, own: set[str]) -> dict[str, Any]:
        """The tensors that come from other stages, in the order in which they are first read."""
        reads = (each for node in self._nodes for each in node.all_input_nodes)
        found = {
            each.name: each for each in reads if _is_tensor(each) and each.op != "get_attr" and each.name not in own
        }
        near = list(found.values())
        leaves = {leaf.name: leaf for node in self._nodes for leaf in _number_leaves(node)}
        self._places = {name: self._cutter.place_of(leaf, near) for name, leaf in leaves.items()}
        for tensor, _ in self._places.values():
            if tensor.name not in own:
                found.setdefault(tensor.name, tensor)
        return found

    @property
    def reads(self) -> set[str]:
        """The names of the tensors that it needs."""
        return {self._cutter.title(node) for node in self._outside.values()}

    def part(self, later: set[str]) -> Part:
        """The stage, not yet named, with outputs that are read later."""
        for name, node in self._outside.items():
            self._copies[name] = self._graph.placeholder(name)
            self._copies[name].meta["val"] = node.meta["val"]
        for node in self._nodes:
            self._copies[node.name] = self._graph.node_copy(node, self._copy)
        made = [node for node in self._nodes if _is_tensor(node) and self._cutter.title(node) in later]
        self._graph.output(tuple(self._copies[node.name] for node in made))
        module = torch.fx.GraphModule(self._source.module, self._graph)
        inputs, outputs = self._outside.values(), tuple(self._cutter.title(node) for node in made)
        return Part("", module.eval(), tuple(self._cutter.title(node) for node in inputs), outputs)

    def _copy(self, node: Any) -> Any:
        """The copy of an argument: a tensor of this stage, a weight, or a size computed here."""
        if node.name not in self._copies:
            self._copies[node.name] = self._number(node) if _is_number(node) else self._weight(node)
        return self._copies[node.name]

    def _weight(self, node: Any) -> Any:
        made = self._graph.get_attr(node.target)
        made.meta = dict(node.meta)
        return made

    def _number(self, node: Any) -> Any:
        if node.name in self._places and node.target is torch.ops.aten.sym_size.int:
            tensor, axis = self._places[node.name]
            return self._graph.call_function(node.target, (self._copies[tensor.name], axis))
        return self._graph.node_copy(node, self._copy)
