"""Random calls of the albucore functions with substitutes: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_LAYOUTS = ("plain",) * 12 + ("readonly", "cut", "fortran", "strided")


def _image(rng: random.Random) -> Any:
    sides = rng.choice((64, 70, 128)), rng.choice((64, 99))
    shapes: tuple[tuple[int, ...], ...] = ((*sides, 3),) * 12 + (sides, (*sides, 4))
    shape = weighted(rng, shapes, ((3, 4, 3), (*sides, 1), (*sides, 5), (1, 1, 3)), 0.12)
    return array(rng, shape, weighted(rng, ("uint8",), ("float32", "uint16")), rng.choice(_LAYOUTS))


def normalize(rng: random.Random) -> Call:
    """A call of normalize."""
    image = _image(rng)
    channels = image.shape[2] if image.ndim == 3 else 3
    means = (np.array([rng.random() * 200 for _ in range(channels)], np.float32), np.zeros(channels, np.float32))
    odd: tuple[Any, ...] = (0.5, np.float64(0.5), np.ones(channels), [0.5] * channels, np.ones(7, np.float32))
    values = {"img": image, "mean": weighted(rng, means, odd, 0.06)}
    values["denominator"] = weighted(rng, tuple(1 / (1 + mean) for mean in means), odd, 0.06)
    return spread(rng, ("img", "mean", "denominator"), values)


def to_float(rng: random.Random) -> Call:
    """A call of to_float."""
    values: dict[str, Any] = {"img": _image(rng)}
    maybe(rng, values, 0.4, "max_value", (None, 255, 255.0, 100.5, 0, "a"))
    return spread(rng, ("img", "max_value"), values)


def from_float(rng: random.Random) -> Call:
    """A call of from_float, mostly with floats between 0 and 1."""
    image = _image(rng)
    if rng.random() < 0.9:
        layout = "plain" if rng.random() < 0.8 else "strided"
        image = array(rng, image.shape, "float32", layout)
        if rng.random() < 0.8:
            with np.errstate(all="ignore"):
                image = (np.nan_to_num(image) % np.float32(1.2) - np.float32(0.1)).astype(np.float32)
    kinds = (np.uint8, np.dtype("uint8"))
    values = {"img": image, "target_dtype": weighted(rng, kinds, (np.uint16, np.float32, "uint8", np.float64), 0.08)}
    maybe(rng, values, 0.3, "max_value", (None, 255, 255.0, 100.5, 1, -3, "a"))
    return spread(rng, ("img", "target_dtype", "max_value"), values)
