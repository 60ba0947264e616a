"""The substitutions from skimage against their originals: an accepted call is bit-equal, any other has a reason."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("skimage")

from substitution_checks import check, noise, reason

pytestmark = pytest.mark.filterwarnings("ignore")  # originals may warn about odd calls; the tests compare results

GREY = noise()
IMAGE = noise((100, 120, 3))
DISK = np.hypot(*np.mgrid[-3:4, -3:4]) <= 3


def test_intensities():
    for picture in (GREY, IMAGE, np.full((80, 80), 9, np.uint8), noise(high=3), noise(high=3) + np.uint8(250)):
        for ins in ("image", "dtype", (5, 90), (2.5, 97.5)):
            for outs in ("dtype", "uint8", (0, 1), (-1.0, 1.0), "float32"):
                check("skimage.exposure.rescale_intensity", picture, ins, outs)
        for gamma in (0, 0.4, 1, 2.2):
            check("skimage.exposure.adjust_gamma", picture, gamma, gain=0.9)
    assert "C order" in reason("skimage.exposure.adjust_gamma", GREY.T, 2)
    assert "gamma" in reason("skimage.exposure.adjust_gamma", GREY, -1)
    assert "in_range" in reason("skimage.exposure.rescale_intensity", GREY, (5, 5))


def test_histograms():
    for picture in (GREY, GREY.T, noise(high=3), np.full((80, 80), 9, np.uint8), np.full((80, 80), 255, np.uint8)):
        check("skimage.exposure.equalize_hist", picture)
        check("skimage.filters.threshold_otsu", picture)
    two = np.where(GREY > 99, 255, 0).astype(np.uint8)
    check("skimage.exposure.equalize_hist", two)
    check("skimage.filters.threshold_otsu", two)
    assert "two-dimensional" in reason("skimage.filters.threshold_otsu", IMAGE)
    assert "mask" in reason("skimage.exposure.equalize_hist", GREY, mask=GREY > 3)


def test_every_float_where_rounding_decides():
    halves = (np.arange(510, dtype=np.float64) / 510).astype(np.float32)
    bits = halves.view(np.int32)[:, None] + np.arange(-300, 300, dtype=np.int32)
    values = np.ascontiguousarray(bits).view(np.float32)
    check("skimage.util.img_as_ubyte", np.ascontiguousarray(values[1:]))
    check("skimage.util.img_as_ubyte", np.linspace(0, 1, 1_000_003, dtype=np.float32))
    check("skimage.util.img_as_ubyte", np.arange(5000, dtype=np.int32).view(np.float32))
    for value in (1.0000001, -1e-9, -0.0, np.nan):
        odd = np.zeros((80, 80), np.float32)
        odd[3, 4] = value
        assert "outside" in reason("skimage.util.img_as_ubyte", odd)
    assert "float32" in reason("skimage.util.img_as_ubyte", np.zeros((80, 80)))


def test_errors_between_images():
    black, white = np.zeros((2000, 2000), np.uint8), np.full((2000, 2000), 255, np.uint8)
    for one, other in ((GREY, GREY.T.reshape(GREY.shape)), (GREY, GREY[::-1]), (IMAGE, IMAGE[:, ::-1]), (black, white)):
        check("skimage.metrics.mean_squared_error", one, other)
        check("skimage.metrics.peak_signal_noise_ratio", one, other)
        check("skimage.metrics.peak_signal_noise_ratio", one, image_test=other, data_range=100)
    check("skimage.metrics.mean_squared_error", GREY, GREY)
    check("skimage.metrics.peak_signal_noise_ratio", GREY, GREY)  # infinite, with a warning from skimage
    assert "shapes" in reason("skimage.metrics.mean_squared_error", GREY, IMAGE)


@pytest.mark.parametrize("name", ["erosion", "dilation", "opening", "closing"])
def test_morphology(name):
    name = f"skimage.morphology.{name}"
    for footprint in (None, np.ones((3, 3)), DISK, np.ones((5, 3), np.uint8)):
        for mode in ("reflect", "nearest", "mirror", "constant"):
            check(name, GREY, footprint, mode=mode)
        check(name, noise((130, 130), "uint16"), footprint)
    assert "symmetric" in reason(name, GREY, np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]]))
    assert "symmetric" in reason(name, GREY, np.ones((2, 2)))
    assert "mode" in reason(name, GREY, mode="ignore")
    assert "output" in reason(name, GREY, out=GREY.copy())
    assert "numbers" in reason(name, GREY > 9)


def test_medians_and_channels():
    for footprint in (None, np.ones((3, 3)), np.ones((5, 5), bool)):
        check("skimage.filters.median", GREY, footprint)
        check("skimage.filters.median", GREY, footprint, mode="constant", cval=3)
    assert "behaviour" in reason("skimage.filters.median", GREY, behavior="rank")
    for dtype in ("uint8", "uint16", "float32", "float64"):
        check("skimage.color.gray2rgb", noise(dtype=dtype))
    assert "axis" in reason("skimage.color.gray2rgb", GREY, channel_axis=0)
    assert "C order" in reason("skimage.color.gray2rgb", GREY.T)
