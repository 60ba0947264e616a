"""Random calls of the librosa functions that work frame by frame: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import librosa_calls
from codedag.backends.librosa_calls import option
from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import spread, weighted


def stft(rng: random.Random) -> Call:
    """A call of stft."""
    values: dict[str, Any] = {"y": librosa_calls._sound(rng)}
    option(rng, values, 0.6, "n_fft", (1024, 2048, 512, 400, 256), (8000, 0, 401))
    option(rng, values, 0.5, "hop_length", (256, 512, 160, 100, None), (0,))
    maybe(rng, values, 0.05, "win_length", (None, 400))
    option(rng, values, 0.2, "window", ("hann", "hamming", "blackman"), ("bogus",))
    maybe(rng, values, 0.05, "center", (True, False))
    option(rng, values, 0.1, "pad_mode", ("constant",), ("reflect", "wrap"))
    maybe(rng, values, 0.03, "dtype", (None, np.complex128))
    return spread(rng, ("y",), values)


def mfcc(rng: random.Random) -> Call:
    """A call of feature.mfcc."""
    call = librosa_calls.spectrogram(rng)
    values = {name: value for name, value in call.kwargs.items() if name not in ("norm", "power", "dtype")}
    option(rng, values, 0.6, "n_mfcc", (13, 20, 40, 1), (2.5,))
    option(rng, values, 0.1, "dct_type", (2,), (3, 7))
    option(rng, values, 0.2, "norm", ("ortho", None), ("bogus",))
    option(rng, values, 0.2, "lifter", (0, 22), (-1,))
    return Call((), values)


def crossings(rng: random.Random) -> Call:
    """A call of feature.zero_crossing_rate."""
    sound = librosa_calls._sound(rng)
    if rng.random() < 0.3 and isinstance(sound, np.ndarray) and sound.dtype.kind == "f":
        sound = np.where(np.abs(sound) < 0.3, sound.dtype.type(rng.choice((0.0, -0.0, 1e-11, -1e-11))), sound)
    values: dict[str, Any] = {"y": sound}
    maybe(rng, values, 0.5, "frame_length", (1024, 2048, 400, 401, 9999, 0))
    maybe(rng, values, 0.5, "hop_length", (256, 512, 160, 0))
    maybe(rng, values, 0.2, "center", (True, False))
    maybe(rng, values, 0.04, "pad", (True, False))
    return spread(rng, ("y",), values)


def chroma(rng: random.Random) -> Call:
    """A call of filters.chroma."""
    values: dict[str, Any] = {
        "sr": weighted(rng, (22050, 16000, 44100.0), (0, "a", -5)),
        "n_fft": weighted(rng, (512, 1024, 2048), (0, 2.5)),
    }
    maybe(rng, values, 0.3, "n_chroma", (12, 24, 36, 0))
    maybe(rng, values, 0.3, "tuning", (0.0, 0.25, -0.1))
    maybe(rng, values, 0.1, "norm", (2, 1, None, np.inf))
    maybe(rng, values, 0.1, "base_c", (True, False))
    maybe(rng, values, 0.1, "octwidth", (2, 1.5, None))
    maybe(rng, values, 0.1, "dtype", (np.float32, np.float64))
    return Call((), values)
