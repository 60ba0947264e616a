"""Random calls of the numpy functions that move elements."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import Array, array, spread, weighted

_DTYPES = ("uint8", "uint8", "uint8", "float32", "int16", "float64", "bool", "int32")
_PADDED = ("uint8", "uint8", "uint8", "float32", "int16", "float64", "int32")
_RARE_DTYPES = ("float16", "complex64", ">u2", "int64", "int8", "uint64")
_SIDES = (64, 97, 128, 160)


def _values(rng: random.Random, shape: tuple[int, ...]) -> Array:
    dtype = weighted(rng, _DTYPES, _RARE_DTYPES)
    return array(rng, shape, dtype.lstrip(">"), "plain").astype(dtype)


def _sides(rng: random.Random) -> tuple[int, int]:
    usual, rare = ((rng.choice(_SIDES), rng.choice(_SIDES)),), ((0, 5), (1, 9000), (2, 2000), (3, 2), (9000, 1), (1, 1))
    return weighted(rng, usual, rare, 0.08)  # type: ignore[no-any-return]


_TURNS_2D = (
    lambda a: a[:, ::-1],
    lambda a: a[::-1, ::-1],
    lambda a: a.T,
    lambda a: np.rot90(a),
    lambda a: np.rot90(a, 3),
    lambda a: np.rot90(a, 2),
)
_TURNS_3D = (
    lambda a: a[:, ::-1],
    lambda a: a[:, :, ::-1],
    lambda a: a[:, :, ::-1],
    lambda a: a[::-1, ::-1],
    lambda a: a.transpose(1, 0, 2),
    lambda a: np.rot90(a),
    lambda a: np.rot90(a, 3),
    lambda a: a.transpose(2, 0, 1),
    lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 2, 0)), 0, 2),
)
_ODD_TURNS = (
    lambda a: a,
    lambda a: a[::-1],
    lambda a: a[::2],
    lambda a: a[1:, ::-1],
    lambda a: a[:, 1:][:, ::-1],
    lambda a: a.T[::-1, ::-1],
    lambda a: a.transpose(),
    lambda a: a.tolist(),
    lambda a: np.broadcast_to(a[:1], a.shape),
)


def ascontiguousarray(rng: random.Random) -> Call:
    """A call with a view of an image, mostly one that is turned."""
    channels = weighted(rng, ((), (3,), (3,), (4,), (2,)), ((1,), (5,), (3, 2)))
    rows, columns = _sides(rng)
    image = _values(rng, (rows, columns, *channels) if channels else (rows * 2, columns * 4))
    turns: Any = _TURNS_2D if image.ndim == 2 else _TURNS_3D
    values: dict[str, Any] = {"a": weighted(rng, turns if image.ndim < 4 else _ODD_TURNS, _ODD_TURNS, 0.08)(image)}
    maybe(rng, values, 0.04, "dtype", (None, np.float32, "int8"))
    return spread(rng, ("a", "dtype"), values)


def pad(rng: random.Random) -> Call:
    """A call of numpy.pad."""
    channels = weighted(rng, ((), (3,), (3,), (4,)), ((1,), (5,), (3, 2)))
    layout = weighted(rng, ("plain",), ("fortran", "reversed", "strided", "cut", "broadcast"), 0.25)
    image = array(rng, (*_sides(rng), *channels), weighted(rng, _PADDED, ("float16", "int64", "bool")), layout)
    wide = [(rng.choice((0, 1, 5, 16)), rng.choice((0, 2, 8, 30))) for _ in range(2)]
    usual: list[Any] = [(*wide, (0, 0))] if image.ndim == 3 else [wide, tuple(wide), 3, 8, 0, (4, 7), (2, 2)]
    odd: tuple[Any, ...] = (-1, 2.0, ((1, 1),), "3", None, [(1, 2), (3, 4), (1, 1)], (5,), 200, {0: 2}, [])
    values: dict[str, Any] = {"array": image, "pad_width": weighted(rng, usual, odd)}
    modes = ("constant", "edge", "reflect", "symmetric", "wrap")
    if rng.random() < 0.7:
        values["mode"] = weighted(rng, modes, ("mean", "linear_ramp", "bogus", None, "empty"))
    if values.get("mode", "constant") == "constant":
        maybe(rng, values, 0.5, "constant_values", (0, 1, 7, 255, 0.5, -1, -0.0, 300, (0, 1), None, float("nan")))
    else:
        maybe(rng, values, 0.04, "constant_values", (0, 5))
    maybe(rng, values, 0.03, "reflect_type", ("even", "odd"))
    return spread(rng, ("array", "pad_width", "mode"), values)


def small_pad(rng: random.Random) -> Call:
    """A call of numpy.pad with a small array."""
    shapes = (
        (32, 32, 3),
        (28, 28),
        (rng.randint(1, 40), rng.randint(1, 40)),
        (500,),
        (3, 20, 20),
        (9000,),
        (40, 40, 3),
    )
    shape = weighted(rng, shapes, ((0,), (0, 3), (1, 1), (2, 3, 4, 5), (2,) * 6, (300, 300)), 0.12)
    layout = weighted(rng, ("plain",), ("fortran", "reversed", "strided", "cut", "broadcast"), 0.25)
    dtype = weighted(rng, (*_PADDED, "int64", "bool", "float16"), ("complex64",))
    image = array(rng, shape, dtype, layout)
    wide = [(rng.choice((0, 1, 4, 7, 50)), rng.choice((0, 2, 4, 9))) for _ in shape]
    usual: tuple[Any, ...] = (wide, tuple(wide), 4, 0, 1, 60, (4, 7), [2, 2])
    odd: tuple[Any, ...] = (-1, 2.0, ((1, 1),), "3", None, (5,), {0: 2}, [], np.array([1, 2]), np.int64(3))
    values: dict[str, Any] = {"array": image, "pad_width": weighted(rng, usual, odd)}
    if rng.random() < 0.7:
        modes = ("constant", "edge", "reflect", "symmetric", "wrap")
        values["mode"] = weighted(rng, modes, ("mean", "linear_ramp", "bogus", None, "empty"))
    if values.get("mode", "constant") == "constant":
        maybe(rng, values, 0.3, "constant_values", (0, 1, 7, 255, 0.5, -1, -0.0, 300, (0, 1), None, float("nan"), True))
    else:
        maybe(rng, values, 0.04, "constant_values", (0, 5))
    maybe(rng, values, 0.03, "reflect_type", ("even", "odd"))
    return spread(rng, ("array", "pad_width", "mode"), values)


def _some_mask(rng: random.Random) -> Any:
    shape: tuple[int, ...] = weighted(rng, (_sides(rng),), ((5000,), (40, 40, 3), (0, 7)))
    dtype = weighted(rng, ("bool",), ("uint8", "float32", "int64"), 0.15)
    layout = weighted(rng, ("plain", "readonly"), ("fortran", "reversed", "strided", "cut", "broadcast"), 0.2)
    return array(rng, shape, dtype, layout)


def nonzero(rng: random.Random) -> Call:
    """A call of numpy.nonzero or numpy.argwhere."""
    return spread(rng, ("a",), {"a": _some_mask(rng)}) if rng.random() < 0.97 else Call(([True, False],))


def where(rng: random.Random) -> Call:
    """A call of numpy.where, mostly with a condition alone."""
    mask = _some_mask(rng)
    if rng.random() < 0.05:
        return rng.choice((Call((mask, 1, 2)), Call((mask, 1)), Call((), {"condition": mask}), Call()))
    return Call((mask,))
