"""ONNX graphs of stages: names of their tensors and weights, symbolic sizes, and blocks made by concatenation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from codedag.stages.model import Block, Stage, Tensor

PRODUCER = "codedag"


def named(
    proto: Any, stage: Stage, tensors: Mapping[str, Tensor], weights: Mapping[str, str], values: Mapping[str, Any]
) -> Any:
    """The exporter's model with the stage's tensors at its edges, weights by their global names, `s3/...` inside."""
    import onnx

    graph = proto.graph
    renames = _renames(graph, stage, {own: name for own, name in weights.items() if _same(graph, own, values[name])})
    nodes = _nodes(graph, stage, renames)
    initializers = [_renamed_tensor(each, renames) for each in graph.initializer]
    made = onnx.helper.make_graph(
        nodes,
        f"s{stage.number}_{stage.name}",
        [value_info(tensors[name]) for name in stage.inputs],
        [value_info(tensors[name]) for name in stage.outputs],
        initializers,
    )
    return model_of(made, proto)


def model_of(graph: Any, like: Any) -> Any:
    """A model of this graph, with the versions and functions of another one."""
    import onnx

    made = onnx.helper.make_model(graph, producer_name=PRODUCER, opset_imports=like.opset_import)
    made.ir_version = like.ir_version
    made.functions.extend(like.functions)
    return made


def value_info(tensor: Tensor) -> Any:
    """An input or output of an ONNX graph: sizes that are open have their expression as their name."""
    import numpy as np
    import onnx

    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return onnx.helper.make_tensor_value_info(tensor.name, kind, list(tensor.shape))


def _same(graph: Any, name: str, value: Any) -> bool:
    """Whether the exporter kept a weight as it is; it may fold constants into it."""
    import numpy as np
    import onnx

    found = next((each for each in graph.initializer if each.name == name), None)
    if found is None:
        return False
    array = onnx.numpy_helper.to_array(found)
    return array.shape == value.shape and array.tobytes() == np.ascontiguousarray(value).tobytes()


def _renames(graph: Any, stage: Stage, weights: Mapping[str, str]) -> dict[str, str]:
    """New names of the values of the graph; an output that is also an input is added by `_nodes`."""
    found = {each.name: name for each, name in zip(graph.input, stage.inputs, strict=True)}
    for each, name in zip(graph.output, stage.outputs, strict=True):
        found.setdefault(each.name, name)
    for own, name in weights.items():
        found.setdefault(own, name)
    return found


def _nodes(graph: Any, stage: Stage, renames: dict[str, str]) -> list[Any]:
    import onnx

    prefix = f"s{stage.number}/"
    initial = {each.name for each in graph.initializer}
    for name in initial:
        renames.setdefault(name, f"{prefix}{name}")
    nodes = [renamed_node(node, lambda name: renames.setdefault(name, f"{prefix}{name}")) for node in graph.node]
    for at, node in enumerate(nodes):
        node.name = f"{prefix}{node.op_type}_{at}"
    for each, name in zip(graph.output, stage.outputs, strict=True):
        if renames[each.name] != name:  # passed through, or given twice
            nodes.append(onnx.helper.make_node("Identity", [renames[each.name]], [name], name=f"{prefix}{name}"))
    return nodes


def renamed_node(node: Any, rename: Callable[[str], str]) -> Any:
    """A copy of a node whose values, those of its subgraphs included, have other names."""
    import onnx

    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.input[:] = [rename(name) if name else name for name in node.input]
    made.output[:] = [rename(name) if name else name for name in node.output]
    for attribute in made.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            _rename_graph(graph, rename)
    return made


def _rename_graph(graph: Any, rename: Callable[[str], str]) -> None:
    for each in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        each.name = rename(each.name)
    copies = [renamed_node(node, rename) for node in graph.node]
    del graph.node[:]
    graph.node.extend(copies)


def _renamed_tensor(tensor: Any, renames: Mapping[str, str]) -> Any:
    import onnx

    made = onnx.TensorProto()
    made.CopyFrom(tensor)
    made.name = renames[tensor.name]
    return made


def once(nodes: Iterable[Any]) -> list[Any]:
    """The nodes without those whose results are there already: numbers that several stages compute."""
    known: set[str] = set()
    kept = []
    for node in nodes:
        if not node.output or not known.issuperset(node.output):
            kept.append(node)
        known.update(filter(None, node.output))
    return kept


def block_model(block: Block, protos: Sequence[Any], tensors: Mapping[str, Tensor]) -> Any:
    """Stages as one ONNX model: their nodes one after the other, and their weights once."""
    import onnx

    nodes = once(node for proto in protos for node in proto.graph.node)
    initializers = {each.name: each for proto in protos for each in proto.graph.initializer}
    graph = onnx.helper.make_graph(
        nodes,
        f"block{block.name}",
        [value_info(tensors[name]) for name in block.inputs],
        [value_info(tensors[name]) for name in block.outputs],
        list(initializers.values()),
    )
    return model_of(graph, protos[0])
