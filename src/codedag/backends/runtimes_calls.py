"""Random calls of the functions of numpy that other runtimes can do: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.registry import Call
from codedag.backends.samples import array, weighted

_NAMES = {"f": "float32", "d": "float64", "l": "int64", "i": "int32", "B": "uint8"}
_LAYOUTS = ("plain",) * 14 + ("readonly", "fortran", "strided", "cut")
_SHAPES = ((40, 30), (3000,), (8, 15, 10), (33, 47, 3), (1, 2048))


def _shape(rng: random.Random) -> tuple[int, ...]:
    return weighted(rng, _SHAPES, ((0,), (3,), (2, 0, 4)), 0.05)  # type: ignore[no-any-return]


def _values(rng: random.Random, shape: tuple[int, ...], codes: str) -> Any:
    """Mostly moderate elements of both signs; at times extremes, other dtypes and layouts."""
    dtype = weighted(rng, tuple(_NAMES[code] for code in codes), ("complex64", "bool", "float16"), 0.04)
    if not dtype.startswith("float") or rng.random() < 0.2:
        return array(rng, shape, dtype, rng.choice(_LAYOUTS))
    source = np.random.default_rng(rng.getrandbits(32))
    return (source.standard_normal(shape) * rng.choice((1.0, 255.0, 1e-3))).astype(dtype)


def two(rng: random.Random, codes: str, chooses: bool = False) -> Call:
    """A call with an array and another operand: of its shape, of its last axis, or a number."""
    shape = _shape(rng)
    one = _values(rng, shape, codes)
    same = [one.astype(one.dtype)[::1].copy() if rng.random() < 0.1 else _like(rng, one, shape)]
    row = _like(rng, one, shape[-1:])
    numbers: list[Any] = [2, 0.5, 255.0, -3, 1.0 / 3.0]
    usual = [rng.choice(numbers)] if one.dtype.kind == "f" and rng.random() < (0.7 if chooses else 0.4) else same
    other = weighted(rng, (*usual, *usual, row), (0, 0.0, None, "a", one[:1], 1e300, 2**70), 0.1)
    return Call((one, other) if rng.random() < 0.97 else (one,))


def _like(rng: random.Random, one: Any, shape: tuple[int, ...]) -> Any:
    if one.dtype.kind == "f" and rng.random() < 0.8:
        source = np.random.default_rng(rng.getrandbits(32))
        return (source.standard_normal(shape) + 0.01).astype(one.dtype)
    return array(rng, shape, str(one.dtype), rng.choice(_LAYOUTS))


def one(rng: random.Random, codes: str) -> Call:
    """A call with one array, mostly of positive elements."""
    made = _values(rng, _shape(rng), codes)
    if made.dtype.kind == "f" and rng.random() < 0.7:
        with np.errstate(all="ignore"):
            made = np.abs(made) + made.dtype.type(0.125)
    return Call((weighted(rng, (made,), (None, "a"), 0.03),))


def product(rng: random.Random, codes: str) -> Call:
    """A call with two matrices that mostly fit."""
    rows, inner, columns = (rng.choice((33, 48, 64, 100)) for _ in range(3))
    one, other = _values(rng, (rows, inner), codes), _values(rng, (inner, columns), codes)
    if rng.random() < 0.8:
        other = other.astype(one.dtype)
    return Call((one, weighted(rng, (other,), (other[:-1], other[:, 0], None, 3.0), 0.1)))


def reduced(rng: random.Random, codes: str) -> Call:
    """A call of a reduction along an axis."""
    shape = weighted(rng, ((40, 30), (8, 15, 10), (33, 47, 3), (64, 64)), ((3000,), (0, 4), (2, 2)), 0.08)
    values = _values(rng, shape, codes)
    axis = weighted(rng, (0, -1, 1), (None, 9, "a", (0, 1)), 0.08)
    return Call((values,), {"axis": axis}) if rng.random() < 0.7 else Call((values, axis))
