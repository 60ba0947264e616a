"""Copies of values that are kept, which a program cannot tell from the original."""

from __future__ import annotations

import sys
from typing import Any

ATOMS = frozenset({int, float, bool, str, bytes, type(None)})


def copied(value: Any) -> Any:
    """A copy that shares nothing with the value and lies in memory as it does, or None if there is none."""
    numpy, torch, pillow = (sys.modules.get(name) for name in ("numpy", "torch", "PIL.Image"))
    if type(value) in ATOMS:
        return value
    if numpy is not None and type(value) is numpy.ndarray:
        return None if value.dtype.hasobject else _array(value)
    if torch is not None and type(value) is torch.Tensor:
        return None if value.requires_grad or value.device.type != "cpu" else value.clone()
    if pillow is not None and type(value) is pillow.Image:
        return value.copy()
    if type(value) in (tuple, list):
        parts = type(value)(map(copied, value))
        return None if any(p is None and v is not None for p, v in zip(parts, value, strict=True)) else parts
    if type(value) is dict:
        found = {key: copied(each) for key, each in value.items()}
        is_whole = all(type(key) is str and (found[key] is not None or value[key] is None) for key in value)
        return found if is_whole else None
    return value if is_atom(value) else None


def is_atom(value: Any) -> bool:
    """Whether a value cannot be changed; a record of numpy can, and lies in the memory of its array."""
    numpy = sys.modules.get("numpy")
    return type(value) in ATOMS or (
        numpy is not None and isinstance(value, numpy.generic) and not isinstance(value, numpy.void)
    )


def _array(value: Any) -> Any:
    """A copy with the same flags: a view stays one, and what cannot be written cannot be written."""
    copy = value.copy("K")
    if copy.strides != value.strides:  # an axis of one element: a sum that keeps its axes has it as in Fortran's order
        copy = value.copy("F")
    copy = copy if value.flags.owndata else copy[...]
    if not value.flags.writeable:
        copy.flags.writeable = False
    return copy


def size_of(value: Any) -> int:
    """The bytes that a kept value takes."""
    if type(value) in (tuple, list, dict):
        return 200 + sum(map(size_of, value.values() if type(value) is dict else value))
    pixels = getattr(value, "size", (0, 0)) if type(value).__name__ == "Image" else None
    if isinstance(pixels, tuple):
        return int(pixels[0] * pixels[1] * 4)
    return int(getattr(value, "nbytes", 64)) + 200
