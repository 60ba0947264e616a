"""The kernels behind the substitutions: they refuse memory that does not fit, and give what the libraries give."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("codedag.backends._pixels")

from codedag.backends import _pixels
from codedag.backends.lines import correlated
from codedag.backends.places import on_grid, zoomed


def small(*shape, dtype="uint8"):
    return np.random.default_rng(0).integers(0, 200, shape).astype(dtype)


def test_memory_that_is_too_small_is_refused():
    source, target = small(8, 8, 4), np.empty((8, 8, 4), np.uint8)
    with pytest.raises(ValueError, match="are needed"):
        _pixels.turn(source, 9, 9, 4, target, 0)
    with pytest.raises(ValueError, match="are needed"):
        _pixels.convert(source, target[:1], 64, 4)
    with pytest.raises(ValueError, match="way to turn"):
        _pixels.turn(source, 8, 8, 3, target, 0)
    with pytest.raises(ValueError, match="are needed"):
        _pixels.divide(source, np.empty(3, np.float32), 256, 255.0)
    with pytest.raises(ValueError, match="1 to 4 channels"):
        _pixels.scale(source, np.empty(256, np.float32), 256, np.zeros(5, np.float32), np.ones(5, np.float32))
    with pytest.raises(ValueError, match="are needed"):
        _pixels.distances(source, np.empty(4), 8, 8)


def test_memory_that_nobody_may_write_is_refused():
    target = np.empty((8, 8, 4), np.uint8)
    target.flags.writeable = False
    with pytest.raises(ValueError, match=r"read-only|not writable"):
        _pixels.turn(small(8, 8, 4), 8, 8, 4, target, 0)


def test_tables_for_another_image_are_refused():
    table = _pixels.weights(64, 0.0, 64.0, 8, 2)
    with pytest.raises(ValueError, match="does not fit"):
        _pixels.resample(small(8, 8), 8, 8, 1, np.empty((8, 8), np.uint8), table, None, 0xFFFFFFFF)
    with pytest.raises(ValueError, match="filter and a range"):
        _pixels.weights(64, 0.0, 65.0, 8, 2)
    with pytest.raises(ValueError, match="filter and a range"):
        _pixels.weights(64, 0.0, 64.0, 8, 9)


def test_places_beyond_the_image_are_refused():
    image, rows, columns = (
        small(6, 6, dtype="float64"),
        zoomed(6, 3, 1, "nearest", True),
        zoomed(60, 3, 1, "nearest", True),
    )
    with pytest.raises(ValueError, match="do not fit"):
        on_grid(image, (3, 3), [rows, columns], 0.0)


def test_pixels_need_an_exported_image():
    with pytest.raises(ValueError, match="PyCapsule"):
        _pixels.Pixels(object(), 4, 4)
    Image = pytest.importorskip("PIL.Image")
    picture = Image.new("RGB", (4, 4))
    with pytest.raises(ValueError, match="one piece"):
        _pixels.Pixels(picture.im.__arrow_c_array__(), 60, 4)


def test_pixels_outlive_their_image():
    Image = pytest.importorskip("PIL.Image")
    memory = _pixels.Pixels(Image.new("L", (5, 4), 7).im.__arrow_c_array__(), 20, 1)
    assert bytes(memoryview(memory)) == bytes([7]) * 20


@pytest.mark.parametrize("shape", [(1,), (5,), (3, 4), (2, 3, 40), (1, 1), (17, 16)])
@pytest.mark.parametrize("mode", ["reflect", "mirror", "nearest", "constant", "wrap"])
def test_sums_over_arrays_smaller_than_the_window(shape, mode):
    ndimage = pytest.importorskip("scipy.ndimage")
    values = small(*shape, dtype="float64")
    for weights in ((1.0, 2.0, 4.0, 2.0, 1.0), (1.0, 0.0, -1.0), (0.5, 0.25), (3.0,), (0.1, 0.7, 0.3, 0.2)):
        for axis in range(values.ndim):
            expected = ndimage.correlate1d(values, weights, axis, mode=mode, cval=1.5)
            assert np.array_equal(correlated(values, weights, axis, mode, 1.5), expected)
