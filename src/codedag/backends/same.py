"""The strict comparator: two values are the same if a program that looks at them cannot tell them apart."""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from typing import Any

from codedag.ir.verdict import No, Unknown, Verdict, Yes

BLOCK = 1 << 20  # bytes that are compared at a time
FLAGS = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned")


def same(left: Any, right: Any) -> Verdict:
    """Yes if both have the same type, dtype, shape, layout and bytes, else where they first differ."""
    return _same(left, right, "value")


def _same(left: Any, right: Any, where: str) -> Verdict:
    if type(left) is not type(right):
        return No(f"{where}: type {_name(left)} is not {_name(right)}")
    if left is right and not isinstance(left, (list, tuple, dict)):
        return Yes
    for library, kind, compare in _LIBRARIES:
        module = sys.modules.get(library)
        if module is not None and isinstance(left, getattr(module, kind, ())):
            return compare(left, right, where)
    return _same_python(left, right, where)


def _same_python(left: Any, right: Any, where: str) -> Verdict:
    if isinstance(left, float):
        return Yes if struct.pack("d", left) == struct.pack("d", right) else _other(left, right, where)
    if isinstance(left, complex):
        one, other = (struct.pack("dd", value.real, value.imag) for value in (left, right))
        return Yes if one == other else _other(left, right, where)
    if isinstance(left, (list, tuple)):
        return _same_items(left, right, where)
    if isinstance(left, Mapping):
        return _same_mapping(left, right, where)
    if isinstance(left, BaseException):
        return _same_items(left.args, right.args, f"{where}.args")
    if isinstance(left, (int, str, bytes, bytearray, frozenset, set, type(None), slice, range)):
        return Yes if left == right else _other(left, right, where)
    return _same_object(left, right, where)


def _same_object(left: Any, right: Any, where: str) -> Verdict:
    """Objects of other types are the same only if their own equality says so in one plain word."""
    equal = left == right
    if equal is True:
        return Yes
    own: Any = type(left).__eq__
    told = equal is False and own is not object.__eq__  # else it only says that there are two of them
    return (No if told else Unknown)(f"{where}: two objects of type {_name(left)} cannot be shown to be the same")


def _same_items(left: Any, right: Any, where: str) -> Verdict:
    if len(left) != len(right):
        return No(f"{where}: length {len(left)} is not {len(right)}")
    for index, (one, other) in enumerate(zip(left, right, strict=True)):
        verdict = _same(one, other, f"{where}[{index}]")
        if not verdict:
            return verdict
    return Yes


def _same_mapping(left: Any, right: Any, where: str) -> Verdict:
    verdict = _same_items(list(left), list(right), f"{where}.keys")
    for key in left if verdict else ():
        verdict = _same(left[key], right[key], f"{where}[{key!r}]")
        if not verdict:
            break
    return verdict


def _same_array(left: Any, right: Any, where: str) -> Verdict:
    if left.dtype != right.dtype or left.dtype.byteorder != right.dtype.byteorder:
        return No(f"{where}: dtype {left.dtype.str} is not {right.dtype.str}")
    for fact in ("shape", "strides"):
        if getattr(left, fact) != getattr(right, fact):
            return No(f"{where}: {fact} {getattr(left, fact)} is not {getattr(right, fact)}")
    for flag in FLAGS:
        if getattr(left.flags, flag) != getattr(right.flags, flag):
            return No(f"{where}: flag {flag} is {getattr(left.flags, flag)} and {getattr(right.flags, flag)}")
    if left.dtype.hasobject:
        return _same_items(left.ravel().tolist(), right.ravel().tolist(), where)
    return Yes if _same_bytes(left, right) else No(f"{where}: {_differing(left, right)}")


def _same_bytes(left: Any, right: Any) -> bool:
    """Whether two arrays of one dtype and shape have the same bytes, with little memory beside them."""
    import numpy as np

    if not left.dtype.itemsize or not left.size:
        return True
    if type(left) is not np.ndarray or type(right) is not np.ndarray:
        return bool(left.tobytes() == right.tobytes())
    order: Any = "K" if left.strides == right.strides else "C"  # as they lie in memory: no copy if they have no holes
    one, other = (value.ravel(order).view(np.uint8) for value in (left, right))
    return not any((one[at : at + BLOCK] != other[at : at + BLOCK]).any() for at in range(0, one.size, BLOCK))


def _differing(left: Any, right: Any) -> str:
    import numpy as np

    rows = [np.frombuffer(value.tobytes(), np.uint8).reshape(-1, left.dtype.itemsize) for value in (left, right)]
    return f"{int((rows[0] != rows[1]).any(axis=-1).sum())} of {left.size} elements differ"


def _same_scalar(left: Any, right: Any, where: str) -> Verdict:
    if left.dtype != right.dtype:
        return No(f"{where}: dtype {left.dtype} is not {right.dtype}")
    return Yes if left.tobytes() == right.tobytes() else _other(left, right, where)


def _same_tensor(left: Any, right: Any, where: str) -> Verdict:
    for fact in ("dtype", "shape", "layout", "device", "requires_grad"):
        if getattr(left, fact) != getattr(right, fact):
            return No(f"{where}: {fact} {getattr(left, fact)} is not {getattr(right, fact)}")
    torch = sys.modules["torch"]
    if left.layout is not torch.strided or left.is_quantized:
        return Unknown(f"{where}: tensors of layout {left.layout} are not compared")
    if left.stride() != right.stride():
        return No(f"{where}: stride {left.stride()} is not {right.stride()}")
    return Yes if _same_bytes(_tensor_bytes(left), _tensor_bytes(right)) else No(f"{where}: elements differ")


def _tensor_bytes(tensor: Any) -> Any:
    """The elements of a tensor as an array of bytes."""
    torch = sys.modules["torch"]
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    if plain.stride(0) != 1:  # one element that was expanded counts as contiguous, whatever its stride
        plain = torch.empty(plain.shape, dtype=plain.dtype).copy_(plain)
    return plain.view(torch.uint8).numpy()


def _same_picture(left: Any, right: Any, where: str) -> Verdict:
    for fact in ("mode", "size", "format", "info"):
        verdict = _same(getattr(left, fact), getattr(right, fact), f"{where}.{fact}")
        if not verdict:
            return verdict
    verdict = _same(left.getpalette(), right.getpalette(), f"{where}.palette")
    if verdict and left.tobytes() != right.tobytes():
        return No(f"{where}: pixels differ")
    return verdict


def _same_parts(left: Any, right: Any, where: str) -> Verdict:
    """Objects that are what they hold."""
    return _same_mapping(vars(left), vars(right), where)


def _same_series(left: Any, right: Any, where: str) -> Verdict:
    """Series and frames by dtype, names, index and each value; an index by its values."""
    for fact in ("dtype", "name", "names", "attrs"):
        one, other = getattr(left, fact, None), getattr(right, fact, None)
        if type(one) is not type(other) or str(one) != str(other):
            return No(f"{where}: {fact} {one!r} is not {other!r}")
    for part in ("index", "columns"):
        if hasattr(left, part):
            verdict = _same(getattr(left, part), getattr(right, part), f"{where}.{part}")
            if not verdict:
                return verdict
    if hasattr(left, "columns"):
        return _same_columns(left, right, where)
    if len(left) == len(right) and _is_plain(left.dtype):
        one, other = left.to_numpy(), right.to_numpy()
        return Yes if _same_bytes(one, other) else No(f"{where}: {_differing(one, other)}")
    return _same_items(left.tolist(), right.tolist(), where)


def _is_plain(dtype: Any) -> bool:
    """Whether values of a dtype are their bytes: it is one of numpy's and has no objects."""
    import numpy as np

    return isinstance(dtype, np.dtype) and not dtype.hasobject


def _same_columns(left: Any, right: Any, where: str) -> Verdict:
    for place, name in enumerate(left.columns):
        verdict = _same(left.iloc[:, place], right.iloc[:, place], f"{where}[{name!r}]")
        if not verdict:
            return verdict
    return Yes


def _other(left: Any, right: Any, where: str) -> No:
    return No(f"{where}: {left!r} is not {right!r}")


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


# Looked up in sys.modules, so that comparing imports no library that the program did not.
_LIBRARIES = (
    ("numpy", "ndarray", _same_array),
    ("numpy", "generic", _same_scalar),
    ("torch", "Tensor", _same_tensor),
    ("PIL.Image", "Image", _same_picture),
    ("PIL.ImageEnhance", "_Enhance", _same_parts),
    ("pandas", "Series", _same_series),
    ("pandas", "DataFrame", _same_series),
    ("pandas", "Index", _same_series),
)
