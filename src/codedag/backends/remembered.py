"""Arrays that a function always makes alike from the same plain arguments: made once, then copied."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MOST = 16 << 20  # bytes kept


class _Made(threading.local):
    """How many arrays this thread has made because none was kept."""

    count = 0


_made = _Made()


def made_here() -> int:
    """How many arrays were made in this thread so far, rather than copied."""
    return _made.count


class Remembered:
    """The arrays last asked for, up to a number of bytes; callers get copies, so that none can change them."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._bytes = most, 0
        self._known: OrderedDict[Hashable, Array] = OrderedDict()
        self._views: set[Hashable] = set()  # the keys for which the result is a view of its own memory
        self._lock = threading.Lock()

    def copy(self, key: Hashable, make: Callable[[], Array]) -> Array:
        """A fresh array with the elements that `make` gave for the key, a view if that was one."""
        fresh = self.shared(key, make).copy()
        return fresh[:] if key in self._views else fresh

    def shared(self, key: Hashable, make: Callable[[], Array]) -> Array:
        """The array itself, which nobody may write."""
        known = self._known.get(key)
        if known is not None:
            return known
        _made.count += 1
        first = make()
        made = np.array(first, order="C")
        made.flags.writeable = False
        with self._lock:
            if not first.flags.owndata:
                self._views.add(key)
            self._keep(key, made)
        return made

    def _keep(self, key: Hashable, made: Array) -> None:
        if made.nbytes > self._most or key in self._known:
            return
        self._known[key] = made
        self._bytes += made.nbytes
        while self._bytes > self._most:  # the oldest goes first
            self._bytes -= self._known.popitem(last=False)[1].nbytes


def exact_key(*values: Any) -> tuple[Any, ...]:
    """A key that tells 1, 1.0 and True apart, and 0.0 from -0.0."""
    return tuple((type(value), repr(value)) for value in values)
