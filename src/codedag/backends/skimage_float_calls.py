"""Random calls of scikit-image functions over floats: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_LAYOUTS = ("plain",) * 6 + ("readonly", "cut", "reversed", "fortran", "strided")
_SHAPES: tuple[tuple[int, ...], ...] = ((60, 47), (33, 90), (64, 64), (40, 31, 3), (52, 30, 3))


def _image(rng: random.Random, shapes: tuple[tuple[int, ...], ...] = _SHAPES) -> Any:
    """Mostly an image of floats between 0 and 1 or of bytes; at times small, odd or no array."""
    if rng.random() < 0.02:
        return rng.choice(([[1.0, 2.0], [3.0, 4.0]], None, 5))
    shape = weighted(rng, shapes, ((0, 5), (3, 4), (1, 1), (1, 3000), (2, 1500), (12, 13, 14, 2)), 0.1)
    dtype = weighted(rng, ("float32", "float64", "uint8", "uint8"), ("int16", "bool", "uint16", "float16"))
    values = array(rng, shape, dtype, rng.choice(_LAYOUTS))
    if values.dtype.kind != "f" or rng.random() < 0.08:
        return values
    with np.errstate(all="ignore"):
        return np.clip(np.nan_to_num(values), 0, 1).astype(values.dtype)


def _options(rng: random.Random, values: dict[str, Any]) -> None:
    maybe(rng, values, 0.3, "order", (None, 1, 1, 0, 3))
    if rng.random() < 0.3:
        values["mode"] = weighted(rng, ("reflect", "edge", "symmetric"), ("constant", "wrap", "bogus"), 0.2)
    maybe(rng, values, 0.2, "clip", (True, False))
    maybe(rng, values, 0.3, "preserve_range", (True, False))
    maybe(rng, values, 0.5, "anti_aliasing", (True, False, None))
    maybe(rng, values, 0.03, "anti_aliasing_sigma", (None, 1.5, -1))


def resize(rng: random.Random) -> Call:
    """A call of transform.resize."""
    values: dict[str, Any] = {"image": _image(rng)}
    both = rng.randint(5, 90), rng.randint(5, 90)
    whole = (*both, 3) if np.ndim(values["image"]) == 3 else both
    values["output_shape"] = weighted(rng, (both, whole, list(both)), ((0, 5), 7, (5.5, 6), (40, 31), (3, 4, 5, 6)))
    _options(rng, values)
    return spread(rng, ("image", "output_shape", "order", "mode"), values)


def rescale(rng: random.Random) -> Call:
    """A call of transform.rescale."""
    values: dict[str, Any] = {"image": _image(rng)}
    values["scale"] = weighted(rng, (0.5, 0.25, 1.3, 2, rng.random() + 0.1), (0, -1, (0.5, 0.4), 1, "a"))
    if np.ndim(values["image"]) == 3:
        maybe(rng, values, 0.9, "channel_axis", (-1, 2, -1, 0))
    _options(rng, values)
    return spread(rng, ("image", "scale", "order", "mode"), values)


def gaussian(rng: random.Random) -> Call:
    """A call of filters.gaussian."""
    values: dict[str, Any] = {"image": _image(rng)}
    if rng.random() < 0.8:
        values["sigma"] = weighted(rng, (1, 2.0, 0.7, rng.random() * 4 + 0.2), (0, -1, "a", (1, 2), [1.0, 2.0, 0]))
    if rng.random() < 0.4:
        values["mode"] = weighted(rng, ("reflect", "nearest", "mirror", "wrap", "constant"), ("bogus", None))
    maybe(rng, values, 0.2, "cval", (0, 0.5, "a"))
    maybe(rng, values, 0.3, "preserve_range", (True, False))
    maybe(rng, values, 0.2, "truncate", (3.0, 4, 2.5))
    if np.ndim(values["image"]) == 3:
        maybe(rng, values, 0.8, "channel_axis", (-1, 2, None, 9))
    return spread(rng, ("image", "sigma"), values)


def colours(rng: random.Random, name: str) -> Call:
    """A call of a function that changes the colour space."""
    values: dict[str, Any] = {name: _image(rng, ((40, 31, 3), (52, 30, 3), (2000, 3), (1, 700, 3)))}
    maybe(rng, values, 0.1, "channel_axis", (-1, 2, 0, 9))
    return spread(rng, (name,), values)
