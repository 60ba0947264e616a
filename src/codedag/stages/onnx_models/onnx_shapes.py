"""Shapes of the values of an ONNX graph as expressions of its sizes: inferred, else found by running small inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.stages.model import BadModel, Tensor
from codedag.stages.onnx_models.onnx_files import OnnxFile
from codedag.stages.sizes import Dim, evaluate, symbols_of

#: Sizes that unknown shapes are tried with: first all the same, then one of them larger.
_TRIED = (4, 6, 8)


class Shapes:
    """The tensors of a graph by name, as far as their types and shapes are known."""

    def __init__(self, tensors: dict[str, Tensor], path: Any) -> None:
        self._tensors, self._path = tensors, path

    def get(self, name: str) -> Tensor | None:
        """A tensor, or None if nothing is known of its shape."""
        return self._tensors.get(name)

    def tensor(self, name: str) -> Tensor:
        """A tensor; raises BadModel if its shape is not known."""
        if name not in self._tensors:
            raise BadModel(f"{self._path}: the shape of `{name}` is not known, so it cannot pass between stages",
                           hint="Cut elsewhere, or export the model with shape inference.")  # fmt: skip
        return self._tensors[name]

    def order(self, names: Iterable[str]) -> list[str]:
        """The names in an order that is always the same."""
        wanted = set(names)
        return [name for name in self._tensors if name in wanted] + sorted(wanted - self._tensors.keys())


def shapes_of(file: OnnxFile) -> Shapes:
    """The shapes of all values of a file."""
    import onnx

    renames = _size_names(file)
    inferred = attempt(onnx.shape_inference.infer_shapes, file.proto, data_prop=True)
    graph = file.proto.graph if isinstance(inferred, Failed) else inferred.graph
    inputs = {each.name: each for each in file.proto.graph.input}
    tensors = {name: _input(inputs[name], renames) for name in file.inputs}
    known = {each for tensor in tensors.values() for dim in tensor.shape for each in symbols_of(dim)}
    for each in (*graph.value_info, *graph.output):
        tensor = _inferred(each, renames, known)
        if tensor is not None and each.name not in file.initializers:
            tensors.setdefault(each.name, tensor)
    missing = [name for node in file.nodes for name in node.output if name and name not in tensors]
    tensors.update(_found_by_running(file, tensors, missing) if missing else {})
    for name, tensor in file.initializers.items():
        tensors[name] = Tensor(name, _dtype(tensor.data_type) or "float32", tuple(tensor.dims))
    return Shapes(tensors, file.path)


def _size_names(file: OnnxFile) -> dict[str, str]:
    """The sizes of the file by their names there, which may be no identifiers."""
    found: dict[str, str] = {}
    for each in file.proto.graph.input:
        for dim in each.type.tensor_type.shape.dim:
            if dim.dim_param and not _is_expression(dim.dim_param):
                clean = re.sub(r"\W", "_", dim.dim_param)
                found[dim.dim_param] = clean if clean.isidentifier() else f"size_{clean}"
    return found


def _is_expression(text: str) -> bool:
    """Whether a size is written in our own grammar."""
    return text.isidentifier() or not isinstance(attempt(_at_two, text), Failed)


def _at_two(text: str) -> int:
    return evaluate(text, dict.fromkeys(symbols_of(text), 2))


def _input(value: Any, renames: Mapping[str, str]) -> Tensor:
    kind = value.type.tensor_type
    shape = tuple(
        _dim(dim, renames) or f"{re.sub(r'[^A-Za-z0-9_]', '_', value.name).lstrip('0123456789') or 'size'}_{axis}"
        for axis, dim in enumerate(kind.shape.dim)
    )
    dtype = _dtype(kind.elem_type)
    if dtype is None or not kind.HasField("shape"):
        raise BadModel(f"input `{value.name}` has no shape, or a type that numpy does not have")
    return Tensor(value.name, dtype, shape)


def _dim(dim: Any, renames: Mapping[str, str]) -> Dim | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return renames.get(dim.dim_param, dim.dim_param) if dim.dim_param else None


def _inferred(value: Any, renames: Mapping[str, str], known: set[str]) -> Tensor | None:
    """A value whose whole shape is known in the sizes of the inputs."""
    kind = value.type.tensor_type
    dtype = _dtype(kind.elem_type)
    if dtype is None or not kind.HasField("shape"):
        return None
    dims = [_dim(dim, renames) for dim in kind.shape.dim]
    if any(dim is None or not _is_known(dim, known) for dim in dims):
        return None
    return Tensor(value.name, dtype, tuple(dim for dim in dims if dim is not None))


def _is_known(dim: Dim, known: set[str]) -> bool:
    return isinstance(dim, int) or (_is_expression(dim) and symbols_of(dim) <= known)


def _dtype(kind: int) -> str | None:
    """Numpy's name of an ONNX type, if it has one."""
    import onnx

    made = attempt(onnx.helper.tensor_dtype_to_np_dtype, kind)
    return None if isinstance(made, Failed) or made.kind not in "fiub" or made.itemsize < 1 else made.name


# -- shapes that inference does not find


def _found_by_running(file: OnnxFile, known: Mapping[str, Tensor], missing: Sequence[str]) -> dict[str, Tensor]:
    """Tensors whose shapes follow from some runs; nothing where the file does not run here."""
    sizes = sorted({each for name in file.inputs for dim in known[name].shape for each in symbols_of(dim)})
    tries = [dict.fromkeys(sizes, _TRIED[0])]
    tries += [{**tries[0], size: value} for size in sizes for value in _TRIED[1:]]
    tries += [{size: _TRIED[0] + 1 + at for at, size in enumerate(sizes)}] if len(sizes) > 1 else []
    seen: list[dict[str, Any]] = []
    for each in tries:
        made = attempt(_run, file, known, missing, each)
        if isinstance(made, Failed):
            return {}
        seen.append(made)
    found = (_fitted(name, tries, [each[name] for each in seen]) for name in missing if name in seen[0])
    return {tensor.name: tensor for tensor in found if tensor is not None}


def _run(
    file: OnnxFile, known: Mapping[str, Tensor], missing: Sequence[str], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """The missing values at these sizes."""
    import onnx
    import onnxruntime

    wider = onnx.ModelProto()
    wider.CopyFrom(file.proto)
    there = {each.name for each in wider.graph.output}
    wider.graph.output.extend(onnx.ValueInfoProto(name=name) for name in missing if name not in there)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(wider.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = session.run(list(missing), {name: sample(known[name], sizes) for name in file.inputs})
    return {name: value for name, value in zip(missing, values, strict=True) if hasattr(value, "dtype")}


def sample(tensor: Tensor, sizes: Mapping[str, int]) -> Any:
    """Ones: a valid index, token, mask and number."""
    import numpy as np

    return np.ones(tensor.at(sizes), tensor.dtype)


def _fitted(name: str, tries: Sequence[Mapping[str, int]], values: Sequence[Any]) -> Tensor | None:
    """The tensor, if each of its dimensions is an expression that fits all tries."""
    ranks = {value.ndim for value in values}
    if len(ranks) != 1:
        return None
    dims = [_formula(tries, [value.shape[axis] for value in values]) for axis in range(ranks.pop())]
    if any(dim is None for dim in dims):
        return None
    return Tensor(name, values[0].dtype.name, tuple(dim for dim in dims if dim is not None))


def _formula(tries: Sequence[Mapping[str, int]], seen: Sequence[int]) -> Dim | None:
    """A number, `a*size + b`, `(size + b) // a`, or `a*size*size` that all tries agree with."""
    for dim in _candidates(tries, seen):
        if all(evaluate(dim, sizes) == number for sizes, number in zip(tries, seen, strict=True)):
            return dim
    return None


def _candidates(tries: Sequence[Mapping[str, int]], seen: Sequence[int]) -> Iterable[Dim]:
    yield int(seen[0])
    names = list(tries[0])
    for at, name in enumerate(names):
        first, second = seen[0], seen[1 + 2 * at]
        slope, rest = divmod(second - first, _TRIED[1] - _TRIED[0])
        offset = first - slope * _TRIED[0]
        if rest == 0 and slope:
            term = name if slope == 1 else f"{slope}*{name}"
            yield f"{term} + {offset}" if offset > 0 else f"{term} - {-offset}" if offset else term
        yield from (f"({name} + {plus}) // {by}" for by in (2, 4, 8, 16, 32) for plus in range(by))
    for left, right in combinations(names, 2):
        factor, rest = divmod(seen[0], _TRIED[0] ** 2)
        if rest == 0 and factor:
            yield f"{left}*{right}" if factor == 1 else f"{factor}*{left}*{right}"
