"""Substitutions from numpy that move elements: copies of turned images, borders, the places of a mask.

Nothing is computed, so the bits are those of the input. cv2 is told the width of an element, not its meaning.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from codedag.backends import numpy_layout_calls as samples
from codedag.backends.bytes_tables import Array, settle
from codedag.backends.reasons import answer, left_out
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.backends.windows import border
from codedag.ir.verdict import Verdict

CV2 = "opencv-python-headless>=4.8"
NUMPY = "numpy>=2.0"
LEAST = 2048  # elements; measured with bench/substitutions.py
LEAST_TURNED = 8192
LEAST_GREY = 32_768  # also for HWC to CHW: numpy copies turned images of one channel well while they fit into the cache
LARGEST = 2**31 - 1
LONGEST = 32_000  # cv2 counts rows in places with 16 bits
_KINDS = frozenset("biuf")
_CARRIERS = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.float64}
_Move = Callable[[Array, Array], Any]


# Copies of turned images.


@substitutes("numpy.ascontiguousarray", into="cv2", gives=EXACT, needs=CV2, source_needs=NUMPY)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """A C-ordered copy of a flipped, rotated or transposed view of an image."""
    move = _move(a)
    if move is None:
        raise ValueError("the guard declines such a call")
    result = np.empty(a.shape, a.dtype)
    carrier = _CARRIERS[a.itemsize]
    target = result.view(carrier)
    settle(target, move(a.view(carrier), target))
    return result


@ascontiguousarray.guard
def _(call: Any) -> Verdict:
    """Views of C-ordered images that are flipped, rotated, transposed, BGR, HWC as CHW or CHW as HWC, from 8192
    elements on (one channel and HWC as CHW: 32768).
    """
    return answer(left_out(call, ("dtype", "like")) or _image(call.a) or _turned(call.a))


@ascontiguousarray.calls
def _(rng: random.Random) -> Call:
    return samples.ascontiguousarray(rng)


def _image(value: Any) -> str:
    if type(value) is not np.ndarray:
        return f"the input is a {type(value).__name__}, not a plain array"
    if value.dtype.kind not in _KINDS or value.itemsize > 8 or not value.dtype.isnative:
        return f"dtype {value.dtype.str} is not supported"
    if value.ndim not in (2, 3):
        return f"{value.ndim} dimensions"
    if value.size < LEAST_TURNED or (min(value.shape[:2]) < 2 and value.ndim == 2):
        return "the array is too small to gain"
    return "" if max(value.shape) <= LONGEST and value.flags.aligned else "too long or not aligned for cv2"


def _turned(value: Array) -> str:
    return "" if _move(value) is not None else "not a turned view that cv2 can copy"


def _move(value: Array) -> _Move | None:
    """How cv2 copies the view, known by its strides; None if numpy's own copy is as good."""
    if value.ndim == 2:
        return _plane_move(value, value.itemsize) if value.size >= LEAST_GREY and value.itemsize < 8 else None
    _, columns, channels = value.shape
    if value.strides[2] == value.itemsize and 2 <= channels <= 4:
        return _plane_move(value, value.itemsize * channels)
    if value.strides[2] == -value.itemsize and channels == 3 and value.itemsize < 8 and columns > 1:
        return _swap if value.strides[:2] == (columns * 3 * value.itemsize, 3 * value.itemsize) else None
    return _split_or_merge(value)


def _plane_move(value: Array, pixel: int) -> _Move | None:
    (rows, columns), (down, right) = value.shape[:2], value.strides[:2]
    if rows < 2 or columns < 2:
        return None
    if right == -pixel and abs(down) == columns * pixel:
        return _mirror if down > 0 else _half_turn
    if abs(down) == pixel and abs(right) == rows * pixel:
        return _TURNS.get((down > 0, right > 0))
    return None


def _split_or_merge(value: Array) -> _Move | None:
    size = value.itemsize
    (first, second, third), steps = value.shape, value.strides
    if min(value.shape) < 2:
        return None
    if steps == (size, third * first * size, first * size) and first <= 4 and size == 1 and value.size >= LEAST_GREY:
        return _split
    if steps == (second * size, size, first * second * size) and third <= 4:
        return _merge
    return None


def _mirror(view: Array, into: Array) -> Any:
    return _cv2().flip(view[:, ::-1], 1, into)


def _half_turn(view: Array, into: Array) -> Any:
    return _cv2().flip(view[::-1, ::-1], -1, into)


def _swap(view: Array, into: Array) -> Any:
    cv2, carrier = _cv2(), _COLOURS[view.itemsize]
    target = into.view(carrier)
    settle(target, cv2.cvtColor(view[:, :, ::-1].view(carrier), cv2.COLOR_BGR2RGB, target))
    return into


_COLOURS = {1: np.uint8, 2: np.uint16, 4: np.float32}  # what cvtColor takes; it moves the bits


def _split(view: Array, into: Array) -> Any:
    planes = list(into)
    for plane, written in zip(planes, _cv2().split(view.transpose(1, 2, 0), planes), strict=True):
        settle(plane, written)
    return into


def _merge(view: Array, into: Array) -> Any:
    return _cv2().merge(list(view.transpose(2, 0, 1)), into)


def _transpose(view: Array, into: Array) -> Any:
    return _cv2().transpose(view.swapaxes(0, 1), into)


def _clockwise(view: Array, into: Array) -> Any:
    cv2 = _cv2()
    return cv2.rotate(view[:, ::-1].swapaxes(0, 1), cv2.ROTATE_90_CLOCKWISE, into)


def _anticlockwise(view: Array, into: Array) -> Any:
    cv2 = _cv2()
    return cv2.rotate(view[::-1].swapaxes(0, 1), cv2.ROTATE_90_COUNTERCLOCKWISE, into)


# By the signs of the strides down and right of a view of a C-ordered image with rows and columns exchanged.
_TURNS: dict[tuple[bool, bool], _Move] = {
    (True, True): _transpose,
    (True, False): _clockwise,
    (False, True): _anticlockwise,
}


def _cv2() -> Any:
    import cv2

    return cv2


# Borders.


@substitutes("numpy.pad", into="cv2", gives=EXACT, needs=CV2, source_needs=NUMPY)
def pad(array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = np._NoValue) -> Array:
    """An image with a border, by cv2.copyMakeBorder."""
    cv2 = _cv2()
    (up, down), (left, right) = _widths(pad_width, array.ndim) or ((0, 0), (0, 0))
    source = np.ascontiguousarray(array)
    fill = (0.0 if constant_values is np._NoValue else float(constant_values),) * 4
    return cv2.copyMakeBorder(source, up, down, left, right, getattr(cv2, _MODES[mode]), value=fill)  # type: ignore[no-any-return]


_MODES = {
    "constant": "BORDER_CONSTANT",
    "edge": "BORDER_REPLICATE",
    "reflect": "BORDER_REFLECT_101",
    "symmetric": "BORDER_REFLECT",
    "wrap": "BORDER_WRAP",
}
_PADDED = frozenset(np.dtype(name).char for name in ("uint8", "int8", "uint16", "int16", "int32", "float32", "float64"))


@pad.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered images of 1 to 4 channels; constant, edge, reflect, symmetric or wrap; plain widths."""
    return answer(_padded(call.array) or _mode(call) or _reach(call))


@pad.calls
def _(rng: random.Random) -> Call:
    return samples.pad(rng)


def _padded(value: Any) -> str:
    if type(value) is not np.ndarray or value.dtype.char not in _PADDED or not value.dtype.isnative:
        return "not a plain array of a dtype that cv2 has"
    if value.flags.fnc or not value.size:
        return "the input is empty or in Fortran order"
    if value.ndim != 2 and not (value.ndim == 3 and 2 <= value.shape[2] <= 4):
        return "not an image of 1 to 4 channels"
    return "" if max(value.shape) <= LONGEST else "an axis is longer than cv2 can count"


def _mode(call: Any) -> str:
    if not isinstance(call.mode, str) or call.mode not in _MODES:
        return "a mode that cv2 does not have"
    if call.constant_values is np._NoValue:
        return ""
    if call.mode != "constant" or type(call.constant_values) not in (int, float):
        return "constant_values is not a plain number, or not for this mode"
    return border("constant", call.constant_values, call.array.dtype)


def _reach(call: Any) -> str:
    widths = _widths(call.pad_width, call.array.ndim)
    if widths is None:
        return "pad_width is not made of plain numbers for rows and columns"
    room = 10_000 if call.mode in ("constant", "edge") else min(call.array.shape[:2]) - (call.mode == "reflect")
    return "" if max(map(max, widths)) <= room else "the border is wider than the image"


def _widths(value: Any, ndim: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The widths of the border of rows and columns, as numpy reads them, or None if they are anything else."""
    if type(value) is int:
        return ((value, value), (value, value)) if ndim == 2 and value >= 0 else None
    if type(value) not in (tuple, list):
        return None
    if ndim == 2 and len(value) == 2 and all(type(item) is int and item >= 0 for item in value):
        return (value[0], value[1]), (value[0], value[1])
    if len(value) != ndim or not all(map(_pair, value)):
        return None
    if ndim == 3 and tuple(value[2]) != (0, 0):
        return None
    return (value[0][0], value[0][1]), (value[1][0], value[1][1])


def _pair(value: Any) -> bool:
    return type(value) in (tuple, list) and len(value) == 2 and all(type(item) is int and item >= 0 for item in value)


# The places of a mask.


@substitutes("numpy.nonzero", into="numpy", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def nonzero(a: Any) -> tuple[Array, ...]:
    """Row and column of each true element, from its place in the flat mask."""
    return _places(a)


@substitutes("numpy.where", into="numpy", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def where(condition: Any, x: Any = np._NoValue, y: Any = np._NoValue, /) -> tuple[Array, ...]:
    """Row and column of each true element of a mask given alone."""
    return _places(condition)


@substitutes("numpy.argwhere", into="numpy", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def argwhere(a: Any) -> Array:
    """Row and column of each true element as the rows of one array."""
    flat = a.reshape(-1).nonzero()[0]
    if not len(flat):
        return np.argwhere(a)
    places = np.empty((2, len(flat)), np.intp)
    np.divmod(flat, a.shape[1], out=(places[0], places[1]))
    return places.T  # numpy's result is such a view too


@nonzero.guard
@argwhere.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered masks in two dimensions from 2048 elements on."""
    return answer(_mask(call.a))


@where.guard
def _(call: Any) -> Verdict:
    """A condition alone: plain C-ordered masks in two dimensions from 2048 elements on."""
    return answer("x and y are given" if call.x is not np._NoValue else _mask(call.condition))


def _mask(value: Any) -> str:
    if type(value) is not np.ndarray or value.dtype.char != "?":
        return "not a plain mask"
    if value.ndim != 2 or not value.flags.c_contiguous:
        return "not two-dimensional and C-ordered"
    return "" if value.size >= LEAST else "the array is too small to gain"


def _places(mask: Array) -> tuple[Array, ...]:
    """Rows and columns as two views of one array, as numpy gives them; of nothing numpy's views have other strides."""
    flat = mask.reshape(-1).nonzero()[0]
    if not len(flat):
        return mask.nonzero()
    places = np.empty((len(flat), 2), np.intp)
    np.divmod(flat, mask.shape[1], out=(places[:, 0], places[:, 1]))
    return places[:, 0], places[:, 1]


@nonzero.calls
@argwhere.calls
def _(rng: random.Random) -> Call:
    return samples.nonzero(rng)


@where.calls
def _(rng: random.Random) -> Call:
    return samples.where(rng)
