"""The substitutions from scipy against their originals: an accepted call is bit-equal, any other has a reason."""

from __future__ import annotations

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")
ndimage = pytest.importorskip("scipy.ndimage")

from substitution_checks import check, noise, of, reason  # noqa: E402

from codedag.backends.same import same  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # originals may warn about odd calls; the tests compare results

GREY = noise()
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
TWO_STEPS = ("grey_opening", "grey_closing", "white_tophat", "black_tophat", "morphological_gradient")


@pytest.fixture(params=[1, 2])
def threads(request):
    before = cv2.getNumThreads()
    cv2.setNumThreads(request.param)
    yield request.param
    cv2.setNumThreads(before)


def blobs(shape, sigma, seed):
    return ndimage.gaussian_filter(np.random.default_rng(seed).random(shape), sigma) > 0.5


@pytest.mark.parametrize("sigma", [0.4, 0.7, 1.5, 6.0])
def test_components_and_holes(sigma, threads):
    for seed, shape in enumerate(((64, 64), (333, 517), (900, 200), (3, 9000), (9000, 3))):
        mask = blobs(shape, sigma, seed)
        for structure in (None, CROSS, np.ones((3, 3), int)):
            check("scipy.ndimage.label", mask, structure)
            check("scipy.ndimage.binary_fill_holes", mask, structure)
        check("scipy.ndimage.label", mask.astype(np.uint8) * 9)
        check("scipy.ndimage.label", (mask.astype(np.uint8) * 2).view(bool))
        check("scipy.ndimage.binary_fill_holes", (mask.astype(np.uint8) * 2).view(bool))
        check("scipy.ndimage.label", mask[::-1, ::2]) if mask[::-1, ::2].size >= 4096 else None
    for full in (np.zeros((70, 70), bool), np.ones((70, 70), bool)):
        check("scipy.ndimage.label", full)
        check("scipy.ndimage.binary_fill_holes", full)


def test_a_spiral_and_a_comb():
    comb = np.ones((101, 101), bool)
    comb[1::2, 1:-1] = False
    comb[::2, 50] = False
    for mask in (comb, ~comb, comb.T, np.indices((80, 80)).sum(0) % 2 == 0):
        check("scipy.ndimage.label", mask)
        check("scipy.ndimage.label", mask, np.ones((3, 3), bool))
        check("scipy.ndimage.binary_fill_holes", mask)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["sobel", "prewitt"])
def test_gradients(name, dtype):
    name = f"scipy.ndimage.{name}"
    for seed, shape in enumerate(((64, 64), (480, 640), (3, 5000), (5000, 3), (129, 333))):
        image = (np.random.default_rng(seed).random(shape) * 10.0 ** (seed * 4)).astype(dtype)
        for mode in ("reflect", "mirror", "nearest", "constant"):
            for axis in ({}, {"axis": 0}, {"axis": -2}):
                check(name, image, mode=mode, **axis)
        check(name, image[::-1])
        check(name, np.zeros(shape, dtype))
        check(name, image - image.dtype.type(image.mean()))
        check(name, image * np.array(-0.0, dtype))
    for value in (np.inf, np.nan, -np.nan, 1e31):  # the original runs
        odd = image.copy()
        odd[3, 1] = value
        check(name, odd)
        check(name, odd, 0)
    assert "border" in reason(name, image, mode="wrap")
    assert "cval" in reason(name, image, cval=1.0)
    assert "floats" in reason(name, GREY)


def test_box_means():
    for size in (2, 3, 4, 5, 31, (3, 1), (1, 7), (2, 9)):
        for mode in ("reflect", "mirror", "nearest", "constant"):
            check("scipy.ndimage.uniform_filter", GREY, size, mode=mode)
    check("scipy.ndimage.uniform_filter", np.full((600, 600), 255, np.uint8), 255)
    assert "origin" in reason("scipy.ndimage.uniform_filter", GREY, 3, origin=1)
    assert "window" in reason("scipy.ndimage.uniform_filter", GREY, 1)
    assert "uint8" in reason("scipy.ndimage.uniform_filter", GREY.astype(float), 3)


@pytest.mark.parametrize("name", TWO_STEPS)
def test_morphology_in_two_steps(name):
    name = f"scipy.ndimage.{name}"
    uneven = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]], bool)
    for dtype in ("uint8", "uint16", "int16"):
        picture = noise(dtype=dtype)
        check(name, picture, 3)
        check(name, picture, size=(4, 5), mode="nearest")
        check(name, picture, footprint=uneven, mode="constant", cval=7)
    assert "flat" in reason(name, noise(), structure=np.ones((3, 3)))
    assert "output" in reason(name, noise(), 3, output=np.uint8)


@pytest.mark.parametrize("name", ["binary_opening", "binary_closing"])
def test_binary_morphology_in_two_steps(name):
    name = f"scipy.ndimage.{name}"
    mask = noise(high=2).astype(bool)
    for structure in (None, np.ones((3, 3)), np.eye(3), np.ones((3, 5))):
        for iterations in (1, 3):
            check(name, mask, structure, iterations)
            check(name, mask, structure, iterations, border_value=1)
    assert "mask" in reason(name, mask, mask=mask)


@pytest.mark.parametrize("name", ["scipy.signal.medfilt", "scipy.signal.medfilt2d"])
def test_medians(name):
    for size in (3, 5, [3, 3], (5, 5)):
        check(name, GREY, size)
        check(name, GREY.astype(np.float32) + 1, kernel_size=size)
    check(name, GREY, 9)
    assert "odd square" in reason(name, GREY, 4)
    assert "odd square" in reason(name, GREY, (3, 5))
    assert "plain image" in reason(name, GREY.astype(np.int16))


def test_windows_are_copies():
    made = of("scipy.signal.get_window")
    first = made.run("hann", 64)
    first[:] = 7
    assert same(made.original()("hann", 64), made.run("hann", 64))
    check("scipy.signal.get_window", "hann", 512, False)
    check("scipy.signal.get_window", "hann", 512, fftbins=True)
    check("scipy.signal.get_window", ("kaiser", 8.6), 64)
    assert "length" in reason("scipy.signal.get_window", "hann", 64.0)
    assert "length" in reason("scipy.signal.get_window", "hann", True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolution_keeps_the_order_of_sums_for_windows_of_any_width(dtype):
    image = np.random.default_rng(0).standard_normal((50, 61)).astype(dtype)
    for rows, columns in ((1, 1), (2, 3), (3, 4), (5, 5), (7, 6), (1, 8), (4, 13)):
        window = np.random.default_rng(columns).standard_normal((rows, columns)).astype(dtype)
        for mode in ("full", "same", "valid"):
            for boundary in ("fill", "symm", "wrap"):
                check("scipy.signal.convolve2d", image, window, mode, boundary)
        check("scipy.signal.convolve2d", image, window, "same", "fill", 2.5)
    odd = image.copy()
    odd[3, 4] = np.inf
    check("scipy.signal.convolve2d", odd, window)  # the original runs
    assert "smaller" in reason("scipy.signal.convolve2d", image, image)
    assert "whole numbers" in reason("scipy.signal.convolve2d", image.astype(int), window.astype(int))


@pytest.mark.parametrize("code", ["?", "B", "b", "H", "h", "f", "d"])
@pytest.mark.parametrize("mode", ["reflect", "mirror", "nearest", "constant", "wrap"])
def test_ranks_of_every_dtype_and_border(code, mode):
    image = (np.random.default_rng(1).random((70, 67)) * 100).astype(code)
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1]])
    options = {"mode": mode, "cval": 1}
    check("scipy.ndimage.rank_filter", image, 3, size=(4, 3), **options)
    check("scipy.ndimage.rank_filter", image, -3, size=5, origin=(1, -2), **options)
    check("scipy.ndimage.rank_filter", image, 2, footprint=cross, **options)
    check("scipy.ndimage.percentile_filter", image, 20, size=7, **options)
    check("scipy.ndimage.percentile_filter", np.repeat(image[..., None], 3, 2), 50, size=(3, 3, 1), **options)
    if code != "d":
        check("scipy.ndimage.percentile_filter", image, 100, size=(5, 4), **options)
        check("scipy.ndimage.rank_filter", image, 0, size=(5, 4), **options)


def test_ranks_that_are_left_to_scipy():
    image = np.random.default_rng(1).random((70, 67))
    assert "beyond" in reason("scipy.ndimage.rank_filter", image, 9, size=3)
    assert "gains nothing" in reason("scipy.ndimage.rank_filter", image, 0, size=3)
    assert "too many" in reason("scipy.ndimage.rank_filter", image, 3, size=9)
    assert "percentile" in reason("scipy.ndimage.percentile_filter", image, 101, size=3)
    assert "output" in reason("scipy.ndimage.percentile_filter", image, 50, size=3, output=np.float32)
    assert "too short" in reason("scipy.ndimage.rank_filter", np.ones((5000, 3)), 1, size=3)
    assert "negative zero" in reason("scipy.ndimage.rank_filter", np.where(image > 0.5, -0.0, image), 3, size=3)


def test_medians_of_doubles():
    image = np.random.default_rng(1).random((70, 67))
    for size in (3, 5, 7):
        check("scipy.ndimage.median_filter", image, size=size)
        check("scipy.ndimage.median_filter", image, size=size, mode="constant", cval=0.3)
    check("scipy.ndimage.median_filter", image * 1e300, size=3)
    check("scipy.ndimage.median_filter", image.astype(np.float32), size=7)


@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("mode", ["reflect", "mirror", "constant"])
def test_places_a_rounding_error_before_the_first_pixel(mode, order):
    """Scipy's reflect has a rule of its own for them; sums of tenths get there."""
    image = noise((70, 64), "float64") / 255
    for by in (1e-17, 2.3e-16, 8.9e-16, 9.99e-16, 1e-15, 1.2e-15, 1e-14):
        check("scipy.ndimage.shift", image, (by, 0.25), order=order, mode=mode)
    for matrix in ([[-0.1, 0.9], [1.0, 0.2]], [[-0.9, 0.3], [-0.4, -1.0]], [[0.3, -0.9], [-0.6, 1.2]]):
        check("scipy.ndimage.affine_transform", image, np.array(matrix), order=order, mode=mode)


@pytest.mark.parametrize("name", ["correlate1d", "convolve1d"])
def test_weights_that_differ_only_in_the_sign_of_a_zero(name):
    image = noise((70, 64), "float32") / 255
    for weights in ([0.0], [-0.0], [1.0, 0.0, 1.0], [1.0, -0.0, 1.0], [0.0, -0.0, 0.0], [-0.0, 0.0, -0.0]):
        check(f"scipy.ndimage.{name}", image, weights)
        check(f"scipy.ndimage.{name}", np.zeros_like(image), weights)


@pytest.mark.parametrize("name", ["median_filter", "minimum_filter", "grey_dilation", "binary_erosion"])
def test_origins_that_cannot_be_negative_are_left_to_scipy(name):
    """It turns some of them round, and then reads beyond the image."""
    window = {} if name.startswith("binary") else {"size": 3}
    for origin in (np.uint8(0), (0, np.uint16(1)), np.uint64(1)):
        assert reason(f"scipy.ndimage.{name}", GREY, **window, origin=origin) != ""
    assert reason(f"scipy.ndimage.{name}", GREY, **window, origin=np.int64(0)) == ""


@pytest.mark.parametrize("sigma", [(2,), (1.0, 2.0), [1], np.ones(2)])
def test_one_axis_has_one_sigma(sigma):
    assert reason("scipy.ndimage.gaussian_filter1d", GREY.astype("f4"), sigma) != ""
    assert reason("scipy.ndimage.gaussian_filter1d", GREY.astype("f4"), 2) == ""
