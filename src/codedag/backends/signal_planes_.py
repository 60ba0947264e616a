"""Substitutions from scipy.signal over images: convolution in scipy's own order of sums, many pixels at once."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np

from codedag.backends import _pixels
from codedag.backends.lines import LARGEST, value_range
from codedag.backends.numpy_calls import maybe
from codedag.backends.reasons import among, answer, is_number
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.backends.samples import Array, array, spread, weighted
from codedag.ir.verdict import Verdict

SCIPY = "scipy>=1.15,<1.18"  # its order of sums; another release may change it
LEAST = 1024
MOST = 1 << 24
WIDEST = 63
_BORDERS = {"fill": "fill", "symm": "symmetric", "symmetric": "symmetric", "wrap": "wrap", "circular": "wrap"}


@substitutes("scipy.signal.convolve2d", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def convolve2d(in1: Any, in2: Any, mode: Any = "full", boundary: Any = "fill", fillvalue: Any = 0) -> Array:
    """The image convolved with a window, in the precision of both together."""
    dtype = np.result_type(in1, in2)
    image, window = np.ascontiguousarray(in1, dtype), np.ascontiguousarray(in2, dtype)
    if not _plain(image) or not _plain(window):
        return convolve2d.original()(in1, in2, mode, boundary, fillvalue)  # type: ignore[no-any-return]
    sizes = [_size(*both, mode) for both in zip(image.shape, window.shape, strict=True)]
    result = np.empty(sizes, dtype)
    up, side = (_places(*both, mode, _BORDERS[boundary]) for both in zip(image.shape, window.shape, strict=True))
    numbers = (*image.shape, *window.shape, *sizes, float(fillvalue))
    _pixels.convolve(image, result, window, up, side, dtype.char, *numbers)
    return result


def _plain(values: Array) -> bool:
    low, high = value_range(values)
    return low > -LARGEST and high < LARGEST


def _size(size: int, window: int, mode: str) -> int:
    return size if mode == "same" else size + window - 1 if mode == "full" else size - window + 1


@functools.lru_cache(maxsize=256)
def _places(size: int, window: int, mode: str, border: str) -> Array:
    """What a window meets along one axis: the elements in order, and those beyond both ends (-1: the fill value)."""
    first = {"full": 0, "same": (window - 1) >> 1, "valid": window - 1}[mode] - (window - 1)
    at = np.arange(first, first + _size(size, window, mode) + window - 1)
    if border == "fill":
        return np.where((at < 0) | (at >= size), -1, at).astype(np.int32)
    if border == "wrap":
        return (at % size).astype(np.int32)
    return np.where(at % (2 * size) < size, at % size, size - 1 - at % size).astype(np.int32)


@convolve2d.guard
def _(call: Any) -> Verdict:
    """Plain images of floats, or of whole numbers with a window of floats, from 1024 pixels on; windows of up to 63
    pixels a side that are smaller than the image.
    """
    image, window = call.in1, call.in2
    if not _matrix(image, "fdBbHhiIlL") or not _matrix(window, "fdBbHhiIlL"):
        return answer("not two plain matrices of real numbers")
    if np.result_type(image, window).char not in "fd" or not LEAST <= image.size <= MOST:
        return answer("whole numbers only, or too small to gain")
    if window.shape[0] >= image.shape[0] or window.shape[1] >= image.shape[1] or max(window.shape) > WIDEST:
        return answer("a window that is not smaller than the image, or huge")
    return answer(_options(call))


def _matrix(value: Any, codes: str) -> bool:
    return type(value) is np.ndarray and value.ndim == 2 and value.size > 0 and value.dtype.char in codes


def _options(call: Any) -> str:
    known = among(call.mode, "full", "same", "valid") and type(call.boundary) is str and call.boundary in _BORDERS
    fill = is_number(call.fillvalue) and float(np.float32(call.fillvalue)) == call.fillvalue
    return "" if known and fill else "another mode, or an odd border"


@convolve2d.calls
def _(rng: random.Random) -> Call:
    shape = weighted(rng, ((40, 33), (64, 64), (33, 120)), ((5, 4), (0, 5), (3, 3), (60, 60, 3)), 0.08)
    dtypes = weighted(
        rng, (("float32",) * 2, ("float64",) * 2, ("uint8", "float64")), (("uint8",) * 2, ("bool",) * 2), 0.1
    )
    sides = (rng.choice((1, 2, 3, 5, 9)), rng.choice((1, 3, 4, 5, 7)))
    window = array(rng, weighted(rng, (sides,), ((70, 70), (0, 3), (3,)), 0.05), dtypes[1])
    if window.dtype.kind == "f" and rng.random() < 0.8:
        window = np.nan_to_num(window, posinf=1.0, neginf=-1.0)
    values: dict[str, Any] = {"in1": array(rng, shape, dtypes[0]), "in2": window}
    maybe(rng, values, 0.8, "mode", ("same", "same", "valid", "full", "same", "valid", "odd"))
    maybe(rng, values, 0.4, "boundary", ("symm", "fill", "wrap", "symmetric", "circular", "fill", "odd"))
    maybe(rng, values, 0.2, "fillvalue", (0, 1.5, -2, 0.1, 3))
    return spread(rng, ("in1", "in2", "mode", "boundary", "fillvalue"), values)
