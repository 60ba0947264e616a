"""Substitutions for an accelerator: images of Pillow by plain torch operations, in whole numbers.

Not run on hardware here: the tests run them on the processor's tensors. Pillow resizes with weights of 22 bits, turns
by places of 16 binary digits and mixes colours in whole numbers; float64 and int64 hold all of them, in any order.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from codedag.backends import pil_calls
from codedag.backends import torch_device_calls as samples
from codedag.backends import torch_device_more_calls as more
from codedag.backends.on_device import Array, Picture, constant, device, nowhere, picture, pixels
from codedag.backends.pil_ import _quarter, _rotation
from codedag.backends.reasons import answer, is_number
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

TORCH, PILLOW = "torch>=2.2", "pillow>=13,<14"
PU = "cuda"
LEAST, LONGEST = 64, 32_000
_DEEP = {"L": 1, "RGB": 3, "RGBA": 4}


def _image(value: Any, modes: Any = _DEEP) -> str:
    """The reason why a value is not an image of bytes, or there is no device."""
    pillow = sys.modules.get("PIL.Image")
    if pillow is None or not (type(value) is Picture or type(value) is pillow.Image) or value.mode not in modes:
        return "not a plain image of L, RGB or RGBA"
    width, height = value.size
    if width * height < LEAST or max(width, height) > LONGEST:
        return "too small to send, or too long"
    return nowhere()


# Sizes.


@substitutes("PIL.Image.Image.resize", into="torch", gives=EXACT, needs=TORCH, source_needs=PILLOW, pu=PU, stays=True)
def resize(self: Any, size: Any, resample: Any = None, box: Any = None, reducing_gap: Any = None) -> Any:
    """The image in another size: products of whole numbers that float64 adds up without rounding, or nearest pixels."""
    torch = sys.modules["torch"]
    kind = 3 if resample is None else int(resample)
    if kind == 0:
        rows, columns = _nearest(self.size[1], size[1])[0], _nearest(self.size[0], size[0])[0]
        return picture(pixels(self)[rows][:, columns], self.mode, self)
    values, (width, height) = pixels(self).to(torch.float64), self.size
    passes = [(1, width, size[0]), (0, height, size[1])]
    if height > size[1] and height - size[1] > 2 * (width - size[0]):
        passes.reverse()
    for axis, before, after in passes:
        if before != after:
            (matrix,) = _matrix(before, after, kind)
            values = _pillow_pass(values, matrix, axis)
    return picture(values.to(torch.uint8), self.mode, self)


@constant
def _nearest(size: int, wanted: int) -> tuple[Array]:
    """Which pixel Pillow takes for each of a line: it adds the step up from one to the next."""
    step = size / wanted
    places = np.add.accumulate(np.concatenate([[step * 0.5], np.full(wanted - 1, step)]))
    return (np.minimum(places.astype(np.int64), size - 1),)


def _pillow_pass(values: Any, matrix: Any, axis: int) -> Any:
    """One axis resampled, rounded and cut to bytes as Pillow does between its passes."""
    torch = sys.modules["torch"]
    sums = torch.tensordot(matrix, values, dims=([1], [axis])).movedim(0, axis)
    return torch.floor((sums + (1 << 21)) / (1 << 22)).clamp(0, 255)


@constant
def _matrix(size: int, wanted: int, kind: int) -> tuple[Array]:
    """Pillow's weights of one axis as a matrix of whole numbers in float64."""
    from codedag.backends import _pixels

    count, width, bounds, high, low = _pixels.weights(size, 0.0, float(size), wanted, kind)
    weights = np.frombuffer(high, np.int16).astype(np.float64) * 2048 + np.frombuffer(low, np.int16)
    matrix = np.zeros((count, size + width))
    for row, (first, _) in enumerate(np.frombuffer(bounds, np.int32).reshape(-1, 2)):
        matrix[row, first : first + width] = weights[row * width : (row + 1) * width]
    return (np.ascontiguousarray(matrix[:, :size]),)


@resize.guard
def _(call: Any) -> Verdict:
    """L and RGB images whole, nearest pixels (of RGBA too); box, bilinear, Hamming, bicubic and Lanczos where the
    device has float64.
    """
    nearest = isinstance(call.resample, int) and call.resample == 0
    reason = _image(call.self, ("L", "RGB", "RGBA") if nearest else ("L", "RGB"))
    if reason or (device().type == "mps" and not nearest):
        return answer(reason or "no float64 on this device")
    kind = call.resample is None or (isinstance(call.resample, int) and 0 <= call.resample <= 5)
    size = type(call.size) is tuple and len(call.size) == 2 and all(type(n) is int and 0 < n < 4096 for n in call.size)
    if not kind or not size or call.box is not None or call.reducing_gap is not None or min(call.self.size) < 1:
        return answer("another filter, size, box or gap")
    return answer("the image has this size" if call.size == call.self.size else "")


@resize.calls
def _(rng: random.Random) -> Call:
    return samples.picture(rng)


# Moved pixels.


@substitutes(
    "PIL.Image.Image.transpose", into="torch", gives=EXACT, needs=TORCH, source_needs=PILLOW, pu=PU, stays=True
)
def transpose(self: Any, method: Any) -> Any:
    """The image mirrored or turned by quarters."""
    return picture(_moved(pixels(self), int(method)), self.mode, self)


def _moved(image: Any, method: int) -> Any:
    """Pillow's seven ways, by their numbers."""
    if method >= 5:  # along one of the diagonals
        turned = image.transpose(0, 1)
        return turned if method == 5 else turned.flip((0, 1))
    flips = {0: (1,), 1: (0,), 3: (0, 1)}
    if method in flips:
        return image.flip(flips[method])
    turned = image.transpose(0, 1)
    return turned.flip((0,) if method == 2 else (1,))


@transpose.guard
def _(call: Any) -> Verdict:
    """Images of L, RGB and RGBA from 64 pixels on, the seven ways."""
    known = isinstance(call.method, int) and type(call.method) is not bool and 0 <= call.method <= 6
    return answer(_image(call.self) or ("" if known else "another way"))


@transpose.calls
def _(rng: random.Random) -> Call:
    return pil_calls.transpose(rng)


@substitutes("PIL.Image.Image.crop", into="torch", gives=EXACT, needs=TORCH, source_needs=PILLOW, pu=PU, stays=True)
def crop(self: Any, box: Any = None) -> Any:
    """A part of the image."""
    left, upper, right, lower = box
    return picture(pixels(self)[upper:lower, left:right], self.mode, self)


@crop.guard
def _(call: Any) -> Verdict:
    """Images of L, RGB and RGBA from 64 pixels on, a box of whole numbers within them that is not all of it."""
    reason = _image(call.self)
    whole = type(call.box) is tuple and len(call.box) == 4 and all(type(side) is int for side in call.box)
    if reason or not whole:
        return answer(reason or "not a box of whole numbers")
    (left, upper, right, lower), (width, height) = call.box, call.self.size
    inside = 0 <= left < right <= width and 0 <= upper < lower <= height
    return answer("" if inside and call.box != (0, 0, width, height) else "a box that is not a part of the image")


@crop.calls
def _(rng: random.Random) -> Call:
    return more.crop(rng)


@substitutes("PIL.Image.Image.rotate", into="torch", gives=EXACT, needs=TORCH, source_needs=PILLOW, pu=PU, stays=True)
def rotate(
    self: Any,
    angle: Any,
    resample: Any = 0,
    expand: Any = False,
    center: Any = None,
    translate: Any = None,
    fillcolor: Any = None,
) -> Any:
    """The image rotated by quarters, or by nearest pixels in Pillow's whole numbers."""
    turn = _quarter(angle, expand, self.size)
    image = pixels(self)
    if turn is not None:
        return picture(_moved(image, turn), self.mode, self)
    rows, columns, inside = _places(self.size, float(angle), bool(expand))
    shape = inside if image.ndim == 2 else inside[:, :, None]
    return picture(image[rows, columns] * shape, self.mode, self)


@constant
def _places(size: tuple[int, int], angle: float, expand: bool) -> tuple[Array, Array, Array]:
    """Row and column of each pixel's nearest one, and whether there is one."""
    (a, b, c, d, e, f), (wide, high) = _rotation(size, angle, expand)
    x, y = np.arange(wide, dtype=np.int64)[None], np.arange(high, dtype=np.int64)[:, None]
    columns = (_fixed(c + a * 0.5 + b * 0.5) + y * _fixed(b) + x * _fixed(a)) >> 16
    rows = (_fixed(f + d * 0.5 + e * 0.5) + y * _fixed(e) + x * _fixed(d)) >> 16
    inside = (columns >= 0) & (columns < size[0]) & (rows >= 0) & (rows < size[1])
    return np.where(inside, rows, 0), np.where(inside, columns, 0), inside.astype(np.uint8)


def _fixed(value: float) -> int:
    return int(np.floor(value * 65536.0 + 0.5))


@rotate.guard
def _(call: Any) -> Verdict:
    """Images of L, RGB and RGBA from 64 pixels on, by quarters or nearest pixels, around the middle, no colour."""
    reason = _image(call.self)
    if reason or not is_number(call.angle) or call.center is not None or call.translate is not None:
        return answer(reason or "not a plain angle around the middle")
    if _quarter(call.angle, call.expand, call.self.size) is not None:
        return answer("")
    known = isinstance(call.resample, int) and call.resample == 0 and call.fillcolor is None
    return answer("" if known and call.angle % 360.0 != 0 else "neither by quarters nor nearest")


@rotate.calls
def _(rng: random.Random) -> Call:
    return more.rotate(rng)


# Modes.


@substitutes("PIL.Image.Image.convert", into="torch", gives=EXACT, needs=TORCH, source_needs=PILLOW, pu=PU, stays=True)
def convert(
    self: Any, mode: Any = None, matrix: Any = None, dither: Any = None, palette: Any = 0, colors: Any = 256
) -> Any:
    """The image in another mode: luma in Pillow's whole numbers, grey as three channels, an opaque alpha."""
    torch = sys.modules["torch"]
    image = pixels(self)
    if mode == "L":
        (weights,) = _luma()
        grey = (image[:, :, :3].to(torch.int64) * weights).sum(2) + 0x8000 >> 16
        return picture(grey.to(torch.uint8), mode, self)
    colours = image[:, :, None].expand(-1, -1, 3) if image.ndim == 2 else image[:, :, :3]
    if mode == "RGBA":
        colours = torch.cat([colours, torch.full_like(colours[:, :, :1], 255)], dim=2)
    return picture(colours, mode, self)


@constant
def _luma() -> tuple[Array]:
    return (np.array([19595, 38470, 7471]),)


@convert.guard
def _(call: Any) -> Verdict:
    """L, RGB and RGBA into each other, from 64 pixels on, no transparent colour."""
    reason = _image(call.self)
    if reason or call.matrix is not None or type(call.mode) is not str or call.mode not in _DEEP:
        return answer(reason or "a matrix is given, or another mode")
    if call.mode == call.self.mode or "transparency" in call.self.info:
        return answer("the same mode, or a transparent colour")
    return answer("")


@convert.calls
def _(rng: random.Random) -> Call:
    return pil_calls.convert(rng)
