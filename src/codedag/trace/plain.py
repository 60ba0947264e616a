"""The arguments of a call as plain data: JSON, and .npy files for what is in arrays; never a pickle, never code.

A value that has no such form (a model, a file, a function) is refused with a reason.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Node = Any  # what JSON can hold: a plain value, or {"is": kind, ...}

MOST_NODES = 10_000
LONGEST = 1 << 16
WIDEST_SPAN = 4  # a view is laid out as it was unless it is spread over more than so many times its own bytes
_PLAIN_TYPES = {"float": float, "int": int, "bool": bool, "complex": complex, "str": str}


class NotPlain(Exception):  # noqa: N818 - reads as what happened
    """A value that has no plain form."""


@dataclass(slots=True)
class Packer:
    """Turns values into nodes, and collects the arrays in them."""

    arrays: list[Any] = field(default_factory=list)
    nbytes: int = 0
    _nodes: int = 0

    def pack(self, value: Any) -> Node:
        """The node of a value; raises NotPlain."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise NotPlain("it has more than ten thousand parts")
        of = type(value)
        if (
            of is bool
            or value is None
            or (of is int and abs(value) < 1 << 62)
            or (of is float and math.isfinite(value))
        ):
            return value
        if of is str:
            return _short(value)
        packed = _PACKERS.get(of)
        return packed(self, value) if packed is not None else self._pack_foreign(value)

    def _pack_foreign(self, value: Any) -> Node:
        """Values of the libraries that the program has loaded."""
        for pack in (_pack_numpy, _pack_torch, _pack_picture, _pack_type):
            node = pack(self, value)
            if node is not None:
                return node
        raise NotPlain(f"a {type(value).__module__}.{type(value).__qualname__} is not plain data")

    def several(self, values: Any) -> list[Node]:
        """The nodes of some values."""
        return [self.pack(each) for each in values]

    def keep(self, array: Any) -> int:
        """The number of an array, which is kept once however often it is there."""
        for number, known in enumerate(self.arrays):
            if known is array:
                return number
        self.arrays.append(array)
        self.nbytes += int(array.nbytes)
        return len(self.arrays) - 1


def _short(value: Any) -> Any:
    if len(value) > LONGEST:
        raise NotPlain("a text or bytes are too long")
    return value


def _digits(value: int) -> str:
    if value.bit_length() > 4_096:
        raise NotPlain("a number is too long")
    return str(value)


_PACKERS: dict[type, Callable[[Packer, Any], Node]] = {
    int: lambda packer, value: {"is": "int", "text": _digits(value)},
    float: lambda packer, value: {"is": "float", "text": repr(value)},
    complex: lambda packer, value: {"is": "complex", "text": repr(value)},
    bytes: lambda packer, value: {"is": "bytes", "hex": _short(value).hex()},
    tuple: lambda packer, value: {"is": "tuple", "items": packer.several(value)},
    list: lambda packer, value: {"is": "list", "items": packer.several(value)},
    dict: lambda packer, value: {"is": "dict", "items": [packer.several(pair) for pair in value.items()]},
    slice: lambda packer, value: {"is": "slice", "items": packer.several((value.start, value.stop, value.step))},
    range: lambda packer, value: {"is": "range", "items": packer.several((value.start, value.stop, value.step))},
    type(Ellipsis): lambda packer, value: {"is": "ellipsis"},
}  # fmt: skip


def _pack_type(packer: Packer, value: Any) -> Node | None:
    for name, known in _PLAIN_TYPES.items():
        if value is known:
            return {"is": "type", "name": name}
    return None


def _pack_numpy(packer: Packer, value: Any) -> Node | None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if type(value) is numpy.ndarray:
        if value.dtype.hasobject or value.dtype.fields is not None:
            raise NotPlain(f"an array of {value.dtype} is not plain data")
        return {"is": "array", "at": packer.keep(value), "strides": _odd_strides(value)}
    if isinstance(value, numpy.generic) and type(value).__module__ == "numpy" and not value.dtype.hasobject:
        return {"is": "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
    if isinstance(value, numpy.dtype) and not value.hasobject and value.fields is None:
        return {"is": "dtype", "name": value.str}
    if isinstance(value, type) and issubclass(value, numpy.generic) and value.__module__ == "numpy":
        return {"is": "scalar type", "name": value.__name__}
    return None


def _odd_strides(array: Any) -> list[int] | None:
    """The strides of an array that is not laid out row by row, where laying it out so again takes little memory."""
    if array.flags.c_contiguous or not array.size:
        return None
    return (
        list(array.strides)
        if span(array.shape, array.strides, array.itemsize)[1] <= WIDEST_SPAN * array.nbytes
        else None
    )


def span(shape: Any, strides: Any, itemsize: int) -> tuple[int, int]:
    """Where the first element of a view lies in the memory that it spans, and the size of that memory."""
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    below = -sum(step for step in reach if step < 0)
    return below, below + sum(step for step in reach if step > 0) + itemsize


def _pack_torch(packer: Packer, value: Any) -> Node | None:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "Tensor"):
        return None
    if isinstance(value, torch.dtype):
        return {"is": "torch.dtype", "name": str(value).removeprefix("torch.")}
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return None
    if is_traced(torch):
        raise NotPlain("torch itself was tracing, and would have seen us look")
    if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized or value.is_conj():
        raise NotPlain(f"a tensor of layout {value.layout} on {value.device} is not kept")
    try:
        array = value.detach().numpy()
    except (TypeError, RuntimeError) as error:
        raise NotPlain(f"a tensor of {value.dtype} is not kept ({error})") from error
    return {"is": "tensor", "at": packer.keep(array), "strides": _odd_strides(array), "grad": bool(value.requires_grad)}


def is_traced(torch: Any) -> bool:
    """Whether torch notes what is done with tensors, or lets a mode of the program decide on it."""
    inner = torch._C
    if inner._get_tracing_state() is not None:
        return True
    return bool(inner._len_torch_function_stack() or inner._len_torch_dispatch_stack())


def _pack_picture(packer: Packer, value: Any) -> Node | None:
    image = sys.modules.get("PIL.Image")
    numpy = sys.modules.get("numpy")
    if image is None or numpy is None or type(value) is not image.Image:  # one of a file may not be read yet
        return None
    if value.mode not in ("L", "RGB", "RGBA"):
        raise NotPlain(f"an image of mode {value.mode} is not kept")
    return {"is": "picture", "at": packer.keep(numpy.asarray(value)), "mode": value.mode}


def unpack(node: Node, arrays: Callable[[int], Any]) -> Any:
    """The value of a node; raises NotPlain for a node that no value has."""
    if not isinstance(node, dict):
        return node
    made = _UNPACKERS.get(node.get("is", ""))
    if made is None:
        raise NotPlain(f"there is no value of kind {node.get('is')!r}")
    try:
        return made(node, arrays)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise NotPlain(f"a {node['is']} cannot be read ({error})") from error


def _items(node: Node, arrays: Callable[[int], Any]) -> list[Any]:
    return [unpack(each, arrays) for each in node["items"]]


def _unpack_array(node: Node, arrays: Callable[[int], Any]) -> Any:
    array = arrays(node["at"])
    strides = node.get("strides")
    return array if strides is None else laid_out(array, tuple(strides))


def laid_out(array: Any, strides: tuple[int, ...]) -> Any:
    """The elements of an array in memory of their own with these strides."""
    import numpy as np

    first, size = span(array.shape, strides, array.itemsize)
    memory = np.zeros(size, np.uint8)
    placed = np.ndarray(array.shape, array.dtype, memory, first, strides)
    placed[...] = array
    return placed


def _unpack_tensor(node: Node, arrays: Callable[[int], Any]) -> Any:
    import torch

    tensor = torch.from_numpy(_unpack_array(node, arrays))
    return tensor.requires_grad_() if node.get("grad") else tensor


def _unpack_picture(node: Node, arrays: Callable[[int], Any]) -> Any:
    from PIL import Image

    picture = Image.fromarray(arrays(node["at"]))
    if picture.mode != node["mode"]:
        raise NotPlain(f"an image of mode {node['mode']} is read as {picture.mode}")
    return picture.copy()


def _unpack_scalar(node: Node, arrays: Callable[[int], Any]) -> Any:
    import numpy as np

    return np.frombuffer(bytes.fromhex(node["hex"]), np.dtype(node["dtype"]))[0]


def _unpack_dtype(node: Node, arrays: Callable[[int], Any]) -> Any:
    import numpy as np

    return np.dtype(node["name"])


def _unpack_scalar_type(node: Node, arrays: Callable[[int], Any]) -> Any:
    import numpy as np

    found = getattr(np, node["name"])
    if not (isinstance(found, type) and issubclass(found, np.generic)):
        raise NotPlain(f"{node['name']} is not a type of numbers")
    return found


def _unpack_torch_dtype(node: Node, arrays: Callable[[int], Any]) -> Any:
    import torch

    found = getattr(torch, node["name"])
    if not isinstance(found, torch.dtype):
        raise NotPlain(f"{node['name']} is not a type of numbers")
    return found


_UNPACKERS: dict[str, Callable[[Node, Callable[[int], Any]], Any]] = {
    "int": lambda node, arrays: int(node["text"]),
    "float": lambda node, arrays: float(node["text"]),
    "complex": lambda node, arrays: complex(node["text"]),
    "bytes": lambda node, arrays: bytes.fromhex(node["hex"]),
    "tuple": lambda node, arrays: tuple(_items(node, arrays)),
    "list": _items,
    "dict": lambda node, arrays: {unpack(k, arrays): unpack(v, arrays) for k, v in node["items"]},
    "slice": lambda node, arrays: slice(*_items(node, arrays)),
    "range": lambda node, arrays: range(*_items(node, arrays)),
    "ellipsis": lambda node, arrays: ...,
    "type": lambda node, arrays: _PLAIN_TYPES[node["name"]],
    "array": _unpack_array,
    "tensor": _unpack_tensor,
    "picture": _unpack_picture,
    "scalar": _unpack_scalar,
    "dtype": _unpack_dtype,
    "scalar type": _unpack_scalar_type,
    "torch.dtype": _unpack_torch_dtype,
}


def saved(array: Any, path: Path) -> None:
    """Writes an array as .npy; one that holds objects is refused."""
    import numpy as np

    with path.open("xb") as out:
        np.save(out, array, allow_pickle=False)


def loaded(path: Path) -> Any:
    """The array of a .npy file; raises NotPlain if there is none that is whole."""
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise NotPlain(f"{path.name} cannot be read ({error})") from error
