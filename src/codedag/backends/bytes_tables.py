"""Arrays of bytes: how often each value occurs, and functions of one value as tables of 256 entries.

A byte has 256 values. What the original gives for each of them, one by one, is all that can occur in its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends import _pixels

Array = npt.NDArray[Any]
MOST = 2**24  # elements; beyond that copies cost more than is gained
EVERY_BYTE = np.arange(256, dtype=np.uint8)
EVERY_BYTE.flags.writeable = False


def counts(values: Array) -> Array:
    """How often each of the 256 values occurs in an array of bytes."""
    found = np.empty(256, np.intp)
    _pixels.counts(np.ascontiguousarray(values), found)
    return found


def looked_up(values: Array, table: Array) -> Array:
    """A new C-ordered array with the entry of the table for each byte; entries are moved, never computed with."""
    result = np.empty(values.shape, table.dtype)
    _pixels.lookup(np.ascontiguousarray(values), result.view(np.uint8), _flat(table), table.itemsize)
    return result


def _flat(table: Array) -> Array:
    return np.ascontiguousarray(table).view(np.uint8)


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
