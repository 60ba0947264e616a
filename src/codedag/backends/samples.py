"""Random arguments for proofs: arrays of many kinds and layouts, calls that mix positions and keywords."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends.registry import Call

Array = npt.NDArray[Any]
LAYOUTS = ("plain", "plain", "plain", "fortran", "reversed", "strided", "cut", "readonly", "broadcast")


def array(rng: random.Random, shape: tuple[int, ...], dtype: str, layout: str = "") -> Array:
    """A random array with ties, extremes and, for floats, now and then values that have no order."""
    source = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
    return _laid_out(_values(rng, source, shape, np.dtype(dtype)), layout or rng.choice(LAYOUTS))


def _values(rng: random.Random, source: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "b":
        return source.random(shape) < rng.choice((0.02, 0.3, 0.7, 0.98))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = rng.choice(((int(info.min), int(info.max)), (0, 3), (0, 100), (int(info.max) - 2, int(info.max))))
        return source.integers(low, high, shape, dtype=dtype, endpoint=True)
    with np.errstate(all="ignore"):
        return _floats(rng, source, shape).astype(dtype)


def _floats(rng: random.Random, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
    spread = rng.choice((1.0, 255.0, 1e-41, 1e30))
    values = (source.random(shape) - rng.choice((0.0, 0.5))) * spread
    if rng.random() < 0.4:
        values = np.floor(values * 4 / spread) + 0.0  # ties, and no negative zero
    special = rng.choice((0.0, np.inf, -np.inf, 1e-45, 0.0, 0.0, np.nan, -np.nan, -0.0))
    if values.size and rng.random() < 0.3:
        values[source.random(shape) < 0.05] = special
    return values


def _laid_out(values: Array, layout: str) -> Array:
    """The values in another layout of memory; `broadcast` repeats the first row."""
    if layout == "fortran":
        return np.asfortranarray(values)
    if layout == "reversed":
        return values[::-1].copy()[::-1] if values.ndim else values
    if layout == "strided":
        return np.repeat(values, 2, axis=-1)[..., ::2] if values.ndim else values
    if layout == "cut":
        return np.pad(values, 1)[(slice(1, -1),) * values.ndim]
    if layout == "broadcast" and values.ndim and len(values):
        return np.broadcast_to(values[:1], values.shape)
    values.flags.writeable = layout != "readonly"
    return values


def spread(rng: random.Random, names: Sequence[str], values: Mapping[str, Any]) -> Call:
    """A call with the values, of which a random number of leading ones are given by position."""
    leading = 0
    while leading < len(names) and names[leading] in values:
        leading += 1
    cut = rng.randint(0, leading)
    rest = [name for name in values if name not in names[:cut]]
    rng.shuffle(rest)
    return Call(tuple(values[name] for name in names[:cut]), {name: values[name] for name in rest})


def weighted(rng: random.Random, usual: Sequence[Any], rare: Sequence[Any] = (), share: float = 0.1) -> Any:
    """One of the usual values, or at times a rare one."""
    return rng.choice(rare) if rare and rng.random() < share else rng.choice(usual)
