"""Substitutions from scipy.ndimage by a kernel of our own: filters by rank.

As in cv2_.py elements are only chosen, never computed with, so that the result is bit-equal.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import cv2_calls
from codedag.backends.carriers import ORDER_CODES
from codedag.backends.ranks import ranked, too_many
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.backends.samples import weighted
from codedag.backends.windows import Array, Window, border, first_reason, fits, orderly, placed, plain_array, plane
from codedag.ir.verdict import Verdict

SCIPY = "scipy>=1.11"
LEAST = 4096  # pixels, as for cv2
HUGE = 200  # of random windows


@substitutes("scipy.ndimage.rank_filter", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def rank_filter(
    input: Any,  # noqa: A002
    rank: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The element of a rank in a window around each pixel."""
    place = _place(input, size, footprint, origin, axes)
    return ranked(input, place, rank % _count(place), mode, cval)


@substitutes("scipy.ndimage.percentile_filter", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def percentile_filter(
    input: Any,  # noqa: A002
    percentile: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The element of a rank in a window around each pixel, the rank as a share of the elements."""
    place = _place(input, size, footprint, origin, axes)
    return ranked(input, place, _share(percentile, _count(place)), mode, cval)


def _share(percentile: float, count: int) -> int:
    """The rank as scipy computes it."""
    percentile = percentile + 100.0 if percentile < 0.0 else percentile
    return count - 1 if percentile == 100.0 else int(float(count) * percentile / 100.0)


def _place(image: Array, size: Any, footprint: Any, origin: Any, axes: Any) -> Window:
    place = placed(image.ndim, size, footprint, origin, axes)
    assert place is not None, "the guard declines such a call"
    return place


def _count(place: Window) -> int:
    return int(place.kernel.sum())


@rank_filter.guard
def _(call: Any) -> Verdict:
    """Plain images of up to 4 channels of bytes, words or floats, a window of up to 64 pixels of any shape, a rank
    within it; floats without NaN and negative zero.
    """
    return first_reason(call, (*_CHECKS[:-1], _rank, *_CHECKS[-1:]))


@percentile_filter.guard
def _(call: Any) -> Verdict:
    """A percentile from -100 to 100; otherwise as scipy.ndimage.rank_filter."""
    return first_reason(call, (*_CHECKS[:-1], _percentile, *_CHECKS[-1:]))


def _plain(call: Any) -> str:
    return plain_array(call.input, ORDER_CODES)


def _given(call: Any) -> str:
    if call.output is not None:
        return "an output is given"
    return "" if (call.size is None) != (call.footprint is None) else "a size or a footprint, and not both"


def _plane(call: Any) -> str:
    return plane(call.input, call.axes, call.size if call.footprint is None else getattr(call.footprint, "shape", None))


def _border(call: Any) -> str:
    return border(call.mode, call.cval, call.input.dtype)


def _window(call: Any) -> str:
    place = placed(call.input.ndim, call.size, call.footprint, call.origin, call.axes)
    return fits(call.input, place, LEAST) or too_many(call.input, place)


def _rank(call: Any) -> str:
    count = _count(_place(call.input, call.size, call.footprint, call.origin, call.axes))
    if type(call.rank) is not int or not -count <= call.rank < count:
        return "a rank beyond the window"
    return _inner(call, call.rank % count, count)


def _percentile(call: Any) -> str:
    if type(call.percentile) not in (int, float) or not -100 <= call.percentile <= 100:
        return "not a plain percentile"
    count = _count(_place(call.input, call.size, call.footprint, call.origin, call.axes))
    return _inner(call, _share(call.percentile, count), count)


def _inner(call: Any, rank: int, count: int) -> str:
    extreme = rank in (0, count - 1) and call.input.dtype.char == "d"
    return "the least or the greatest of doubles, which gains nothing" if extreme else ""


def _orderly(call: Any) -> str:
    return orderly(call.input)


_CHECKS = (_plain, _given, _plane, _border, _window, _orderly)


@rank_filter.calls
def _(rng: random.Random) -> Call:
    rank = weighted(rng, (1, 2, 4, 7, -2, -4), (0, 8, -1, 12, 30, 1.0, None), 0.2)
    return _with(rng, "rank", rank)


@percentile_filter.calls
def _(rng: random.Random) -> Call:
    percentile = weighted(rng, (10, 20, 25, 50, 50.0, 75, -20), (0, 99.5, 100, -100, 101, None, np.float64(20)))
    return _with(rng, "percentile", percentile)


def _with(rng: random.Random, name: str, second: Any) -> Call:
    """A call of the median with another argument in the second place, or by its name."""
    call = cv2_calls.filter_call(rng, cv2_calls.FILTER_NAMES)
    args, others = ([_smaller(value) for value in part] for part in (call.args, call.kwargs.values()))
    kwargs = dict(zip(call.kwargs, others, strict=True))
    return Call((args[0], second, *args[1:]), kwargs) if args else Call((), {name: second, **kwargs})


def _smaller(value: Any) -> Any:
    """The value, without windows over which scipy sorts for minutes."""
    return 13 if type(value) is int and value == HUGE else value
