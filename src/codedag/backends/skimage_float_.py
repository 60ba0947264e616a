"""Substitutions from scikit-image over floats: resizing and blurring as scipy does it beneath, colours by pixel."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np

from codedag.backends import _pixels
from codedag.backends import skimage_float_calls as samples
from codedag.backends.bytes_tables import EVERY_BYTE
from codedag.backends.lines import LARGEST as HUGE
from codedag.backends.lines import Array, blurred, filterable, plain_array
from codedag.backends.places import shrunk
from codedag.backends.reasons import among, answer, is_number, left_out
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

SKIMAGE = "scikit-image>=0.26,<0.27"  # copies of its steps; another release may change them
SCIPY = "scipy>=1.15,<1.18"
LEAST = 1024
LARGEST = 1 << 24
# Borders by scipy's names; skimage warns at each call with a constant one.
_MODES = {"reflect": "mirror", "symmetric": "reflect", "edge": "nearest"}
_BLUR_MODES = frozenset({"reflect", "mirror", "nearest", "constant", "wrap"})


@substitutes("skimage.transform.resize", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SKIMAGE)
def resize(
    image: Any,
    output_shape: Any,
    order: Any = None,
    mode: Any = "reflect",
    cval: Any = 0,
    clip: Any = True,
    preserve_range: Any = False,
    anti_aliasing: Any = None,
    anti_aliasing_sigma: Any = None,
) -> Array:
    """The image in another size, blurred first where it shrinks, linear between pixels, clipped to its range."""
    size = int(output_shape[0]), int(output_shape[1])
    table = _byte_values(preserve_range)
    limits = _limits(image, table)
    if limits is None:
        options = (order, mode, cval, clip, preserve_range, anti_aliasing)
        return resize.original()(image, output_shape, *options)  # type: ignore[no-any-return]
    factors = np.divide(image.shape[:2], size)
    smooth = (factors > 1).any() if anti_aliasing is None else anti_aliasing
    sigmas = np.maximum(0, (factors - 1) / 2).tolist() if smooth else (0.0, 0.0)
    result = shrunk(image, table, size, sigmas, _MODES[mode])
    if clip:
        np.clip(result, *limits, out=result)
    return result


@functools.cache
def _byte_values(preserve_range: bool) -> Array:
    """What skimage makes of each byte."""
    return _floats(EVERY_BYTE, preserve_range)


def _limits(image: Array, table: Array) -> tuple[Array, Array] | None:
    """The least and the greatest value as numpy finds them, or None if not all values are finite and not huge.

    Of two zeros of different signs numpy finds either.
    """
    if image.dtype.char == "B":
        return table[image.min()], table[image.max()]
    found = _pixels.extent(image, image.itemsize) if image.flags.c_contiguous else (0.0, 0.0, 1)
    if found is not None and ((found[0] == 0 and found[2]) or found[1] == 0):
        found = (float(image.min()), float(image.max()), 1)
    if found is None or not -HUGE < found[0] <= found[1] < HUGE:
        return None
    return np.asarray(found[0], image.dtype), np.asarray(found[1], image.dtype)


@resize.guard
def _(call: Any) -> Verdict:
    """Plain images of floats or bytes of 1 to 8 channels, order 1, borders reflect, symmetric and edge."""
    reason = left_out(call, ("anti_aliasing_sigma",)) or plain_array(call.image, "fdB", LEAST)
    return answer(reason or _plane(call.image) or _resize_options(call) or _output_shape(call))


def _resize_options(call: Any) -> str:
    if not (call.order is None or (type(call.order) is int and call.order == 1)):
        return "an order other than 1"
    if type(call.mode) is not str or call.mode not in _MODES or not is_number(call.cval) or abs(call.cval) > 256:
        return "another border"
    flags = (call.clip, call.preserve_range, False if call.anti_aliasing is None else call.anti_aliasing)
    return "" if all(type(flag) is bool for flag in flags) else "an option that is not a bool"


def _output_shape(call: Any) -> str:
    shape, image = call.output_shape, call.image
    if type(shape) not in (tuple, list) or len(shape) not in (2, image.ndim) or not all(type(n) is int for n in shape):
        return "an output_shape that is not plain"
    if min(shape) < 1 or shape[0] * shape[1] > LARGEST or (len(shape) == 3 and shape[2] != image.shape[2]):
        return "an output_shape that is empty, huge or of other channels"
    if tuple(shape[:2]) == image.shape[:2]:
        return "the image has this size"
    return "" if image.shape[0] < 100 * shape[0] and image.shape[1] < 100 * shape[1] else "a blur that is too wide"


def _plane(image: Array) -> str:
    if image.ndim != 2 and not (image.ndim == 3 and 1 <= image.shape[2] <= 8):
        return "not an image of 1 to 8 channels"
    return "" if min(image.shape[:2]) > 1 and image.size <= LARGEST else "too thin or too large"


def _floats(image: Array, preserve_range: bool) -> Array:
    """The image as floats by skimage's own conversion; float32 stays."""
    from skimage import util

    if not preserve_range:
        return util.img_as_float(image)  # type: ignore[no-untyped-call, no-any-return]
    return image.astype(float) if image.dtype.char not in "df" else image


@resize.calls
def _(rng: random.Random) -> Call:
    return samples.resize(rng)


@substitutes("skimage.transform.rescale", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SKIMAGE)
def rescale(
    image: Any,
    scale: Any,
    order: Any = None,
    mode: Any = "reflect",
    cval: Any = 0,
    clip: Any = True,
    preserve_range: Any = False,
    anti_aliasing: Any = None,
    anti_aliasing_sigma: Any = None,
    *,
    channel_axis: Any = None,
) -> Array:
    """The image larger or smaller by a factor."""
    options = (order, mode, cval, clip, preserve_range, anti_aliasing)
    return _placed(resize.run(image, _scaled(image, scale), *options), channel_axis)


def _scaled(image: Array, scale: float) -> tuple[int, int]:
    rows, columns = np.maximum(np.round(np.atleast_1d(scale) * np.asarray(image.shape[:2])), 1)
    return int(rows), int(columns)


@rescale.guard
def _(call: Any) -> Verdict:
    """One plain factor; channels only where channel_axis says that they are last; otherwise as resize."""
    if not is_number(call.scale) or not 0.01 < call.scale < 100 or type(call.image) is not np.ndarray:
        return answer("not a plain factor")
    if call.image.ndim != (2 if call.channel_axis is None else 3) or not among(call.channel_axis, None, -1, 2):
        return answer("channels that are not last")
    names = ("order", "mode", "cval", "clip", "preserve_range", "anti_aliasing", "anti_aliasing_sigma")
    return resize.accepts((call.image, _scaled(call.image, call.scale)), {name: getattr(call, name) for name in names})


@rescale.calls
def _(rng: random.Random) -> Call:
    return samples.rescale(rng)


@substitutes("skimage.filters.gaussian", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SKIMAGE)
def gaussian(
    image: Any,
    sigma: Any = 1.0,
    *,
    mode: Any = "nearest",
    cval: Any = 0,
    preserve_range: Any = False,
    truncate: Any = 4.0,
    channel_axis: Any = None,
    out: Any = None,
) -> Array:
    """The image blurred along rows and columns."""
    values = _floats(image, preserve_range)
    sigmas = [sigma] * values.ndim
    if channel_axis is not None:
        sigmas[channel_axis] = 0
    return blurred(values, sigmas, [0] * values.ndim, mode, cval, truncate)


@gaussian.guard
def _(call: Any) -> Verdict:
    """Plain images of finite floats or bytes, one plain sigma."""
    reason = left_out(call, ("out",)) or filterable(call.image, "fdB", LEAST)
    if reason or type(call.mode) is not str or call.mode not in _BLUR_MODES:
        return answer(reason or "a border that is not known")
    numbers = is_number(call.sigma) and is_number(call.cval) and is_number(call.truncate)
    plain = numbers and 0 < call.sigma * call.truncate < 120 and abs(call.cval) < 256 and call.truncate > 0
    axis, ndim = call.channel_axis, call.image.ndim
    known = axis is None or (type(axis) is int and -ndim <= axis < ndim)
    return answer("" if plain and known and type(call.preserve_range) is bool else "an option that is not plain")


@gaussian.calls
def _(rng: random.Random) -> Call:
    return samples.gaussian(rng)


# Colours.


@substitutes("skimage.color.rgb2hsv", into="codedag", gives=EXACT, needs=SKIMAGE, source_needs=SKIMAGE)
def rgb2hsv(rgb: Any, *, channel_axis: Any = -1) -> Array:
    """Hue, saturation and value of each pixel, in skimage's order of operations."""
    values = np.ascontiguousarray(_floats(rgb, False))
    result = np.empty(values.shape, values.dtype)
    _pixels.hues(values, result, values.dtype.char, values.size // 3, 1)
    return _placed(result, channel_axis)


@substitutes("skimage.color.hsv2rgb", into="codedag", gives=EXACT, needs=SKIMAGE, source_needs=SKIMAGE)
def hsv2rgb(hsv: Any, *, channel_axis: Any = -1) -> Array:
    """Red, green and blue of each pixel, in skimage's order of operations."""
    values = np.ascontiguousarray(_floats(hsv, False))
    result = np.empty(values.shape, values.dtype)
    _pixels.hues(values, result, values.dtype.char, values.size // 3, 0)
    return _placed(result, channel_axis)


def _placed(result: Array, axis: int | None) -> Array:
    """The result itself, or the view of it that skimage gives where the axis is not counted from the end."""
    return result if axis in (None, -1) else result[...]


@rgb2hsv.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered images of bytes or floats from 0 to 1 with three channels last, from 1024 elements on."""
    return answer(_coloured(call.rgb, call.channel_axis))


@hsv2rgb.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered images of bytes or floats from 0 to 1 with three channels last, from 1024 elements on."""
    return answer(_coloured(call.hsv, call.channel_axis))


def _coloured(value: Any, axis: Any) -> str:
    reason = filterable(value, "fdB", LEAST)
    if reason or value.ndim not in (2, 3) or value.shape[-1] != 3 or not value.flags.c_contiguous:
        return reason or "not an image in C order with three channels last"
    if type(axis) is not int or axis not in (-1, value.ndim - 1):
        return "channels that are not last"
    return "" if value.dtype.char == "B" or (value.min() >= 0 and value.max() <= 1) else "values outside 0 to 1"


@rgb2hsv.calls
def _(rng: random.Random) -> Call:
    return samples.colours(rng, "rgb")


@hsv2rgb.calls
def _(rng: random.Random) -> Call:
    return samples.colours(rng, "hsv")
