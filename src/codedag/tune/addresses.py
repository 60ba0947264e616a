"""Where an array's first element lies, cheaply.

`array.ctypes.data` and `array.__array_interface__` take a microsecond each, three of which would cost more
than a small image's whole kernel. The data pointer is the first field after the object header (numpy's C API
promises the layout of PyArrayObject); this is checked once against the official answer before it is used.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

AddressOf = Callable[[Any], int]


@functools.cache
def address_of() -> AddressOf:
    """The fastest function array -> address that agrees with numpy here."""
    return _from_header if _header_agrees() else _official


def _official(array: Any) -> int:
    return int(array.ctypes.data)


_HEADER = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address


def _from_header(array: Any) -> int:
    return _pointer_at(id(array) + _HEADER).value or 0


def _header_agrees() -> bool:
    """True if the field after the header is the data pointer, for owned arrays and for views."""
    if sys.implementation.name != "cpython":  # elsewhere an id is no address
        return False
    whole = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    samples = (
        whole,
        whole[::-1],
        whole[1:, 2:, ::-1],
        whole.transpose(2, 0, 1),
        np.empty((0, 3), np.float32),
    )
    return all(_from_header(sample) == _official(sample) for sample in samples)
