"""Inputs in words: what is kept of a call whose result differed, without keeping its data."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

LONGEST = 60


def described(args: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """The arguments of a call, arrays by type, dtype, shape, strides and range."""
    parts = [*map(_word, args), *(f"{name}={_word(value)}" for name, value in keywords.items())]
    return f"({', '.join(parts)})"


def _word(value: Any) -> str:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and type(value) is numpy.ndarray:
        return f"{value.dtype}[{_dims(value.shape)}] strides ({_dims(value.strides)}){_range(value)}"
    if torch is not None and type(value) is getattr(torch, "Tensor", None):
        return f"{value.dtype}[{_dims(value.shape)}] strides ({_dims(value.stride())}) on {value.device}"
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        text = repr(value)
        return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    if type(value) in (tuple, list) and len(value) <= 8:
        return f"{type(value).__name__}({', '.join(map(_word, value))})"
    return type(value).__qualname__


def _dims(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _range(array: Any) -> str:
    if array.dtype.kind not in "buif" or not array.size:
        return ""
    return f" {array.min()!s}..{array.max()!s}"


def shape_class(args: Sequence[Any], keywords: Mapping[str, Any]) -> Hashable:
    """What calls of about the same cost have in common: types, dtypes, and sizes of arrays to a power of two."""
    found: list[Any] = []
    for value in (*args, *keywords.values()) if keywords else args:
        kind = type(value)
        how = _how.get(kind, "") or _learn(kind)
        if how == "array":
            found.append((value.dtype.char, value.ndim, value.size.bit_length()))
        elif how == "tensor":
            found.append((value.dtype, value.ndim, value.numel().bit_length()))
        elif how == "picture":
            found.append((value.mode, (value.width * value.height).bit_length()))
        elif how == "table":
            found.append((kind, value.size.bit_length()))
        else:
            found.append(value if kind is str else kind)
    return tuple(found)


_how: dict[type, str] = {}  # by type; this is asked for every call


def _learn(kind: type) -> str:
    """What a type is to us: an array, a tensor, a picture, a table, or something else."""
    if len(_how) > 500:
        _how.clear()
    for how, library, names in _KINDS:
        module = sys.modules.get(library)
        if module is not None and any(issubclass(kind, getattr(module, name, ())) for name in names):
            _how[kind] = how if how == "picture" or kind in [getattr(module, name) for name in names] else "other"
            return _how[kind]
    return _how.setdefault(kind, "other")


# Pictures come in a class per file format; a subclass of the others is somebody's own and is not asked for anything.
_KINDS = (
    ("array", "numpy", ("ndarray",)),
    ("tensor", "torch", ("Tensor",)),
    ("picture", "PIL.Image", ("Image",)),
    ("table", "pandas", ("Series", "DataFrame")),
)
