"""A torch module as one functional graph of ATen operations with symbolic sizes, and the reasons why there is none."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from codedag.instrument.guard import Failed, attempt
from codedag.stages.model import BadModel
from codedag.stages.sizes import Dim
from codedag.stages.torch_models.torch_programs import quiet, short
from codedag.stages.torch_models.torch_symbols import expression
from codedag.stages.torch_models.user_lines import UserLine, is_users

FIXED = "all sizes are fixed: torch.export keeps no first dimension of the inputs open"


def user_line(node: Any) -> str:
    """The user's line that an operation of a graph came from; of torch's own line if no other is known."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    own = [(path, line) for path, line in frames if is_users(path)]
    return ":".join((own or frames or [("an unknown line",)])[-1])


@dataclass
class Whole:
    """A module as an unlifted graph: its inputs and outputs by name, and the sizes that its symbols stand for."""

    module: Any  # torch.fx.GraphModule
    inputs: dict[str, Any]  # example tensors by name
    symbols: dict[str, Dim]
    leaves: list[Any]  # of the result: the name of a tensor (Name) or a constant
    names: dict[str, str]  # of nodes that are outputs
    out_spec: Any
    in_spec: Any
    constants: dict[int, Any] = field(default_factory=dict)  # inputs that are no tensors, by their place
    notes: tuple[str, ...] = ()


class Name(str):
    """A leaf of a result that is a tensor of this name."""


def whole(module: Any, args: tuple[Any, ...], keywords: Mapping[str, Any], dynamic: Mapping[Any, Any] | None) -> Whole:
    """The graph of a module; raises BadModel with the operation and the user's line where there is none."""
    program, notes = _exported(module, args, dict(keywords), dynamic)
    check_pure(program)
    with quiet(), torch.no_grad():
        functional = attempt(program.run_decompositions, {})
    if isinstance(functional, Failed):
        raise BadModel(f"the module has no functional form: {short(functional.reason)}")
    unlifted = functional.module(check_guards=False)
    unlifted.graph.set_codegen(torch.fx.CodeGen())
    simplify(unlifted)
    return _described(functional, unlifted, args, keywords, notes)


def _exported(module: Any, args: Any, keywords: Any, dynamic: Any) -> tuple[Any, tuple[str, ...]]:
    axes = open_axes(args, keywords) if dynamic is None else dict(dynamic)
    if axes:
        made, line = _try(module, args, keywords, axes)
        if not isinstance(made, Failed):
            return made, ()
        if dynamic is not None:
            raise _refused(made, line)
    made, line = _try(module, args, keywords, {})
    if isinstance(made, Failed):
        raise _refused(made, line)
    return made, (FIXED,)


def open_axes(args: Any, keywords: Any) -> dict[int, dict[int, Any]]:
    """The first axis of every input tensor that has one longer than 1, by the tensor's identity."""
    tensors = [leaf for leaf in pytree.tree_leaves((args, keywords)) if isinstance(leaf, torch.Tensor)]
    return {id(each): {0: torch.export.Dim.AUTO} for each in tensors if each.ndim and each.shape[0] > 1}


def _try(module: Any, args: Any, keywords: Any, axes: Mapping[int, Any]) -> tuple[Any, UserLine]:
    line = UserLine()
    shapes = torch.export.ShapesCollection()
    for leaf in pytree.tree_leaves((args, keywords)):
        if id(leaf) in axes:
            shapes[leaf] = axes[id(leaf)]

    def export() -> Any:
        with line:
            return torch.export.export(module, args, keywords, dynamic_shapes=shapes if axes else None)

    with quiet(), torch.no_grad():
        return attempt(export), line


def _refused(made: Failed, line: UserLine) -> BadModel:
    where = f" at {line.place}" if line.place else ""
    if "DataDependent" in line.kind or "DataDependent" in made.reason:
        return BadModel(
            f"the module's control flow depends on the values of its tensors{where}: {short(made.reason)}",
            hint="Write it with torch.where or torch.cond, or cut the module there yourself (from_modules).",
        )
    return BadModel(f"torch.export does not take the module{where}: {short(made.reason)}")


def check_pure(program: Any) -> None:
    """Raises BadModel if the module draws random numbers or changes its own state or inputs."""
    for graph in (each.graph for each in program.graph_module.modules() if hasattr(each, "graph")):
        for node in graph.nodes:
            if is_random(node):
                name = str(node.target).removeprefix("aten.")
                raise BadModel(f"the module is random: `{name}` at {user_line(node)}",
                               hint="Call module.eval(), or give the random numbers as an input.")  # fmt: skip
    signature = program.graph_signature
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    changed += _written_state(program)
    if changed:
        raise BadModel(f"the module changes `{changed[0]}` when it runs; a stage must not",
                       hint="Call module.eval(), or return the new value instead.")  # fmt: skip


def _written_state(program: Any) -> list[str]:
    """Parameters, buffers and inputs that an operation writes into."""
    signature = program.graph_signature
    owners = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    found = []
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or not schema.is_mutable:
            continue
        for argument, value in zip(schema.arguments, node.args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write and value.op == "placeholder":
                found.append(owners.get(value.name, value.name))
    return found


def is_random(node: Any) -> bool:
    """Whether an operation draws random numbers as it is called here."""
    tags = getattr(node.target, "tags", ())
    if node.op != "call_function" or torch.Tag.nondeterministic_seeded not in tags:
        return False
    given = _arguments(node)
    if "train" in given:
        return bool(given["train"]) and given.get("p", given.get("dropout", 1.0)) != 0.0
    return bool(given.get("dropout_p", 1.0) != 0.0)


def _arguments(node: Any) -> dict[str, Any]:
    """The arguments of an operation by name, defaults included."""
    schema = node.target._schema.arguments
    found = {each.name: each.default_value for each in schema if each.has_default_value()}
    found.update({each.name: value for each, value in zip(schema, node.args, strict=False)})
    return {**found, **node.kwargs}


def simplify(module: Any) -> None:
    """Takes out assertions, dead operations, and copies that a functional graph does not need."""
    results = set(next(node for node in module.graph.nodes if node.op == "output").all_input_nodes)
    for node in list(module.graph.nodes):
        if node.op == "call_function" and str(node.target).startswith(("aten._assert", "aten.sym_constrain")):
            module.graph.erase_node(node)
        elif node not in results and _is_plain_copy(node):
            node.replace_all_uses_with(node.args[0])
    module.graph.eliminate_dead_code()
    module.recompile()


def _is_plain_copy(node: Any) -> bool:
    """Whether a node copies a tensor, as dropout does when it is off, without another layout."""
    if node.target is not torch.ops.aten.clone.default or node.kwargs.get("memory_format") is not None:
        return False
    source, made = node.args[0].meta.get("val"), node.meta.get("val")
    same = source is not None and made is not None and str(source.stride()) == str(made.stride())
    return same and node.args[0].op == "call_function"


def _described(program: Any, unlifted: Any, args: Any, keywords: Any, notes: tuple[str, ...]) -> Whole:
    """Names of inputs and outputs, and what the symbols mean."""
    leaves, in_spec = pytree.tree_flatten((args, dict(keywords)))
    holders = [node for node in unlifted.graph.nodes if node.op == "placeholder"]
    inputs = {str(node.target): leaf for node, leaf in zip(holders, leaves, strict=True)}
    tensors = {name: leaf.detach() for name, leaf in inputs.items() if isinstance(leaf, torch.Tensor)}
    constants = {at: leaf for at, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)}
    symbols = _symbols([node for node in holders if str(node.target) in tensors])
    notes = notes if symbols else (FIXED,)
    out_spec = program.call_spec.out_spec
    names, shown = _results(unlifted, out_spec)
    return Whole(unlifted, tensors, symbols, shown, names, out_spec, in_spec, constants, notes)


def _symbols(holders: Sequence[Any]) -> dict[str, Dim]:
    """Names of the sizes: `batch` is the first open one, others are named by their input and axis."""
    found: dict[str, Dim] = {}
    for node in holders:
        for axis, dim in enumerate(node.meta["val"].shape):
            if not isinstance(dim, int) and dim.node.expr.is_Symbol and str(dim.node.expr) not in found:
                found[str(dim.node.expr)] = f"{node.target}_{axis}" if found else "batch"
    return found


def _results(unlifted: Any, out_spec: Any) -> tuple[dict[str, str], list[Any]]:
    """The names of nodes that are results, and the leaves of the result."""
    output = next(node for node in unlifted.graph.nodes if node.op == "output")
    values = list(pytree.tree_leaves(output.args[0], is_leaf=lambda each: each is None))
    titles = _titles(out_spec, len(values))
    names: dict[str, str] = {}
    leaves: list[Any] = []
    for value, title in zip(values, titles, strict=True):
        if isinstance(value, torch.fx.Node) and value.op == "call_function" and hasattr(value.meta["val"], "shape"):
            leaves.append(Name(names.setdefault(value.name, title)))
        elif isinstance(value, torch.fx.Node) and value.op == "placeholder":
            leaves.append(Name(value.target))
        elif isinstance(value, torch.fx.Node):
            raise BadModel(f"the module returns `{value.name}`, which is no result of an operation on tensors")
        else:
            leaves.append(value)
    return names, leaves


def _titles(spec: Any, count: int) -> list[str]:
    """`out` for one result, the keys of a dict, else `out.0`, `out.1`, ..."""
    if count == 1:
        return ["out"]
    keys = spec.context if spec.type is dict else None
    if keys and len(keys) == count and all(isinstance(key, str) for key in keys):
        return list(keys)
    return [f"out.{at}" for at in range(count)]


def shape_of(value: Any, symbols: Mapping[str, Dim]) -> tuple[Dim, ...]:
    """The shape of a fake tensor in the sizes of the model."""
    return tuple(expression(dim, symbols) for dim in value.shape)


def is_item(node: Any) -> bool:
    """Whether a node takes one result out of several."""
    return node.op == "call_function" and node.target is operator.getitem
