"""Substitutions from albucore, whose functions albumentations runs: bytes as floats."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import _pixels, albucore_calls
from codedag.backends.bytes_tables import Array, byte_array
from codedag.backends.reasons import answer
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

ALBUCORE = "albucore>=0.0.24,<0.1"  # copies of its formulas; another release may change them
LEAST = 4096
LEAST_ROUNDED = 1024  # rounding, cutting and casting are four passes of numpy
_UINT8 = np.dtype(np.uint8)


@substitutes("albucore.normalize", into="codedag", gives=EXACT, needs=ALBUCORE, source_needs=ALBUCORE)
def normalize(img: Any, mean: Any, denominator: Any) -> Array:
    """Bytes less a mean times a factor for each channel, as in albucore's tables, all channels in one pass."""
    result = np.empty(img.shape, np.float32)
    _pixels.scale(img, result, img.size, np.ascontiguousarray(mean), np.ascontiguousarray(denominator))
    return result


@normalize.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered images of bytes with 2 to 4 channels, a float32 mean and factor for each channel."""
    reason = _image(call.img)
    if reason or call.img.ndim != 3 or not 2 <= call.img.shape[2] <= 4:
        return answer(reason or "not an image of 2 to 4 channels")
    return answer(_each(call.mean, call.img.shape[2]) or _each(call.denominator, call.img.shape[2]))


@substitutes("albucore.to_float", into="codedag", gives=EXACT, needs=ALBUCORE, source_needs=ALBUCORE)
def to_float(img: Any, max_value: Any = None) -> Array:
    """Bytes as floats from 0 to 1, or a part of another greatest value."""
    result = np.empty(img.shape, np.float32)
    _pixels.divide(img, result, img.size, 255.0 if max_value is None else max_value)
    return result


@to_float.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered images of bytes, a plain positive greatest value."""
    plain = call.max_value is None or (type(call.max_value) in (int, float) and 0 < call.max_value < 1e6)
    reason = _image(call.img) or ("" if plain else "an odd max_value")
    lone = not reason and call.img.ndim == 3 and call.img.shape[2] == 1
    return answer(reason or ("a lone channel" if lone else ""))


@substitutes("albucore.from_float", into="codedag", gives=EXACT, needs=ALBUCORE, source_needs=ALBUCORE)
def from_float(img: Any, target_dtype: Any, max_value: Any = None) -> Array:
    """Floats from 0 to 1 as bytes: one product, rounded half to even, then kept within a byte."""
    result = np.empty(img.shape, np.uint8)
    if _pixels.round(img, result, img.size, 255.0 if max_value is None else max_value):
        return result
    return from_float.original()(img, target_dtype, max_value)  # type: ignore[no-any-return]  # it warns of a NaN


@from_float.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered float32 images of up to 4 channels into bytes, a plain positive greatest value."""
    value, top = call.img, call.max_value
    if type(value) is not np.ndarray or value.dtype.char != "f" or value.ndim not in (2, 3):
        return answer("not a plain image of float32")
    if not value.flags.c_contiguous or value.size < LEAST_ROUNDED or (value.ndim == 3 and value.shape[2] > 4):
        return answer("not in C order, too small to gain, or more than four channels")
    bytes_wanted = call.target_dtype is np.uint8 or call.target_dtype is _UINT8
    plain = bytes_wanted and (top is None or (type(top) in (int, float) and 0 < top < 1e6))
    return answer("" if plain else "not into bytes, or an odd max_value")


def _image(value: Any, least: int = LEAST) -> str:
    reason = byte_array(value, least)
    if reason or value.ndim not in (2, 3) or not value.flags.c_contiguous:
        return reason or "not an image in C order"
    return "" if value.ndim == 2 or value.shape[2] <= 4 else "more than four channels"


def _each(value: Any, channels: int) -> str:
    plain = type(value) is np.ndarray and value.dtype.char == "f" and value.shape == (channels,)
    # beyond that the product of both may be more than float32 holds, of which numpy warns
    return "" if plain and bool((np.abs(value) < 1e18).all()) else "not one float32 of usual size for each channel"


@normalize.calls
def _(rng: random.Random) -> Call:
    return albucore_calls.normalize(rng)


@to_float.calls
def _(rng: random.Random) -> Call:
    return albucore_calls.to_float(rng)


@from_float.calls
def _(rng: random.Random) -> Call:
    return albucore_calls.from_float(rng)
