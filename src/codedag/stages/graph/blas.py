"""Limit of numpy's OpenBLAS to one thread: ours call it side by side, and its own would spin for 20 to 38 ms after."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = tuple(
    (f"{prefix}openblas_set_num_threads{suffix}", f"{prefix}openblas_get_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
)
_lock = threading.Lock()
_users = 0
_before = 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Products inside use the calling thread alone, where numpy's BLAS is an OpenBLAS of its wheel."""
    global _users, _before
    controls = _openblas()
    if controls is None:
        yield
        return
    put, ask = controls
    with _lock:
        if _users == 0:
            _before = ask()
            put(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                put(_before)


@functools.cache
def _openblas() -> tuple[Any, Any] | None:
    """The functions of the OpenBLAS that numpy has loaded, which set and tell its number of threads."""
    import numpy as np

    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            found = _controls(path)
            if found is not None:
                return found
    return None


def _controls(path: Path) -> tuple[Any, Any] | None:
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None
    for put, ask in _NAMES:
        if hasattr(library, put) and hasattr(library, ask):
            return getattr(library, put), getattr(library, ask)
    return None
