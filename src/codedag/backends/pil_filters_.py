"""Substitutions from Pillow's filters: box and Gaussian blurs in Pillow's whole numbers, all columns at once."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from codedag.backends import _pixels, pil_calls
from codedag.backends.pil_ import _TURNED, PILLOW, _fresh, _picture, _pixels_of
from codedag.backends.reasons import answer, is_number
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

LEAST = 1024
LARGEST = 100  # pixels of radius
PASSES = 3  # of a Gaussian blur
_BLURRED = ("L", "RGB", "RGBA", "RGBX", "CMYK")


@substitutes("PIL.Image.Image.filter", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def filter(self: Any, filter: Any) -> Any:  # noqa: A001, A002 - the source's own names
    """The image blurred."""
    self.load()
    radii = filter.radius if isinstance(filter.radius, tuple) else (filter.radius, filter.radius)
    smooth = type(filter).__name__ == "GaussianBlur"
    boxes = [_box(_gaussian(radius) if smooth else np.float32(radius)) for radius in radii]
    result, step = _fresh(self, self.mode, self.size), _TURNED[self.mode][0]
    _pixels.blur(_pixels_of(self), *self.size, step, _pixels_of(result), *boxes, PASSES if smooth else 1)
    return result


def _gaussian(radius: float) -> Any:
    """The radius of the box that gives a Gaussian in three passes, in Pillow's single precision."""
    one = np.float32
    sigma = one(radius) * one(radius) / one(PASSES)
    length = one(np.sqrt(12.0 * float(sigma) + 1.0))
    whole = one(np.floor((float(length) - 1.0) / 2.0))
    part = (one(2) * whole + one(1)) * (whole * (whole + one(1)) - one(3) * sigma)
    return whole + part / (one(6) * (sigma - (whole + one(1)) * (whole + one(1))))


def _box(radius: Any) -> tuple[int, int, int]:
    """The whole radius, and the weights within the box and next to it."""
    whole = int(radius)
    inner = int(np.float32(1 << 24) / (radius * np.float32(2) + np.float32(1)))
    return whole, inner, ((1 << 24) - (whole * 2 + 1) * inner) % (1 << 32) // 2


@filter.guard
def _(call: Any) -> Verdict:
    """GaussianBlur and BoxBlur of radii from 0.1 to 100 over images of bytes of 1024 to 2**22 pixels."""
    module = sys.modules.get("PIL.ImageFilter")
    if module is None or type(call.filter) not in (module.GaussianBlur, module.BoxBlur):
        return answer("another filter")
    radius = call.filter.radius
    radii = radius if type(radius) is tuple else (radius, radius)
    plain = len(radii) == 2 and all(is_number(one) and 0.1 <= one <= LARGEST for one in radii)
    return answer(_picture(call.self, _BLURRED, LEAST) or ("" if plain else "an odd radius"))


@filter.calls
def _(rng: random.Random) -> Call:
    return pil_calls.blur(rng)
