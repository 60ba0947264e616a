"""Substitutions for what numpy makes of Pillow's images: pixels go into the array, without bytes in between."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import _pixels, pil_calls
from codedag.backends.pil_ import _TO_BYTES, PILLOW, _picture, _pixels_of
from codedag.backends.reasons import among, answer
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

NUMPY = "numpy>=2"
# Bytes of a pixel in memory and in the array.
_MODES = {"L": (1, 1), "RGB": (4, 3), "YCbCr": (4, 3), "HSV": (4, 3), "RGBA": (4, 4), "CMYK": (4, 4)}
# Below that many pixels as they are, or in other numbers, less than 1.1 times was gained in bench/substitutions.py.
LEAST, LEAST_CAST, LEAST_GREY = 24_576, 36_864, 131_072
_DTYPES = frozenset("Bfdhil")
_KINDS = frozenset({float, int, *(np.dtype(char).type for char in _DTYPES), *(np.dtype(c).name for c in _DTYPES)})


@substitutes("numpy.array", into="codedag", gives=EXACT, needs=PILLOW, source_needs=NUMPY)
def array(
    object: Any,  # noqa: A002 - as numpy calls it
    dtype: Any = None,
    *,
    copy: Any = True,
    order: Any = "K",
    subok: Any = False,
    ndmin: Any = 0,
    like: Any = None,
) -> Any:
    """A new array with the pixels of an image."""
    object.load()
    (step, bands), (width, height) = _MODES[object.mode], object.size
    shape = (height, width) if bands == 1 else (height, width, bands)
    if step == bands:
        own: Any = _pixels_of(object)
        made = np.ndarray(shape, np.uint8, own)
        return made.astype(np.uint8 if dtype is None else dtype)
    made = np.empty(shape, np.uint8)
    _pixels.convert(_pixels_of(object), made, width * height, _TO_BYTES)
    return made if _is_bytes(dtype) else made.astype(dtype)


@array.guard
def _(call: Any) -> Verdict:
    """Images RGB, YCbCr, HSV, RGBA and CMYK of 24576 (L: 131072) to 2**22 pixels, or 36864 in other plain numbers."""
    options = call.copy is True and among(call.order, "K", "C") and call.subok is False and among(call.ndmin, 0)
    return answer(_image(call.object, call.dtype) or ("" if options and call.like is None else "further options"))


@array.calls
def _(rng: random.Random) -> Call:
    return pil_calls.array_of(rng, ("order", "subok", "ndmin", "copy"))


@substitutes("numpy.asarray", into="codedag", gives=EXACT, needs=PILLOW, source_needs=NUMPY)
def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Any:
    """An array over the bytes of an image, which cannot be written to; in other numbers a new one."""
    if not _is_bytes(dtype):
        return array.run(a, dtype)
    a.load()
    width, height = a.size
    packed: Any = _pixels.convert(_pixels_of(a), None, width * height, _TO_BYTES)
    return np.ndarray((height, width, 3), np.uint8, packed)


@asarray.guard
def _(call: Any) -> Verdict:
    """Images RGB, YCbCr and HSV of 24576 to 2**22 pixels; of 36864 in other numbers, RGBA, CMYK, L (131072), too."""
    plain = among(call.order, None, "K", "C") and call.device is None and call.copy is None and call.like is None
    reason = _image(call.a, call.dtype) or ("" if plain else "further options")
    return answer(reason or ("" if _MODES[call.a.mode][1] == 3 or not _is_bytes(call.dtype) else "one copy anyway"))


@asarray.calls
def _(rng: random.Random) -> Call:
    return pil_calls.array_of(rng, ("order", "copy"), ("RGB", "RGB", "YCbCr"))


def _image(value: Any, dtype: Any) -> str:
    if not (_is_bytes(dtype) or _is_known(dtype)):
        return "another dtype"
    reason = _picture(value, _MODES, LEAST if _is_bytes(dtype) else LEAST_CAST)
    if reason or (value.mode == "L" and value.width * value.height < LEAST_GREY):
        return reason or "an image that is too small to gain"
    if "tobytes" in value.__dict__:
        return "an image with bytes of its own"
    return ""


def _is_bytes(dtype: Any) -> bool:
    return dtype is None or dtype is np.uint8 or (_is_known(dtype) and np.dtype(dtype).char == "B")


def _is_known(dtype: Any) -> bool:
    """Whether it names numbers into which bytes are cast without a loss."""
    if type(dtype) in (type, str):
        return dtype in _KINDS
    return isinstance(dtype, np.dtype) and dtype.isnative and dtype.char in _DTYPES and dtype.metadata is None
