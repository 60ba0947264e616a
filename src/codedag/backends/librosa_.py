"""Substitutions from librosa: filter banks and windows that are remembered, and what is built from them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import librosa_calls
from codedag.backends.frames import other_library, spectrum, window_of
from codedag.backends.lines import value_range
from codedag.backends.matrix_parts import product
from codedag.backends.reasons import among, answer, is_number
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.backends.remembered import Remembered, exact_key
from codedag.backends.signal_ import WINDOWS, is_named, window_length
from codedag.ir.verdict import No, Verdict

Array = np.ndarray[Any, Any]
LIBROSA = "librosa>=0.11,<0.12"  # copies of its formulas; another release may change them
NUMPY = "numpy>=2.0"
LEAST = 2048  # samples
LOUDEST = 1e30  # beyond that products overflow, which numpy warns about here and there in other words
LONGEST = 1 << 20  # samples: the bank is a smaller and smaller part of the work, the gain is still 1.2 there
_memory = Remembered()
_harmless: set[tuple[Any, ...]] = set()  # banks known to have no empty filter, about which librosa warns each time
MOST_KNOWN = 4096


# Filter banks.


@substitutes("librosa.filters.mel", into="numpy", gives=EXACT, needs=NUMPY, source_needs=LIBROSA)
def mel(
    *,
    sr: Any,
    n_fft: Any,
    n_mels: Any = 128,
    fmin: Any = 0.0,
    fmax: Any = None,
    htk: Any = False,
    norm: Any = "slaney",
    dtype: Any = np.float32,
) -> Array:
    """A fresh copy of a bank that librosa made before with the same arguments."""
    return _bank(sr, n_fft, n_mels, fmin, fmax, htk, norm, dtype).copy()


@mel.guard
def _(call: Any) -> Verdict:
    """Plain numbers in the usual ranges, norm slaney or None, and no filter that may be empty."""
    return answer(_bank_reason(call))


@mel.calls
def _(rng: random.Random) -> Call:
    return Call((), librosa_calls.bank(rng, {"sr": 22050, "n_fft": 2048}))


def _bank(sr: Any, n_fft: Any, n_mels: Any, fmin: Any, fmax: Any, htk: Any, norm: Any, dtype: Any) -> Array:
    """The remembered bank, which nobody may write."""
    options = {"sr": sr, "n_fft": n_fft, "n_mels": n_mels, "fmin": fmin, "fmax": fmax, "htk": htk, "norm": norm}
    make = lambda: mel.original()(**options, dtype=dtype)  # noqa: E731
    return _memory.shared(exact_key(*options.values(), np.dtype(dtype).str), make)


def _bank_reason(call: Any) -> str:
    plain = type(call.n_fft) is int and type(call.n_mels) is int and type(call.htk) is bool
    if not plain or not (is_number(call.sr) and is_number(call.fmin) and (call.fmax is None or is_number(call.fmax))):
        return "not plain numbers"
    if not among(call.norm, None, "slaney") or not is_float(call.dtype):
        return "another norm or dtype"
    return _sizes(call) or _no_empty_filter(call)


def is_float(dtype: Any) -> bool:
    """Whether that is single or double precision, by its class or its dtype."""
    return isinstance(dtype, type | np.dtype) and dtype in (np.float32, np.float64)


def _sizes(call: Any) -> str:
    top = call.sr / 2 if call.fmax is None else call.fmax
    if not (64 <= call.n_fft <= 16_384 and 1 <= call.n_mels <= 512 and 1000 <= call.sr <= 1e6):
        return "sizes out of the usual"
    return "" if 0 <= call.fmin < top <= call.sr / 2 else "frequencies out of range"


def _no_empty_filter(call: Any) -> str:
    """Filters wider than the step between two bins cannot be empty; librosa warns of empty ones each time."""
    key = (call.sr, call.n_fft, call.n_mels, call.fmin, call.fmax, call.htk)
    if key in _harmless:
        return ""
    import librosa

    top = call.sr / 2 if call.fmax is None else call.fmax
    edges = librosa.mel_frequencies(call.n_mels + 2, fmin=call.fmin, fmax=top, htk=call.htk)
    if not float((edges[2:] - edges[:-2]).min()) > 1.01 * call.sr / call.n_fft:
        return "a filter that may be empty"
    if len(_harmless) < MOST_KNOWN:
        _harmless.add(key)
    return ""


@substitutes("librosa.filters.get_window", into="numpy", gives=EXACT, needs=NUMPY, source_needs=LIBROSA)
def get_window(window: Any, Nx: Any, *, fftbins: Any = True) -> Array:  # noqa: N803
    """A fresh copy of a window that librosa made before with the same arguments."""
    key = exact_key("window", window, Nx, fftbins)
    return _memory.copy(key, lambda: get_window.original()(window, Nx, fftbins=fftbins))


@get_window.guard
def _(call: Any) -> Verdict:
    """Windows by name, or of Kaiser, Gauss and Tukey by name and number, of 1 to 65536 samples."""
    if not is_named(call.window) or type(call.fftbins) is not bool:
        return No("not a window by name")
    return answer(window_length(call.Nx))


@get_window.calls
def _(rng: random.Random) -> Call:
    return librosa_calls.window(rng)


# What is built from them.


@substitutes("librosa.feature.melspectrogram", into="numpy", gives=EXACT, needs=NUMPY, source_needs=LIBROSA)
def melspectrogram(
    *,
    y: Any = None,
    sr: Any = 22050,
    S: Any = None,  # noqa: N803
    n_fft: Any = 2048,
    hop_length: Any = 512,
    win_length: Any = None,
    window: Any = "hann",
    center: Any = True,
    pad_mode: Any = "constant",
    power: Any = 2.0,
    n_mels: Any = 128,
    fmin: Any = 0.0,
    fmax: Any = None,
    htk: Any = False,
    norm: Any = "slaney",
    dtype: Any = np.float32,
) -> Array:
    """The spectrogram, and its product with a remembered bank."""
    strength = np.abs(spectrum(y, n_fft, hop_length, window_of(window, n_fft))) ** power
    bank = _bank(sr, n_fft, n_mels, fmin, fmax, htk, norm, dtype)
    return product(strength, bank)


@melspectrogram.guard
def _(call: Any) -> Verdict:
    """One channel of 2048 to 2**20 finite samples, whole frames, a window by name; the bank as filters.mel."""
    return answer(_sound(call.y) or _frames(call) or _bank_reason(call) or other_library())


@melspectrogram.calls
def _(rng: random.Random) -> Call:
    return librosa_calls.spectrogram(rng)


def _sound(value: Any) -> str:
    if type(value) is not np.ndarray or value.dtype.char not in "fd" or value.ndim != 1:
        return "not one plain channel of floats"
    if value.size < LEAST or not value.flags.c_contiguous:
        return "too short to gain, or not in order"
    low, high = value_range(value)
    return "" if low > -LOUDEST and high < LOUDEST else "samples that are huge or not finite"


def _frames(call: Any) -> str:
    whole = call.S is None and call.win_length is None and call.center is True
    if not whole or not among(call.pad_mode, "constant"):
        return "a spectrogram or odd frames are given"
    if call.y.size > LONGEST:
        return "too long a sound to gain"
    if type(call.n_fft) is not int or not 64 <= call.n_fft <= call.y.size or call.n_fft & 1:
        return "frames longer than the sound, or odd"
    if type(call.hop_length) is not int or call.hop_length < 1 or call.power not in (1.0, 2.0):
        return "an odd step or power"
    return "" if type(call.window) is str and call.window in WINDOWS else "not a window by name"


@substitutes("librosa.effects.preemphasis", into="numpy", gives=EXACT, needs=NUMPY, source_needs=LIBROSA)
def preemphasis(y: Any, *, coef: Any = 0.97, zi: Any = None, return_zf: Any = False) -> Array:
    """Each sample less a part of the one before it, in the dtype of the sound."""
    result = np.empty_like(y)
    np.multiply(y[:-1], np.asarray(-coef, y.dtype), out=result[1:])
    np.add(result[1:], y[1:], out=result[1:])
    result[0] = y[0] + (2 * y[0] - y[1])
    np.add(result, result.dtype.type(0), out=result)  # scipy sums up from zero: no result is a negative zero
    return result[:]  # type: ignore[no-any-return]  # a view, as scipy's result is


@preemphasis.guard
def _(call: Any) -> Verdict:
    """One channel of at least 2048 finite samples, no initial or final state."""
    plain = call.zi is None and call.return_zf is False and is_number(call.coef) and 0 < call.coef < 10
    return answer(_sound(call.y) or ("" if plain else "a state is given, or an odd coefficient"))


@preemphasis.calls
def _(rng: random.Random) -> Call:
    return librosa_calls.emphasis(rng)
