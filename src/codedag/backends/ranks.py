"""Order filters of images by a kernel of our own: the element of a rank in the window around each pixel."""

from __future__ import annotations

import functools

import numpy as np

from codedag.backends import _pixels
from codedag.backends.lines import border_places
from codedag.backends.windows import Array, Window

MOST = 64  # elements of a window
VECTOR = 32  # bytes of a row that are the least


def ranked(image: Array, place: Window, rank: int, mode: str, cval: float) -> Array:
    """A new C-ordered image: in each pixel the element of a rank among those of the window around it."""
    rows, columns = image.shape[:2]
    if rank in (0, place.kernel.size - 1) and place.kernel.all() and 1 not in place.shape:
        across = Window(np.ones((1, place.shape[1]), np.uint8), (0, place.anchor[1]))
        down = Window(np.ones((place.shape[0], 1), np.uint8), (place.anchor[0], 0))
        extreme = [0 if rank == 0 else side - 1 for side in place.shape]
        image = ranked(image, across, extreme[1], mode, cval)
        return ranked(image, down, extreme[0], mode, cval)
    step = image.shape[2] if image.ndim == 3 else 1
    wide = _with_margin(image, place.reach, mode, cval)
    result = np.empty(image.shape, image.dtype)
    stride = wide.shape[1] * step
    offsets = _offsets(place.kernel.tobytes(), place.shape, stride, step)
    _pixels.ranks(wide, result, image.dtype.char, rows, columns * step, stride, offsets, rank)
    return result


def _with_margin(image: Array, reach: tuple[int, int, int, int], mode: str, cval: float) -> Array:
    up, down, left, right = reach
    rows, columns = image.shape[:2]
    down_places = border_places(rows, up, down, mode)
    across_places = border_places(columns, left, right, mode)
    wide = image[down_places][:, across_places]
    if mode == "constant":
        wide[down_places < 0] = cval
        wide[:, across_places < 0] = cval
    return np.ascontiguousarray(wide)


@functools.lru_cache(maxsize=256)
def _offsets(kernel: bytes, shape: tuple[int, int], stride: int, step: int) -> Array:
    rows, columns = np.nonzero(np.frombuffer(kernel, np.uint8).reshape(shape))
    return (rows * stride + columns * step).astype(np.int32)


def too_many(image: Array, place: Window | None) -> str:
    """The reason why the kernel cannot take an image or a window."""
    if place is not None and int(place.kernel.sum()) > MOST:
        return "a window of too many elements"
    width = image.shape[1] * (image.shape[2] if image.ndim == 3 else 1)
    return "rows that are too short" if width * image.itemsize < VECTOR else ""
