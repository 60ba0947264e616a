"""Substitutions from Pillow into kernels of this package, over the pixels in place where Pillow keeps them.

Pillow resamples bytes in whole numbers, whose sums are the same in any order; the other functions only move bytes
or do their arithmetic per pixel in the order that Pillow has.
"""

from __future__ import annotations

import functools
import math
import random
import struct
import sys
from typing import Any

import numpy as np

from codedag.backends import _pixels, pil_calls
from codedag.backends.reasons import among, answer, is_number
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

PILLOW = "pillow>=13,<14"  # the order of the two passes of a resize is that of 13
LEAST = 1024  # pixels
# Below that many pixels of four bytes, or of one, moving them gained less than 1.1 times in bench/substitutions.py.
LEAST_MOVED = {4: 24_576, 1: 20_480}
MOST = 1 << 22  # pixels; Pillow keeps larger images in several pieces
LONGEST = 32_767
# Bytes of a pixel in memory, and how many of them count.
_MODES = {"L": (1, 1), "RGB": (4, 3), "RGBX": (4, 4), "RGBa": (4, 4), "CMYK": (4, 4), "YCbCr": (4, 3), "HSV": (4, 3)}
_TURNED = {**_MODES, "RGBA": (4, 4)}
_FLOATS = struct.Struct("4f")
_BILINEAR, _BICUBIC = 2, 3
_TO_BYTES = 0
_FROM_BYTES = 1
_CONVERSIONS = {
    ("RGB", "L"): 2, ("RGBA", "L"): 2, ("L", "RGB"): 3, ("L", "RGBA"): 3, ("RGB", "RGBA"): 4, ("RGBA", "RGB"): 4,
}  # fmt: skip


# The pixels of an image.


def _pixels_of(image: Any) -> _pixels.Pixels:
    """The memory of a loaded image."""
    step = _TURNED[image.mode][0]
    return _pixels.Pixels(image.im.__arrow_c_array__(), image.width * image.height * step, step)


def _fresh(like: Any, mode: str, size: tuple[int, int]) -> Any:
    """A new black image with the other one's facts, as Pillow makes its results."""
    return like._new(sys.modules["PIL.Image"].core.new(mode, size))


def _picture(value: Any, modes: Any, least: int = LEAST) -> str:
    """The reason why a value is not an image whose pixels can be read in place."""
    pillow = sys.modules.get("PIL.Image")
    if pillow is None or not isinstance(value, pillow.Image):
        return f"a {type(value).__name__}, not an image"
    if type(value) is not pillow.Image and (reason := _unread(value)):
        return reason
    if value.mode not in modes:
        return f"mode {value.mode}"
    width, height = value.size
    if not 0 < max(width, height) <= LONGEST or not least <= width * height <= MOST:
        return "an image that is too small to gain or too large for one piece of memory"
    return ""


def _unread(value: Any) -> str:
    """The reason why an image of another class may not have all its pixels yet.

    A file is read by Pillow's own function: if that fails half-way, whoever asks next takes the rest for read.
    """
    base = getattr(sys.modules.get("PIL.ImageFile"), "ImageFile", None)
    kind = type(value)
    if (
        base is None
        or not issubclass(kind, base)
        or not kind.__module__.startswith("PIL.")
        or kind.load is not base.load
    ):
        return f"an image of class {kind.__name__}"
    return "" if value.__dict__.get("_im") is not None and not value.tile else "an image that is not read yet"


def _movable(value: Any, modes: Any = ()) -> str:
    """The reason why the pixels of a value are not worth being moved."""
    reason = _picture(value, modes or _TURNED)
    if reason or value.width * value.height >= LEAST_MOVED[_TURNED[value.mode][0]]:
        return reason
    return "an image that is too small to gain"


def _size(size: Any) -> str:
    if type(size) not in (tuple, list) or len(size) != 2 or not all(type(side) is int for side in size):
        return "the size is not two plain numbers"
    return "" if min(size) > 0 and max(size) <= LONGEST and size[0] * size[1] <= MOST else "an odd size"


# Resizing.


@substitutes("PIL.Image.Image.resize", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def resize(self: Any, size: Any, resample: Any = None, box: Any = None, reducing_gap: Any = None) -> Any:
    """The image in another size: Pillow's own weights in whole numbers, summed by wide instructions."""
    filter_number = _BICUBIC if resample is None else int(resample)
    place = (0, 0, *self.size) if box is None else tuple(box)
    if self.size == tuple(size) and place == (0, 0, *self.size):
        return self.copy()
    if self.mode == "RGBA":
        return resize.run(self.convert("RGBa"), size, filter_number, place, reducing_gap).convert("RGBA")
    self.load()
    if reducing_gap is not None:
        self, place = _reduced(self, size, filter_number, place, reducing_gap)
    return _resampled(self, tuple(size), filter_number, place)


def _reduced(image: Any, size: Any, filter_number: int, box: Any, gap: float) -> tuple[Any, Any]:
    """The image reduced by whole numbers and the box in it, as Pillow does before the fine step."""
    by_x = int((box[2] - box[0]) / size[0] / gap) or 1
    by_y = int((box[3] - box[1]) / size[1] / gap) or 1
    if by_x == 1 and by_y == 1:
        return image, box
    safe = image._get_safe_box(size, filter_number, box)
    left, top, right, bottom = box
    box = (left - safe[0]) / by_x, (top - safe[1]) / by_y, (right - safe[0]) / by_x, (bottom - safe[1]) / by_y
    from codedag.backends.pil_reduce_ import reduce  # which uses this module

    quick = reduce.accepts((image, (by_x, by_y), safe), {})
    return (reduce.run if quick else reduce.original())(image, (by_x, by_y), safe), box


def _resampled(image: Any, size: tuple[int, int], filter_number: int, box: Any) -> Any:
    (width, height), (step, bands) = image.size, _MODES[image.mode]
    box = _FLOATS.unpack(_FLOATS.pack(*box))  # Pillow takes the box in single precision
    across = down = None
    if size[0] != width or box[0] or box[2] != size[0]:
        across = _weights(width, box[0], box[2], size[0], filter_number)
    if size[1] != height or box[1] or box[3] != size[1]:
        down = _weights(height, box[1], box[3], size[1], filter_number)
    if across is None and down is None:
        return image.copy()
    result = _fresh(image, image.mode, size)
    mask = 0xFFFFFF if bands == 3 else 0xFFFFFFFF
    _pixels.resample(_pixels_of(image), width, height, step, _pixels_of(result), across, down, mask)
    return result


@functools.lru_cache(maxsize=256)
def _weights(size: int, first: float, last: float, wanted: int, filter_number: int) -> _pixels.Table:
    return _pixels.weights(size, first, last, wanted, filter_number)


@resize.guard
def _(call: Any) -> Verdict:
    """Images of bytes (L, RGB, RGBA, CMYK, YCbCr, HSV) of 1024 to 2**22 pixels, filters box, bilinear, Hamming,
    bicubic and Lanczos.
    """
    reason = _picture(call.self, (*_MODES, "RGBA"), 1) or _size(call.size) or _filter(call.resample)
    return answer(reason or _box(call.box, call.self.size) or _worth(call))


def _filter(number: Any) -> str:
    return "" if number is None or (isinstance(number, int) and 1 <= number <= 5) else "another filter"


def _box(box: Any, size: tuple[int, int]) -> str:
    if box is None:
        return ""
    if type(box) is not tuple or len(box) != 4 or not all(map(is_number, box)):
        return "a box that is not four plain numbers"
    inside = box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]
    return "" if inside and box[2] - box[0] > 1e-3 and box[3] - box[1] > 1e-3 else "a box that is not in the image"


def _worth(call: Any) -> str:
    (width, height), (wanted, high) = call.self.size, call.size
    if (width, height) == (wanted, high) and call.box is None:
        return "the image has this size"
    if width * height + wanted * high < LEAST:
        return "too small to gain"
    gap = call.reducing_gap
    return "" if gap is None or (is_number(gap) and 1.0 <= gap < 100) else "an odd reducing_gap"


@resize.calls
def _(rng: random.Random) -> Call:
    return pil_calls.resize(rng)


class _Stand:
    """What functions of PIL.ImageOps ask of an image, with the quick resize."""

    def __init__(self, image: Any) -> None:
        self._image = image
        self.mode, self.size = image.mode, image.size
        self.width, self.height = image.size

    def resize(self, size: Any, resample: Any = None, box: Any = None) -> Any:
        """The image resized by the substitute where its guard takes the call."""
        quick = resize.accepts((self._image, size, resample, box), {})
        return (resize.run if quick else resize.original())(self._image, size, resample, box)

    def copy(self) -> Any:
        """A copy of the image."""
        return self._image.copy()


@substitutes("PIL.ImageOps.fit", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def fit(image: Any, size: Any, method: Any = _BICUBIC, bleed: Any = 0.0, centering: Any = (0.5, 0.5)) -> Any:
    """Pillow's own cut of the middle, resized quickly."""
    return fit.original()(_Stand(image), size, method, bleed, centering)


@substitutes("PIL.ImageOps.contain", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def contain(image: Any, size: Any, method: Any = _BICUBIC) -> Any:
    """Pillow's own choice of a size within the given one, resized quickly."""
    return contain.original()(_Stand(image), size, method)


@substitutes("PIL.ImageOps.cover", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def cover(image: Any, size: Any, method: Any = _BICUBIC) -> Any:
    """Pillow's own choice of a size that covers the given one, resized quickly."""
    return cover.original()(_Stand(image), size, method)


@substitutes("PIL.ImageOps.pad", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def pad(image: Any, size: Any, method: Any = _BICUBIC, color: Any = None, centering: Any = (0.5, 0.5)) -> Any:
    """Pillow's own frame around the image, resized quickly."""
    return pad.original()(_Stand(image), size, method, color, centering)


@substitutes("PIL.ImageOps.scale", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def scale(image: Any, factor: Any, resample: Any = _BICUBIC) -> Any:
    """The image larger or smaller by a factor, resized quickly."""
    return scale.original()(_Stand(image), factor, resample)


@fit.guard
@contain.guard
@cover.guard
@pad.guard
def _(call: Any) -> Verdict:
    """Images and filters as Image.resize takes them."""
    colour, options = getattr(call, "color", None), [getattr(call, name, 0) for name in ("bleed", "centering")]
    plain = (colour is None or type(colour) is int) and all(type(option) in (int, float, tuple) for option in options)
    reason = _picture(call.image, (*_MODES, "RGBA")) or _filter(call.method) or ("" if plain else "an odd option")
    return answer(reason or _whole_size(call.size))


@scale.guard
def _(call: Any) -> Verdict:
    """Images and filters as Image.resize takes them, factors from 0.05 to 8."""
    odd = "" if is_number(call.factor) and 0.05 <= call.factor <= 8 and call.factor != 1 else "an odd factor"
    return answer(_picture(call.image, (*_MODES, "RGBA")) or _filter(call.resample) or odd)


def _whole_size(size: Any) -> str:
    reason = "" if type(size) is tuple else "the size is not a tuple"
    return reason or _size(size) or ("" if min(size) >= 8 else "an odd size")


@fit.calls
def _(rng: random.Random) -> Call:
    return pil_calls.fitting(rng, ("bleed", "centering"))


@contain.calls
@cover.calls
def _(rng: random.Random) -> Call:
    return pil_calls.fitting(rng, ())


@pad.calls
def _(rng: random.Random) -> Call:
    return pil_calls.fitting(rng, ("color", "centering"))


@scale.calls
def _(rng: random.Random) -> Call:
    return pil_calls.scale(rng)


# Turning.


@substitutes("PIL.Image.Image.transpose", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def transpose(self: Any, method: Any) -> Any:
    """The image mirrored, rotated by quarters or transposed, in blocks of pixels."""
    self.load()
    width, height = self.size
    result = _fresh(self, self.mode, (width, height) if method in (0, 1, 3) else (height, width))
    _pixels.turn(_pixels_of(self), width, height, _TURNED[self.mode][0], _pixels_of(result), int(method))
    return result


@transpose.guard
def _(call: Any) -> Verdict:
    """Images of bytes of 24576 (L: 20480) to 2**22 pixels, all ways but upside down."""
    known = isinstance(call.method, int) and 0 <= call.method <= 6 and call.method != 1
    return answer(_movable(call.self) or ("" if known else "upside down, or no way to turn an image"))


@transpose.calls
def _(rng: random.Random) -> Call:
    return pil_calls.transpose(rng)


@substitutes("PIL.ImageOps.mirror", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def mirror(image: Any) -> Any:
    """The image with left and right exchanged."""
    return transpose.run(image, 0)


@mirror.guard
def _(call: Any) -> Verdict:
    """Images of bytes of 24576 (L: 20480) to 2**22 pixels."""
    return answer(_movable(call.image))


@mirror.calls
def _(rng: random.Random) -> Call:
    return pil_calls.alone(rng)


@substitutes("PIL.Image.Image.rotate", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def rotate(
    self: Any,
    angle: Any,
    resample: Any = 0,
    expand: Any = False,
    center: Any = None,
    translate: Any = None,
    fillcolor: Any = None,
) -> Any:
    """The image rotated: quarters by moving pixels, other angles linear between pixels in Pillow's order."""
    turn = _quarter(angle, expand, self.size)
    if turn is not None:
        return transpose.run(self, turn)
    self.load()
    matrix, size = _rotation(self.size, angle, expand)
    result = sys.modules["PIL.Image"].new(self.mode, size, fillcolor)
    result.info = self._copy_info()
    step, bands = _MODES[self.mode]
    source, target = _pixels_of(self), _pixels_of(result)
    _pixels.affine(source, *self.size, step, target, *size, bands, int(fillcolor is None), *matrix)
    return result


def _quarter(angle: float, expand: Any, size: tuple[int, int]) -> int | None:
    """Pillow's number of a turn by quarters, where it makes one."""
    angle = angle % 360.0
    if angle == 180 or (angle in (90, 270) and (expand or size[0] == size[1])):
        return {90: 2, 180: 3, 270: 4}[int(angle)]
    return None


def _rotation(size: tuple[int, int], angle: float, expand: Any) -> tuple[list[float], tuple[int, int]]:
    """The way back from the result to the image, and the size of the result, in Pillow's arithmetic."""
    width, height = size
    turn = -math.radians(angle % 360.0)
    cosine, sine = round(math.cos(turn), 15), round(math.sin(turn), 15)
    matrix = [cosine, sine, 0.0, round(-math.sin(turn), 15), cosine, 0.0]
    matrix[2], matrix[5] = _moved(-(width / 2) - 0, -(height / 2) - 0, matrix)
    matrix[2] += width / 2
    matrix[5] += height / 2
    if not expand:
        return matrix, size
    corners = [_moved(x, y, matrix) for x, y in ((0, 0), (width, 0), (width, height), (0, height))]
    (wide, high) = (math.ceil(max(side)) - math.floor(min(side)) for side in zip(*corners, strict=True))
    matrix[2], matrix[5] = _moved(-(wide - width) / 2.0, -(high - height) / 2.0, matrix)
    return matrix, (wide, high)


def _moved(x: float, y: float, matrix: list[float]) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + b * y + c, d * x + e * y + f


@rotate.guard
def _(call: Any) -> Verdict:
    """Images of bytes of 1024 to 2**22 pixels: by quarters, or bilinear for L and RGB; around the middle."""
    if not is_number(call.angle) or call.center is not None or call.translate is not None:
        return answer("not a plain angle around the middle")
    if not isinstance(call.resample, int) or not isinstance(call.expand, int):
        return answer("an odd option")
    reason = _picture(call.self, _TURNED)
    if reason or _quarter(call.angle, call.expand, call.self.size) is not None:
        return answer(reason or _movable(call.self))
    known = call.resample == _BILINEAR and call.self.mode in ("L", "RGB") and call.angle % 360.0 != 0
    colour = call.fillcolor is None or type(call.fillcolor) is int
    return answer("" if known and colour else "neither by quarters nor bilinear")


@rotate.calls
def _(rng: random.Random) -> Call:
    return pil_calls.rotate(rng)


# Modes and bytes.


@substitutes("PIL.Image.Image.convert", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def convert(
    self: Any, mode: Any = None, matrix: Any = None, dither: Any = None, palette: Any = 0, colors: Any = 256
) -> Any:
    """The image in another mode: luma in Pillow's whole numbers, grey as three channels, an opaque alpha."""
    self.load()
    result = _fresh(self, mode, self.size)
    count = self.width * self.height
    _pixels.convert(_pixels_of(self), _pixels_of(result), count, _CONVERSIONS[self.mode, mode])
    return result


@convert.guard
def _(call: Any) -> Verdict:
    """L, RGB and RGBA into each other, 1024 to 2**22 pixels, no transparent colour."""
    if call.matrix is not None or type(call.mode) is not str:
        return answer("a matrix is given, or no mode")
    options = (0 if call.dither is None else call.dither, call.palette, call.colors)
    if not all(isinstance(one, int) and 0 <= one <= 256 for one in options):
        return answer("an odd option")
    reason = _picture(call.self, ("L", "RGB", "RGBA"))
    if reason or (call.self.mode, call.mode) not in _CONVERSIONS:
        return answer(reason or "another pair of modes")
    return answer("a transparent colour" if "transparency" in call.self.info else "")


@convert.calls
def _(rng: random.Random) -> Call:
    return pil_calls.convert(rng)


@substitutes("PIL.ImageOps.grayscale", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def grayscale(image: Any) -> Any:
    """The luma of an image."""
    return convert.run(image, "L")


@grayscale.guard
def _(call: Any) -> Verdict:
    """RGB and RGBA of 1024 to 2**22 pixels, no transparent colour."""
    reason = _picture(call.image, ("RGB", "RGBA"))
    return answer(reason or ("a transparent colour" if "transparency" in call.image.info else ""))


@grayscale.calls
def _(rng: random.Random) -> Call:
    return pil_calls.colourful(rng)


@substitutes("PIL.Image.Image.tobytes", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def tobytes(self: Any, encoder_name: Any = "raw", *args: Any) -> Any:
    """The bytes of a picture of three channels, packed at once; numpy asks for them to make an array."""
    self.load()
    return _pixels.convert(_pixels_of(self), None, self.width * self.height, _TO_BYTES)


@tobytes.guard
def _(call: Any) -> Verdict:
    """RGB, YCbCr and HSV of 24576 to 2**22 pixels in their own layout."""
    reason = _movable(call.self, ("RGB", "YCbCr", "HSV"))
    if reason or not among(call.encoder_name, "raw") or len(call.args) > 1:
        return answer(reason or "another layout")
    return answer("" if not call.args or among(call.args[0], call.self.mode) else "another layout")


@tobytes.calls
def _(rng: random.Random) -> Call:
    return pil_calls.tobytes(rng)


@substitutes("PIL.Image.fromarray", into="codedag", gives=EXACT, needs=PILLOW, source_needs=PILLOW)
def fromarray(obj: Any, mode: Any = None) -> Any:
    """An image of an array of three channels."""
    height, width, _ = obj.shape
    result = _fresh(sys.modules["PIL.Image"].Image(), "RGB", (width, height))
    _pixels.convert(obj, _pixels_of(result), width * height, _FROM_BYTES)
    return result


@fromarray.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered arrays of bytes with three channels, 1024 to 2**22 pixels."""
    value = call.obj
    if type(value) is not np.ndarray or value.dtype.char != "B" or value.ndim != 3 or value.shape[2] != 3:
        return answer("not a plain array of bytes with three channels")
    if not value.flags.c_contiguous or not 3 * LEAST <= value.size <= 3 * MOST or max(value.shape) > LONGEST:
        return answer("not in C order, too small to gain or too large for one piece of memory")
    return answer("" if among(call.mode, None, "RGB") else "another mode")


@fromarray.calls
def _(rng: random.Random) -> Call:
    return pil_calls.fromarray(rng)
