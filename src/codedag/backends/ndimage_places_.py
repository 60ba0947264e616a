"""Substitutions from scipy.ndimage: images looked up between their pixels, and distances to the background."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import _pixels
from codedag.backends import ndimage_float_calls as samples
from codedag.backends.lines import filterable
from codedag.backends.places import MODES, Array, by_matrix, on_grid, shifted, zoomed
from codedag.backends.reasons import answer, is_number, left_out
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

SCIPY = "scipy>=1.15,<1.18"  # its order of operations; another release may change it
LEAST = 256
LARGEST = 1 << 24
FAR = 1e6


@substitutes("scipy.ndimage.zoom", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def zoom(
    input: Any,  # noqa: A002 - the source's own name
    zoom: Any,
    output: Any = None,
    order: Any = 3,
    mode: Any = "constant",
    cval: Any = 0.0,
    prefilter: Any = True,
    *,
    grid_mode: Any = False,
) -> Array:
    """The image in another size."""
    size = _zoomed_size(input, zoom)
    tables = [zoomed(input.shape[axis], size[axis], order, mode, grid_mode) for axis in (0, 1)]
    return on_grid(_coefficients(input, order, mode), size, tables, cval).astype(input.dtype, copy=False)


@zoom.guard
def _(call: Any) -> Verdict:
    """Plain images of finite floats or (order 0 and 1) bytes, one channel or a third axis that stays (order 0 and 1);
    order 0, 1 or 3; borders constant, mirror, reflect, and nearest for order 0 and 1.
    """
    reason = left_out(call, ("output",)) or _lookup(call, colour=True) or _factors(call)
    return answer(reason or _grid_mode(call) or _size(_zoomed_size(call.input, call.zoom)))


def _zoomed_size(image: Array, factors: Any) -> tuple[int, int]:
    both = factors if isinstance(factors, (tuple, list)) else (factors, factors)
    return round(image.shape[0] * both[0]), round(image.shape[1] * both[1])


def _factors(call: Any) -> str:
    image, factors = call.input, call.zoom
    if not isinstance(factors, (tuple, list)):
        factors = (factors,) * image.ndim
    if len(factors) != image.ndim or not all(is_number(factor) and 0.001 < factor < 100 for factor in factors):
        return "not a plain factor for each axis"
    if all(factor == 1 for factor in factors):
        return "nothing to zoom"
    return "" if image.ndim == 2 or factors[2] == 1 else "the third axis is zoomed"


def _grid_mode(call: Any) -> str:
    if type(call.grid_mode) is not bool:
        return "grid_mode is not a bool"
    return "scipy warns about this border" if call.grid_mode and call.mode == "constant" else ""


@zoom.calls
def _(rng: random.Random) -> Call:
    return samples.zoom(rng)


@substitutes("scipy.ndimage.shift", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def shift(
    input: Any,  # noqa: A002
    shift: Any,
    output: Any = None,
    order: Any = 3,
    mode: Any = "constant",
    cval: Any = 0.0,
    prefilter: Any = True,
) -> Array:
    """The image moved."""
    by = shift if isinstance(shift, (tuple, list)) else (shift, shift)
    tables = [shifted(input.shape[axis], float(by[axis]), order, mode) for axis in (0, 1)]
    return on_grid(_coefficients(input, order, mode), input.shape, tables, cval).astype(input.dtype, copy=False)


@shift.guard
def _(call: Any) -> Verdict:
    """Plain images of one channel of finite floats or (order 0 and 1) bytes; order 0, 1 or 3; borders constant,
    mirror, reflect, and nearest for order 0 and 1.
    """
    reason = left_out(call, ("output",)) or _lookup(call)
    both = call.shift if isinstance(call.shift, (tuple, list)) else (call.shift, call.shift)
    plain = len(both) == 2 and all(is_number(by) and abs(by) < FAR for by in both)
    return answer(reason or ("" if plain else "not a plain distance for each axis"))


@shift.calls
def _(rng: random.Random) -> Call:
    return samples.shift(rng)


@substitutes("scipy.ndimage.affine_transform", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def affine_transform(
    input: Any,  # noqa: A002
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Any = None,
    output: Any = None,
    order: Any = 3,
    mode: Any = "constant",
    cval: Any = 0.0,
    prefilter: Any = True,
) -> Array:
    """The image looked up where the matrix sends each pixel of the result."""
    size = input.shape if output_shape is None else tuple(output_shape)
    both = offset if isinstance(offset, (tuple, list, np.ndarray)) else (offset, offset)
    return by_matrix(_coefficients(input, order, mode), np.empty(size, input.dtype), matrix, both, (order, mode, cval))


@affine_transform.guard
def _(call: Any) -> Verdict:
    """Matrices of 2 x 2 numbers; images, orders and borders as shift takes them."""
    reason = left_out(call, ("output",)) or _lookup(call) or _matrix(call.matrix) or _offset(call.offset)
    return answer(reason or _output_shape(call.output_shape))


def _matrix(matrix: Any) -> str:
    plain = type(matrix) is np.ndarray and matrix.shape == (2, 2) and matrix.dtype.char == "d"
    return "" if plain and float(np.abs(matrix).max()) < 1000 else "not a matrix of 2 x 2 plain numbers"


def _offset(offset: Any) -> str:
    if type(offset) is np.ndarray:
        return (
            "" if offset.shape == (2,) and offset.dtype.char == "d" and np.abs(offset).max() < FAR else "an odd offset"
        )
    both = offset if isinstance(offset, (tuple, list)) else (offset, offset)
    return "" if len(both) == 2 and all(is_number(by) and abs(by) < FAR for by in both) else "an odd offset"


def _output_shape(shape: Any) -> str:
    if shape is None:
        return ""
    plain = type(shape) is tuple and len(shape) == 2 and all(type(side) is int for side in shape)
    return _size(shape) if plain else "an odd output_shape"


@affine_transform.calls
def _(rng: random.Random) -> Call:
    return samples.affine(rng)


@substitutes("scipy.ndimage.rotate", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def rotate(
    input: Any,  # noqa: A002
    angle: Any,
    axes: Any = (1, 0),
    reshape: Any = True,
    output: Any = None,
    order: Any = 3,
    mode: Any = "constant",
    cval: Any = 0.0,
    prefilter: Any = True,
) -> Array:
    """The image rotated: scipy's own matrix, looked up by a kernel."""
    matrix, offset, size = _rotation(input.shape, angle, reshape)
    return by_matrix(
        _coefficients(input, order, mode), np.empty(size, input.dtype), matrix, offset, (order, mode, cval)
    )


def _rotation(shape: tuple[int, int], angle: float, reshape: bool) -> tuple[Array, Array, tuple[int, int]]:
    """The matrix, the offset and the size of the result, in scipy's arithmetic."""
    from scipy import special

    cosine, sine = special.cosdg(angle), special.sindg(angle)
    matrix = np.array([[cosine, sine], [-sine, cosine]])
    plane = np.asarray(shape)
    size = plane
    if reshape:
        rows, columns = plane
        corners = matrix @ [[0, 0, rows, rows], [0, columns, 0, columns]]
        size = (np.ptp(corners, axis=1) + 0.5).astype(int)
    offset = (plane - 1) / 2 - matrix @ ((size - 1) / 2)
    return matrix, offset, (int(size[0]), int(size[1]))


@rotate.guard
def _(call: Any) -> Verdict:
    """In the plane of an image of one channel; images, orders and borders as shift takes them."""
    whole = type(call.axes) is tuple and all(type(axis) is int for axis in call.axes)
    plain = is_number(call.angle) and abs(call.angle) < FAR and whole and call.axes in ((1, 0), (0, 1))
    odd = "" if plain and type(call.reshape) is bool else "not a plain angle in the plane of the image"
    return answer(left_out(call, ("output",)) or odd or _lookup(call))


@rotate.calls
def _(rng: random.Random) -> Call:
    return samples.rotate(rng)


def _coefficients(image: Array, order: int, mode: str) -> Array:
    """What is looked up: the image itself, or scipy's own coefficients of a cubic spline."""
    if order < 3:
        return image
    from scipy import ndimage

    return ndimage.spline_filter(image, order, output=np.float64, mode=mode)  # type: ignore[no-any-return]


def _lookup(call: Any, colour: bool = False) -> str:
    """The reason why an image, order or border is not known."""
    if type(call.order) is not int or call.order not in (0, 1, 3) or call.prefilter is not True:
        return "an order that is not 0, 1 or 3, or no prefilter"
    cubic = call.order == 3
    if type(call.mode) is not str or call.mode not in MODES or (cubic and call.mode == "nearest"):
        return "a border that is not known"
    if not is_number(call.cval) or not abs(call.cval) < 256:
        return "cval is not a small plain number"
    reason = filterable(call.input, "fd" if cubic else "fdB", LEAST)
    return reason or _plane(call.input, colour and not cubic)


def _plane(image: Array, colour: bool) -> str:
    if image.ndim != 2 and not (colour and image.ndim == 3 and 1 <= image.shape[2] <= 8):
        return f"{image.ndim} dimensions"
    return "" if min(image.shape[:2]) > 1 and image.size <= LARGEST else "too thin or too large"


def _size(size: tuple[int, int]) -> str:
    return "" if min(size) > 0 and size[0] * size[1] <= LARGEST else "an empty or huge result"


@substitutes("scipy.ndimage.distance_transform_edt", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def distance_transform_edt(
    input: Any,  # noqa: A002
    sampling: Any = None,
    return_distances: Any = True,
    return_indices: Any = False,
    distances: Any = None,
    indices: Any = None,
) -> Array:
    """How far each element is from the nearest zero: squares in whole numbers, one root each."""
    mask = np.ascontiguousarray(input).view(np.uint8)
    result = np.empty(mask.shape, np.float64)
    _pixels.distances(mask, result, *mask.shape)
    return result


@distance_transform_edt.guard
def _(call: Any) -> Verdict:
    """Plain masks or bytes in two dimensions from 1024 elements on with a zero somewhere; distances only."""
    reason = left_out(call, ("sampling", "distances", "indices"))
    if reason or call.return_distances is not True or call.return_indices is not False:
        return answer(reason or "indices are asked for")
    value = call.input
    if type(value) is not np.ndarray or value.dtype.char not in "?B" or value.ndim != 2:
        return answer("not a plain mask in two dimensions")
    if not 1024 <= value.size <= LARGEST or max(value.shape) > 32_767:
        return answer("too small to gain, or too large")
    return answer("no zero at all" if value.all() else "")


@distance_transform_edt.calls
def _(rng: random.Random) -> Call:
    return samples.distances(rng)
