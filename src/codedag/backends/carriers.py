"""The dtype in which cv2 can carry an array's values: one that holds each of them, so that their order stays.

A filter that only chooses among values gives the same choice in any dtype that holds them all exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SORTED = 5  # cv2.medianBlur sorts windows up to 5 x 5; beyond that it counts bytes
# By character code, which tells the dtypes that scipy gives a result from their doubles (int64 `l`, not `q`).
_SORTABLE = {
    np.dtype(name).char: carrier
    for name, carrier in {
        "bool": "uint8",
        "uint8": "uint8",
        "int8": "int16",
        "uint16": "uint16",
        "int16": "int16",
        "float32": "float32",
    }.items()
}
# Wider integers through float64 would be exact too, but were slower than scipy on even images.
_ORDERED = {**_SORTABLE, np.dtype("float64").char: "float64"}
ORDER_CODES = frozenset(_ORDERED)
CODES = ORDER_CODES | {np.dtype(name).char for name in ("int32", "uint32", "int64", "uint64")}
_FLOAT32 = float(np.finfo(np.float32).max)
_WHOLE = 2**24  # up to here float32 holds every whole number
_BYTES = frozenset({np.dtype("bool").char, np.dtype("uint8").char})


def median_carrier(image: Array, side: int, border: float | None) -> str:
    """The dtype for cv2.medianBlur, or an empty string if no dtype that it takes holds image and border."""
    code = image.dtype.char
    if side <= SORTED and code in _SORTABLE:
        return _SORTABLE[code]
    if code in _BYTES:
        return "uint8"
    low, high = _range(image, border)
    if low >= 0 and high <= 255 and _holds("uint8", image, border):
        return "uint8"
    limit = _FLOAT32 if image.dtype.kind == "f" else _WHOLE
    if side <= SORTED and low >= -limit and high <= limit and _holds("float32", image, border):
        return "float32"
    return ""


def order_carrier(image: Array) -> str:
    """The dtype for cv2.erode and cv2.dilate of an array with one of ORDER_CODES."""
    return _ORDERED[image.dtype.char]


def carried(image: Array, carrier: str) -> Array:
    """The image in C order and in the carrier's dtype; the image itself if it is that already."""
    return np.ascontiguousarray(image.view(np.uint8) if image.dtype.kind == "b" else image, carrier)


def _range(image: Array, border: float | None) -> tuple[float, float]:
    low, high = image.min().item(), image.max().item()
    return (low, high) if border is None else (min(low, border), max(high, border))


def _holds(carrier: str, image: Array, border: float | None) -> bool:
    dtype = np.dtype(carrier)
    if border is not None and float(dtype.type(border)) != border:
        return False
    if image.dtype.kind in "iu":
        return True  # the range has been looked at; a comparison with float32 would round large integers first
    with np.errstate(all="ignore"):  # the user may have asked numpy to raise on underflow
        return bool((image.astype(dtype) == image).all())
