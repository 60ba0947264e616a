"""Arrays of bytes: how often each value occurs, and functions of one value as tables of 256 entries.

A byte has 256 values. What the original gives for each of them, one by one, is all that can occur in its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MOST = 2**24  # cv2 counts into float32, which holds every whole number up to here
EVERY_BYTE = np.arange(256, dtype=np.uint8)
EVERY_BYTE.flags.writeable = False
_CARRIERS = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64}


def counts(values: Array) -> Array:
    """How often each of the 256 values occurs in an array of bytes with fewer than MOST elements."""
    import cv2

    flat = np.ascontiguousarray(values).reshape(-1)
    found = cv2.calcHist([flat], [0], None, [256], [0, 256])
    return found.reshape(-1).astype(np.intp)  # type: ignore[no-any-return]


def looked_up(values: Array, table: Array) -> Array:
    """A new C-ordered array with the entry of the table for each byte; entries are moved, never computed with."""
    import cv2

    result = np.empty(values.shape, table.dtype)
    carrier = _CARRIERS[table.dtype.itemsize]
    target = result.view(carrier).reshape(1, -1)
    source = np.ascontiguousarray(values).reshape(1, -1)
    settle(target, cv2.LUT(source, table.view(carrier).reshape(1, -1), target))
    return result


def settle(target: Array, written: Array) -> None:
    """Brings what cv2 wrote into the array it was given, should it have made another one."""
    if written is not target:
        np.copyto(target, written.reshape(target.shape))


def byte_array(value: Any, least: int, most: int = MOST) -> str:
    """The reason why a value is not a plain array of bytes of a size that gains, or an empty string."""
    if type(value) is not np.ndarray:
        return f"the input is a {type(value).__name__}, not a plain array"
    if value.dtype.char != "B":
        return f"dtype {value.dtype.str} is not uint8"
    if value.size < least:
        return "the array is too small to gain"
    return "" if value.size < most else "the array is too large to count"
