"""Substitutions from librosa within rounding: spectrograms in the precision of the sound."""

from __future__ import annotations

import inspect
import random
from typing import Any

import numpy as np

from codedag.backends import librosa_calls
from codedag.backends.frames import window_of
from codedag.backends.librosa_ import LIBROSA, Array, _bank, melspectrogram
from codedag.backends.librosa_frames_ import SCIPY
from codedag.backends.matrix_parts import rounded
from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import ULP, Call, substitutes
from codedag.ir.verdict import No, Verdict

CHUNK = 32  # frames that are transformed at once: they stay in the processor's cache
_NAMES = tuple(inspect.signature(melspectrogram.run).parameters)


@substitutes("librosa.feature.melspectrogram", into="scipy.fft", gives=ULP, needs=SCIPY, source_needs=LIBROSA)
def melspectrogram_single(
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
    """The spectrogram in the precision of the sound: squares instead of roots that are squared, a remembered bank."""
    strength = _strength(y, n_fft, hop_length, window_of(window, n_fft).astype(y.dtype))
    if power == 1:
        np.sqrt(strength, out=strength)
    bank = _bank(sr, n_fft, n_mels, fmin, fmax, htk, norm, dtype)
    return rounded(strength, bank)


def _strength(sound: Array, length: int, step: int, window: Array) -> Array:
    """The squares of the spectra of centred frames, one frame after the other."""
    import scipy.fft

    frames = np.lib.stride_tricks.sliding_window_view(np.pad(sound, length // 2), length)[::step]
    result = np.empty((len(frames), 1 + length // 2), sound.dtype)
    for first in range(0, len(frames), CHUNK):
        parts = scipy.fft.rfft(frames[first : first + CHUNK] * window, axis=-1).view(sound.dtype)
        np.square(parts, out=parts)
        np.add(parts[:, 0::2], parts[:, 1::2], out=result[first : first + CHUNK])
    return result


@melspectrogram_single.guard
def _(call: Any) -> Verdict:
    """Sounds in single precision that are neither silent nor near the ends of its range, a bank in it; otherwise as
    the exact substitute.
    """
    verdict = melspectrogram.accepts((), {name: getattr(call, name) for name in _NAMES})
    if not verdict:
        return verdict
    if call.y.dtype != np.float32 or call.dtype is not np.float32 or type(call.power) not in (int, float):
        return No("not single precision")  # nor is what a number of numpy's own makes of it
    loudest = max(float(call.y.max()), -float(call.y.min()))
    return verdict if 1e-6 < loudest < 1e6 else No("silent, or very loud")


@melspectrogram_single.calls
def _(rng: random.Random) -> Call:
    if rng.random() < 0.3:
        return librosa_calls.spectrogram(rng)
    sound = np.random.default_rng(rng.getrandbits(32)).normal(0, rng.choice((0.01, 0.1, 1.0)), rng.randint(4096, 9000))
    values: dict[str, Any] = {"y": sound.astype(np.float32), "n_mels": rng.choice((20, 40, 64))}
    maybe(rng, values, 0.5, "n_fft", (1024, 2048))
    maybe(rng, values, 0.5, "hop_length", (256, 512, 320))
    maybe(rng, values, 0.3, "power", (1.0, 2.0))
    maybe(rng, values, 0.3, "window", ("hann", "hamming"))
    maybe(rng, values, 0.3, "sr", (16000, 32000))
    return Call((), values)
