"""Gradients of images as scipy.ndimage computes them: in float64, the outer neighbours added first, line by line.

Works in bands of rows that stay in the processor's cache. All products are with 1 or 2 and do not round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BAND = 16_384  # pixels


def gradient(image: Array, edge: int, axis: int, middle: int) -> Array:
    """The difference of neighbours along an axis, smoothed by 1, middle, 1 along the other."""
    return _in_bands(image, edge, lambda band: _gradient(band, axis, middle))


def _in_bands(image: Array, edge: int, work: Callable[[Array], Array]) -> Array:
    """What the work gives for each band of rows with a margin of one pixel.

    A margin of the slopes would be the slopes of this margin, so one margin is enough. No second array of the
    image's size is made: fresh pages cost more than the arithmetic.
    """
    import cv2

    result, rows = np.empty(image.shape, image.dtype), len(image)
    for first, last in _bands(*image.shape):
        part = np.ascontiguousarray(image[max(first - 1, 0) : last + 1])
        wide = cv2.copyMakeBorder(part, int(first == 0), int(last == rows), 1, 1, edge, value=0)
        result[first:last] = work(wide)
    return result


def _bands(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    step = max(BAND // columns, 4)
    return ((first, min(first + step, rows)) for first in range(0, rows, step))


def _gradient(band: Array, axis: int, middle: int) -> Array:
    if axis % 2:
        slope = (band[:, 2:] - band[:, :-2]).astype(np.float64, copy=False)
        return _around(slope[1:-1], slope[:-2], slope[2:], middle)
    slope = (band[2:] - band[:-2]).astype(np.float64, copy=False)
    return _around(slope[:, 1:-1], slope[:, :-2], slope[:, 2:], middle)


def _around(pixel: Array, before: Array, after: Array, middle: int) -> Array:
    outer: Array = before + after
    outer += pixel if middle == 1 else pixel * float(middle)  # a sum of two does not depend on their order
    return outer
