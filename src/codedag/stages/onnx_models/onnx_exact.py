"""ONNX stages in float64: types of weights, casts and constants widened, computed by ONNX's own reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.ir.verdict import No
from codedag.stages.model import Stage
from codedag.stages.onnx_models.onnx_files import all_nodes, subgraphs


def exact_stage(proto: Any, stage: Stage) -> Callable[[Sequence[Any]], Any]:
    """The stage as a function of arrays in float64; its result is a No where the evaluator cannot compute it."""
    from onnx.reference import ReferenceEvaluator

    evaluator = attempt(ReferenceEvaluator, widened(proto))

    def compute(arrays: Sequence[Any]) -> Any:
        if isinstance(evaluator, Failed):
            return No(f"stage {stage.number} has no form in float64: {evaluator.reason}")
        made = attempt(evaluator.run, list(stage.outputs), dict(zip(stage.inputs, arrays, strict=True)))
        return (
            No(f"stage {stage.number} cannot be computed in float64: {made.reason}")
            if isinstance(made, Failed)
            else made
        )

    return compute


def widened(proto: Any) -> Any:
    """A copy of a model in which every float32 is a float64."""
    import onnx

    made = onnx.ModelProto()
    made.CopyFrom(proto)
    _widen_graph(made.graph)
    for node in all_nodes(made.graph):
        _widen_attributes(node)
        for graph in subgraphs(node):
            _widen_graph(graph)
    return made


def _widen_graph(graph: Any) -> None:
    import onnx

    for tensor in graph.initializer:
        _widen(tensor)
    for each in (*graph.input, *graph.output, *graph.value_info):
        if each.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            each.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE


def _widen_attributes(node: Any) -> None:
    import onnx

    for attribute in node.attribute:
        if attribute.HasField("t"):
            _widen(attribute.t)
        if attribute.name in ("to", "dtype") and attribute.i == onnx.TensorProto.FLOAT:
            attribute.i = onnx.TensorProto.DOUBLE


def _widen(tensor: Any) -> None:
    import numpy as np
    import onnx

    if tensor.data_type == onnx.TensorProto.FLOAT:
        array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
