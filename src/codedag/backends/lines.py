"""Weighted sums along the axes of an array as scipy.ndimage computes them, by a kernel that keeps its order of sums."""

from __future__ import annotations

import functools
from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends import _pixels

Array = npt.NDArray[Any]
# How numpy.pad names the borders of scipy.ndimage.
_PAD: dict[str, Any] = {
    "reflect": "symmetric", "mirror": "reflect", "nearest": "edge", "wrap": "wrap", "grid-wrap": "wrap",
    "grid-mirror": "symmetric",
}  # fmt: skip
MODES = frozenset({*_PAD, "constant", "grid-constant"})
_EPSILON = float(np.finfo(np.float64).eps)
_NAN = float("nan")
LARGEST = 1e30


def correlated(values: Array, weights: tuple[float, ...], axis: int, mode: str, cval: float) -> Array:
    """A new C-ordered array of the same dtype: the sums along one axis, the middle weight on each element itself."""
    source = np.ascontiguousarray(values)
    result = np.empty(source.shape, source.dtype)
    table, symmetric = _table(array("d", weights).tobytes())
    before = len(weights) // 2
    places = border_places(source.shape[axis], before, len(weights) - before - 1, mode)
    shape = source.shape
    outer, inner = int(np.prod(shape[:axis], dtype=int)), int(np.prod(shape[axis + 1 :], dtype=int))
    sizes = (outer, shape[axis], inner)
    _pixels.correlate(source, result, source.dtype.char, sizes, table, before, symmetric, places, float(cval))
    return result


@functools.lru_cache(maxsize=256)
def _table(weights: bytes) -> tuple[Array, int]:
    """The weights, and whether scipy takes them as symmetric (1), with odd symmetry (-1) or neither (0).

    By their bytes: a zero equals a negative one, and is another weight.
    """
    table = np.frombuffer(weights)
    if len(table) % 2 == 0:
        return table, 0
    if (np.abs(table - table[::-1]) <= _EPSILON).all():
        return table, 1
    return table, -1 if (np.abs(table + table[::-1]) <= _EPSILON).all() else 0


@functools.lru_cache(maxsize=256)
def border_places(size: int, before: int, after: int, mode: str) -> Array:
    """For each place from `before` the first to `after` the last element: which one stands there, -1 for cval."""
    numbers = np.arange(size, dtype=np.int32)
    if mode in ("constant", "grid-constant"):
        return np.pad(numbers, (before, after), constant_values=-1)
    return np.pad(numbers, (before, after), mode=_PAD[mode])


@functools.lru_cache(maxsize=256)
def gaussian_weights(sigma: float, order: int, radius: int) -> tuple[float, ...]:
    """Scipy's own weights of a Gaussian or its derivative, turned round as for a correlation."""
    from scipy.ndimage._filters import _gaussian_kernel1d

    return tuple(_gaussian_kernel1d(sigma, order, radius)[::-1].tolist())


def blurred(values: Array, sigmas: Any, orders: Any, mode: str, cval: float, truncate: float) -> Array:
    """The array filtered along each axis whose sigma is not 0, cut to its dtype after each axis."""
    result = values
    for axis, (sigma, order) in enumerate(zip(sigmas, orders, strict=True)):
        if sigma > 1e-15:
            weights = gaussian_weights(sigma, order, int(truncate * float(sigma) + 0.5))
            result = correlated(result, weights, axis, mode, cval)
    return np.array(values, order="C") if result is values else result


def gradient(image: Array, mode: str, axis: int, middle: float) -> Array | None:
    """The differences along one axis, smoothed by 1, middle, 1 along the other; None if not all pixels are finite."""
    source = np.ascontiguousarray(image)
    result = np.empty(source.shape, source.dtype)
    up, side = (border_places(length, 1, 1, mode) for length in source.shape)
    code, sizes = source.dtype.char, source.shape
    return result if _pixels.slope(source, result, code, *sizes, axis, middle, up, side, 0.0) else None


@functools.lru_cache(maxsize=256)
def half_gaussian(size: int, sigma: float, mode: str) -> tuple[Array, Array]:
    """The first half of scipy's weights of a Gaussian with the middle one, and what stands where beyond an axis.

    Both are empty where scipy leaves the axis as it is.
    """
    if not sigma > 1e-15:
        return np.empty(0), np.empty(0, np.int32)
    radius = int(4.0 * sigma + 0.5)
    return np.array(gaussian_weights(sigma, 0, radius)[: radius + 1]), border_places(size, radius, radius, mode)


def filterable(values: Any, codes: str, least: int) -> str:
    """The reason why a value is not a plain array of finite elements with one of the dtypes."""
    reason = plain_array(values, codes, least)
    if reason or values.dtype.char == "B":
        return reason
    low, high = value_range(values)
    return "" if low > -LARGEST and high < LARGEST else "elements that are huge or not finite"


def plain_array(values: Any, codes: str, least: int) -> str:
    """The reason why a value is not a plain array with one of the dtypes."""
    if type(values) is not np.ndarray or values.dtype.char not in codes or not values.dtype.isnative:
        return "not a plain array of the dtypes that are known"
    if values.size < least or not 1 <= values.ndim <= 4 or not values.flags.aligned:
        return "too small to gain, or of too many dimensions"
    return ""


def value_range(values: Array) -> tuple[float, float]:
    """The least and the greatest element of an array of floats; NaN if there is one."""
    if not values.flags.c_contiguous:
        return float(values.min()), float(values.max())
    found = _pixels.extent(values, values.itemsize)
    return (_NAN, _NAN) if found is None else found[:2]
