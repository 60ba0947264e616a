"""Random calls of the albumentations functions with substitutes: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_LAYOUTS = ("plain",) * 8 + ("readonly", "cut", "fortran", "strided", "reversed")


def _image(rng: random.Random, dtypes: tuple[str, ...]) -> Any:
    sides = rng.randint(8, 24), rng.randint(8, 24)
    shapes: tuple[tuple[int, ...], ...] = ((*sides, 3), (*sides, 3), sides, (*sides, 1), (*sides, 4), (*sides, 2))
    shape = weighted(rng, shapes, ((1, 1, 3), (0, 5), (*sides, 5), (2, 50, 3), (60, 3)), 0.08)
    return array(rng, shape, weighted(rng, dtypes, ("uint16", "float64", "int32"), 0.05), rng.choice(_LAYOUTS))


def glass(rng: random.Random) -> Call:
    """A call of glass_blur, mostly in mode exact."""
    image, reach = _image(rng, ("uint8", "uint8", "float32")), rng.randint(1, 4)
    source = np.random.default_rng(rng.getrandbits(32))
    iterations = rng.randint(1, 3)
    moves = source.integers(-reach, reach + (rng.random() < 0.05), (rng.randint(5, 600), iterations, 2))
    values: dict[str, Any] = {"img": image, "sigma": weighted(rng, (0.7, 1.5, 0.3, 2), (0, -1.0, None), 0.05)}
    values |= {"max_delta": weighted(rng, (reach,), (0, 40, 2.0), 0.05), "iterations": iterations}
    values |= {"dxy": weighted(rng, (moves, moves.astype(np.int32)), (moves[:0], moves[:, :0]), 0.04)}
    values["mode"] = weighted(rng, ("exact",), ("fast", "slow"), 0.12)
    return spread(rng, ("img", "sigma", "max_delta", "iterations", "dxy", "mode"), values)


def slic(rng: random.Random) -> Call:
    """A call of slic."""
    values: dict[str, Any] = {"image": _image(rng, ("uint8",) * 12 + ("float32",))}
    values["n_segments"] = weighted(rng, (1, 3, 10, 20, 60), (0, -4, 5000, 2.5), 0.08)
    maybe(rng, values, 0.4, "compactness", (10, 0.1, 30.0, 1, 5.5, 10.0))
    maybe(rng, values, 0.4, "max_iterations", (1, 2, 5, 10, 3))
    return spread(rng, ("image", "n_segments", "compactness", "max_iterations"), values)
