"""Random calls of the numpy functions with substitutes: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_SIZES = (100, 128, 131, 200)
_RARE_SIZES = (0, 1, 2, 7, 30)
_OTHER = ("int16", "float32", "float64", "int64", "uint16", "int8")


def image(rng: random.Random, usual: tuple[str, ...] = ("uint8",), flat: bool = False, least: int = 0) -> Any:
    """Mostly an image of bytes; at times small, empty, one-dimensional, a list or of another dtype."""
    if rng.random() < 0.03:
        return rng.choice(([1, 2, 3], 5, None, [[1, 2], [3, 4]], (), "ab"))
    sides = tuple(least + rng.choice(weighted(rng, (_SIZES,), (_RARE_SIZES,))) for _ in range(2))
    dtype = weighted(rng, usual, _OTHER)
    if flat or rng.random() < 0.1:
        return array(rng, (sides[0] * sides[1],), dtype)
    tails: tuple[tuple[int, ...], ...] = ((), (), (3,), (3,), (1,), (4,), (5,), (2, 2))
    return array(rng, (*sides, *rng.choice(tails)), dtype)


def maybe(rng: random.Random, values: dict[str, Any], share: float, name: str, choices: tuple[Any, ...]) -> None:
    """Adds an option, at times."""
    if rng.random() < share:
        values[name] = rng.choice(choices)


def reduction(rng: random.Random) -> Call:
    """A call of numpy.sum or numpy.mean."""
    values: dict[str, Any] = {"a": image(rng, ("uint8", "uint8", "bool"))}
    if rng.random() < 0.3 and np.ndim(values["a"]) == 3:
        values["axis"] = (0, 1)
    maybe(rng, values, 0.1, "axis", (0, None, -1, (0, 1), (1, 0), (0, 9), 7, [0, 1], "0"))
    maybe(rng, values, 0.04, "dtype", ("float32", np.int64, None))
    maybe(rng, values, 0.05, "keepdims", (True, False))
    return spread(rng, ("a", "axis", "dtype"), values)


def bincount(rng: random.Random) -> Call:
    """A call of numpy.bincount."""
    values: dict[str, Any] = {"x": image(rng, flat=rng.random() < 0.9)}
    maybe(rng, values, 0.4, "minlength", (0, 1, 256, 300, 10, -1, 2.0, None))
    maybe(rng, values, 0.05, "weights", (None, [1.0, 2.0]))
    call = spread(rng, ("x", "minlength"), values)
    rest = {name: value for name, value in values.items() if name != "x"}
    return Call((values["x"],), rest) if rng.random() < 0.97 else Call(call.args[:1], call.kwargs)


def unique(rng: random.Random) -> Call:
    """A call of numpy.unique."""
    values: dict[str, Any] = {"ar": image(rng)}
    maybe(rng, values, 0.4, "return_counts", (True, True, False, 1))
    for name in ("return_index", "return_inverse"):
        maybe(rng, values, 0.08, name, (True, False))
    maybe(rng, values, 0.08, "axis", (None, 0))
    maybe(rng, values, 0.08, "equal_nan", (True, False))
    return spread(rng, ("ar", "return_index", "return_inverse", "return_counts", "axis"), values)


def histogram(rng: random.Random) -> Call:
    """A call of numpy.histogram."""
    values: dict[str, Any] = {"a": image(rng)}
    bins = (256, 10, 7, 255, 1, 1000, [0, 10, 200], [0.0, 0.5, 3.5, 255], list(range(257)), np.linspace(0, 256, 33))
    odd: tuple[Any, ...] = (0, -1, "auto", [3, 2, 1], [[1, 2]], None, 2.5, [5], np.array([1, 1, 3]))
    if rng.random() < 0.8:
        values["bins"] = weighted(rng, bins, odd)
    if rng.random() < 0.5:
        usual = ((0, 256), (0, 255), [0, 100], (3.5, 77.25), (-10, 500))
        values["range"] = weighted(rng, usual, ((5, 5), (9, 2), None, (0,), (0, float("nan"))))
    whole = type(values.get("bins", 10)) is int and "range" not in values  # else there may be nothing to divide by
    maybe(rng, values, 0.15, "density", (True, False, None, 1) if whole else (False, None, 1))
    maybe(rng, values, 0.03, "weights", ([1.0], None))
    return spread(rng, ("a", "bins", "range", "density", "weights"), values)


def median(rng: random.Random) -> Call:
    """A call of numpy.median."""
    values: dict[str, Any] = {"a": image(rng)}
    maybe(rng, values, 0.15, "axis", (None, 0, (0, 1), 9))
    maybe(rng, values, 0.05, "overwrite_input", (True, False))
    maybe(rng, values, 0.05, "keepdims", (True, False))
    return spread(rng, ("a", "axis"), values)


def quantile(rng: random.Random, most: int) -> Call:
    """A call of numpy.percentile or numpy.quantile."""
    shares: list[Any] = [0.0, 1.0, 0.02, 0.98, 0.5, 1 / 3, rng.random(), rng.random(), rng.random()]
    usual = [share * most for share in shares] + [[2 * most / 100, 0.98 * most], (0.0, most / 3, 1.0 * most)]
    if most == 100:
        usual += [50, 99, (1, 99), [0, 25, 50, 75, 100]]
    odd: tuple[Any, ...] = (
        -0.1,
        most + 1,
        None,
        "5",
        [],
        [[0.5]],
        float("nan"),
        np.float32(0.5),
        np.array([0.25, 0.5]),
    )
    values: dict[str, Any] = {"a": image(rng), "q": weighted(rng, usual, odd)}
    maybe(rng, values, 0.1, "axis", (None, 0, (0, 1)))
    maybe(rng, values, 0.1, "method", ("linear", "nearest", "lower", "bogus"))
    maybe(rng, values, 0.05, "keepdims", (True, False))
    return spread(rng, ("a", "q", "axis"), values)


def isin(rng: random.Random) -> Call:
    """A call of numpy.isin."""
    usual = ([1, 2, 3], (0, 255), [7], np.array([1, 2], np.uint8), np.array([300, 4, -1]), [5, 5, 1000, -3])
    odd: tuple[Any, ...] = ([], 3, "a", [1.5], {1, 2}, [[1], [2]], None, np.array([1.0, np.nan]))
    values: dict[str, Any] = {
        "element": image(rng, least=rng.choice((0, 100, 100, 100))),
        "test_elements": weighted(rng, usual, odd),
    }
    maybe(rng, values, 0.3, "invert", (True, False, 1))
    maybe(rng, values, 0.05, "assume_unique", (True, False))
    maybe(rng, values, 0.05, "kind", ("sort", "table", None))
    return spread(rng, ("element", "test_elements", "assume_unique", "invert"), values)


def interp(rng: random.Random) -> Call:
    """A call of numpy.interp."""
    curves = (
        ([0, 100, 255], [0.0, 0.5, 1.0]),
        ((0, 255), (255, 0)),
        (np.array([10.5, 77.0]), np.array([1e-3, 7.7])),
        ([3], [4.0]),
        (np.linspace(0, 255, 300), np.sqrt(np.arange(300))),
    )
    odd: tuple[Any, ...] = (
        ([0, 1], [1]),
        ([2, 1, 7], [0, 1, 2]),
        ([0, 1], [1j, 2]),
        ([], []),
        (3, 4),
        ([0, 1], [np.nan, 1.0]),
    )
    xp, fp = weighted(rng, curves, odd)
    values: dict[str, Any] = {"x": image(rng), "xp": xp, "fp": fp}
    maybe(rng, values, 0.2, "left", (None, -1, 0.25, "a"))
    maybe(rng, values, 0.2, "right", (None, -1, 0.25))
    maybe(rng, values, 0.05, "period", (None, 360))
    return spread(rng, ("x", "xp", "fp", "left", "right", "period"), values)


def digitize(rng: random.Random) -> Call:
    """A call of numpy.digitize."""
    usual = ([10, 50, 200], (0.5, 1.5), np.arange(0, 256, 16), np.linspace(0, 255, 9), [7])
    odd: tuple[Any, ...] = ([3, 2, 1], [1, 1, 2], [1, 3, 2], 5, [], "a", [[1, 2]], None)
    values: dict[str, Any] = {"x": image(rng), "bins": weighted(rng, usual, odd)}
    maybe(rng, values, 0.3, "right", (True, False, 1))
    return spread(rng, ("x", "bins", "right"), values)
