"""NaN and infinity in results: whether there is one, where the first is, and what the original has there."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any


def odd(value: Any) -> bool:
    """Whether a float or array of floats holds NaN or infinity, at the price of reading it once.

    Without the C extension, or for a view with gaps, a sum tells. One that overflows says yes too: whoever asks then
    looks closer.
    """
    if type(value) is float:
        return not math.isfinite(value)
    if type(value) in (tuple, list):
        return len(value) <= 16 and any(map(odd, value))
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.inexact):
        return value.dtype.kind in "fc" and not _finite(numpy, value)
    if torch is not None and type(value) is getattr(torch, "Tensor", None):
        return bool(value.is_floating_point()) and not math.isfinite(float(value.detach().sum()))
    return False


def _finite(numpy: Any, value: Any) -> bool:
    native, dtype, flags = sys.modules.get("codedag.backends._pixels"), value.dtype, value.flags
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if native is None or size > 8 or not dtype.isnative or not (flags.c_contiguous or flags.f_contiguous):
        return _finite_sum(numpy, value)
    return bool(native.finite(value if flags.c_contiguous else value.T, size))


def _finite_sum(numpy: Any, value: Any) -> bool:
    with numpy.errstate(all="ignore"):  # the program's own settings must not see our sum
        return bool(numpy.isfinite(numpy.add.reduce(value, axis=None)))


def any_odd(values: Iterable[Any]) -> bool:
    """Whether one of the inputs is already not finite."""
    return any(map(odd, values))


def first_odd(value: Any, original: Any) -> str:
    """Where the substitute has the first NaN or infinity that the original has not; empty if there is none."""
    if type(value) in (tuple, list) and type(original) is type(value) and len(value) == len(original):
        found = (first_odd(*pair) for pair in zip(value, original, strict=True))
        return next((f"item {at}: {text}" for at, text in enumerate(found) if text), "")
    numpy = sys.modules.get("numpy")
    left, right = _plain(value), _plain(original)
    if numpy is None or left is None or right is None or left.shape != right.shape:
        return ""
    places = numpy.argwhere(~numpy.isfinite(left) & numpy.isfinite(right))
    if not len(places):
        return ""
    place = tuple(int(at) for at in places[0])
    return f"{_name(left[place])} at index {place}, where the original has {right[place]!s} ({len(places)} in all)"


def _plain(value: Any) -> Any:
    """The value as an array of floats, or None."""
    numpy = sys.modules.get("numpy")
    torch = sys.modules.get("torch")
    if torch is not None and type(value) is getattr(torch, "Tensor", None):
        value = value.detach().cpu().double().numpy()
    if numpy is None or not isinstance(value, numpy.ndarray | numpy.inexact | float):
        return None
    array = numpy.asarray(value)
    return array if array.dtype.kind in "fc" else None


def _name(number: Any) -> str:
    return "NaN" if number != number else "infinity"
