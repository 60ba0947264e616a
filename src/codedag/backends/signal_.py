"""Substitutions from scipy.signal: medians of images by OpenCV, and windows that are remembered."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import cv2_
from codedag.backends.numpy_calls import maybe
from codedag.backends.reasons import answer, is_number
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.backends.remembered import Remembered, exact_key
from codedag.backends.samples import Array, array, spread, weighted
from codedag.backends.windows import whole_numbers
from codedag.ir.verdict import No, Verdict

SCIPY = "scipy>=1.11"
WINDOWS = frozenset({"hann", "hamming", "blackman", "bartlett", "boxcar", "nuttall", "flattop", "triang", "cosine"})
MORE_WINDOWS = WINDOWS | {"bohman", "barthann", "blackmanharris", "parzen", "lanczos", "tukey", "exponential"}
_SHAPED = ("kaiser", "gaussian", "tukey")  # by name and one number; a number alone is that of a Kaiser window
LONGEST_WINDOW = 65_536
_WHOLE = (np.int64, np.int32)
_memory = Remembered()


@substitutes("scipy.signal.medfilt2d", into="cv2", gives=EXACT, needs=cv2_.CV2, source_needs=SCIPY)
def medfilt2d(input: Any, kernel_size: Any = 3) -> Array:  # noqa: A002
    """The median of a square window around each pixel, zeros beyond the edge."""
    return cv2_.median_filter.run(input, _side(kernel_size), mode="constant")  # type: ignore[no-any-return]


@substitutes("scipy.signal.medfilt", into="cv2", gives=EXACT, needs=cv2_.CV2, source_needs=SCIPY)
def medfilt(volume: Any, kernel_size: Any = None) -> Array:
    """The median of a square window around each pixel, zeros beyond the edge."""
    return cv2_.median_filter.run(volume, _side(kernel_size), mode="constant")  # type: ignore[no-any-return]


@medfilt2d.guard
def _(call: Any) -> Verdict:
    """Plain two-dimensional images of bytes or floats, an odd square window; otherwise as
    scipy.ndimage.median_filter.
    """
    return _median_verdict(call.input, call.kernel_size)


@medfilt.guard
def _(call: Any) -> Verdict:
    """Plain two-dimensional images of bytes or floats, an odd square window; otherwise as
    scipy.ndimage.median_filter.
    """
    return _median_verdict(call.volume, call.kernel_size)


def _median_verdict(image: Any, size: Any) -> Verdict:
    if type(image) is not np.ndarray or image.dtype.char not in "Bfd" or image.ndim != 2:
        return No("not a plain image of bytes or floats")
    side = _side(size)
    if not side or side > min(image.shape):  # scipy warns of a window that is larger
        return No("not an odd square window within the image")
    return cv2_.median_filter.accepts((image, side), {"mode": "constant"})


def _side(size: Any) -> int:
    """The side of an odd square window, or 0."""
    sides = (3, 3) if size is None else whole_numbers(size, 2)
    return sides[0] if sides is not None and sides[0] == sides[1] and sides[0] > 0 and sides[0] & 1 else 0


@medfilt2d.calls
def _(rng: random.Random) -> Call:
    return _median_call(rng, ("input", "kernel_size"))


@medfilt.calls
def _(rng: random.Random) -> Call:
    return _median_call(rng, ("volume", "kernel_size"))


def _median_call(rng: random.Random, names: tuple[str, str]) -> Call:
    shape = weighted(rng, ((rng.randint(70, 130), rng.randint(70, 130)),), ((3, 3), (5000,), (40, 40, 3)))
    dtype = weighted(rng, ("uint8", "uint8", "float32"), ("float64", "int16", "int64"))
    values: dict[str, Any] = {names[0]: array(rng, shape, dtype)}
    maybe(rng, values, 0.7, names[1], (3, 3, 5, 5, [3, 3], (5, 5), None, (3, 5), 4, 7))
    return spread(rng, names, values)


@substitutes("scipy.signal.get_window", into="numpy", gives=EXACT, needs="numpy>=2.0", source_needs=SCIPY)
def get_window(window: Any, Nx: Any, fftbins: Any = True, *, xp: Any = None, device: Any = None) -> Array:  # noqa: N803
    """A fresh copy of a window that scipy made before with the same arguments."""
    key = exact_key(window, Nx, fftbins)
    return _memory.copy(key, lambda: get_window.original()(window, Nx, fftbins))


@get_window.guard
def _(call: Any) -> Verdict:
    """Windows by name, or of Kaiser, Gauss and Tukey by name and number, of 1 to 65536 samples."""
    if call.xp is not None or call.device is not None or type(call.fftbins) is not bool:
        return No("xp, device or an odd fftbins is given")
    return answer(window_length(call.Nx) if is_named(call.window) else "not a window by name")


def is_named(window: Any) -> bool:
    """Whether a window is given by its name, or by a name and a plain positive number."""
    if type(window) is str:
        return window in MORE_WINDOWS
    if type(window) is tuple and len(window) == 2 and type(window[0]) is str and window[0] in _SHAPED:
        return is_number(window[1]) and 0 < window[1] < (1 if window[0] == "tukey" else 1000)
    return type(window) is float and 0 < window < 1000


def window_length(value: Any) -> str:
    """The reason why a value is not the length of a window that is worth remembering."""
    whole = type(value) is int or type(value) in _WHOLE
    return "" if whole and 1 <= value <= LONGEST_WINDOW else "not a plain length"


@get_window.calls
def _(rng: random.Random) -> Call:
    values = window_values(rng)
    return spread(rng, ("window", "Nx", "fftbins"), values)


def window_values(rng: random.Random) -> dict[str, Any]:
    """Random arguments of a window, mostly by name."""
    named = (
        *sorted(MORE_WINDOWS),
        ("kaiser", 8.6),
        4.0,
        ("gaussian", 7),
        ("tukey", 0.3),
        ("kaiser", rng.random() * 20),
    )
    odd = ("bogus", None, ("kaiser", -2.0), ("tukey", 3), ("gaussian",), 7, ("gaussian", 0))
    values = {
        "window": weighted(rng, named, odd),
        "Nx": weighted(rng, (1, 2, 3, 4, 400, 512, 2048, 20_001, np.int64(513), np.int32(64)), (0, -1, 2.5)),
    }
    maybe(rng, values, 0.5, "fftbins", (True, False))
    return values
