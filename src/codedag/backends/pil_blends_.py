"""Substitutions from Pillow's blends and enhancements: Pillow's own arithmetic by wide instructions."""

from __future__ import annotations

import random
import sys
from typing import Any

from codedag.backends import _pixels, pil_calls
from codedag.backends.pil_ import _TURNED, PILLOW, _fresh, _picture, _pixels_of, convert
from codedag.backends.reasons import answer, is_number
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

# Below that many pixels of four bytes, or of one, a blend gained less than 1.1 times in bench/substitutions.py.
LEAST = {4: 32_768, 1: 131_072}
LEAST_ENHANCED = {"Contrast": 4096, "Color": 16_384}  # pixels, likewise
LARGEST = 1000.0  # of a share; an enhancement of that much has only black and white left
_ENHANCERS = ("Brightness", "Contrast", "Color", "Sharpness")


@substitutes("PIL.Image.blend", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def blend(im1: Any, im2: Any, alpha: Any) -> Any:
    """The first image with a share of the second."""
    im1.load()
    im2.load()
    result = _fresh(im1, im1.mode, im1.size)
    nbytes = im1.width * im1.height * _TURNED[im1.mode][0]
    _pixels.blend(_pixels_of(im1), _pixels_of(im2), _pixels_of(result), nbytes, alpha)
    return result


@blend.guard
def _(call: Any) -> Verdict:
    """Two images of bytes of one mode and size, 32768 (L: 131072) to 2**22 pixels, and a share within 1000 that is not
    0 or 1.
    """
    return answer(_pair(call.im1, call.im2) or _share(call.alpha))


def _pair(one: Any, other: Any) -> str:
    reason = _picture(one, _TURNED) or _picture(other, _TURNED)
    if reason or one.mode != other.mode or one.size != other.size:
        return reason or "images of two kinds"
    return "" if one.width * one.height >= LEAST[_TURNED[one.mode][0]] else "images that are too small to gain"


def _share(value: Any) -> str:
    if not is_number(value) or not abs(value) <= LARGEST:
        return "an odd share"
    return "one of the images is copied" if value in (0, 1) else ""


@blend.calls
def _(rng: random.Random) -> Call:
    return pil_calls.blend(rng)


@substitutes("PIL.ImageEnhance._Enhance.enhance", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def enhance(self: Any, factor: Any) -> Any:
    """The image brighter, with more contrast, more colourful or sharper."""
    return blend.run(self.degenerate, self.image, factor)


@enhance.guard
def _(call: Any) -> Verdict:
    """Brightness, Contrast, Color and Sharpness of images of bytes of 32768 (L: 131072) to 2**22 pixels, by factors
    within 1000 that are not 0 or 1.
    """
    module = sys.modules.get("PIL.ImageEnhance")
    if module is None or type(call.self) not in [getattr(module, name) for name in _ENHANCERS]:
        return answer("another enhancer")
    kept = vars(call.self)
    return answer(_pair(kept.get("degenerate"), kept.get("image")) or _share(call.factor))


@enhance.calls
def _(rng: random.Random) -> Call:
    return pil_calls.enhance(rng)


@substitutes("PIL.ImageEnhance.Contrast", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def contrast(image: Any) -> Any:
    """What changes the contrast of an image: its mean luma, summed at once, all over."""
    image.load()
    count = image.width * image.height
    total = _pixels.luma_total(_pixels_of(image), count, _TURNED[image.mode][0])
    mean = int(total / count + 0.5)
    grey = mean if image.mode == "L" else (mean,) * 3
    return _enhancer(
        contrast.original(), image=image, degenerate=sys.modules["PIL.Image"].new(image.mode, image.size, grey)
    )


@substitutes("PIL.ImageEnhance.Color", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def color(image: Any) -> Any:
    """What changes how colourful an image is: its luma in three channels."""
    grey = convert.run(convert.run(image, "L"), "RGB")
    return _enhancer(color.original(), image=image, intermediate_mode="L", degenerate=grey)


def _enhancer(kind: Any, **parts: Any) -> Any:
    made = object.__new__(kind)
    vars(made).update(parts)
    return made


def _enhanced(kind: Any, image: Any, modes: tuple[str, ...]) -> Verdict:
    """Whether an enhancer is Pillow's own, and of an image that it can be made of at once."""
    made = vars(kind).get("__init__")
    if getattr(made, "__module__", "") != "PIL.ImageEnhance" or "__new__" in vars(kind):
        return answer("another enhancer")
    reason = _picture(image, modes, LEAST_ENHANCED[kind.__name__])
    return answer(reason or ("a transparent colour" if "transparency" in image.info else ""))


@contrast.guard
def _(call: Any) -> Verdict:
    """RGB and L of 4096 to 2**22 pixels, no transparent colour."""
    return _enhanced(contrast.original(), call.image, ("RGB", "L"))


@color.guard
def _(call: Any) -> Verdict:
    """RGB of 16384 to 2**22 pixels, no transparent colour."""
    return _enhanced(color.original(), call.image, ("RGB",))


@contrast.calls
def _(rng: random.Random) -> Call:
    return pil_calls.enhancer_of(rng, ("RGB", "RGB", "L"))


@color.calls
def _(rng: random.Random) -> Call:
    return pil_calls.enhancer_of(rng, ("RGB",))
