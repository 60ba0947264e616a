"""Substitutions for an accelerator: images of cv2 by plain torch operations, in whole numbers.

Not run on hardware here: the tests run them on the processor's tensors. cv2 resizes bytes with weights of 11 bits; sums
of such products are whole numbers that int64 holds, in any order.
"""

from __future__ import annotations

import functools
import random
import sys
from typing import Any

import numpy as np

from codedag.backends import torch_device_calls as samples
from codedag.backends.on_device import Array, back, constant, device, home, nowhere, plain, there
from codedag.backends.reasons import answer, is_number, left_out
from codedag.backends.registry import EXACT, LEVEL1, Call, substitutes
from codedag.ir.verdict import Verdict

TORCH, CV2 = "torch>=2.2", "opencv-python-headless>=4.8"
PU = "cuda"
LONGEST = 32_000
NEAREST, LINEAR, AREA, NEAREST_EXACT = 0, 1, 3, 6
_SWAPS = {"COLOR_BGR2RGB", "COLOR_RGB2BGR"}
_GREY = {"COLOR_BGR2GRAY": (3735, 19235, 9798), "COLOR_RGB2GRAY": (9798, 19235, 3735)}
_WIDE = {"COLOR_GRAY2BGR", "COLOR_GRAY2RGB"}


def _picture(value: Any, codes: str = "B") -> str:
    """The reason why a value is not a plain image of 1 to 4 channels, or there is no device."""
    reason = nowhere() or plain(value, codes)
    if reason or value.ndim not in (2, 3) or (value.ndim == 3 and not 2 <= value.shape[2] <= 4):
        return reason or "not an image of 1 to 4 channels"
    return "" if max(value.shape) <= LONGEST else "too long"


# Sizes.


@substitutes("cv2.resize", into="torch", gives=EXACT, needs=TORCH, source_needs=CV2, pu=PU, stays=True)
def resize(src: Any, dsize: Any, dst: Any = None, fx: Any = 0, fy: Any = 0, interpolation: Any = LINEAR) -> Array:
    """The image in another size, linear in cv2's whole numbers, by nearest pixels, or means of whole blocks."""
    width, height = dsize
    image = there(src)
    if interpolation in (NEAREST, NEAREST_EXACT):
        (rows,) = _nearest(src.shape[0], height, interpolation)
        (columns,) = _nearest(src.shape[1], width, interpolation)
        return back(image[rows][:, columns])
    return back(_blocks(image, height, width) if interpolation == AREA else _linear(image, height, width))


@constant
def _nearest(size: int, wanted: int, interpolation: int) -> tuple[Array]:
    """The pixels that cv2 takes along an axis, by its own word: it is asked for a row of their numbers."""
    row = np.arange(size, dtype=np.uint16)[None].repeat(2, 0)
    return (resize.original()(row, (wanted, 2), interpolation=interpolation)[0].astype(np.int64),)


def _blocks(image: Any, height: int, width: int) -> Any:
    """The means of blocks; cv2 rounds those of four pixels up (not of two channels), others as float32 products."""
    torch = sys.modules["torch"]
    rows, columns = image.shape[0] // height, image.shape[1] // width
    parts = image.to(torch.int64).reshape(height, rows, width, columns, *image.shape[2:])
    sums = parts.sum((1, 3))
    if rows == columns == 2 and (image.ndim == 2 or image.shape[2] != 2):
        return ((sums + 2) >> 2).to(torch.uint8)
    share = float(np.float32(1.0 / (rows * columns)))
    return (sums.to(torch.float32) * share).round().to(torch.uint8)


def _linear(image: Any, height: int, width: int) -> Any:
    """Across with exact products, then down with each term cut on its own, as cv2 does it."""
    torch = sys.modules["torch"]
    values = image.to(torch.int64)
    tail = (1,) * (values.ndim - 2)
    first, second, one, other = _weights(values.shape[1], width, False)
    wide = values[:, first] * one.reshape(1, -1, *tail) + values[:, second] * other.reshape(1, -1, *tail)
    first, second, one, other = _weights(values.shape[0], height, True)
    shape = (-1, 1, *tail)
    upper = (one.reshape(shape) * (wide[first] >> 4)) >> 16
    lower = (other.reshape(shape) * (wide[second] >> 4)) >> 16
    return ((upper + lower + 2) >> 2).clamp(0, 255).to(torch.uint8)


@constant
def _weights(size: int, wanted: int, vertical: bool) -> tuple[Array, Array, Array, Array]:
    """The two neighbours of each place and their weights; across, the border has one neighbour only."""
    at = ((np.arange(wanted) + 0.5) * (1.0 / (wanted / size)) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    part = (at - first.astype(np.float32)).astype(np.float32)
    if not vertical:
        part[(first < 0) | (first >= size - 1)] = 0
        first = np.clip(first, 0, size - 1)
    other = np.rint(part * np.float32(2048)).astype(np.int64)
    one = np.rint((np.float32(1) - part) * np.float32(2048)).astype(np.int64)
    return np.clip(first, 0, size - 1), np.clip(first + 1, 0, size - 1), one, other


@resize.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes with 1 to 4 channels and at least 2 pixels a side; linear, nearest (both ways), or by area
    where the size divides the image's; a size.
    """
    reason = left_out(call, ("dst",)) or _picture(call.src)
    if reason or call.fx != 0 or call.fy != 0 or type(call.interpolation) is not int:
        return answer(reason or "factors are given")
    size = call.dsize
    if type(size) is not tuple or len(size) != 2 or not all(type(side) is int and 0 < side <= LONGEST for side in size):
        return answer("not a plain size")
    known = call.interpolation in (NEAREST, LINEAR, NEAREST_EXACT) or (
        call.interpolation == AREA and _divides(size, call.src.shape)
    )
    return answer("" if known and min(call.src.shape[:2]) > 1 else "another way")


def _divides(size: tuple[int, int], shape: Any) -> bool:
    """Whether whole blocks of the image become pixels of the result, so few that float32 counts them."""
    height, width = shape[:2]
    blocks = size[0] <= width and size[1] <= height and width % size[0] == 0 == height % size[1]
    return bool(blocks and (height // size[1]) * (width // size[0]) <= 4096)


@resize.calls
def _(rng: random.Random) -> Call:
    return samples.resize(rng)


# Moved pixels.


@substitutes("cv2.flip", into="torch", gives=EXACT, needs=TORCH, source_needs=CV2, pu=PU, stays=True)
def flip(src: Any, flipCode: Any, dst: Any = None) -> Array:  # noqa: N803
    """The image with rows, columns or both from the end."""
    axes = (0, 1) if flipCode < 0 else (int(flipCode > 0),)
    return back(there(src).flip(axes))


@flip.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes or floats with 1 to 4 channels."""
    reason = left_out(call, ("dst",)) or _picture(call.src, "Bhifd")
    return answer(reason or ("" if type(call.flipCode) is int else "an odd code"))


@flip.calls
def _(rng: random.Random) -> Call:
    return samples.flip(rng)


@substitutes("cv2.copyMakeBorder", into="torch", gives=EXACT, needs=TORCH, source_needs=CV2, pu=PU, stays=True)
def copyMakeBorder(  # noqa: N802
    src: Any,
    top: Any,
    bottom: Any,
    left: Any,
    right: Any,
    borderType: Any,  # noqa: N803
    dst: Any = None,
    value: Any = None,
) -> Array:
    """The image with a frame of pixels from within it."""
    (rows,) = _framed(src.shape[0], top, bottom, borderType)
    (columns,) = _framed(src.shape[1], left, right, borderType)
    return back(there(src)[rows][:, columns])


@constant
def _framed(size: int, before: int, after: int, way: int) -> tuple[Array]:
    """The places of a line's pixels with a frame before and after."""
    ways = {1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}
    return (np.pad(np.arange(size), (before, after), mode=ways[way]),)  # type: ignore[call-overload]


@copyMakeBorder.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes or floats with 1 to 4 channels; replicate, reflect, wrap and reflect 101, less wide than
    the image.
    """
    reason = left_out(call, ("dst", "value")) or _picture(call.src, "Bhifd")
    sides = (call.top, call.bottom, call.left, call.right)
    if reason or not all(type(side) is int and side >= 0 for side in sides) or call.borderType not in (1, 2, 3, 4):
        return answer(reason or "an odd frame")
    rows, columns = call.src.shape[:2]
    return answer("" if max(sides[:2]) < rows and max(sides[2:]) < columns else "a frame as wide as the image")


@copyMakeBorder.calls
def _(rng: random.Random) -> Call:
    return samples.border(rng)


# Values.


@substitutes("cv2.cvtColor", into="torch", gives=EXACT, needs=TORCH, source_needs=CV2, pu=PU, stays=True)
def cvtColor(src: Any, code: Any, dst: Any = None, dstCn: Any = 0, hint: Any = 0) -> Array:  # noqa: N802, N803
    """Channels exchanged, grey as three channels, or luma in cv2's whole numbers."""
    torch = sys.modules["torch"]
    image = there(src)
    if code in _codes(_SWAPS):
        return back(image.flip(2))
    if code in _codes(_WIDE):
        return back(image[:, :, None].expand(-1, -1, 3))
    (weights,) = _luma(_codes(_GREY)[code])
    return back(((image.to(torch.int64) * weights).sum(2) + (1 << 14) >> 15).to(torch.uint8))


@constant
def _luma(weights: tuple[int, int, int]) -> tuple[Array]:
    return (np.array(weights),)


def _codes(names: Any) -> dict[int, Any]:
    import cv2

    return {getattr(cv2, name): names[name] if isinstance(names, dict) else name for name in names}


@cvtColor.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes: BGR and RGB into each other and into grey, grey into both."""
    reason = left_out(call, ("dst",)) or _picture(call.src)
    if reason or type(call.code) is not int or call.dstCn != 0 or call.hint != 0:
        return answer(reason or "an odd code")
    channels = 1 if call.src.ndim == 2 else call.src.shape[2]
    wanted = 3 if call.code in {**_codes(_SWAPS), **_codes(_GREY)} else 1 if call.code in _codes(_WIDE) else 0
    return answer("" if channels == wanted else "another code")


@cvtColor.calls
def _(rng: random.Random) -> Call:
    return samples.colours(rng)


@substitutes("cv2.threshold", into="torch", gives=EXACT, needs=TORCH, source_needs=CV2, pu=PU, stays=True)
def threshold(src: Any, thresh: Any, maxval: Any, type: Any, dst: Any = None) -> tuple[float, Array]:  # noqa: A002
    """The threshold, and the image cut by it in one of five ways."""
    torch = sys.modules["torch"]
    image, top = there(src), int(maxval)
    above, zero = image > int(thresh), torch.zeros((), dtype=torch.uint8, device=device())
    full = zero + top
    ways = ((full, zero), (zero, full), (zero + int(thresh), image), (image, zero), (zero, image))
    one, other = ways[type]
    return float(int(thresh)), home(torch.where(above, one, other))


@threshold.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes, whole numbers from 0 to 255, the five ways without Otsu and triangle."""
    whole = all(
        is_number(value) and float(value).is_integer() and 0 <= value <= 255 for value in (call.thresh, call.maxval)
    )
    known = whole and call.type in (0, 1, 2, 3, 4) and isinstance(call.type, int)
    return answer(
        left_out(call, ("dst",)) or _picture(call.src) or ("" if known else "another way, or no whole numbers")
    )


@threshold.calls
def _(rng: random.Random) -> Call:
    return samples.threshold(rng)


@substitutes("cv2.GaussianBlur", into="torch", gives=LEVEL1, needs=TORCH, source_needs=CV2, pu=PU, stays=True)
def GaussianBlur(  # noqa: N802
    src: Any,
    ksize: Any,
    sigmaX: Any,  # noqa: N803
    dst: Any = None,
    sigmaY: Any = 0,  # noqa: N803
    borderType: Any = 4,  # noqa: N803
    hint: Any = 0,
) -> Array:
    """The image blurred by cv2's own weights in 256ths, in whole numbers, rounded once."""
    torch = sys.modules["torch"]
    image = there(src).to(torch.int64)
    image = image[:, :, None] if image.ndim == 2 else image
    for axis, side in ((1, ksize[0]), (0, ksize[1])):
        image = _blurred(image, _shares(side, float(sigmaX)), axis)
    return back(((image + (1 << 15)) >> 16).clamp(0, 255).to(torch.uint8).reshape(src.shape))


@functools.lru_cache(maxsize=64)
def _shares(side: int, sigma: float) -> tuple[int, ...]:
    """The weights in 256ths: each is rounded with what the one before it left over, the middle takes the rest."""
    import cv2

    half, left = [], 0.0
    for weight in cv2.getGaussianKernel(side, sigma, cv2.CV_64F).reshape(-1)[: side // 2]:
        exact = float(weight) * 256 + left
        half.append(round(exact))
        left = exact - half[-1]
    return (*half, 256 - 2 * sum(half), *half[::-1])


def _blurred(image: Any, weights: tuple[int, ...], axis: int) -> Any:
    """Sums along one axis over a border that is mirrored without its edge."""
    size, reach = image.shape[axis], len(weights) // 2
    (places,) = _framed(size, reach, reach, 4)
    wide = image.index_select(axis, places)
    return sum(weight * wide.narrow(axis, place, size) for place, weight in enumerate(weights))


@GaussianBlur.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes, odd windows of 3 to 31 pixels a side, one sigma, the usual border."""
    reason = left_out(call, ("dst",)) or _picture(call.src)
    size = call.ksize
    odd = type(size) is tuple and len(size) == 2 and all(type(side) is int and side in range(3, 32, 2) for side in size)
    if reason or not odd or not is_number(call.sigmaX) or not 0 <= call.sigmaX < 20:
        return answer(reason or "an odd window or sigma")
    whole = call.sigmaY == 0 and call.borderType == 4 and call.hint == 0 and (call.sigmaX > 0 or size[0] == size[1])
    return answer("" if whole and max(size) < min(call.src.shape[:2]) else "another border, or too wide a window")


@GaussianBlur.calls
def _(rng: random.Random) -> Call:
    return samples.blur(rng)
