"""Random products of a bank of filters and a spectrogram."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.registry import Call
from codedag.backends.samples import Array, weighted

#: Few of them: for each numpy's product is asked how it sums up, and its threads spin meanwhile.
_SIZES = ((40, 257), (64, 513), (128, 513))
_RARE_SIZES = ((20, 257), (80, 201), (128, 1025), (12, 1025), (8, 2049), (1, 513), (64, 32), (7, 300), (600, 513))
_FRAMES = (94, 188, 313)


def dot(rng: random.Random) -> Call:
    """A call of numpy.dot."""
    bank, strength = _operands(rng)
    return Call((bank, strength), _odd(rng, "out", np.empty((len(bank), np.shape(strength)[-1]), np.float32)))


def matmul(rng: random.Random) -> Call:
    """A call of numpy.matmul."""
    return Call(_operands(rng), _odd(rng, "dtype", np.float64))


def operands(rng: random.Random) -> Call:
    """What stands on both sides of an @."""
    return Call(_operands(rng))


def _odd(rng: random.Random, name: str, value: Any) -> dict[str, Any]:
    return {name: value} if rng.random() < 0.05 else {}


def _operands(rng: random.Random) -> tuple[Array, Any]:
    filters, bins = weighted(rng, _SIZES, _RARE_SIZES, 0.06)
    frames = weighted(rng, _FRAMES, (1, 5, 12, rng.randint(60, 400)), 0.08)
    bank, strength = bank_of(rng, filters, bins), _strength(rng, bins, frames)
    return weighted(
        rng, (bank,), (np.asfortranarray(bank), bank.astype(np.float64), bank + 1, bank[:, ::-1]), 0.1
    ), strength


def bank_of(rng: random.Random, filters: int, bins: int) -> Array:
    """Filters of a few weights each, at rising places; some are empty, some weights are negative."""
    bank = np.zeros((filters, bins), np.float32)
    widest = rng.choice((3, 12, max(4, bins // 8)))
    for number, row in enumerate(bank):
        first, width = min(number * bins // filters, bins - 1), rng.randint(0, widest)
        row[first : first + width] = rng.uniform(-0.1, 1)
    return bank


def _strength(rng: random.Random, bins: int, frames: int) -> Any:
    generator = np.random.default_rng(rng.randrange(1 << 30))
    values = generator.standard_normal((frames, bins), np.float32) ** rng.choice((1, 2, 8))
    if rng.random() < 0.1:
        values[rng.randrange(frames), rng.randrange(bins)] = rng.choice((np.inf, -np.inf, np.nan, 3e38, 1e-44))
    usual, rare = (
        (values.T,),
        (np.ascontiguousarray(values.T), values.T.astype(np.float64), values[:, 0], values, values.T.tolist()),
    )
    return weighted(rng, usual, rare, 0.1)
