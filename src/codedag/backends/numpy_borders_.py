"""Substitutions from numpy: borders around small arrays, for which numpy.pad takes longer to begin than to copy.

Along each axis a border repeats elements of the array.  Which ones, numpy.pad itself is asked once, by the numbers of
the places; so any width that it knows is the same here.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import numpy as np

from codedag.backends import numpy_layout_calls as samples
from codedag.backends.bytes_tables import Array
from codedag.backends.numpy_layout_ import NUMPY
from codedag.backends.reasons import answer
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.backends.windows import border
from codedag.ir.verdict import Verdict

Widths = tuple[tuple[int, int], ...]
# Measured with bench/substitutions.py: above that numpy copies as fast as we do.
LARGEST, LARGEST_FILLED = 16_384, 1 << 20  # elements
WIDEST, MOST_AXES = 10_000, 4
_NUMBERS = "?bBhHiIlLqQefd"
_REPEATING = ("edge", "reflect", "symmetric", "wrap")


@substitutes("numpy.pad", into="numpy", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def pad(array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = np._NoValue) -> Array:
    """A small array with a border."""
    widths = _widths(pad_width, array.ndim) or ()
    if mode == "constant":
        return _filled(array, widths, 0 if constant_values is np._NoValue else constant_values)
    return _taken(array, widths, mode)


@pad.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered arrays of numbers, up to 16384 elements (a million, if the border is constant); constant, edge,
    reflect, symmetric or wrap; plain widths.
    """
    return answer(_plain(call.array) or _mode(call) or _size(call))


@pad.calls
def _(rng: random.Random) -> Call:
    return samples.small_pad(rng)


def _filled(array: Array, widths: Widths, value: float) -> Array:
    shape = [before + length + after for length, (before, after) in zip(array.shape, widths, strict=True)]
    result = np.full(shape, value, array.dtype)
    result[_inner(array, widths)] = array
    return result


def _taken(array: Array, widths: Widths, mode: str) -> Array:
    result = array
    for axis in range(array.ndim - 1, -1, -1):  # the last one first, while the others are short
        before, after = widths[axis]
        if before or after:
            result = result.take(_places(array.shape[axis], before, after, mode), axis)
    return result.copy() if result is array else result


def _inner(array: Array, widths: Widths) -> tuple[slice, ...]:
    return tuple([slice(before, before + n) for n, (before, _) in zip(array.shape, widths, strict=True)])


@lru_cache(maxsize=1024)
def _places(length: int, before: int, after: int, mode: str) -> Array:
    """Which element each place of a row with its border has, as numpy.pad says."""
    found = pad.original()(np.arange(length), (before, after), mode)
    found.flags.writeable = False
    return found  # type: ignore[no-any-return]


def _plain(value: Any) -> str:
    # numbers of more than double precision have bytes that mean nothing, and a copy may have others
    if type(value) is not np.ndarray or value.dtype.char not in _NUMBERS or not value.dtype.isnative:
        return "not a plain array of numbers"
    if value.flags.fnc or not value.size or not 1 <= value.ndim <= MOST_AXES:
        return "the input is empty, in Fortran order, or of too many axes"
    return ""


def _mode(call: Any) -> str:
    given = call.constant_values is not np._NoValue
    if type(call.mode) is not str or (call.mode not in _REPEATING and call.mode != "constant"):
        return "a mode that is not known"
    if call.mode != "constant":
        return "constant_values is given for another mode" if given else ""
    if not given:
        return ""
    if type(call.constant_values) not in (int, float) or call.array.dtype.kind == "b":
        return "constant_values is not a plain number"
    return border("constant", call.constant_values, call.array.dtype)


def _size(call: Any) -> str:
    widths, shape = _widths(call.pad_width, call.array.ndim), call.array.shape
    if widths is None:
        return "pad_width is not made of plain numbers"
    size = 1
    for length, (before, after) in zip(shape, widths, strict=True):
        size *= length + before + after
    return "too large to gain" if size > (LARGEST_FILLED if call.mode == "constant" else LARGEST) else ""


def _widths(value: Any, ndim: int) -> Widths | None:
    """The widths of the border along each axis, as numpy reads them, or None if they are anything else."""
    if type(value) is int:
        return ((value, value),) * ndim if 0 <= value <= WIDEST else None
    if type(value) not in (tuple, list):
        return None
    if len(value) == 2 and all(map(_is_width, value)):
        return ((value[0], value[1]),) * ndim
    if len(value) != ndim or not all(map(_is_pair, value)):
        return None
    return tuple([(before, after) for before, after in value])


def _is_width(value: Any) -> bool:
    return type(value) is int and 0 <= value <= WIDEST


def _is_pair(value: Any) -> bool:
    return type(value) in (tuple, list) and len(value) == 2 and _is_width(value[0]) and _is_width(value[1])
