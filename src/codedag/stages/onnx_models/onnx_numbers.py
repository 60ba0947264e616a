"""Numbers that follow from shapes in an ONNX graph: each stage computes those that it reads, only tensors cross."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codedag.stages.cuts import TINY_NBYTES
from codedag.stages.onnx_models.onnx_files import OnnxFile, subgraphs
from codedag.stages.onnx_models.onnx_shapes import Shapes
from codedag.stages.sizes import Dim

#: `Shape` takes a part of a shape since this version.
_PARTS_SINCE = 15


class Numbers:
    """The nodes of a file whose results follow from shapes alone and are small."""

    def __init__(self, file: OnnxFile, shapes: Shapes, sizes: Mapping[str, int]) -> None:
        self._file, self._shapes, self._sizes = file, shapes, sizes
        self.makers: dict[str, Any] = {}
        for node in file.nodes:
            if self._is_number(node):
                self.makers.update(dict.fromkeys(filter(None, node.output), node))
        versions = [each.version for each in file.proto.opset_import if each.domain in ("", "ai.onnx")]
        self._takes_parts = max(versions, default=0) >= _PARTS_SINCE

    def _is_number(self, node: Any) -> bool:
        if any(name in self._file.outputs for name in node.output) or next(subgraphs(node), None) is not None:
            return False
        if is_leaf(node):
            return True
        reads = [name for name in self._file.reads(node) if name not in self._file.initializers]
        return bool(reads) and all(name in self.makers for name in reads) and all(map(self._is_tiny, node.output))

    def _is_tiny(self, name: str) -> bool:
        tensor = self._shapes.get(name) if name else None
        return not name or (tensor is not None and tensor.nbytes(self._sizes) <= TINY_NBYTES)

    def needed(self, nodes: Sequence[Any]) -> list[Any]:
        """The nodes that compute the numbers which these nodes read, in the order of the file."""
        found: dict[int, Any] = {}
        todo = [name for node in nodes for name in self._file.reads(node)]
        while todo:
            maker = self.makers.get(todo.pop())
            if maker is not None and id(maker) not in found:
                found[id(maker)] = maker
                todo += self._file.reads(maker)
        return [node for node in self._file.nodes if id(node) in found]

    def based(self, leaf: Any, own: set[str], near: Sequence[str]) -> Any:
        """A leaf that reads a tensor which the stage has, or an input of the model, if one has the same sizes."""
        source = leaf.input[0]
        if leaf.op_type != "Shape" or source in own or source in near or self._shapes.get(source) is None:
            return leaf
        wanted = part_of(leaf, self._shapes.tensor(source).shape)
        for name, start in self._places(wanted, [*near, *self._file.inputs]):
            return _shape_node(leaf, name, start, len(wanted), self._takes_parts)
        return leaf

    def _places(self, wanted: tuple[Dim, ...], names: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Tensors, and where in their shapes these sizes are."""
        for name in names:
            tensor = self._shapes.get(name)
            shape = tensor.shape if tensor is not None else ()
            starts = range(len(shape) - len(wanted) + 1) if self._takes_parts else range(len(shape) == len(wanted))
            yield from ((name, start) for start in starts if shape[start : start + len(wanted)] == wanted)


def is_leaf(node: Any) -> bool:
    """Whether a node reads a shape."""
    return node.op_type in ("Shape", "Size") and node.domain in ("", "ai.onnx")


def part_of(leaf: Any, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The sizes that a `Shape` node gives."""
    ends = {each.name: int(each.i) for each in leaf.attribute}
    return shape[ends.get("start", 0) : ends.get("end", len(shape))]


def _shape_node(leaf: Any, name: str, start: int, count: int, takes_parts: bool) -> Any:
    import onnx

    part: dict[str, Any] = {"start": start, "end": start + count} if takes_parts else {}
    return onnx.helper.make_node("Shape", [name], [leaf.output[0]], name=leaf.name, **part)
