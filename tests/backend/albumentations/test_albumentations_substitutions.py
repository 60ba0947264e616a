"""Loops of albumentations over single pixels, and albucore's conversions, against their originals."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("albumentations")

from substitution_checks import check, noise, reason

GLASS = "albumentations.augmentations.blur.functional.glass_blur"
SLIC = "albumentations.augmentations.pixel.functional.slic"


def moves(reach, iterations, count=400):
    return np.random.default_rng(3).integers(-reach, reach, (count, iterations, 2))


@pytest.mark.parametrize("channels", [(), (1,), (2,), (3,), (4,)])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_glass_exchanges_pixels_of_one_channel_and_copies_those_of_several(channels, dtype):
    image = noise((30, 41, *channels), dtype)
    for reach, iterations in ((1, 1), (4, 2), (14, 3), (20, 1)):
        check(GLASS, image, 0.7, reach, iterations, moves(reach, iterations), "exact")


def test_glass_that_would_leave_the_image_runs_as_written():
    image = noise((30, 30, 3))
    assert "moves" in reason(GLASS, image, 0.7, 2, 1, moves(3, 1), "exact")
    assert "mode" in reason(GLASS, image, 0.7, 2, 1, moves(2, 1), "fast")


@pytest.mark.parametrize("shape", [(30, 41), (30, 41, 1), (24, 24, 3), (15, 40, 4)])
def test_clusters(shape):
    for segments in (1, 4, 20, 100):
        check(SLIC, noise(shape), segments)
        check(SLIC, np.zeros(shape, np.uint8), segments, 0.5, 3)
    assert "cluster" in reason(SLIC, noise(shape), 10_000)


def test_floats_become_bytes_as_numpy_rounds_them():
    halves = (np.arange(-300, 3800) / 2 / 255).astype(np.float32).reshape(41, 100)
    for image in (halves, np.nextafter(halves, np.float32(9)), np.nextafter(halves, np.float32(-9))):
        check("albucore.from_float", image, np.uint8)
        check("albucore.from_float", image, np.dtype("uint8"), 200)
    check("albucore.from_float", np.where(halves > 1, np.float32(np.inf), halves), np.uint8)
