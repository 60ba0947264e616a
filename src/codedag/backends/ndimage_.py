"""Substitutions from scipy.ndimage into OpenCV beyond single order filters: morphology in two steps, components,
holes, gradients with weights that do not round, and box means of bytes.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import cv2_, ndimage_calls
from codedag.backends.bytes_tables import Array, byte_array
from codedag.backends.lines import gradient
from codedag.backends.reasons import answer, left_out
from codedag.backends.registry import EXACT, Call, Substitution, substitutes
from codedag.backends.windows import whole_numbers
from codedag.ir.verdict import Verdict

CV2, MORPHOLOGY = cv2_.CV2, cv2_.MORPHOLOGY
SCIPY = "scipy>=1.11"
LINES = "scipy>=1.15,<1.18"  # its order of sums; another release may change it
LEAST = 4096
LONGEST = 32_000
_BORDERS = {
    "reflect": "BORDER_REFLECT",
    "mirror": "BORDER_REFLECT_101",
    "nearest": "BORDER_REPLICATE",
    "constant": "BORDER_CONSTANT",
}
_CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)


# Morphology in two steps.


@substitutes("scipy.ndimage.grey_opening", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def grey_opening(
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
    """The dilation of the erosion by a flat window."""
    options = (size, footprint, None, None, mode, cval, origin)
    return cv2_.grey_dilation.run(cv2_.grey_erosion.run(input, *options, axes=axes), *options, axes=axes)  # type: ignore[no-any-return]


@substitutes("scipy.ndimage.grey_closing", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def grey_closing(
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
    """The erosion of the dilation by a flat window."""
    options = (size, footprint, None, None, mode, cval, origin)
    return cv2_.grey_erosion.run(cv2_.grey_dilation.run(input, *options, axes=axes), *options, axes=axes)  # type: ignore[no-any-return]


@substitutes("scipy.ndimage.white_tophat", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def white_tophat(
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
    """The image less its opening, in the image's own whole numbers."""
    opened = grey_opening.run(input, size, footprint, None, None, mode, cval, origin, axes=axes)
    np.subtract(input, opened, out=opened)
    return opened  # type: ignore[no-any-return]


@substitutes("scipy.ndimage.black_tophat", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def black_tophat(
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
    """The closing of the image less the image, in its own whole numbers."""
    closed = grey_closing.run(input, size, footprint, None, None, mode, cval, origin, axes=axes)
    np.subtract(closed, input, out=closed)
    return closed  # type: ignore[no-any-return]


@substitutes("scipy.ndimage.morphological_gradient", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def morphological_gradient(
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
    """The dilation less the erosion, in the image's own whole numbers."""
    options = (size, footprint, None, None, mode, cval, origin)
    high = cv2_.grey_dilation.run(input, *options, axes=axes)
    np.subtract(high, cv2_.grey_erosion.run(input, *options, axes=axes), out=high)
    return high  # type: ignore[no-any-return]


@grey_opening.guard
@grey_closing.guard
def _(call: Any) -> Verdict:
    """What both grey_erosion and grey_dilation take."""
    return _both(cv2_.grey_erosion, cv2_.grey_dilation, call)


@white_tophat.guard
@black_tophat.guard
@morphological_gradient.guard
def _(call: Any) -> Verdict:
    """Whole numbers; otherwise as grey_opening."""
    if type(call.input) is not np.ndarray or call.input.dtype.kind not in "iu":
        return answer("not a plain array of whole numbers")
    return _both(cv2_.grey_erosion, cv2_.grey_dilation, call)


@grey_opening.calls
@grey_closing.calls
@white_tophat.calls
@black_tophat.calls
@morphological_gradient.calls
def _(rng: random.Random) -> Call:
    return ndimage_calls.grey(rng)


def _both(one: Substitution, other: Substitution, call: Any) -> Verdict:
    """The verdict of both guards on the same arguments."""
    verdict = one._guard(call)
    return other._guard(call) if verdict else verdict


@substitutes("scipy.ndimage.binary_opening", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def binary_opening(
    input: Any,  # noqa: A002
    structure: Any = None,
    iterations: Any = 1,
    output: Any = None,
    origin: Any = 0,
    mask: Any = None,
    border_value: Any = 0,
    brute_force: Any = False,
    *,
    axes: Any = None,
) -> Array:
    """The dilation of the erosion of a mask."""
    options = (structure, iterations, None, None, border_value, origin)
    return cv2_.binary_dilation.run(cv2_.binary_erosion.run(input, *options), *options)  # type: ignore[no-any-return]


@substitutes("scipy.ndimage.binary_closing", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def binary_closing(
    input: Any,  # noqa: A002
    structure: Any = None,
    iterations: Any = 1,
    output: Any = None,
    origin: Any = 0,
    mask: Any = None,
    border_value: Any = 0,
    brute_force: Any = False,
    *,
    axes: Any = None,
) -> Array:
    """The erosion of the dilation of a mask."""
    options = (structure, iterations, None, None, border_value, origin)
    return cv2_.binary_erosion.run(cv2_.binary_dilation.run(input, *options), *options)  # type: ignore[no-any-return]


@binary_opening.guard
@binary_closing.guard
def _(call: Any) -> Verdict:
    """What both binary_erosion and binary_dilation take, without axes."""
    return answer("axes are given") if call.axes is not None else _both(cv2_.binary_erosion, cv2_.binary_dilation, call)


@binary_opening.calls
@binary_closing.calls
def _(rng: random.Random) -> Call:
    return ndimage_calls.binary(rng)


# Components and holes.


@substitutes("scipy.ndimage.label", into="cv2", gives=EXACT, needs=CV2, source_needs=SCIPY)
def label(input: Any, structure: Any = None, output: Any = None) -> tuple[Array, int]:  # noqa: A002
    """The components of a mask, numbered by their first pixel as scipy does, and how many there are."""
    import cv2

    source = np.ascontiguousarray(input).view(np.uint8)
    number, found = cv2.connectedComponentsWithAlgorithm(source, _neighbours(structure), cv2.CV_32S, cv2.CCL_WU)
    return found, number - 1


@label.guard
def _(call: Any) -> Verdict:
    """Plain masks or bytes in two dimensions from 4096 pixels on, 4 or 8 neighbours."""
    return answer(left_out(call, ("output",)) or _mask(call.input) or _structure(call.structure))


@label.calls
def _(rng: random.Random) -> Call:
    return ndimage_calls.components(rng, ("input", "structure", "output"))


@substitutes("scipy.ndimage.binary_fill_holes", into="cv2", gives=EXACT, needs=CV2, source_needs=MORPHOLOGY)
def binary_fill_holes(
    input: Any,  # noqa: A002
    structure: Any = None,
    output: Any = None,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The mask with all that cannot be reached from outside, by flooding the outside."""
    import cv2

    rows, columns = input.shape
    ground = np.zeros((rows + 2, columns + 2), np.uint8)
    np.not_equal(input.view(np.uint8), 0, out=ground[1:-1, 1:-1].view(bool))
    cv2.floodFill(ground, None, (0, 0), 2, flags=_neighbours(structure))
    return np.not_equal(ground[1:-1, 1:-1], 2, order="C")


@binary_fill_holes.guard
def _(call: Any) -> Verdict:
    """Plain masks or bytes in two dimensions from 4096 pixels on, 4 or 8 neighbours."""
    centred = "" if type(call.origin) is int and call.origin == 0 else "an origin is given"
    return answer(left_out(call, ("output", "axes")) or centred or _mask(call.input) or _structure(call.structure))


@binary_fill_holes.calls
def _(rng: random.Random) -> Call:
    return ndimage_calls.components(rng, ("input", "structure", "output", "origin"))


def _mask(value: Any) -> str:
    if type(value) is not np.ndarray or value.dtype.char not in "?B":
        return "not a plain mask or array of bytes"
    if value.ndim != 2 or value.size < LEAST:
        return "not two-dimensional, or too small to gain"
    return "" if max(value.shape) <= LONGEST else "an axis is longer than cv2 can count"


def _structure(structure: Any) -> str:
    if structure is None:
        return ""
    if type(structure) is not np.ndarray or structure.shape != (3, 3) or structure.dtype.kind not in "biu":
        return "a structure that is not 3 x 3"
    known = bool(structure.all()) or np.array_equal(structure.astype(bool), _CROSS)
    return "" if known else "neither 4 nor 8 neighbours"


def _neighbours(structure: Any) -> int:
    return 8 if structure is not None and structure.all() else 4


# Gradients.


@substitutes("scipy.ndimage.sobel", into="codedag", gives=EXACT, needs=LINES, source_needs=LINES)
def sobel(
    input: Any,  # noqa: A002
    axis: Any = -1,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
) -> Array:
    """The difference of neighbours along an axis, smoothed by 1, 2, 1 along the other."""
    found = gradient(input, mode, axis % 2, 2.0)
    return sobel.original()(input, axis, mode=mode) if found is None else found


@substitutes("scipy.ndimage.prewitt", into="codedag", gives=EXACT, needs=LINES, source_needs=LINES)
def prewitt(
    input: Any,  # noqa: A002
    axis: Any = -1,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
) -> Array:
    """The difference of neighbours along an axis, smoothed by 1, 1, 1 along the other."""
    found = gradient(input, mode, axis % 2, 1.0)
    return prewitt.original()(input, axis, mode=mode) if found is None else found


@sobel.guard
@prewitt.guard
def _(call: Any) -> Verdict:
    """Plain float images in two dimensions from 4096 pixels on; borders reflect, mirror, nearest or zero."""
    return answer(_axis(call.axis) or _smooth(call))


@sobel.calls
@prewitt.calls
def _(rng: random.Random) -> Call:
    return ndimage_calls.gradient(rng, ("input", "axis", "output", "mode", "cval"))


def _axis(axis: Any) -> str:
    return "" if type(axis) is int and -2 <= axis < 2 else "not an axis of an image"


def _smooth(call: Any) -> str:
    value = call.input
    if type(value) is not np.ndarray or value.dtype.char not in "fd" or value.ndim != 2:
        return "not a plain image of floats"
    if call.output is not None or not isinstance(call.mode, str) or call.mode not in _BORDERS:
        return "an output is given, or another border"
    if type(call.cval) not in (int, float) or call.cval != 0 or str(call.cval).startswith("-"):
        return "cval is not 0"
    plain = value.size >= LEAST and min(value.shape) >= 3 and value.flags.aligned and value.dtype.isnative
    return "" if plain else "too small to gain, or not aligned"


# Box means of bytes.


@substitutes("scipy.ndimage.uniform_filter", into="cv2", gives=EXACT, needs=CV2, source_needs=SCIPY)
def uniform_filter(
    input: Any,  # noqa: A002
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """The mean of a window of bytes: whole sums along each axis, cut to a byte after each, as scipy does."""
    import cv2

    rows, columns = whole_numbers(size, 2) or (1, 1)
    edge, image = getattr(cv2, _BORDERS[mode]), np.ascontiguousarray(input)
    for width, height in ((1, rows), (columns, 1)):
        if width * height > 1:
            at = (width // 2, height // 2)
            sums = cv2.boxFilter(image, cv2.CV_32S, (width, height), anchor=at, normalize=False, borderType=edge)
            image = np.floor_divide(sums.astype(np.uint16), np.uint16(width * height)).astype(np.uint8)
    return image


@uniform_filter.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes in two dimensions from 4096 pixels on, windows of up to 255 pixels a side, no origin."""
    return answer(left_out(call, ("output", "axes")) or byte_array(call.input, LEAST) or _box(call))


@uniform_filter.calls
def _(rng: random.Random) -> Call:
    return ndimage_calls.box(rng)


def _box(call: Any) -> str:
    sides = whole_numbers(call.size, 2)
    if call.input.ndim != 2 or max(call.input.shape) > LONGEST:
        return "not two-dimensional, or longer than cv2 can count"
    if sides is None or not 1 <= min(sides) <= max(sides) <= 255 or max(sides) == 1:
        return "not a window"
    if sides[0] >= call.input.shape[0] or sides[1] >= call.input.shape[1]:
        return "the window reaches over the whole array"
    if type(call.origin) is not int or call.origin != 0 or type(call.cval) not in (int, float) or call.cval != 0:
        return "an origin or a cval is given"
    return "" if isinstance(call.mode, str) and call.mode in _BORDERS else "a mode that cv2 does not have"
