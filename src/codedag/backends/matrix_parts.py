"""The parts in which numpy's matrix product sums up, found by asking it, and products of filter banks in this order.

OpenBLAS goes through the inner dimension in parts whose ends depend on the sizes, on the processor and on the number
of threads.  Within a part it adds product after product to one sum; then it adds the sums.  A bank of filters is nearly
all zeros, which add nothing, so the same parts give the same bits with a fiftieth of the work and without its threads.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends import _pixels

Array = npt.NDArray[Any]
BIG = np.float32(2**24)  # a sum to which a single one adds nothing, and two at once do
MOST = 12  # numbers of frames that are asked for, per bank
WORK = 1 << 28  # products that asking may take


def product(strength: Array, bank: Array) -> Array:
    """What numpy's einsum gives for a bank of filters over a spectrogram (frequencies by frames)."""
    if strength.dtype == bank.dtype == np.float32 and strength.T.flags.c_contiguous:
        parts = _order.parts(bank.shape[0], bank.shape[1], strength.shape[1])
        made = None if parts is None else multiplied(strength.T, bank, _bounds_of(bank), parts)
        if made is not None:
            return made
    return whole(strength, bank)


def rounded(frames: Array, bank: Array) -> Array:
    """The product of frames and filters in any order of sums, which rounds otherwise than numpy's."""
    made = None
    if frames.dtype == bank.dtype == np.float32:
        made = multiplied(frames, bank, _bounds_of(bank), np.array([bank.shape[1]], np.int32))
    return np.matmul(bank, frames.T) if made is None else made


def whole(strength: Array, bank: Array) -> Array:
    """The product as librosa asks for it."""
    return np.einsum("...ft,mf->...mt", strength, bank, optimize=True)  # type: ignore[no-any-return]


def multiplied(frames: Array, bank: Array, bounds: Array, parts: Array) -> Array | None:
    """The product of frames and filters in parts; None if it cannot be made here, or a value is not finite."""
    result = np.empty((len(bank), len(frames)), np.float32)
    sizes = (len(frames), frames.shape[1], len(bank), len(parts))
    made = _pixels.bank(frames, bank, bounds, parts, result, *sizes)
    return result if made and np.isfinite(result).all() else None  # numpy tells of a sum that is too large


_bounds: dict[int, tuple[Array, Array]] = {}


def _bounds_of(bank: Array) -> Array:
    """Where the weights of each filter begin and end; kept with the banks that nobody may write."""
    known = _bounds.get(id(bank))
    if known is not None and known[0] is bank:
        return known[1]
    bounds = bounds_of(bank)
    if not bank.flags.writeable:
        if len(_bounds) >= MOST:
            _bounds.clear()
        _bounds[id(bank)] = (bank, bounds)
    return bounds


def bounds_of(bank: Array) -> Array:
    """Per filter the first weight that is not zero, and the end of those that are not."""
    return measured(bank)[0]


def measured(bank: Array) -> tuple[Array, int]:
    """Where the weights of each filter begin and end, and how many lie between."""
    bounds = np.empty((len(bank), 2), np.int32)
    return bounds, _pixels.bank_bounds(bank, bounds, *bank.shape)


class Order:
    """Which parts numpy's product has, for the sizes that were asked for and those between two that are alike."""

    def __init__(self, multiply: Callable[[Array, Array], Array] = whole) -> None:
        self._multiply = multiply
        self._known: dict[tuple[int, int, int], dict[int, Array | None]] = {}
        self._lock = threading.Lock()

    def parts(self, filters: int, bins: int, frames: int) -> Array | None:
        """The ends of the parts; None if they are not known, or sums are made in another way."""
        threads = blas_threads()
        if not threads:
            return None
        known = self._known.setdefault((filters, bins, threads), {})
        found = known.get(frames)
        if found is None and frames not in known:
            found = _between(known, frames)
        if found is not None or frames in known:
            return found
        with self._lock:
            return self._found(known, filters, bins, frames)

    def _found(self, known: dict[int, Array | None], filters: int, bins: int, frames: int) -> Array | None:
        """Asks for half and twice as many first: sounds are of many lengths, and those between need no question."""
        for number in (frames // 2, 2 * frames, frames):
            between = _between(known, frames)
            if between is not None:
                return between
            new = number > 0 and number not in known and _between(known, number) is None
            if new and len(known) < MOST and filters * bins * number < WORK:
                known[number] = self._asked(filters, bins, number)
        return known.get(frames, _between(known, frames))

    def _asked(self, filters: int, bins: int, frames: int) -> Array | None:
        ends = self._ends(filters, bins, frames)
        return ends if ends is not None and self._is_so(filters, bins, frames, ends) else None

    def _ends(self, filters: int, bins: int, frames: int) -> Array | None:
        """The ends of parts: where a big number, a one and a one next to it are not added up one by one."""
        apart = np.zeros(max(bins - 2, 0), bool)
        starts = np.arange(0, len(apart), filters)
        for first in range(2):  # one product tells of every second window: their pairs must not meet
            for group in range(first, len(starts), 2 * frames):
                windows = starts[group : group + 2 * frames : 2]
                sums = self._multiply(_windows(windows, filters, bins, frames).T, _pairs(windows, filters, bins))
                for number, start in enumerate(windows):
                    found = sums[: len(apart) - start, number :: len(windows)]
                    if not (found == found[:, :1]).all():
                        return None
                    apart[start : start + filters] = found[:, 0] != BIG
        return ends_of(apart.tolist(), bins)

    def _is_so(self, filters: int, bins: int, frames: int, ends: Array) -> bool:
        """Whether parts that end there give the bits of numpy's product for numbers without any zeros."""
        rng = np.random.default_rng(7)
        strength, bank = rng.random((frames, bins), np.float32), rng.random((filters, bins), np.float32)
        made = multiplied(strength, bank, bounds_of(bank), ends)
        return made is not None and np.array_equal(made, self._multiply(strength.T, bank))


def _windows(starts: Array, width: int, bins: int, frames: int) -> Array:
    """Frames with a big first element, and ones in a window: in turn in each of these."""
    strength = np.zeros((frames, bins), np.float32)
    strength[:, 0] = BIG
    for number, start in enumerate(starts):
        strength[number :: len(starts), start + 1 : start + width + 2] = 1
    return strength


def _pairs(starts: Array, width: int, bins: int) -> Array:
    """Filters that take the first element, and two neighbours in each window: in each filter the next two."""
    bank = np.zeros((width, bins), np.float32)
    bank[:, 0] = 1
    for start in starts:
        rows = np.arange(min(width, bins - 2 - start))
        bank[rows, start + 1 + rows] = bank[rows, start + 2 + rows] = 1
    return bank


def ends_of(apart: list[bool], bins: int) -> Array:
    """The ends of the parts, from whether the elements 1 and 2, 2 and 3, ... are summed up apart from element 0."""
    first = apart.index(True) + 1 if any(apart) else bins
    later = [place + 2 for place in range(first, len(apart)) if not apart[place]]
    return np.array([first, *later, bins] if first < bins else [bins], np.int32)


def _between(known: dict[int, Array | None], frames: int) -> Array | None:
    """The parts of fewer and of more frames, if they are the same: libraries change their way at a size, and once."""
    less, more = [n for n in known if n < frames], [n for n in known if n > frames]
    if not less or not more:
        return None
    below, above = known[max(less)], known[min(more)]
    return below if below is not None and above is not None and np.array_equal(below, above) else None


def blas_threads() -> int:
    """The threads that numpy's OpenBLAS has now; none if numpy has another library for products."""
    ask = _asking()
    return 0 if ask is None else ask()


@functools.cache
def _asking() -> Callable[[], int] | None:
    """The function of numpy's own OpenBLAS that knows its threads, if it is loaded."""
    if not hasattr(os, "RTLD_NOLOAD"):
        return None
    for path in (Path(np.__file__).parent.parent / "numpy.libs").glob("*openblas*"):
        try:
            library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            continue
        for name in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_", "openblas_get_num_threads"):
            if hasattr(library, name):
                return getattr(library, name)  # type: ignore[no-any-return]
    return None


_order = Order()
