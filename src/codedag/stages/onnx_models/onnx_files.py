"""ONNX files as they are read: checked, with external data, constants as initializers, and what each node reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.stages.model import BadModel

_CORE = ("", "ai.onnx")
#: Operators that ONNX does not have but a runtime does; of other domains no PU can compute any.
RUNTIME_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc", "org.openvinotoolkit")
#: Operators whose results differ from call to call, whatever their seed: each runtime draws in its own way.
RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
)


@dataclass
class OnnxFile:
    """A model that was read: its nodes, initializers by name, inputs and outputs."""

    path: Path
    proto: Any
    nodes: list[Any]
    initializers: dict[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: tuple[str, ...] = ()
    _reads: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def reads(self, node: Any) -> tuple[str, ...]:
        """The values of the graph that a node reads, those that its subgraphs capture included."""
        if id(node) not in self._reads:
            self._reads[id(node)] = tuple(dict.fromkeys(free_names(node)))
        return self._reads[id(node)]


def free_names(node: Any) -> Iterator[str]:
    """The inputs of a node, and the names that its subgraphs take from outside."""
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        known = {each.name for each in (*graph.input, *graph.initializer)}
        for inner in graph.node:
            yield from (name for name in free_names(inner) if name not in known)
            known.update(inner.output)
        yield from (each.name for each in graph.output if each.name not in known)


def subgraphs(node: Any) -> Iterator[Any]:
    """The graphs among a node's attributes: branches, loop bodies."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def read_onnx(path: Path) -> OnnxFile:
    """The model of a file, checked; raises BadModel naming the file and what is wrong with it."""
    proto = _parsed(path)
    if not proto.graph.node:
        raise BadModel(f"{path} has an empty graph: no nodes", hint="It may be truncated; export it again.")
    notes = _check_operators(path, proto)
    _load_external(path, proto)
    _check_model(path, proto)
    _check_inference(path, proto)
    _lift_constants(proto.graph)
    _name_weights_once(proto.graph)
    _give_weights_as_results(proto.graph)
    initializers = {each.name: each for each in proto.graph.initializer}
    inputs = tuple(each.name for each in proto.graph.input if each.name not in initializers)
    for each in (*proto.graph.input, *proto.graph.output):
        if not each.type.HasField("tensor_type"):
            raise BadModel(f"{path}: `{each.name}` is no tensor but a {each.type.WhichOneof('value')}")
    outputs = tuple(dict.fromkeys(each.name for each in proto.graph.output))
    return OnnxFile(path, proto, list(proto.graph.node), initializers, inputs, outputs, notes)


def _parsed(path: Path) -> Any:
    try:
        import onnx
    except ImportError as error:
        raise BadModel(f"{path} cannot be read without the package onnx: {error}",
                       hint='Install it: pip install "codedag[stages]".') from None  # fmt: skip
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadModel(f"{path} cannot be read: {error.strerror or error}") from None
    proto = attempt(onnx.load_model_from_string, content)
    if isinstance(proto, Failed):
        raise BadModel(f"{path} is no ONNX file, or truncated: {proto.reason}", hint="Copy or export it again.")
    return proto


def _load_external(path: Path, proto: Any) -> None:
    """Brings external data in; raises BadModel naming the tensor and the file that is missing or too short."""
    import onnx

    for tensor in _external(proto):
        facts = {each.key: each.value for each in tensor.external_data}
        file = path.parent / facts.get("location", "")
        if not file.is_file():
            raise BadModel(f"{path}: the data of `{tensor.name}` should be in {file}, which is not there",
                           hint="Copy that file next to the model.")  # fmt: skip
        needed = int(facts.get("offset", 0)) + int(facts.get("length", 0))
        if file.stat().st_size < needed:
            raise BadModel(f"{path}: the data of `{tensor.name}` ends at byte {needed} of {file}, which is shorter")
    made = attempt(onnx.load_external_data_for_model, proto, str(path.parent))
    if isinstance(made, Failed):
        raise BadModel(f"{path}: external data cannot be read: {made.reason}")


def _external(proto: Any) -> list[Any]:
    import onnx

    found = [*proto.graph.initializer]
    found += [each.t for node in all_nodes(proto.graph) for each in node.attribute if each.HasField("t")]
    return [tensor for tensor in found if tensor.data_location == onnx.TensorProto.EXTERNAL]


def all_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the subgraphs in it."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def _check_operators(path: Path, proto: Any) -> tuple[str, ...]:
    """Notes on operators of one runtime; raises BadModel for an operator that neither ONNX nor a runtime has."""
    import onnx

    versions = {"" if each.domain in _CORE else each.domain: each.version for each in proto.opset_import}
    own = {(each.domain, each.name) for each in proto.functions}
    others: dict[str, str] = {}
    for node in all_nodes(proto.graph):
        domain = "" if node.domain in _CORE else node.domain
        if (node.domain, node.op_type) in own:
            continue
        if domain in RUNTIME_DOMAINS and domain in versions:
            others.setdefault(domain, node.op_type)
            continue
        version = versions.get(domain, 0)
        if isinstance(attempt(onnx.defs.get_schema, node.op_type, version, domain), Failed):
            raise BadModel(f"{path}: {_shown(node)} has the unknown operator `{node.op_type}` "
                           f"(domain `{node.domain or 'ai.onnx'}`, version {version})")  # fmt: skip
    return tuple(f"`{name}` is an operator of {domain}, which not every runtime has" for domain, name in others.items())


def _shown(node: Any) -> str:
    return f"node `{node.name}`" if node.name else f"the node that makes `{', '.join(node.output)}`"


def _check_inference(path: Path, proto: Any) -> None:
    """Raises BadModel for an operator that draws random numbers or is in training mode."""
    constants = {node.output[0]: node.attribute[0].t for node in all_nodes(proto.graph) if node.op_type == "Constant"}
    known = constants | {each.name: each for each in proto.graph.initializer}
    nodes = (*all_nodes(proto.graph), *(node for each in proto.functions for node in all_nodes(each)))
    for node in nodes:
        is_core = node.domain in _CORE
        if is_core and node.op_type in RANDOM:
            raise BadModel(f"{path}: {_shown(node)} is random (`{node.op_type}`)",
                           hint="Give the random numbers as an input.")  # fmt: skip
        if is_core and _is_training(node, known):
            raise BadModel(f"{path}: {_shown(node)} is in training mode (`{node.op_type}`)",
                           hint="Export the model for inference: module.eval() before it.")  # fmt: skip


def _is_training(node: Any, known: dict[str, Any]) -> bool:
    """Whether a dropout or batch normalisation is told to train, by its attribute or a constant input."""
    import onnx

    if any(each.name == "training_mode" and each.i for each in node.attribute):
        return True
    mode = known.get(node.input[2]) if node.op_type == "Dropout" and len(node.input) > 2 else None
    return mode is not None and bool(onnx.numpy_helper.to_array(mode))


def _check_model(path: Path, proto: Any) -> None:
    import onnx

    if proto.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF:
        return  # the checker takes no more; its runtime will say what is wrong
    made = attempt(onnx.checker.check_model, proto)
    if isinstance(made, Failed):
        first = made.reason.strip().splitlines()[0]
        raise BadModel(f"{path} is no valid ONNX model: {first}")


def _lift_constants(graph: Any) -> None:
    """Makes initializers of constants, so that every stage that needs one has it."""
    import numpy as np
    import onnx

    kept = []
    for node in graph.node:
        value = node.attribute[0] if node.op_type == "Constant" and node.domain in _CORE else None
        if value is None or value.name not in ("value", "value_float", "value_int", "value_floats", "value_ints"):
            kept.append(node)
            continue
        tensor = onnx.TensorProto()
        if value.name == "value":
            tensor.CopyFrom(value.t)
        else:
            kind = np.float32 if "float" in value.name else np.int64
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(onnx.helper.get_attribute_value(value), kind)))
        tensor.name = node.output[0]
        graph.initializer.append(tensor)
    if len(kept) != len(graph.node):
        copies = [_copy(node) for node in kept]
        del graph.node[:]
        graph.node.extend(copies)


def _name_weights_once(graph: Any) -> None:
    """Drops nodes that only give a weight another name, as exporters write them for weights that are shared."""
    from codedag.stages.onnx_models.onnx_graphs import renamed_node

    weights = {each.name: each.name for each in graph.initializer}
    results = {each.name for each in graph.output}
    others: dict[str, str] = {}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in weights and node.output[0] not in results:
            others[node.output[0]] = weights[node.output[0]] = weights[node.input[0]]
    if others:
        kept = [node for node in graph.node if not (node.output and node.output[0] in others)]
        copies = [renamed_node(node, lambda name: others.get(name, name)) for node in kept]
        del graph.node[:]
        graph.node.extend(copies)


def _copy(node: Any) -> Any:
    import onnx

    made = onnx.NodeProto()
    made.CopyFrom(node)
    return made


def _give_weights_as_results(graph: Any) -> None:
    """Lets a node make each result that is a weight: results must come out of a stage."""
    import onnx

    weights = {each.name: each for each in graph.initializer}
    for name in [each.name for each in graph.output if each.name in weights]:
        copy = onnx.TensorProto()
        copy.CopyFrom(weights[name])
        copy.name = f"{name}.value"
        graph.initializer.append(copy)
        graph.initializer.remove(weights[name])
        graph.node.insert(0, onnx.helper.make_node("Identity", [copy.name], [name]))
