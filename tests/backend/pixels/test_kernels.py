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


def refused(kernel, *arguments):
    with pytest.raises(ValueError, match=r"fit together|leaves the image|moves for each|floats of"):
        kernel(*arguments)


def test_gradients_need_images_and_borders_that_fit():
    image, target = np.zeros((5, 6)), np.zeros((5, 6))
    up, side = np.array([0, *range(5), 4], np.int32), np.array([0, *range(6), 5], np.int32)
    assert _pixels.slope(image, target, "d", 5, 6, 0, 2.0, up, side, 0.0)
    refused(_pixels.slope, image, target, "d", 6, 6, 0, 2.0, up, side, 0.0)
    refused(_pixels.slope, image, target, "f", 5, 6, 0, 2.0, up, side, 0.0)
    refused(_pixels.slope, image, target, "d", 5, 6, 2, 2.0, up, side, 0.0)
    refused(_pixels.slope, image, target, "d", 5, 6, 0, 2.0, up + np.int32(9), side, 0.0)
    refused(_pixels.slope, image, target, "d", 5, 6, 0, 2.0, side, up, 0.0)


def test_shrinking_needs_tables_that_fit():
    image, target, table = np.zeros((6, 8)), np.empty((3, 4)), np.arange(256.0)
    rows, columns = (np.ascontiguousarray(zoomed(n, n // 2, 1, "reflect", True)[0]) for n in (6, 8))
    weights, none, nowhere = np.full((3, 2), 0.5), np.empty(0), np.empty(0, np.int32)
    aside = np.full((2, 4), 0.5)
    tables = [rows, columns, weights, aside, table, none, nowhere, none, nowhere]
    sizes = ("d", 6, 8, 1, 3, 4)
    _pixels.shrink(image, target, *tables, *sizes)
    refused(_pixels.shrink, image, target, *tables, "d", 6, 8, 1, 4, 4)
    refused(_pixels.shrink, image, target, *tables, "B", 6, 8, 1, 3, 4)
    for at, wrong in ((0, rows + np.int32(9)), (1, columns[:2]), (5, np.ones(3)), (8, rows)):
        refused(_pixels.shrink, image, target, *tables[:at], wrong, *tables[at + 1 :], *sizes)


def test_convolutions_need_places_within_the_image():
    image, target, window = np.zeros((6, 8)), np.empty((4, 6)), np.ones((3, 3))
    up, side = np.arange(6, dtype=np.int32), np.arange(8, dtype=np.int32)
    sizes = (6, 8, 3, 3, 4, 6, 0.0)
    _pixels.convolve(image, target, window, up, side, "d", *sizes)
    refused(_pixels.convolve, image, target, window, up, side, "f", *sizes)
    refused(_pixels.convolve, image, target, window, up + np.int32(1), side, "d", *sizes)
    refused(_pixels.convolve, image, target, window[:2], up, side, "d", *sizes)


def test_pixels_are_exchanged_within_the_image_only():
    image, moves = small(6, 6), np.zeros((5, 1, 2), np.int64)
    _pixels.glass(image, 6, 6, 1, 1, moves, 1, 0)
    refused(_pixels.glass, image, 6, 6, 1, 1, moves + 1, 1, 0)
    refused(_pixels.glass, image, 6, 7, 1, 1, moves, 1, 0)
    refused(_pixels.glass, image, 6, 6, 1, 1, moves, 3, 0)
    refused(_pixels.glass, image, 6, 6, 1, 0, moves, 1, 0)


def test_clusters_need_centres_within_the_image():
    labels, distances = np.full((4, 5), -1, np.int32), np.full((4, 5), np.inf)
    _pixels.clusters(np.zeros((4, 5, 1)), np.array([[2, 3]]), labels, distances, 4, 5, 1, 2, 10.0, 1)
    assert labels.max() == 0
    refused(_pixels.clusters, np.zeros((4, 5, 1)), np.array([[5, 3]]), labels, distances, 4, 5, 1, 2, 10.0, 1)
    refused(_pixels.clusters, np.zeros((4, 5, 1)), np.array([[2, 3]]), labels, distances, 4, 5, 3, 2, 10.0, 1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_odd_float_is_found_wherever_it_is(dtype):
    values = np.full(9001, np.finfo(dtype).max, dtype)
    assert _pixels.finite(values, values.itemsize)
    for place in (0, 1, 4095, 4096, 9000):
        for odd in (np.nan, np.inf, -np.inf):
            changed = values.copy()
            changed[place] = odd
            assert not _pixels.finite(changed, changed.itemsize)
    refused(_pixels.finite, values, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_extent_of_floats(dtype):
    for size in (1, 5, 16, 33, 1000):
        values = (np.random.default_rng(size).standard_normal(size) * 100).astype(dtype)
        signed = int(np.signbit(values).any())
        assert _pixels.extent(values, values.itemsize) == (float(values.min()), float(values.max()), signed)
        values[size // 2] = np.nan
        assert _pixels.extent(values, values.itemsize) is None
    assert _pixels.extent(np.empty(0, dtype), np.dtype(dtype).itemsize) is None
    refused(_pixels.extent, values, 2)
