"""Spectra of the frames of a sound, as librosa computes them through scipy, over frames that lie in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends.remembered import Remembered, exact_key

Array = npt.NDArray[Any]
CHUNK = 32  # frames that are transformed at once: they stay in the processor's cache
_windows = Remembered()


def window_of(name: str, length: int) -> Array:
    """A window by name, in double precision, which nobody may write."""
    from librosa import filters

    make = lambda: filters.get_window(name, length, fftbins=True)  # noqa: E731
    return _windows.shared(exact_key(name, length), make)


def spectrum(sound: Array, length: int, step: int, window: Array) -> Array:
    """The spectra of centred frames, side by side, transformed in the precision of the window."""
    import scipy.fft

    frames = np.lib.stride_tricks.sliding_window_view(np.pad(sound, length // 2), length)[::step]
    result = np.empty((1 + length // 2, len(frames)), np.result_type(sound.dtype, np.complex64), order="F")
    turned = result.T
    for first in range(0, len(frames), CHUNK):
        turned[first : first + CHUNK] = scipy.fft.rfft(frames[first : first + CHUNK] * window, axis=-1)
    return result


def other_library() -> str:
    """The reason to decline if librosa's user chose another library for transforms."""
    import librosa
    import scipy.fft

    return "" if librosa.get_fftlib() is scipy.fft else "another library for transforms was chosen"
