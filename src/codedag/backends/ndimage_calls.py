"""Random calls of further scipy.ndimage functions: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import cv2_calls
from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
_BINARY = ("input", "structure", "iterations", "output", "origin", "mask", "border_value", "brute_force")
_MODES = ("reflect", "mirror", "nearest", "constant")
_ODD_MODES = ("wrap", "grid-wrap", "bogus", None, 3)


def grey(rng: random.Random) -> Call:
    """A call of a grey morphology of two steps."""
    if rng.random() < 0.5:
        return cv2_calls.filter_call(rng, cv2_calls.GREY_NAMES)
    image = array(
        rng, (rng.randint(100, 160), rng.randint(100, 160)), rng.choice(("uint8", "uint8", "uint16", "int16"))
    )
    values: dict[str, Any] = {"input": image, "size": rng.choice((3, 5, (3, 3), (5, 7), 4))}
    maybe(rng, values, 0.4, "mode", _MODES)
    return spread(rng, cv2_calls.GREY_NAMES, values)


def binary(rng: random.Random) -> Call:
    """A call of a binary opening or closing, whose arguments come in another order than those of an erosion."""
    call = cv2_calls.binary_call(rng)
    values = dict(zip(cv2_calls.BINARY_NAMES, call.args, strict=False)) | dict(call.kwargs)
    return spread(rng, _BINARY, values) if "input" in values and "sise" not in values else call


def _shape(rng: random.Random) -> tuple[int, ...]:
    sides = (70, 99, 128, 201)
    usual = (rng.choice(sides), rng.choice(sides))
    return weighted(rng, (usual,), ((5000,), (30, 30, 3), (0, 9), (1, 1), (2, 3000), (1, 5000)))  # type: ignore[no-any-return]


def components(rng: random.Random, names: tuple[str, ...]) -> Call:
    """A call of label or of binary_fill_holes."""
    dtype = weighted(rng, ("bool", "bool", "uint8"), ("int64", "float32", "int8"))
    values: dict[str, Any] = {"input": array(rng, _shape(rng), dtype)}
    usual = (None, np.ones((3, 3)), np.ones((3, 3), int), _CROSS, _CROSS.astype(bool))
    odd = (np.eye(3), np.ones((1, 3)), np.ones(3), [[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.zeros((3, 3)), 3)
    if rng.random() < 0.6:
        values["structure"] = weighted(rng, usual[:1] + usual[2:], (*odd, usual[1]))
    maybe(rng, values, 0.04, "output", (None, np.int64))
    if "origin" in names:
        maybe(rng, values, 0.1, "origin", (0, 1, (0, 0)))
    return spread(rng, names, values)


def gradient(rng: random.Random, names: tuple[str, ...]) -> Call:
    """A call of sobel or prewitt on pixels that are mostly not negative."""
    image = array(rng, _shape(rng), weighted(rng, ("float32", "float64"), ("uint8", "int16", "int64"), 0.15))
    if image.dtype.kind == "f" and rng.random() < 0.8:
        with np.errstate(all="ignore"):
            image = np.abs(np.nan_to_num(image, nan=1.0, posinf=3.0, neginf=2.0))
            image = np.minimum(image, image.dtype.type(rng.choice((1e29, 255.0))))
    values: dict[str, Any] = {"input": image}
    if "axis" in names:
        maybe(rng, values, 0.6, "axis", (0, 1, -1, -2, 0, 1, 2, None))
    if rng.random() < 0.5:
        values["mode"] = weighted(rng, _MODES, _ODD_MODES)
    maybe(rng, values, 0.1, "cval", (0.0, 0, 1.5, -0.0))
    maybe(rng, values, 0.04, "output", (None, np.float32))
    return spread(rng, names, values)


def box(rng: random.Random) -> Call:
    """A call of uniform_filter."""
    dtype = weighted(rng, ("uint8",), ("float32", "int16", "float64", "bool"))
    values: dict[str, Any] = {"input": array(rng, _shape(rng), dtype)}
    usual, odd = (3, 5, 2, 9, (3, 5), [7, 1], 31, (1, 4)), (1, 0, -1, 3.0, (3,), 300, "3", None, (3, 3, 3))
    if rng.random() < 0.8:
        values["size"] = weighted(rng, usual, odd)
    if rng.random() < 0.5:
        values["mode"] = weighted(rng, _MODES, _ODD_MODES)
    maybe(rng, values, 0.1, "cval", (0.0, 0, 1.5))
    maybe(rng, values, 0.08, "origin", (0, 1, -1, 9))
    return spread(rng, ("input", "size", "output", "mode", "cval", "origin"), values) if rng.random() < 0.98 else Call()
