"""Spectra of the frames of a sound, as librosa computes them through scipy, over frames that lie in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends.registry import attempt
from codedag.backends.remembered import Remembered, exact_key

Array = npt.NDArray[Any]
ROOM = 1 << 18  # bytes of frames that are transformed at once: they and their spectra stay in the processor's cache
MOST = 128  # frames
_windows = Remembered()


def window_of(name: str, length: int) -> Array:
    """A window by name, in double precision, which nobody may write."""
    from librosa import filters

    make = lambda: filters.get_window(name, length, fftbins=True)  # noqa: E731
    return _windows.shared(exact_key(name, length), make)


def spectrum(sound: Array, length: int, step: int, window: Array, *, in_place: bool = False) -> Array:
    """The spectra of centred frames, side by side, transformed in the precision of the window.

    In place: by scipy's own code without its dispatch, which a program may have sent elsewhere; so not where every bit
    counts.
    """
    frames = _frames(sound, length, step)
    result = np.empty((1 + length // 2, len(frames)), np.result_type(sound.dtype, np.complex64), order="F")
    dtype, turned = np.result_type(sound, window), result.T
    fill = (in_place and into_place()) or _by_copy
    chunk = max(8, min(MOST, ROOM // (length * dtype.itemsize)))
    room = np.empty((min(chunk, len(frames)), length), dtype)  # fresh memory each time costs more than the product
    for first in range(0, len(frames), chunk):
        part = frames[first : first + chunk]
        fill(np.multiply(part, window, out=room[: len(part)]), turned[first : first + chunk])
    return result


def _by_copy(frames: Array, into: Array) -> None:
    import scipy.fft

    into[...] = scipy.fft.rfft(frames, axis=-1)


def _by_scipy(frames: Array, into: Array) -> None:
    import scipy.fft

    scipy.fft._pocketfft.pypocketfft.r2c(frames, (1,), True, 0, into, 1)


@cache
def into_place() -> Callable[[Array, Array], None] | None:
    """Transforms frames into given memory (a tenth of the time less), if this scipy still has what it takes."""
    frames, into = np.arange(12, dtype=np.float32).reshape(2, 6), np.zeros((2, 4), np.complex64)
    known = into.copy()
    _by_copy(frames, known)
    same = attempt(_by_scipy, frames, into).error is None and np.array_equal(into, known)
    return _by_scipy if same else None


def _frames(sound: Array, length: int, step: int) -> Array:
    """The frames of the sound between two halves of a frame of zeros, as a view."""
    half = length // 2
    padded = np.zeros(len(sound) + 2 * half, sound.dtype)
    padded[half : half + len(sound)] = sound
    shape = (1 + (len(padded) - length) // step, length)
    return np.lib.stride_tricks.as_strided(padded, shape, (step * padded.itemsize, padded.itemsize))


def other_library() -> str:
    """The reason to decline if librosa's user chose another library for transforms."""
    import librosa
    import scipy.fft

    return "" if librosa.get_fftlib() is scipy.fft else "another library for transforms was chosen"
