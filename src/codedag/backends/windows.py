"""Where the window of a two-dimensional filter sits, and the reasons not to take a call.

Checks return the reason to decline, or an empty string. All of them follow what scipy.ndimage does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.ir.verdict import No, Verdict, Yes

Array = npt.NDArray[Any]
Check = Callable[[Any], str]
MODES = frozenset({"reflect", "mirror", "nearest", "constant", "wrap"})
CHANNELS = 4  # cv2 fills borders of at most four channels
LARGEST = 127  # pixels of a window's side
LONGEST = 32_000  # cv2 counts rows in places with 16 bits


@dataclass(frozen=True, slots=True)
class Window:
    """The pixels that a filter looks at, and which of them lies on the pixel that it writes."""

    kernel: Array
    anchor: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.kernel.shape[0], self.kernel.shape[1]

    @property
    def reach(self) -> tuple[int, int, int, int]:
        """How many pixels it reaches beyond the written one: up, down, left, right."""
        (rows, columns), (row, column) = self.shape, self.anchor
        return row, rows - 1 - row, column, columns - 1 - column


def first_reason(call: Any, checks: tuple[Check, ...]) -> Verdict:
    """Yes if no check has a reason to decline, else the first reason."""
    for check in checks:
        reason = check(call)
        if reason:
            return No(reason)
    return Yes


def plain_array(value: Any, codes: frozenset[str]) -> str:
    """The reason why a value is not an ordinary array of a dtype with one of the character codes."""
    if type(value) is not np.ndarray:
        return f"the input is a {type(value).__name__}, not a plain array"
    if not value.dtype.isnative or value.dtype.char not in codes:
        return f"dtype {value.dtype.str} is not supported"
    if not value.size:
        return "the input is empty"
    if all(step == 0 or length == 1 for step, length in zip(value.strides, value.shape, strict=True)):
        return "a single value that is broadcast"  # scipy 1.17 misreads arrays of which all strides are 0
    return "" if value.flags.aligned else "the input is not aligned"


def plane(value: Array, axes: Any, sizes: Any) -> str:
    """The reason why a filter does not run over the first two axes of an image and only over them."""
    if value.ndim == 2:
        return "" if axes is None or _axes(axes, 2) == (0, 1) else "axes other than rows and columns"
    if value.ndim != 3:
        return f"the input has {value.ndim} dimensions"
    if axes is None and not (isinstance(sizes, (tuple, list)) and len(sizes) == 3 and sizes[2] == 1):
        return "the window spans the third axis"
    if axes is not None and _axes(axes, 3) != (0, 1):
        return "axes other than rows and columns"
    return "" if 1 <= value.shape[2] <= CHANNELS else f"{value.shape[2]} channels"


def _axes(axes: Any, ndim: int) -> tuple[int, ...] | None:
    if not isinstance(axes, (tuple, list)) or not all(type(axis) is int for axis in axes):
        return None
    return tuple(axis % ndim if -ndim <= axis < ndim else -1 for axis in axes)


def whole_numbers(value: Any, count: int) -> tuple[int, ...] | None:
    """The value as that many whole numbers (one number stands for all), or None if it is something else."""
    if type(value) is int:
        return (value,) * count
    items = value if isinstance(value, (tuple, list)) else (value,) * count
    if len(items) != count or not all(_whole(item) for item in items):
        return None
    return tuple(int(item) for item in items)


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def window(shape: tuple[int, ...], origin: Any, mirrored: bool, kernel: Array | None = None) -> Window | None:
    """The window of a shape at an origin as scipy places it, or None where scipy would refuse or ignore it.

    A third axis must have size 1. Dilations are `mirrored`: scipy turns kernel and origin round.
    """
    origins = whole_numbers(origin, len(shape))
    kinds = map(type, origin if isinstance(origin, (tuple, list)) else (origin,))
    unsigned = any(issubclass(kind, np.unsignedinteger) for kind in kinds)  # scipy does sums with them as they are
    place = None if origins is None or unsigned else _box_window(shape, origins, mirrored)
    if place is None or kernel is None:
        return place
    return Window(np.ascontiguousarray(kernel[::-1, ::-1]) if mirrored else kernel, place.anchor)


@functools.lru_cache(maxsize=1024)
def _box_window(shape: tuple[int, ...], origins: tuple[int, ...], mirrored: bool) -> Window | None:
    if min(shape) < 1 or max(shape) > LARGEST or shape[2:] not in ((), (1,)):
        return None
    anchor = [_anchor(length, at, mirrored) for length, at in zip(shape, origins, strict=True)]
    if not all(0 <= at < length for at, length in zip(anchor, shape, strict=True)):
        return None
    kernel = np.ones(shape[:2], np.uint8)
    kernel.flags.writeable = False  # the cache shares it
    return Window(kernel, (anchor[0], anchor[1]))


def _anchor(length: int, origin: int, mirrored: bool) -> int:
    if mirrored:
        origin = -origin if length & 1 else -origin - 1
    return length // 2 + origin


def kernel_of(value: Any, ndim: int) -> Array | None:
    """A footprint or structure as a kernel of bytes 0 and 1, or None if scipy or cv2 would refuse it."""
    if type(value) is not np.ndarray or value.dtype.kind not in "biuf" or value.ndim != ndim:
        return None
    if not 0 < value.size <= LARGEST * LARGEST:
        return None
    if ndim == 3:
        value = value[:, :, 0] if value.shape[2] == 1 else value[:0, :0, 0]
    kernel = np.array(value, bool, order="C").view(np.uint8)
    return kernel if kernel.any() else None


def placed(ndim: int, size: Any, footprint: Any, origin: Any, axes: Any, mirrored: bool = False) -> Window | None:
    """The window of a filter with a size or a footprint, or None where scipy would refuse or ignore it."""
    count = ndim if axes is None else len(axes)
    if footprint is None:
        shape = whole_numbers(size, count)
        return None if shape is None else window(shape, origin, mirrored)
    kernel = kernel_of(footprint, count)
    return None if kernel is None else window(footprint.shape, origin, mirrored, kernel)


def fits(value: Array, place: Window | None, least: int, largest: int = LARGEST) -> str:
    """The reason why a window cannot be laid over an array, or an array below `least` cannot gain."""
    if place is None:
        return "a window that is empty, huge, not made of whole numbers or beside its pixel"
    if place.kernel.size == 1 or max(place.shape) > largest:
        return f"a window of {place.shape[0]} x {place.shape[1]}"
    up, down, left, right = place.reach
    if max(up, down) >= value.shape[0] or max(left, right) >= value.shape[1]:
        return "the window reaches over the whole array"
    if max(value.shape) > LONGEST:
        return "an axis is longer than cv2 can count"
    return "" if value.size >= least else "the array is too small to gain"


def border(mode: Any, cval: Any, dtype: np.dtype[Any]) -> str:
    """The reason why the pixels beyond the edge cannot be made exactly."""
    if not isinstance(mode, str) or mode not in MODES:
        return "a border mode that cv2 does not have"
    if isinstance(cval, bool) or not isinstance(cval, (int, float, np.integer, np.floating)):
        return "cval is not a plain number"
    if not abs(float(cval) if isinstance(cval, np.generic) else cval) < 1e30:
        return "cval is huge or not a number"
    return "" if mode != "constant" or _representable(float(cval), dtype) else f"cval {cval!r} is not a {dtype.name}"


def _representable(value: float, dtype: np.dtype[Any]) -> bool:
    """Whether an array of the dtype holds the value as it is (a negative zero has no place in an order)."""
    if value == 0.0:
        return not np.signbit(value)
    if dtype.kind == "f":
        return float(dtype.type(value)) == value
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return value.is_integer() and low <= value <= high


def orderly(value: Array) -> str:
    """The reason why the elements leave a choice: NaN, a negative zero, a bool that is neither."""
    if value.dtype.kind == "b":
        return "a bool array with bytes other than 0 and 1" if value.view(np.uint8).max() > 1 else ""
    if value.dtype.kind != "f":
        return ""
    # Read as integers: three plain reductions, no floating-point warnings. NaNs are the bit patterns beyond
    # infinity, of either sign; the negative zero is the least signed integer.
    signed, unsigned = value.view(f"i{value.itemsize}"), value.view(f"u{value.itemsize}")
    infinity = int(np.array(np.inf, value.dtype).view(signed.dtype))
    sign = 1 << (8 * value.itemsize - 1)
    if int(signed.max()) > infinity or int(unsigned.max()) > infinity + sign:
        return "NaN in the input"
    return "negative zero in the input" if int(signed.min()) == -sign else ""
