"""Substitutions from librosa that work frame by frame: transforms of frames that lie in order, counts by difference."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import librosa_calls, librosa_frames_calls
from codedag.backends.frames import other_library, spectrum, window_of
from codedag.backends.librosa_ import LIBROSA, NUMPY, Array, _sound, is_float, melspectrogram
from codedag.backends.reasons import among, answer, is_number
from codedag.backends.registry import EXACT, ULP, Call, substitutes
from codedag.backends.remembered import Remembered, exact_key
from codedag.backends.signal_ import WINDOWS
from codedag.ir.verdict import No, Verdict

SCIPY = "scipy>=1.11"
LONGEST = 1 << 20  # samples
_chroma = Remembered()


@substitutes("librosa.stft", into="scipy", gives=EXACT, needs=SCIPY, source_needs=LIBROSA)
def stft(
    y: Any,
    *,
    n_fft: Any = 2048,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = "hann",
    center: Any = True,
    dtype: Any = None,
    pad_mode: Any = "constant",
    out: Any = None,
) -> Array:
    """The spectrum of each frame: the same transform in double precision, over frames that lie in order."""
    return spectrum(y, n_fft, hop_length or n_fft // 4, window_of(window, n_fft))


@substitutes("librosa.stft", into="scipy.fft", gives=ULP, needs=SCIPY, source_needs=LIBROSA)
def stft_single(
    y: Any,
    *,
    n_fft: Any = 2048,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = "hann",
    center: Any = True,
    dtype: Any = None,
    pad_mode: Any = "constant",
    out: Any = None,
) -> Array:
    """The spectrum of each frame in the precision of the sound."""
    return spectrum(y, n_fft, hop_length or n_fft // 4, window_of(window, n_fft).astype(y.dtype), in_place=True)


@stft.guard
@stft_single.guard
def _(call: Any) -> Verdict:
    """One channel of 2048 to 2**20 finite samples, centred whole frames no longer than the sound, a window by name."""
    if call.win_length is not None or call.center is not True or call.dtype is not None or call.out is not None:
        return No("odd frames, a dtype or an output is given")
    if not among(call.pad_mode, "constant") or type(call.window) is not str or call.window not in WINDOWS:
        return No("another border, or not a window by name")
    return answer(_sound(call.y) or _frames(call) or other_library())


def _frames(call: Any) -> str:
    if type(call.n_fft) is not int or not 64 <= call.n_fft <= call.y.size or call.y.size > LONGEST or call.n_fft & 1:
        return "frames longer than the sound, or odd"
    plain = call.hop_length is None or (type(call.hop_length) is int and 1 <= call.hop_length <= call.n_fft)
    return "" if plain and call.y.size / (call.hop_length or 64) < LONGEST / 64 else "an odd step"


@stft.calls
@stft_single.calls
def _(rng: random.Random) -> Call:
    return librosa_frames_calls.stft(rng)


@substitutes("librosa.feature.mfcc", into="numpy", gives=EXACT, needs=NUMPY, source_needs=LIBROSA)
def mfcc(
    *,
    y: Any = None,
    sr: Any = 22050,
    S: Any = None,  # noqa: N803
    n_mfcc: Any = 20,
    dct_type: Any = 2,
    norm: Any = "ortho",
    lifter: Any = 0,
    mel_norm: Any = "slaney",
    **kwargs: Any,
) -> Array:
    """Librosa's own coefficients of a spectrogram that comes from a remembered bank."""
    import librosa

    strength = librosa.power_to_db(melspectrogram.run(y=y, sr=sr, norm=mel_norm, **kwargs))
    options = {"n_mfcc": n_mfcc, "dct_type": dct_type, "norm": norm, "lifter": lifter}
    return mfcc.original()(S=strength, **options)  # type: ignore[no-any-return]


@mfcc.guard
def _(call: Any) -> Verdict:
    """Plain numbers of coefficients; the sound and its spectrogram as melspectrogram takes them."""
    known = among(call.dct_type, 2) and among(call.norm, "ortho", None)
    if call.S is not None or type(call.n_mfcc) is not int or not known:
        return No("a spectrogram is given, or an odd transform")
    if not is_number(call.lifter) or call.lifter < 0 or (call.lifter and call.n_mfcc > call.kwargs.get("n_mels", 128)):
        return No("an odd lifter, or one for more coefficients than there are filters")
    return melspectrogram.accepts((), {"y": call.y, "sr": call.sr, "norm": call.mel_norm, **call.kwargs})


@mfcc.calls
def _(rng: random.Random) -> Call:
    return librosa_frames_calls.mfcc(rng)


@substitutes("librosa.feature.zero_crossing_rate", into="numpy", gives=EXACT, needs=NUMPY, source_needs=LIBROSA)
def zero_crossing_rate(
    y: Any, *, frame_length: Any = 2048, hop_length: Any = 512, center: Any = True, **kwargs: Any
) -> Array:
    """How often the sound changes its sign in each frame: counted once, frames as differences of running counts."""
    sound = np.pad(y, frame_length // 2, mode="edge") if center else y
    negative = sound < -kwargs.get("threshold", 1e-10)
    counts = np.zeros(len(sound), np.int64)
    np.cumsum(negative[1:] != negative[:-1], out=counts[1:])
    starts = np.arange(1 + (len(sound) - frame_length) // hop_length) * hop_length
    found = (counts[starts + frame_length - 1] - counts[starts]).astype(np.float64)
    result = np.empty((1, len(found)), order="F")  # the order in which numpy leaves the mean of frames
    return np.true_divide(found[None, :], frame_length, out=result)  # type: ignore[no-any-return]


@zero_crossing_rate.guard
def _(call: Any) -> Verdict:
    """One channel of at least 2048 finite samples, plain frames, no further options."""
    plain = type(call.frame_length) is int and type(call.hop_length) is int and type(call.center) is bool
    if call.kwargs or not plain or call.hop_length < 2 or call.frame_length < 2:
        return No("further options or odd frames")
    reason = _sound(call.y)
    return answer(reason or ("" if call.frame_length <= call.y.size <= LONGEST else "frames longer than the sound"))


@zero_crossing_rate.calls
def _(rng: random.Random) -> Call:
    return librosa_frames_calls.crossings(rng)


@substitutes("librosa.filters.chroma", into="numpy", gives=EXACT, needs=NUMPY, source_needs=LIBROSA)
def chroma(
    *,
    sr: Any,
    n_fft: Any,
    n_chroma: Any = 12,
    tuning: Any = 0.0,
    ctroct: Any = 5.0,
    octwidth: Any = 2,
    norm: Any = 2,
    base_c: Any = True,
    dtype: Any = np.float32,
) -> Array:
    """A fresh copy of a bank that librosa made before with the same arguments."""
    options = {"sr": sr, "n_fft": n_fft, "n_chroma": n_chroma, "tuning": tuning, "ctroct": ctroct}
    options |= {"octwidth": octwidth, "norm": norm, "base_c": base_c}
    key = exact_key(*options.values(), np.dtype(dtype).str)
    return _chroma.copy(key, lambda: chroma.original()(**options, dtype=dtype))


@chroma.guard
def _(call: Any) -> Verdict:
    """Plain numbers in the usual ranges."""
    values = (call.sr, call.n_fft, call.n_chroma, call.tuning, call.ctroct, call.octwidth, call.norm)
    if not all(map(is_number, values)) or type(call.base_c) is not bool or not is_float(call.dtype):
        return No("not plain numbers")
    usual = type(call.n_fft) is int and 64 <= call.n_fft <= 16_384 and type(call.n_chroma) is int
    usual = usual and 3 <= call.n_chroma <= 128 and 1000 <= call.sr <= 1e6 and call.octwidth > 0 and call.norm in (1, 2)
    return answer("" if usual and abs(call.tuning) <= 1 and 0 < call.ctroct < 20 else "out of the usual ranges")


@chroma.calls
def _(rng: random.Random) -> Call:
    return librosa_calls.window(rng) if rng.random() < 0.02 else librosa_frames_calls.chroma(rng)
