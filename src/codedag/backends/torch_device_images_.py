"""Substitutions for an accelerator: images of cv2 that are bent, stretched, or resized within a grey level.

Not run on hardware here: the tests run them on the processor's tensors. What depends on how cv2 itself rounds is asked
of cv2, for a few numbers: the weights of a resized axis, the table of a stretched range of bytes.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from codedag.backends import torch_device_more_calls as samples
from codedag.backends.on_device import Array, back, constant, device, there
from codedag.backends.reasons import answer, is_number, left_out
from codedag.backends.registry import EXACT, LEVEL1, Call, substitutes
from codedag.backends.torch_device_ import CV2, PU, TORCH, _picture
from codedag.ir.verdict import Verdict

CUBIC, AREA, LANCZOS4 = 2, 3, 4
LONGEST = 4096
MINMAX = 32


# Sizes.


@substitutes("cv2.resize", into="torch.weights", gives=LEVEL1, needs=TORCH, source_needs=CV2, pu=PU, stays=True)
def resize(src: Any, dsize: Any, dst: Any = None, fx: Any = 0, fy: Any = 0, interpolation: Any = 1) -> Array:
    """The image in another size: products with cv2's own weights of both axes, rounded once."""
    torch = sys.modules["torch"]
    (across,), (down,) = (
        _weights(src.shape[1], dsize[0], interpolation),
        _weights(src.shape[0], dsize[1], interpolation),
    )
    values = there(src).to(torch.float64)
    values = torch.tensordot(across, values, dims=([0], [1])).movedim(0, 1)
    values = torch.tensordot(down, values, dims=([0], [0]))
    return back(values.round().clamp(0, 255).to(torch.uint8))


@constant
def _weights(size: int, wanted: int, interpolation: int) -> tuple[Array]:
    """What each pixel of an axis gives to each of the result: cv2 is asked to resize single bright pixels."""
    dots = np.eye(size, dtype=np.float32)
    return (resize.original()(dots, (wanted, size), interpolation=interpolation).astype(np.float64),)


@resize.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes with 1 to 4 channels and 2 to 4096 pixels a side; cubic, Lanczos, or by area, which makes
    both sides shorter; where the device has float64.
    """
    reason = left_out(call, ("dst",)) or _picture(call.src)
    if reason or call.fx != 0 or call.fy != 0 or type(call.interpolation) is not int or device().type == "mps":
        return answer(reason or "factors are given, or no float64 on this device")
    size = call.dsize
    if type(size) is not tuple or len(size) != 2 or not all(type(side) is int and 1 < side <= LONGEST for side in size):
        return answer("not a plain size")
    height, width = call.src.shape[:2]
    shorter = size[0] <= width and size[1] <= height
    known = call.interpolation in (CUBIC, LANCZOS4) or (call.interpolation == AREA and shorter)
    return answer("" if known and min(height, width) > 1 and max(height, width) <= LONGEST else "another way")


@resize.calls
def _(rng: random.Random) -> Call:
    return samples.weighed(rng)


# Bent.


@substitutes("cv2.warpAffine", into="torch", gives=LEVEL1, needs=TORCH, source_needs=CV2, pu=PU, stays=True)
def warpAffine(  # noqa: N802
    src: Any,
    M: Any,  # noqa: N803
    dsize: Any,
    dst: Any = None,
    flags: Any = 1,
    borderMode: Any = 0,  # noqa: N803
    borderValue: Any = None,  # noqa: N803
    hint: Any = 0,
) -> Array:
    """The image turned, scaled and shifted: linear between four pixels, black outside."""
    torch = sys.modules["torch"]
    matrix = tuple(float(value) for value in np.asarray(M, np.float64).ravel())
    places = _places(src.shape[0], src.shape[1], dsize, matrix)
    image = there(src).to(torch.float64)
    lines = image.reshape(src.shape[0] * src.shape[1], -1)
    made = sum(share[:, None] * lines[place] for place, share in zip(places[:4], places[4:], strict=True))
    return back(made.round().clamp(0, 255).to(torch.uint8).reshape(dsize[1], dsize[0], *src.shape[2:]))


@constant
def _places(height: int, width: int, size: tuple[int, int], matrix: tuple[float, ...]) -> tuple[Array, ...]:
    """The four pixels around each place of the result, and their shares; those outside have none."""
    a, b, c, d, e, f = _inverse(matrix)
    x, y = np.meshgrid(np.arange(size[0], dtype=np.float64), np.arange(size[1], dtype=np.float64))
    across, down = (a * x + b * y + c).ravel(), (d * x + e * y + f).ravel()
    if int(sys.modules["cv2"].__version__.partition(".")[0]) < 5:  # which has 32 places between two pixels
        across, down = np.rint(across * 32) / 32, np.rint(down * 32) / 32
    left, top = np.floor(across), np.floor(down)
    right_share, lower_share = across - left, down - top
    places, shares = [], []
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        rows, columns = top + row, left + column
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        share = (right_share if column else 1 - right_share) * (lower_share if row else 1 - lower_share)
        places.append(np.where(inside, rows * width + columns, 0).astype(np.int64))
        shares.append(share * inside)
    return (*places, *shares)


def _inverse(matrix: tuple[float, ...]) -> tuple[float, ...]:
    a, b, c, d, e, f = matrix
    scale = 1.0 / (a * e - b * d)
    a, b, d, e = e * scale, -b * scale, -d * scale, a * scale
    return a, b, -a * c - b * f, d, e, -d * c - e * f


@warpAffine.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes with 1, 3 or 4 channels, an array of 2 x 3 floats that can be inverted; linear, black
    outside.
    """
    reason = left_out(call, ("dst", "borderValue")) or _picture(call.src)
    reason = reason or ("two channels, which cv2 bends in another way" if call.src.shape[2:] == (2,) else "")
    size, turn = call.dsize, call.M
    if reason or type(turn) is not np.ndarray or turn.shape != (2, 3) or turn.dtype.char not in "fd":
        return answer(reason or "not an array of 2 x 3 floats")
    if type(size) is not tuple or len(size) != 2 or not all(type(side) is int and 0 < side <= LONGEST for side in size):
        return answer("not a plain size")
    known = call.flags == 1 and call.borderMode == 0 and call.hint == 0 and device().type != "mps"
    (a, b, _), (d, e, _) = turn.tolist()
    small = bool(np.abs(turn).max() < 1e5) and max(call.src.shape[:2]) <= LONGEST
    return answer("" if known and small and 1e-3 < abs(a * e - b * d) < 1e3 else "another way, border or matrix")


@warpAffine.calls
def _(rng: random.Random) -> Call:
    return samples.bent(rng)


# Stretched.


@substitutes("cv2.normalize", into="torch", gives=EXACT, needs=TORCH, source_needs=CV2, pu=PU, stays=True)
def normalize(
    src: Any,
    dst: Any,
    alpha: Any = 1,
    beta: Any = 0,
    norm_type: Any = 4,
    dtype: Any = -1,
    mask: Any = None,
) -> Array:
    """The image with its range of bytes stretched: cv2's own table of that range, looked up."""
    torch = sys.modules["torch"]
    low, high = int(src.min()), int(src.max())
    (table,) = _table(low, high, float(alpha), float(beta))
    return back(table[there(src).to(torch.int64)])


@constant
def _table(low: int, high: int, alpha: float, beta: float) -> tuple[Array]:
    row = np.arange(low, high + 1).astype(np.uint8)[None].repeat(2, 0)
    table = np.zeros(256, np.uint8)
    table[low : high + 1] = normalize.original()(row, None, alpha, beta, MINMAX)[0]
    return (table,)


@normalize.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes with 1 to 4 channels, from the least to the greatest, plain numbers, no mask."""
    reason = left_out(call, ("dst", "mask")) or _picture(call.src)
    known = type(call.norm_type) is int and call.norm_type == MINMAX and type(call.dtype) is int and call.dtype == -1
    numbers = is_number(call.alpha) and is_number(call.beta)
    return answer(reason or ("" if known and numbers else "another norm, or no plain numbers"))


@normalize.calls
def _(rng: random.Random) -> Call:
    return samples.stretched(rng)
