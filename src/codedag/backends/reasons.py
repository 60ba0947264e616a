"""Words for guards: checks of single arguments, each giving the reason to decline or an empty string."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from codedag.ir.verdict import No, Verdict, Yes

_NUMBERS = (int, float)
_MARKED = frozenset({"where", "initial", "mean", "correction"})  # that are left out by a mark of numpy's, not by None


def answer(reason: str) -> Verdict:
    """Yes if there is no reason to decline, else the reason."""
    return No(reason) if reason else Yes


def is_number(value: Any) -> bool:
    """Whether the value is a plain finite Python number that float64 can hold."""
    return type(value) in _NUMBERS and -1e300 < value < 1e300


def numbers(value: Any, most: int = 4096) -> bool:
    """Whether the value is a short list or tuple of plain numbers, or a short one-dimensional array of real ones."""
    if type(value) is np.ndarray:
        return value.ndim == 1 and 0 < value.size <= most and value.dtype.char in "bBhHiIlLfd" and _finite(value)
    return isinstance(value, (list, tuple)) and 0 < len(value) <= most and all(map(is_number, value))


def _finite(value: Any) -> bool:
    return bool(np.isfinite(value).all())


def left_out(call: Any, names: Iterable[str]) -> str:
    """The reason why an option is given that must be left at None, or at numpy's `no value`."""
    for name in names:
        if getattr(call, name) is not (np._NoValue if name in _MARKED else None):
            return f"{name} is given"
    return ""


def among(value: Any, *known: Any) -> bool:
    """Whether the value is one of these and of its very type: what only equals it may be read otherwise."""
    return any(type(value) is type(one) and value == one for one in known)


def increasing(values: Any) -> bool:
    """Whether the numbers grow strictly."""
    array = np.asarray(values, np.float64)
    return bool((array[1:] > array[:-1]).all())
