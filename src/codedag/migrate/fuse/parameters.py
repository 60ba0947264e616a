"""The parameters of a step as keys: equal keys give equal results."""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Callable
from typing import Any

from codedag.migrate.guard import Declined

LARGEST = 4096  # elements of an array parameter; larger ones are data, not parameters
_pack = struct.Struct("d").pack

_PLAIN: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    float: lambda value: (float, _pack(value)),  # the bytes tell 0.0 from -0.0 and one NaN from another
    int: lambda value: (int, value),
    bool: lambda value: (bool, value),
    str: lambda value: (str, value),
    type(None): lambda value: (None,),
}


def parameter_key(value: Any, tensors: bool) -> tuple[Any, ...]:
    """The key of a parameter; (type, dtype, shape, bytes) of an array; Declined for what is not a plain parameter."""
    plain = _PLAIN.get(type(value))
    if plain is not None:
        return plain(value)
    if type(value) is list and not tensors and value and all(type(one) is float for one in value):
        numpy = sys.modules["numpy"]  # which makes an array of it in every operation
        return (list, numpy.dtype(float), (len(value),), struct.pack(f"{len(value)}d", *value))
    return _torch_key(value) if tensors else _numpy_key(value)


def _numpy_key(value: Any) -> tuple[Any, ...]:
    numpy = sys.modules["numpy"]
    if type(value) is numpy.ndarray or (isinstance(value, numpy.generic) and type(value).__module__ == "numpy"):
        if value.size > LARGEST:
            raise Declined("a large parameter")
        dtype = value.dtype
        if dtype.kind not in "biuf":
            raise Declined(f"a parameter of type {dtype}")
        return (type(value), dtype, value.shape, value.tobytes())
    if isinstance(value, numpy.dtype) or (
        isinstance(value, type) and (issubclass(value, numpy.generic) or value in _PLAIN)
    ):
        return (numpy.dtype, numpy.dtype(value).str)
    raise Declined(f"a parameter of type {type(value).__name__}")


def _torch_key(value: Any) -> tuple[Any, ...]:
    torch = sys.modules["torch"]
    if type(value) is torch.dtype or type(value) is torch.device:
        return (type(value), str(value))
    if type(value) is not torch.Tensor:
        raise Declined(f"a parameter of type {type(value).__name__}")
    if value.numel() > LARGEST or not is_plain_tensor(value):
        raise Declined(
            f"a tensor of {value.dtype} as a parameter that is large, elsewhere, differentiable or of odd numbers"
        )
    return (torch.Tensor, value.dtype, tuple(value.shape), value.numpy().tobytes())


@functools.cache
def plain_dtypes() -> frozenset[Any]:
    """The dtypes of tensors whose elements numpy knows too."""
    torch = sys.modules["torch"]
    names = ("float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool")
    return frozenset(getattr(torch, name) for name in names)


def torch_is_watched() -> bool:
    """Whether a mode of torch (a default device, a tracer) is on, which would see other operations than written."""
    core = sys.modules["torch"]._C
    return bool(core._len_torch_function_stack() or core._len_torch_dispatch_stack())


UNKNOWN = object()


def fact(value: Any) -> Any:
    """What to remember of a parameter, for `is_still` to tell quickly that another call has the same."""
    numpy = sys.modules["numpy"]
    if type(value) in _PLAIN or isinstance(value, type | numpy.generic):
        return value  # it cannot change
    if is_plain_tensor(value):
        return (value.dtype, value.shape, value.numpy().tobytes())
    return (value.dtype, value.shape, value.tobytes()) if type(value) is numpy.ndarray else UNKNOWN


def is_still(value: Any, known: Any) -> bool:
    """Whether a parameter is what it was: the very object if it cannot change, the same contents if it can."""
    if type(known) is not tuple:
        return value is known
    if type(value) is sys.modules["numpy"].ndarray:
        return value.shape == known[1] and bool(value.dtype == known[0]) and value.tobytes() == known[2]
    if not is_plain_tensor(value) or value.dtype is not known[0] or value.shape != known[1]:
        return False
    return bool(value.numpy().tobytes() == known[2])


def is_plain_tensor(value: Any) -> bool:
    """Whether a value is a tensor of numbers in memory that numpy can see, and that nobody differentiates by."""
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor or value.requires_grad or value.is_conj() or value.is_neg():
        return False
    return value.device.type == "cpu" and value.layout == torch.strided and value.dtype in plain_dtypes()


def axes_key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Axis numbers as a key; raises Declined for anything else."""
    return tuple(_axes(value) for value in values)


def _axes(value: Any) -> Any:
    if type(value) is int or value is None:
        return value
    if type(value) in (tuple, list) and all(type(v) is int for v in value):
        return tuple(value)
    raise Declined("axes that are not numbers")


def slices_of(index: Any, axes: int) -> list[slice]:
    """The index as one slice per axis; raises Declined if it is not made of plain slices."""
    parts = list(index) if type(index) is tuple else [index]
    dots = [number for number, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1 or not all(part is Ellipsis or _is_plain_slice(part) for part in parts):
        raise Declined("an index that is not made of slices of numbers")
    at = dots[0] if dots else len(parts)
    after = parts[at + 1 :]
    missing = axes - at - len(after)
    if missing < 0:
        raise Declined("an index of more axes than the array has")
    return [*parts[:at], *([slice(None)] * missing), *after]


def _is_plain_slice(part: Any) -> bool:
    return type(part) is slice and all(type(bound) in (int, type(None)) for bound in (part.start, part.stop, part.step))
