"""Random calls of the librosa functions with substitutes: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted
from codedag.backends.signal_ import window_values


def bank(rng: random.Random, values: dict[str, Any]) -> dict[str, Any]:
    """Random arguments of a bank of mel filters, besides the given ones."""
    maybe(rng, values, 0.4, "sr", (22050, 16000, 44100, 16000.0, 8000, -1, "a"))
    maybe(rng, values, 0.6, "n_mels", (20, 40, 64, 80, 1, 512, 0, 2.5))
    maybe(rng, values, 0.2, "fmin", (0.0, 20, 300.5, -5))
    maybe(rng, values, 0.2, "fmax", (None, 4000, 3999.5, 1e9))
    maybe(rng, values, 0.2, "htk", (True, False))
    maybe(rng, values, 0.2, "norm", (None, "slaney", 1, "bogus", np.inf))
    maybe(rng, values, 0.1, "dtype", (np.float32, np.float64, "float32"))
    return values


def window(rng: random.Random) -> Call:
    """A call of filters.get_window."""
    return spread(rng, ("window", "Nx"), window_values(rng))


def _sound(rng: random.Random) -> Any:
    if rng.random() < 0.03:
        return rng.choice(([0.1, 0.2], None, np.zeros(0, np.float32), np.full(5000, np.nan)))
    shape = weighted(rng, ((rng.randint(4000, 9000),),), ((2, 5000), (700,), (2,), (1,)), 0.05)
    source = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
    dtype = weighted(rng, ("float32", "float32", "float64"), ("float16", "int16"), 0.04)
    sound = source.standard_normal(shape).astype(dtype)
    return sound[::-1] if rng.random() < 0.03 else sound


def option(
    rng: random.Random, values: dict[str, Any], share: float, name: str, usual: tuple[Any, ...], odd: tuple[Any, ...]
) -> None:
    """Adds an option at times: mostly one of the usual values, now and then an odd one."""
    if rng.random() < share:
        values[name] = weighted(rng, usual, odd, 0.07)


def spectrogram(rng: random.Random) -> Call:
    """A call of feature.melspectrogram, mostly with few filters."""
    values: dict[str, Any] = {"y": _sound(rng), "n_mels": 40}
    option(rng, values, 0.5, "n_fft", (1024, 2048, 512), (8000, 0))
    option(rng, values, 0.5, "hop_length", (256, 512, 100), (0,))
    maybe(rng, values, 0.05, "win_length", (None, 400))
    option(rng, values, 0.2, "window", ("hann", "hamming"), ("bogus",))
    maybe(rng, values, 0.05, "center", (True, False))
    option(rng, values, 0.2, "power", (1.0, 2.0, 2), (1.5,))
    return Call((), bank(rng, values) if rng.random() < 0.3 else values)


def emphasis(rng: random.Random) -> Call:
    """A call of effects.preemphasis."""
    sound = _sound(rng) if rng.random() < 0.8 else array(rng, (rng.randint(2048, 5000),), "float32")
    values: dict[str, Any] = {"y": sound}
    maybe(rng, values, 0.5, "coef", (0.97, 0.95, 0.5, rng.random(), -1.0, "a"))
    maybe(rng, values, 0.05, "zi", (None, [0.0]))
    maybe(rng, values, 0.05, "return_zf", (True, False))
    return spread(rng, ("y",), values)
