"""Random calls of the scipy.ndimage filters that cv2 stands in for: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.registry import Call
from codedag.backends.samples import Array, array, spread, weighted

FILTER_NAMES = ("input", "size", "footprint", "output", "mode", "cval", "origin")
GREY_NAMES = ("input", "size", "footprint", "structure", "output", "mode", "cval", "origin")
BINARY_NAMES = ("input", "structure", "iterations", "mask", "output", "border_value", "origin", "brute_force")

_DTYPES = ("uint8", "uint8", "uint8", "uint8", "float32", "float32", "uint16", "int16", "bool", "float64")
_RARE_DTYPES = ("int8", "int32", "int64", "uint64", "float16", "complex64", ">u2", "O")
_SIZES = (3, 3, 3, 5, 5, 7, 9, (3, 3), (5, 5), [3, 3], np.int64(3))
_ODD_SIZES = (2, 4, (3, 5), (1, 3), 1, 0, -1, (3,), 3.0, "3", None, 11, 200, (4, 3), True)
_MODES = ("reflect", "mirror", "nearest", "constant", "wrap")
_ODD_MODES = ("grid-wrap", "grid-mirror", "symmetric", None, 3, ["reflect", "wrap"], ("nearest",))
_CVALS = (0.0, 0, 1, 1.0, 200, 0.5)
_ODD_CVALS = (-0.0, -3, 1e300, 70000, float("nan"), float("inf"), "0", None, np.float32(2), 0.1, True)


def filter_call(rng: random.Random, names: tuple[str, ...]) -> Call:
    """A call of a filter with a size or a footprint."""
    values: dict[str, Any] = {"input": _image(rng, weighted(rng, _DTYPES, _RARE_DTYPES))}
    ndim = np.ndim(values["input"])
    values.update(_window(rng, ndim))
    _sometimes(rng, values, 0.6, "mode", lambda: weighted(rng, _MODES, _ODD_MODES))
    _sometimes(rng, values, 0.3, "cval", lambda: weighted(rng, _CVALS, _ODD_CVALS, 0.3))
    _sometimes(rng, values, 0.15, "origin", lambda: rng.choice((0, 1, -1, (0, 1), (-1, 1), 2, 5, 0.5, None)))
    _sometimes(rng, values, 0.04, "output", lambda: rng.choice((np.uint8, "float32", np.zeros((3, 3)), 5)))
    _sometimes(rng, values, 0.05, "axes", lambda: _some_axes(rng))
    if "structure" in names:
        _sometimes(rng, values, 0.05, "structure", lambda: np.ones((3, 3)))
    return _maybe_broken(rng, spread(rng, names, values))


def binary_call(rng: random.Random) -> Call:
    """A call of a binary erosion or dilation."""
    values: dict[str, Any] = {
        "input": _image(rng, weighted(rng, ("bool", "bool", "bool", "uint8"), _DTYPES + _RARE_DTYPES))
    }
    _sometimes(rng, values, 0.6, "structure", lambda: _structure(rng))
    _sometimes(
        rng,
        values,
        0.4,
        "iterations",
        lambda: weighted(rng, (1, 2, 3, 5), (0, -1, 1.0, None, 40, True), 0.15),
    )
    _sometimes(rng, values, 0.3, "border_value", lambda: weighted(rng, (0, 1, True, False), (2, -1, None, 0.5)))
    _sometimes(rng, values, 0.15, "origin", lambda: rng.choice((0, 1, -1, (0, 1), (-1, 1), 5, 0.5)))
    _sometimes(rng, values, 0.05, "brute_force", lambda: rng.choice((True, False, 1)))
    _sometimes(rng, values, 0.04, "mask", lambda: np.ones(np.shape(values["input"]), bool))
    _sometimes(rng, values, 0.04, "output", lambda: np.zeros(np.shape(values["input"]), bool))
    _sometimes(rng, values, 0.05, "axes", lambda: _some_axes(rng))
    return _maybe_broken(rng, spread(rng, BINARY_NAMES, values))


def _sometimes(rng: random.Random, values: dict[str, Any], share: float, name: str, make: Any) -> None:
    if rng.random() < share:
        values[name] = make()


def _image(rng: random.Random, dtype: str) -> Any:
    """Mostly an image of 8 to 180 pixels a side; at times flat, empty, a list or of other dimensions."""
    if dtype == "O":
        return [[1, 2, 3], [4, 5, 6]]
    usual, rare = (128, 200), ((64, 127), (0, 63))
    sides = [rng.randint(*weighted(rng, (usual,), rare, 0.2)) for _ in range(2)]
    shape = weighted(rng, (tuple(sides),), ((sides[0],), (*sides, 3), (*sides, 1), (*sides, 4), (*sides, 2)), 0.2)
    if dtype.startswith(">"):
        return array(rng, shape, dtype[1:]).astype(dtype)
    return array(rng, shape, dtype)


def _window(rng: random.Random, ndim: int) -> dict[str, Any]:
    if rng.random() < 0.2:
        return {"footprint": _structure(rng)}
    if ndim == 3 and rng.random() < 0.6:
        return {"size": rng.choice(((3, 3, 1), (5, 5, 1), [3, 3, 1], (3, 1, 1), (1, 3, 3)))}
    return {"size": weighted(rng, _SIZES, _ODD_SIZES, 0.2)}


def _structure(rng: random.Random) -> Any:
    kind = rng.choice(("full", "full", "cross", "random", "random", "flat", "odd"))
    if kind == "odd":
        return rng.choice(([[0, 1, 0]] * 3, np.zeros((3, 3)), np.ones(3), np.ones((0, 3)), np.ones((3, 3, 1)), 3, None))
    if kind == "cross":
        return np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], rng.choice((bool, int, float)))
    if kind == "flat":
        return np.ones(rng.choice(((1, 5), (3, 1), (5, 3))), bool)
    side = rng.choice((3, 3, 5, 7))
    return np.ones((side, side)) if kind == "full" else _speckle(rng, (side, rng.choice((side, side, 4))))


def _speckle(rng: random.Random, shape: tuple[int, int]) -> Array:
    return np.array([[rng.random() < 0.6 for _ in range(shape[1])] for _ in range(shape[0])])


def _some_axes(rng: random.Random) -> Any:
    return rng.choice((None, (0, 1), (0, 1), (-2, -1), [0, 1], (1, 0), 0, (0,), (0, 5), "0"))


def _maybe_broken(rng: random.Random, call: Call) -> Call:
    """At times a call that does not fit the signature."""
    if rng.random() < 0.02:
        return rng.choice((Call(call.args, {**call.kwargs, "sise": 3}), Call(call.args * 9, call.kwargs), Call()))
    return call
