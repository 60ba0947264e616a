"""Folding of linear operators in ONNX graphs: batch norm, scale and bias, and neighbouring products into one weight.

What is folded has one reader and constant operands; inputs and outputs of the graph keep their names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.stages.execution.verify import nearness
from codedag.stages.model import Block, Stage, StagedModel, need
from codedag.stages.reference import in_onnxruntime

#: The largest difference by the largest value that folding may make.
ALLOWED = 1e-5


@dataclass
class Folded:
    """A model and what was folded in it, in words."""

    proto: Any
    what: list[str] = field(default_factory=list)
    reason: str = ""  # why nothing was folded although something could be


def folded(proto: Any) -> Folded:
    """A copy of the model in which constant linear operators are part of the weights before them."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    made = _Folder(copy)
    if not any(each.HasField("g") or each.graphs for node in copy.graph.node for each in node.attribute):
        made.fold()  # what subgraphs read is not known
    return Folded(copy, made.what)


def folded_block(model: StagedModel, block: Block, proto: Any) -> Folded:
    """A block's model folded, if ONNX Runtime then gives what it gave for the example; else as it is, and why."""
    made = folded(proto)
    if not made.what:
        return Folded(proto)
    if not model.example:
        return Folded(proto, reason="there is no example to compare results with")
    worst = attempt(_difference, model, block, proto, made.proto)
    if isinstance(worst, Failed):
        return Folded(proto, reason=worst.reason)
    told = f"results differ by {worst:.1e} of the largest value; {ALLOWED:.0e} is allowed"
    return made if worst <= ALLOWED else Folded(proto, reason=told)


def _difference(model: StagedModel, block: Block, *protos: Any) -> float:
    """The largest difference by the largest value between what two models make of the example."""
    tensors = model.run(model.example)
    stage = Stage(block.first, block.name, block.inputs, block.outputs)
    computes = [need(in_onnxruntime(proto, stage)) for proto in protos]
    was, now = (compute([tensors[name] for name in block.inputs]) for compute in computes)
    return max(nearness(a, b).worst for a, b in zip(was, now, strict=True))


class _Folder:
    """Folds one node after the other into the node that makes its input."""

    def __init__(self, proto: Any) -> None:
        self.graph, self.what = proto.graph, list[str]()
        self.outputs = {each.name for each in self.graph.output}
        self._index()

    def _index(self) -> None:
        from onnx import numpy_helper

        self.maker = {name: node for node in self.graph.node for name in node.output}
        self.readers = Counter(name for node in self.graph.node for name in node.input)
        self.tensors = {each.name: each for each in self.graph.initializer}
        self.to_array = numpy_helper.to_array

    def fold(self) -> None:
        """Folds until nothing can be folded any more."""
        rules = (self._batch_norm, self._scale, self._bias, self._product)
        while any(rule(node) for node in list(self.graph.node) for rule in rules):
            self._index()
        self._drop_unread()

    # -- what is known

    def _constant(self, name: str) -> Any:
        found = self.tensors.get(name)
        return None if found is None else self.to_array(found)

    def _before(self, name: str, *kinds: str) -> Any:
        """The node that makes a value which only one node reads, if it is of one of these kinds with a weight."""
        node = self.maker.get(name)
        if node is None or node.op_type not in kinds or self.readers[name] != 1 or name in self.outputs:
            return None
        weight = self._constant(node.input[1]) if len(node.input) > 1 else None
        return node if weight is not None and weight.dtype == "float32" and self._is_plain(node) else None

    def _operands(self, node: Any) -> tuple[str, Any] | None:
        """The value and the constant of an Add or Mul."""
        for value, other in ((0, 1), (1, 0)):
            constant = self._constant(node.input[other])
            if constant is not None and constant.dtype == "float32" and self._constant(node.input[value]) is None:
                return node.input[value], constant
        return None

    # -- rules: each folds a node into the one before it, or leaves it

    def _batch_norm(self, node: Any) -> bool:
        import numpy as np

        if node.op_type != "BatchNormalization" or _attribute(node, "training_mode", 0):
            return False
        before = self._before(node.input[0], "Conv", "Gemm")
        values = [self._constant(name) for name in node.input[1:]]
        if before is None or any(value is None for value in values):
            return False
        scale, bias, mean, variance = (value.astype(np.float64) for value in values)
        factor = scale / np.sqrt(variance + _attribute(node, "epsilon", 1e-5))
        return self._changed(node, before, factor, bias - mean * factor)

    def _scale(self, node: Any) -> bool:
        found = self._operands(node) if node.op_type == "Mul" else None
        before = self._before(found[0], "Conv", "Gemm", "MatMul") if found else None
        factor = self._per_output(before, found[1]) if before is not None and found else None
        return factor is not None and self._changed(node, before, factor, None)

    def _bias(self, node: Any) -> bool:
        found = self._operands(node) if node.op_type == "Add" else None
        before = self._before(found[0], "Conv", "Gemm") if found else None
        bias = self._per_output(before, found[1]) if before is not None and found else None
        return bias is not None and self._changed(node, before, None, bias)

    def _product(self, node: Any) -> bool:
        """A product behind a product, if one with both weights is no more work."""
        import numpy as np

        kind = node.op_type
        second: Any = self._constant(node.input[1]) if len(node.input) > 1 else None
        before = self._before(node.input[0], kind) if kind in ("Gemm", "MatMul") and second is not None else None
        if before is None or not self._is_plain(node):
            return False
        first = self._constant(before.input[1])
        if first.ndim != 2 or second.ndim != 2 or second.dtype != "float32":
            return False
        one, two = (_as_read(each, weight.astype(np.float64)) for each, weight in ((before, first), (node, second)))
        if one.shape[0] * two.shape[1] > one.size + two.size:
            return False
        biases = [self._constant(each.input[2]) if len(each.input) > 2 else None for each in (before, node)]
        if any(each is not None and each.ndim > 1 for each in biases):
            return False
        bias = None if biases[0] is None else np.broadcast_to(biases[0], one.shape[1:]) @ two
        if biases[1] is not None:
            bias = biases[1] + (0.0 if bias is None else bias)
        self._set(before, _as_read(before, one @ two), bias)
        return self._replaced(node, before)

    def _is_plain(self, node: Any) -> bool:
        plain = node.op_type != "Gemm" or all(_attribute(node, each, default) == default for each, default in _GEMM)
        return plain and (len(node.input) < 3 or not node.input[2] or self._constant(node.input[2]) is not None)

    # -- changes

    def _per_output(self, before: Any, constant: Any) -> Any:
        """A constant as one number for each output of a product; None if it is no such."""
        import numpy as np

        weight = self._constant(before.input[1])
        conv = before.op_type == "Conv"
        count = weight.shape[0] if conv else _as_read(before, weight).shape[-1]
        allowed = (1, count, *([1] * (weight.ndim - 2))) if conv else (count,)
        shape = (*([1] * (len(allowed) - constant.ndim)), *constant.shape)
        if len(shape) != len(allowed) or any(have not in (1, want) for have, want in zip(shape, allowed, strict=True)):
            return None
        return np.broadcast_to(constant.reshape(shape), allowed).reshape(count).astype(np.float64)

    def _changed(self, node: Any, before: Any, factor: Any, bias: Any) -> bool:
        """Scales the weights (and bias) of a product and adds a bias; the node behind it goes."""
        import numpy as np

        weight = self._constant(before.input[1]).astype(np.float64)
        own = self._constant(before.input[2]) if len(before.input) > 2 and before.input[2] else None
        if factor is not None:
            weight = _scaled(before, weight, factor)
            own = None if own is None else own * factor
        if bias is not None:
            own = bias if own is None else own + bias
        self._set(before, weight, own)
        return self._replaced(node, before)

    def _set(self, node: Any, weight: Any, bias: Any) -> None:
        """Gives a node weights of its own: others may read those that it had."""
        import numpy as np
        from onnx import numpy_helper

        for at, (name, value) in enumerate((("weight", weight), ("bias", bias)), 1):
            if value is not None:
                made = numpy_helper.from_array(np.ascontiguousarray(value, np.float32), f"{node.output[0]}/{name}")
                self.graph.initializer.append(made)
                del node.input[at:]
                node.input.append(made.name)

    def _replaced(self, node: Any, before: Any) -> bool:
        self.what.append(f"{node.op_type} {node.name} into {before.op_type} {before.name}")
        before.output[0] = node.output[0]
        self.graph.node.remove(node)
        return True

    def _drop_unread(self) -> None:
        kept = {each.name: each for each in self.graph.initializer if self.readers[each.name]}
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept.values())


#: Attributes of a Gemm without which it is a plain product, whichever way round its weight is.
_GEMM = (("alpha", 1.0), ("beta", 1.0), ("transA", 0))


def _attribute(node: Any, name: str, default: Any) -> Any:
    import onnx

    return next((onnx.helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)


def _as_read(node: Any, weight: Any) -> Any:
    """A weight as inputs x outputs, or back."""
    return weight.T if node.op_type == "Gemm" and _attribute(node, "transB", 0) else weight


def _scaled(node: Any, weight: Any, factor: Any) -> Any:
    if node.op_type == "Conv":
        return weight * factor.reshape(-1, *([1] * (weight.ndim - 1)))
    return _as_read(node, _as_read(node, weight) * factor)
