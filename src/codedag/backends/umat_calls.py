"""Random calls of the functions of cv2 that can run by OpenCL: usual, odd, and such that raise."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_LAYOUTS = ("plain",) * 8 + ("readonly", "cut", "strided")


def picture(rng: random.Random, channels: tuple[int, ...] = (0, 3, 3, 4)) -> Any:
    """Mostly a picture of bytes, smooth or of noise; at times too small, of another dtype or no array."""
    if rng.random() < 0.02:
        return rng.choice((None, 5))
    tail = rng.choice(channels)
    shape: tuple[int, ...] = (rng.randint(64, 260), rng.randint(70, 260)) + ((tail,) if tail else ())
    dtype = weighted(rng, ("uint8",), ("float32", "uint16"), 0.05)
    made = array(rng, weighted(rng, (shape,), ((9, 9),), 0.03), dtype, rng.choice(_LAYOUTS))
    return made if rng.random() < 0.5 or made.dtype != np.uint8 else _smooth(rng, made.shape)


def _smooth(rng: random.Random, shape: tuple[int, ...]) -> Any:
    """A picture of slow waves, as photographs have them."""
    rows, columns = np.indices(shape[:2])
    one, other = rng.uniform(0.02, 0.3), rng.uniform(0.02, 0.3)
    wave = 127.5 + 80 * np.sin(rows * one) + 47 * np.cos(columns * other)
    made = wave if len(shape) == 2 else np.stack([np.roll(wave, 7 * at, 1) for at in range(shape[2])], axis=2)
    return np.ascontiguousarray(made.clip(0, 255).astype(np.uint8))


def resize(rng: random.Random) -> Call:
    """A call of cv2.resize."""
    usual = (rng.randint(8, 400), rng.randint(8, 400))
    values: dict[str, Any] = {"src": picture(rng), "dsize": weighted(rng, (usual,), (None, (0, 5), 7), 0.06)}
    if rng.random() < 0.6:
        values["interpolation"] = weighted(rng, (1, 3), (0, 2, 99), 0.15)
    return spread(rng, ("src", "dsize"), values)


def blur(rng: random.Random) -> Call:
    """A call of cv2.GaussianBlur."""
    values: dict[str, Any] = {"src": picture(rng)}
    values["ksize"] = weighted(rng, ((3, 3), (5, 5), (7, 7)), ((3, 5), (4, 4), (31, 31)))
    values["sigmaX"] = weighted(rng, (0, 1.5), (-1, "a"), 0.06)  # the driver compiles anew for each width
    return spread(rng, ("src", "ksize", "sigmaX"), values)


def half(rng: random.Random) -> Call:
    """A call of cv2.pyrDown."""
    return Call.of(picture(rng))


def affine(rng: random.Random) -> Call:
    """A call of cv2.warpAffine."""
    return _warp(rng, _turn(rng))


def perspective(rng: random.Random) -> Call:
    """A call of cv2.warpPerspective."""
    bent = [[rng.uniform(-1e-4, 1e-4), rng.uniform(-1e-4, 1e-4), 1.0]]
    return _warp(rng, np.vstack([_turn(rng), bent]))


def _turn(rng: random.Random) -> Any:
    angle, scale = rng.uniform(-math.pi, math.pi), rng.uniform(0.5, 2.0)
    sine, cosine = scale * math.sin(angle), scale * math.cos(angle)
    return np.array([[cosine, sine, rng.uniform(-30, 120)], [-sine, cosine, rng.uniform(-30, 120)]])


def _warp(rng: random.Random, matrix: Any) -> Call:
    odd = (None, matrix[:1], np.full_like(matrix, np.nan))
    values = {"src": picture(rng), "M": weighted(rng, (matrix, matrix.astype(np.float32)), odd, 0.06)}
    values["dsize"] = weighted(rng, ((rng.randint(20, 250), rng.randint(20, 250)),), (None, (0, 0)), 0.04)
    if rng.random() < 0.1:
        values["flags"] = rng.choice((0, 1))
    return spread(rng, ("src", "M", "dsize"), values)


def colours(rng: random.Random) -> Call:
    """A call of cv2.cvtColor."""
    import cv2

    usual = (cv2.COLOR_BGR2RGB, cv2.COLOR_RGB2BGR, cv2.COLOR_BGR2GRAY, cv2.COLOR_RGB2GRAY)
    values = {"src": picture(rng, (3, 3, 3, 3, 0)), "code": weighted(rng, usual, (cv2.COLOR_BGR2HSV, 9999), 0.08)}
    return spread(rng, ("src", "code"), values)


def flip(rng: random.Random) -> Call:
    """A call of cv2.flip."""
    return spread(rng, ("src", "flipCode"), {"src": picture(rng), "flipCode": weighted(rng, (0, 1, -1), ("a", 7))})


def median(rng: random.Random) -> Call:
    """A call of cv2.medianBlur."""
    return spread(rng, ("src", "ksize"), {"src": picture(rng), "ksize": weighted(rng, (3, 5), (4, 7, None))})


def extreme(rng: random.Random) -> Call:
    """A call of cv2.erode or cv2.dilate."""
    whole, cross = np.ones((rng.choice((3, 5)),) * 2, np.uint8), np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8)
    values: dict[str, Any] = {"src": picture(rng), "kernel": weighted(rng, (whole, cross), (None,), 0.05)}
    if rng.random() < 0.3:
        values["iterations"] = rng.choice((1, 2, 0))
    return spread(rng, ("src", "kernel"), values)
