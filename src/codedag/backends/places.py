"""Looking up images between their pixels as scipy.ndimage does it, by kernels that keep its order of operations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends import _pixels
from codedag.backends.lines import half_gaussian

Array = npt.NDArray[Any]
Table = tuple[Array, Array]
MODES = ("constant", "nearest", "mirror", "reflect")  # in the order of the kernel's numbers
_NEAR = 1e-15  # scipy's reflect takes what lies less before the first pixel for this much


def on_grid(image: Array, size: tuple[int, int], tables: Sequence[Table], cval: float) -> Array:
    """The image (of one or several channels) looked up at the places of two tables, in a new array."""
    source = np.ascontiguousarray(image)
    result = np.empty((*size, *image.shape[2:]), image.dtype)
    rows, columns = tables
    channels, taps = image.shape[2] if image.ndim == 3 else 1, rows[0].shape[1]
    numbers = (*image.shape[:2], channels, *size, taps, float(cval))
    _pixels.grid(source, result, rows[0], columns[0], rows[1], columns[1], image.dtype.char, *numbers)
    return result


def shrunk(image: Array, table: Array, size: tuple[int, int], sigmas: Sequence[float], mode: str) -> Array:
    """The image blurred along rows and columns, then looked up between its pixels on a grid of another size.

    The table says what each byte of an image of bytes stands for.
    """
    source, channels = np.ascontiguousarray(image), image.shape[2] if image.ndim == 3 else 1
    result = np.empty((*size, *image.shape[2:]), image.dtype if image.dtype.kind == "f" else np.float64)
    rows, columns = (zoomed(image.shape[axis], size[axis], 1, mode, True) for axis in (0, 1))
    down, across = (half_gaussian(image.shape[axis], sigmas[axis], mode) for axis in (0, 1))
    tables = (rows[0], columns[0], rows[1], per_channel(image.shape[1], size[1], mode, channels), table)
    numbers = (*image.shape[:2], channels, *size)
    _pixels.shrink(source, result, *tables, *down, *across, image.dtype.char, *numbers)
    return result


@functools.lru_cache(maxsize=64)
def per_channel(size: int, wanted: int, mode: str, channels: int) -> Array:
    """The weights of all first neighbours of an axis and then of all second ones, repeated for each channel."""
    return np.repeat(zoomed(size, wanted, 1, mode, True)[1].T, channels, axis=1)


def by_matrix(image: Array, result: Array, matrix: Any, offset: Any, how: tuple[int, str, float]) -> Array:
    """The result, filled where a matrix and an offset send each of its pixels; how: order, mode and cval."""
    order, mode, cval = how
    codes, sizes = (image.dtype.char, result.dtype.char), (*image.shape, *result.shape)
    numbers = (tuple(map(float, np.ravel(matrix))), tuple(map(float, offset)), float(cval))
    _pixels.places(np.ascontiguousarray(image), result, *codes, *sizes, order, MODES.index(mode), *numbers)
    return result


@functools.lru_cache(maxsize=256)
def zoomed(size: int, wanted: int, order: int, mode: str, grid: bool) -> Table:
    """The table of an axis that grows or shrinks to a size."""
    at = np.arange(wanted, dtype=np.float64)
    top, bottom = (size, wanted) if grid else (size - 1, wanted - 1)
    step = top / bottom if bottom else 1.0
    return _table((at + 0.5) * step - 0.5 if grid else at * step, size, order, mode)


@functools.lru_cache(maxsize=256)
def shifted(size: int, by: float, order: int, mode: str) -> Table:
    """The table of an axis that is moved."""
    return _table(np.arange(size, dtype=np.float64) + -by, size, order, mode)


def _table(at: Array, size: int, order: int, mode: str) -> Table:
    """For each place: which elements are its neighbours (-1: beyond a constant border), and their weights."""
    at = at if mode == "nearest" else _mapped(at, size, mode)  # scipy clamps only the neighbours
    first = np.floor(at if order & 1 else at + 0.5) - order // 2
    neighbours = first[:, None] + np.arange(order + 1)
    inner = _mapped(neighbours, size, "mirror" if mode == "constant" else mode)
    places = np.where((at[:, None] > -1.0) | (mode == "nearest"), inner, -1.0).astype(np.int32)
    return np.ascontiguousarray(places), np.ascontiguousarray(_weights(at - np.floor(at), order))


def _weights(part: Array, order: int) -> Array:
    rest = 1.0 - part
    if order == 0:
        return np.ones((len(part), 1))
    if order == 1:
        return np.stack([rest, 1.0 - rest], axis=1)  # scipy makes the weights add up to 1
    before = (part * part * (part - 2.0) * 3.0 + 4.0) / 6.0
    after = (rest * rest * (rest - 2.0) * 3.0 + 4.0) / 6.0
    far = rest * rest * rest / 6.0
    return np.stack([far, before, after, 1.0 - far - before - after], axis=1)


def _mapped(at: Array, size: int, mode: str) -> Array:
    """Where places lie within the axis by the border's rule."""
    outside = (at < 0) | (at > size - 1)
    if not outside.any():
        return at
    if mode == "constant":
        return np.where(outside, -1.0, at)
    if mode == "nearest" or size <= 1:
        return np.clip(at, 0.0, size - 1.0)
    return np.where(outside, _mirrored(at, size) if mode == "mirror" else _reflected(at, size), at)


def _mirrored(at: Array, size: int) -> Array:
    turn = 2.0 * size - 2.0
    low = turn * np.trunc(-at / turn) + at
    high = at - turn * np.trunc(at / turn)
    return np.where(at < 0, np.where(low <= 1 - size, low + turn, -low), np.where(high >= size, turn - high, high))


def _reflected(at: Array, size: int) -> Array:
    turn = 2.0 * size
    low = np.where(at < -turn, turn * np.trunc(-at / turn) + at, at)
    low = np.where(low < -size, low + turn, np.where(low > -_NEAR, _NEAR, -low) - 1)
    high = at - turn * np.trunc(at / turn)
    return np.where(at < 0, low, np.where(high >= size, turn - high - 1, high))
