"""Random calls of scipy.ndimage functions over floats: usual, odd, and such that raise."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_MODES = ("reflect", "mirror", "nearest", "constant", "wrap", "grid-wrap")
_LAYOUTS = ("plain", "plain", "plain", "fortran", "reversed", "strided", "cut", "readonly")


def _image(rng: random.Random, dtypes: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> Any:
    """Mostly finite numbers in one of the shapes; at times small, empty, of another dtype or no array."""
    if rng.random() < 0.02:
        return rng.choice(([[1.0, 2.0], [3.0, 4.0]], None, 5))
    shape = weighted(rng, shapes, ((0, 5), (3, 4), (1, 1), (1, 3000), (2, 1500), (12, 13, 14)), 0.1)
    values = array(rng, shape, weighted(rng, dtypes, ("int16", "uint16", "float16", "complex64")), rng.choice(_LAYOUTS))
    if values.dtype.kind == "f" and rng.random() < 0.9:
        with np.errstate(all="ignore"):
            return np.clip(np.nan_to_num(values), -1e12, 1e12).astype(values.dtype)
    return values


def gaussian(rng: random.Random, names: tuple[str, ...]) -> Call:
    """A call of a Gaussian filter or of one built from it."""
    shapes: tuple[tuple[int, ...], ...] = ((60, 70), (47, 101), (3000,), (40, 41, 3))
    values: dict[str, Any] = {"input": _image(rng, ("float32", "float64", "uint8"), shapes)}
    if "order" not in names and rng.random() < 0.8 and getattr(values["input"], "dtype", None) == np.uint8:
        values["input"] = values["input"].astype(np.float32)
    ndim = np.ndim(values["input"])
    if "sigma" in names:
        usual: tuple[Any, ...] = (1, 2.0, 0.7, rng.random() * 4 + 0.2)
        tall = () if "axis" in names else ((1.5, 0.5, 0.0)[:ndim], [1.0] * ndim)
        values["sigma"] = weighted(rng, usual + tall, (0, -1, "a", None, (1, 2, 3, 4), np.float64(1.5)))
    if "axis" in names:
        maybe(rng, values, 0.5, "axis", (0, -1, ndim - 1, 0, 9))
    if "order" in names:
        maybe(rng, values, 0.25, "order", (0, 1, 2, 3, 4, -1))
    if "truncate" in names:
        maybe(rng, values, 0.2, "truncate", (3.0, 4, 2.5, -1.0))
    return _borders(rng, values, names)


def _borders(rng: random.Random, values: dict[str, Any], names: tuple[str, ...]) -> Call:
    if rng.random() < 0.5:
        values["mode"] = weighted(rng, _MODES, ("bogus", None, ["reflect", "wrap"]))
    maybe(rng, values, 0.2, "cval", (0.0, 1.5, -2, 3, "a"))
    maybe(rng, values, 0.03, "output", (None, np.float64))
    return spread(rng, names, values)


def weighted_sums(rng: random.Random) -> Call:
    """A call of correlate1d or convolve1d."""
    shapes: tuple[tuple[int, ...], ...] = ((60, 70), (47, 101), (3000,), (40, 41, 3))
    values: dict[str, Any] = {"input": _image(rng, ("float32", "float64"), shapes)}
    usual = ([1, 2, 1], (-1.0, 0.0, 1.0), np.ones(5) / 5, [rng.random() for _ in range(7)], [0.5] * 9, [3.0])
    values["weights"] = weighted(rng, usual, ([1.0, 2.0], [], "a", None, [[1, 2, 3]], [1, 2, 3, 4]), 0.15)
    maybe(rng, values, 0.5, "axis", (0, -1, 0, 9))
    maybe(rng, values, 0.06, "origin", (0, 1, -1))
    return _borders(rng, values, ("input", "weights", "axis", "output", "mode", "cval"))


def _lookup(rng: random.Random, values: dict[str, Any]) -> None:
    maybe(rng, values, 0.75, "order", (0, 1, 1, 1, 3))
    maybe(rng, values, 0.05, "order", (2, 5, 9, "a"))
    if rng.random() < 0.5:
        values["mode"] = weighted(rng, ("constant", "nearest", "mirror", "reflect"), ("wrap", "grid-wrap", "bogus"))
    maybe(rng, values, 0.2, "cval", (0.0, 1.5, 3, -2.0, "a"))
    maybe(rng, values, 0.03, "output", (None, np.float64))
    maybe(rng, values, 0.03, "prefilter", (True, False))


def _picture(rng: random.Random, colour: bool = False) -> Any:
    shapes: tuple[tuple[int, ...], ...] = ((40, 31), (25, 60), (64, 64))
    return _image(rng, ("float32", "float64", "uint8"), (*shapes, (30, 31, 3)) if colour else shapes)


def zoom(rng: random.Random) -> Call:
    """A call of zoom."""
    values: dict[str, Any] = {"input": _picture(rng, colour=True)}
    both = rng.choice((0.5, 2, 1.3, 0.77, rng.random() * 3 + 0.1)), rng.choice((0.5, 2, rng.random() * 3 + 0.1))
    usual = ((*both, 1), [*both, 1]) if np.ndim(values["input"]) == 3 else (both, both[0], list(both))
    values["zoom"] = weighted(rng, usual, (1, 0, -1, "a", (1, 2, 3, 4), 0.001))
    _lookup(rng, values)
    maybe(rng, values, 0.3, "grid_mode", (True, False))
    return spread(rng, ("input", "zoom", "output", "order", "mode", "cval", "prefilter"), values)


def shift(rng: random.Random) -> Call:
    """A call of shift."""
    usual = ((3.5, -2.25), (rng.random() * 20 - 10, rng.random() * 90 - 45), 2, [1, -3], 0.5, (0, 0))
    values: dict[str, Any] = {"input": _picture(rng), "shift": weighted(rng, usual, ("a", None, (1, 2, 3, 4)))}
    _lookup(rng, values)
    return spread(rng, ("input", "shift", "output", "order", "mode", "cval", "prefilter"), values)


def affine(rng: random.Random) -> Call:
    """A call of affine_transform."""
    turn, grow = rng.random() * 7, rng.choice((1.0, 0.5, 1.7))
    cosine, sine = math.cos(turn) * grow, math.sin(turn) * grow
    usual = np.array([[cosine, sine], [-sine, cosine]]), np.array([[1.0, 0.2], [0.0, 0.9]])
    odd: tuple[Any, ...] = (np.eye(3), np.ones(2), [[1.0, 0.0], [0.0, 1.0]], None, np.ones((3, 4)))
    values: dict[str, Any] = {"input": _picture(rng), "matrix": weighted(rng, usual, odd)}
    offsets = ((3.5, -2.25), 2.0, [1, -3], np.array([rng.random() * 40 - 20, 3.0]))
    if rng.random() < 0.6:
        values["offset"] = weighted(rng, offsets, ("a", (1, 2, 3)))
    maybe(rng, values, 0.2, "output_shape", (None, (20, 30), (50, 20), (0, 3), 5))
    _lookup(rng, values)
    return spread(rng, ("input", "matrix", "offset", "output_shape", "output", "order", "mode", "cval"), values)


def rotate(rng: random.Random) -> Call:
    """A call of rotate."""
    angles = (10, 45.5, 90, -30.25, rng.random() * 720 - 360)
    values: dict[str, Any] = {"input": _picture(rng), "angle": weighted(rng, angles, ("a", None))}
    maybe(rng, values, 0.4, "reshape", (True, False))
    maybe(rng, values, 0.1, "axes", ((1, 0), (0, 1), (0, 5), (0,)))
    _lookup(rng, values)
    return spread(rng, ("input", "angle", "axes", "reshape", "output", "order", "mode", "cval"), values)


def distances(rng: random.Random) -> Call:
    """A call of distance_transform_edt."""
    shape = weighted(rng, ((40, 60), (64, 33), (200, 9), (3, 700)), ((4, 4), (0, 3), (2000,), (9, 9, 20), (1, 1)))
    values: dict[str, Any] = {"input": array(rng, shape, weighted(rng, ("bool", "uint8"), ("int64", "float32")))}
    maybe(rng, values, 0.08, "sampling", (None, 2.0, (1, 2)))
    maybe(rng, values, 0.05, "return_indices", (True, False))
    return spread(rng, ("input", "sampling"), values)
