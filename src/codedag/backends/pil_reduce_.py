"""Substitution from Pillow's reducing by whole numbers: the mean of each block, many blocks at a time."""

from __future__ import annotations

import random
from typing import Any

from codedag.backends import _pixels, pil_calls
from codedag.backends.pil_ import _MODES, _TURNED, PILLOW, _box, _fresh, _picture, _pixels_of
from codedag.backends.reasons import answer
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

# Below that many pixels of four bytes, or of one, it gained less than 1.1 times in bench/substitutions.py.
LEAST_REDUCED = {4: 24_576, 1: 49_152}
MOST_REDUCED = 128  # the largest factor: sums of columns fit in 16 bits


@substitutes("PIL.Image.Image.reduce", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def reduce(self: Any, factor: Any, box: Any = None) -> Any:
    """The image smaller by whole numbers: the mean of each block, many blocks at a time."""
    by_x, by_y = factor if type(factor) is tuple else (factor, factor)
    left, top, right, bottom = (0, 0, *self.size) if box is None else box
    if self.mode == "RGBA":
        return reduce.run(self.convert("RGBa"), factor, box).convert("RGBA")
    self.load()
    step, bands = _MODES[self.mode]
    result = _fresh(self, self.mode, (-((left - right) // by_x), -((top - bottom) // by_y)))
    mask = 0xFFFFFF if bands == 3 else 0xFFFFFFFF
    place = (left, top, right, bottom, by_x, by_y, mask)
    _pixels.reduce(_pixels_of(self), *self.size, step, _pixels_of(result), *place)
    return result


@reduce.guard
def _(call: Any) -> Verdict:
    """Images of bytes (RGB, RGBA, CMYK, YCbCr, HSV) of 24576 to 2**22 pixels and factors up to 128, L from 49152 pixels
    on and by 2 across; a box of whole numbers.
    """
    factors = call.factor if type(call.factor) is tuple else (call.factor, call.factor)
    if len(factors) != 2 or not all(type(each) is int and 1 <= each <= MOST_REDUCED for each in factors):
        return answer("odd factors")
    if factors == (1, 1):
        return answer("a copy")
    return answer(_picture(call.self, (*_MODES, "RGBA")) or _reducible(call.self, call.box, factors[0]))


def _reducible(image: Any, box: Any, by_x: int) -> str:
    """The reason why the mean of blocks is not faster here, or not known."""
    reason = _whole_box(box, image.size)
    width, height = image.size if box is None or reason else (box[2] - box[0], box[3] - box[1])
    step = _TURNED[image.mode][0]
    gains = width * height >= LEAST_REDUCED[step] and (step == 4 or by_x == 2)
    return reason or ("" if gains else "too few pixels to gain")


def _whole_box(box: Any, size: tuple[int, int]) -> str:
    reason = _box(box, size)
    return reason or (
        "" if box is None or all(type(each) is int for each in box) else "a box that is not whole numbers"
    )


@reduce.calls
def _(rng: random.Random) -> Call:
    return pil_calls.reduce(rng)
