"""Substitutions into OpenCV: order filters and morphology of scipy.ndimage over images.

All of them choose among the pixels of a window and never compute with them, so the result is bit-equal
whatever order, instruction set or number of threads cv2 uses. Guards read float images: where NaN or a
negative zero leaves a choice to the implementation the call is declined.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import cv2_calls
from codedag.backends.carriers import CODES, ORDER_CODES, carried, median_carrier, order_carrier
from codedag.backends.ranks import ranked, too_many
from codedag.backends.registry import EXACT, Call, substitutes, written_as
from codedag.backends.windows import (
    Array,
    Window,
    border,
    first_reason,
    fits,
    kernel_of,
    orderly,
    placed,
    plain_array,
    plane,
    window,
)
from codedag.ir.verdict import Verdict

CV2 = "opencv-python-headless>=4.8"
FILTERS = "scipy>=1.11"  # `axes` came with 1.11
MORPHOLOGY = "scipy>=1.15"  # and here with 1.15

LARGEST_MEDIAN = 63
MOST_ITERATIONS = 10
# The fewest pixels at which guard and cv2 together are 1.1 times as fast as scipy on its easiest image, one
# of a single colour; measured with bench/substitutions.py --smallest --plain on a shared x86 machine.
LEAST = 4096
LEAST_READ = 16384  # for dtypes whose elements the guard must read, and for windows of one row or column
LEAST_CROSS = 1024  # scipy builds the default structure anew in each call
_MODES = {
    "reflect": "BORDER_REFLECT",
    "mirror": "BORDER_REFLECT_101",
    "nearest": "BORDER_REPLICATE",
    "constant": "BORDER_CONSTANT",
    "wrap": "BORDER_WRAP",
}


# The median.


@substitutes("scipy.ndimage.median_filter", into="cv2", gives=EXACT, needs=CV2, source_needs=FILTERS)
def median_filter(
    input: Any,  # noqa: A002 - the source's own name
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The median of a square window around each pixel, by cv2.medianBlur over an image with a margin."""
    import cv2

    place = _place(input.ndim, size, footprint, origin, axes)
    side, (rows, columns) = place.shape[0], input.shape[:2]
    carrier = median_carrier(input, side, _fill(mode, cval))
    if not carrier:
        return _by_rank(input, size, footprint, output, mode, cval, origin, axes=axes)
    image = carried(input, carrier)
    filtered = cv2.medianBlur(_with_margin(image, place, mode, cval), side)
    result, target = _result(input)
    return _into(result, target, _cut(filtered, side // 2, side // 2, rows, columns))


@written_as("scipy.ndimage.median_filter")
def _by_rank(
    image: Array, size: Any, footprint: Any, output: Any, mode: Any, cval: Any, origin: Any, *, axes: Any
) -> Array:
    """The median where cv2 has none of such numbers."""
    place = _place(image.ndim, size, footprint, origin, axes)
    return ranked(image, place, place.shape[0] ** 2 // 2, mode, cval)


@median_filter.guard
def _(call: Any) -> Verdict:
    """Plain images of real numbers with 1, 3 or 4 channels, an odd square window, borders that cv2 has; floats
    without NaN and negative zero.
    """
    return first_reason(call, _MEDIAN_CHECKS)


def _median_window(call: Any) -> str:
    place = _place_of(call)
    if place is not None and (place.shape[0] != place.shape[1] or place.shape[0] % 2 == 0 or not place.kernel.all()):
        return "cv2 has medians of odd squares only"
    if call.input.ndim == 3 and call.input.shape[2] == 2:
        return "2 channels"
    return fits(call.input, place, LEAST, LARGEST_MEDIAN)


def _median_carrier(call: Any) -> str:
    place = _place_of(call)
    if place is not None and median_carrier(call.input, place.shape[0], _fill(call.mode, call.cval)):
        return ""
    own = call.input.dtype.char in ORDER_CODES and not too_many(call.input, place)
    return "" if own else f"cv2 has no such median of the {call.input.dtype.name} values given"


@median_filter.calls
def _(rng: random.Random) -> Call:
    return cv2_calls.filter_call(rng, cv2_calls.FILTER_NAMES)


# Minimum and maximum.


@substitutes("scipy.ndimage.minimum_filter", into="cv2", gives=EXACT, needs=CV2, source_needs=FILTERS)
def minimum_filter(
    input: Any,  # noqa: A002
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The least pixel of a window around each pixel, by cv2.erode."""
    return _extreme("erode", input, _place(input.ndim, size, footprint, origin, axes), mode, cval)


@substitutes("scipy.ndimage.maximum_filter", into="cv2", gives=EXACT, needs=CV2, source_needs=FILTERS)
def maximum_filter(
    input: Any,  # noqa: A002
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The greatest pixel of a window around each pixel, by cv2.dilate."""
    return _extreme("dilate", input, _place(input.ndim, size, footprint, origin, axes), mode, cval)


@minimum_filter.guard
@maximum_filter.guard
def _(call: Any) -> Verdict:
    """Plain images of up to 4 channels whose dtype cv2 holds, a window of any shape, borders that cv2 has; floats
    without NaN and negative zero.
    """
    return first_reason(call, _ORDER_CHECKS)


@minimum_filter.calls
@maximum_filter.calls
def _(rng: random.Random) -> Call:
    return cv2_calls.filter_call(rng, cv2_calls.FILTER_NAMES)


@substitutes("scipy.ndimage.grey_erosion", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def grey_erosion(
    input: Any,  # noqa: A002
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The erosion by a flat window, by cv2.erode."""
    return _extreme("erode", input, _place(input.ndim, size, footprint, origin, axes), mode, cval)


@substitutes("scipy.ndimage.grey_dilation", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def grey_dilation(
    input: Any,  # noqa: A002
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The dilation by a flat window, which scipy mirrors, by cv2.dilate."""
    return _extreme("dilate", input, _place(input.ndim, size, footprint, origin, axes, mirrored=True), mode, cval)


@grey_erosion.guard
def _(call: Any) -> Verdict:
    """Flat windows; otherwise as minimum_filter."""
    return first_reason(call, (_no_structure, *_ORDER_CHECKS))


@grey_dilation.guard
def _(call: Any) -> Verdict:
    """Flat windows; otherwise as minimum_filter."""
    return first_reason(call, (_no_structure, *_MIRRORED_CHECKS))


@grey_erosion.calls
@grey_dilation.calls
def _(rng: random.Random) -> Call:
    return cv2_calls.filter_call(rng, cv2_calls.GREY_NAMES)


# Binary morphology.


@substitutes("scipy.ndimage.binary_erosion", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def binary_erosion(
    input: Any,  # noqa: A002
    structure: Any = None,
    iterations: Any = 1,
    mask: Any = None,
    output: Any = None,
    border_value: Any = 0,
    origin: Any = 0,
    brute_force: Any = False,
    *,
    axes: Any = None,
) -> Array:
    """The erosion of a mask, by cv2.erode."""
    return _binary("erode", input, _structure(structure, origin, mirrored=False), int(iterations), border_value)


@substitutes("scipy.ndimage.binary_dilation", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def binary_dilation(
    input: Any,  # noqa: A002
    structure: Any = None,
    iterations: Any = 1,
    mask: Any = None,
    output: Any = None,
    border_value: Any = 0,
    origin: Any = 0,
    brute_force: Any = False,
    *,
    axes: Any = None,
) -> Array:
    """The dilation of a mask, by cv2.dilate."""
    return _binary("dilate", input, _structure(structure, origin, mirrored=True), int(iterations), border_value)


@binary_erosion.guard
@binary_dilation.guard
def _(call: Any) -> Verdict:
    """Plain two-dimensional arrays, a structure of at most 127 x 127, 1 to 10 iterations, no mask."""
    return first_reason(call, _BINARY_CHECKS)


@binary_erosion.calls
@binary_dilation.calls
def _(rng: random.Random) -> Call:
    return cv2_calls.binary_call(rng)


# Running them.


def _extreme(operation: str, image: Array, place: Window, mode: str, cval: float) -> Array:
    """Erodes or dilates once; cv2 makes all borders itself but the one that wraps."""
    import cv2

    result, target = _result(image)
    source = carried(image, order_carrier(image)).reshape(target.shape)
    (row, column), (rows, columns) = place.anchor, image.shape[:2]
    run = getattr(cv2, operation)
    if mode == "wrap":
        wide = run(_with_margin(source, place, mode, cval), place.kernel, anchor=(column, row))
        return _into(result, target, _cut(wide, row, column, rows, columns))
    edge, fill = getattr(cv2, _MODES[mode]), (float(cval),) * 4
    ready = target if source.dtype == target.dtype else None
    return _into(result, target, run(source, place.kernel, ready, (column, row), 1, edge, fill))


def _binary(operation: str, image: Array, place: Window, iterations: int, border_value: int) -> Array:
    import cv2

    result, target = _result(image, "?")
    source = np.not_equal(_bytes_or_same(image), 0, order="C").view(np.uint8).reshape(target.shape)
    anchor, fill = place.anchor[::-1], (float(border_value),) * 4
    for _ in range(iterations - 1):
        source = getattr(cv2, operation)(source, place.kernel, None, anchor, 1, cv2.BORDER_CONSTANT, fill)
    last = getattr(cv2, operation)(source, place.kernel, target, anchor, 1, cv2.BORDER_CONSTANT, fill)
    return _into(result, target, last)


def _result(image: Array, code: str = "") -> tuple[Array, Array]:
    """A new array for the result, and a view of it that cv2 can write: bytes for bool, no lone channel."""
    result = np.empty(image.shape, code or image.dtype.char)
    target = _bytes_or_same(result)
    return result, target[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else target


def _into(result: Array, target: Array, written: Array) -> Array:
    """The result, after what cv2 has not already written there is brought in."""
    if written is not target:
        np.copyto(target, written.reshape(target.shape), casting="unsafe")  # exact: the carrier holds every value
    return result


def _cut(wide: Array, row: int, column: int, rows: int, columns: int) -> Array:
    return wide[row : row + rows, column : column + columns]


def _fill(mode: str, cval: float) -> float | None:
    """The value beyond the edge, where there is one."""
    return float(cval) if mode == "constant" else None


def _bytes_or_same(image: Array) -> Array:
    return image.view(np.uint8) if image.dtype.kind == "b" else image


def _with_margin(image: Array, place: Window, mode: str, cval: float) -> Array:
    import cv2

    return cv2.copyMakeBorder(image, *place.reach, getattr(cv2, _MODES[mode]), value=(float(cval),) * 4)  # type: ignore[no-any-return]


# Where the window sits.


def _place(ndim: int, size: Any, footprint: Any, origin: Any, axes: Any, *, mirrored: bool = False) -> Window:
    place = placed(ndim, size, footprint, origin, axes, mirrored)
    assert place is not None, "the guard declines such a call"
    return place


def _place_of(call: Any, mirrored: bool = False) -> Window | None:
    return placed(call.input.ndim, call.size, call.footprint, call.origin, call.axes, mirrored)


def _structure(structure: Any, origin: Any, mirrored: bool) -> Window:
    place = _structure_or_none(structure, origin, mirrored)
    assert place is not None, "the guard declines such a call"
    return place


def _structure_or_none(structure: Any, origin: Any, mirrored: bool) -> Window | None:
    kernel = _CROSS if structure is None else kernel_of(structure, 2)
    return None if kernel is None else window(kernel.shape, origin, mirrored, kernel)


_CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8)


# The checks of the guards.


def _no_structure(call: Any) -> str:
    return "" if call.structure is None else "a structure that is not flat"


def _no_output(call: Any) -> str:
    return "" if call.output is None else "an output is given"


def _one_window(call: Any) -> str:
    if call.size is not None and call.footprint is not None:
        return "size and footprint are both given"
    return "no size and no footprint" if call.size is None and call.footprint is None else ""


def _plane(call: Any) -> str:
    return plane(call.input, call.axes, call.size if call.footprint is None else getattr(call.footprint, "shape", None))


def _border(call: Any) -> str:
    return border(call.mode, call.cval, call.input.dtype)


def _orderly(call: Any) -> str:
    return orderly(call.input)


def _order_fits(image: Array, place: Window | None) -> str:
    line = place is not None and 1 in place.shape
    if line and image.dtype.kind == "f":
        return "a window of one row or column, which gains nothing for floats"
    return fits(image, place, LEAST_READ if line or image.dtype.kind in "fb" else LEAST)


def _order_window(call: Any) -> str:
    return _order_fits(call.input, _place_of(call))


def _mirrored_window(call: Any) -> str:
    return _order_fits(call.input, _place_of(call, mirrored=True))


def _plain(call: Any) -> str:
    return plain_array(call.input, CODES)


def _plain_order(call: Any) -> str:
    return plain_array(call.input, ORDER_CODES)


_COMMON = (_no_output, _one_window, _plane, _border)
_MEDIAN_CHECKS = (_plain, *_COMMON, _median_window, _orderly, _median_carrier)
_ORDER_CHECKS = (_plain_order, *_COMMON, _order_window, _orderly)
_MIRRORED_CHECKS = (_plain_order, *_COMMON, _mirrored_window, _orderly)


def _binary_plane(call: Any) -> str:
    if call.input.ndim == 3 and call.axes is None:
        return "the structure spans the third axis"
    return plane(call.input, call.axes, None)


def _binary_options(call: Any) -> str:
    if call.mask is not None or call.output is not None:
        return "a mask or an output is given"
    if type(call.iterations) is not int or not 1 <= call.iterations <= MOST_ITERATIONS:
        return f"iterations are not a number from 1 to {MOST_ITERATIONS}"
    if type(call.border_value) not in (int, bool) or call.border_value not in (0, 1):
        return "border_value is neither 0 nor 1"
    return "" if type(call.brute_force) is bool else "brute_force is not a bool"


def _binary_window(call: Any) -> str:
    place = _structure_or_none(call.structure, call.origin, False)
    if place is not None and call.iterations > 1 and (call.origin != 0 or not all(n & 1 for n in place.shape)):
        return "several iterations of a window that is not centred"
    if call.structure is None and call.iterations == 1:
        return fits(call.input, place, LEAST_CROSS)
    return fits(call.input, place, LEAST if call.iterations <= MOST_ITERATIONS // 2 else LEAST_READ)


_BINARY_CHECKS = (_plain, _binary_options, _binary_plane, _binary_window)
