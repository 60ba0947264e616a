"""The substitutions from numpy against their originals: an accepted call is bit-equal, any other has a reason."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")

from substitution_checks import check, noise, of, reason

from codedag.backends.registry import all_substitutions

pytestmark = pytest.mark.filterwarnings("ignore")  # originals may warn about odd calls; the tests compare results

NAMES = sorted(made.name for made in all_substitutions() if made.module.rpartition(".")[2].startswith("numpy_"))
IMAGE = noise((100, 120, 3))
GREY = noise()
LARGE = noise((200, 210))


@pytest.mark.parametrize("name", ["numpy.sum", "numpy.mean"])
def test_means_and_sums(name):
    for picture in (IMAGE, GREY, GREY.T, GREY[::-1, ::2], GREY > 99, noise((5000,)), noise((60, 60, 3, 2))):
        check(name, picture)
        check(name, a=picture, axis=None, keepdims=False)
    for channels in (1, 2, 3, 4):
        check(name, noise((70, 80, channels)), axis=(0, 1))
        check(name, noise((70, 80, channels))[:, ::-1], (0, 1))
    check(name, GREY.view(bool))  # bools with bytes other than 0 and 1
    check(name, np.full((3000, 3000), 255, np.uint8))
    assert "axes" in reason(name, IMAGE, axis=0)
    assert "axes" in reason(name, IMAGE, axis=(1, 0))
    assert "axes" in reason(name, IMAGE, axis=(False, True))
    assert "channels" in reason(name, noise((70, 80, 5)), axis=(0, 1))
    assert "keepdims" in reason(name, GREY, keepdims=True)
    assert "where" in reason(name, GREY, where=GREY > 3)
    assert "dtype is given" in reason(name, GREY, dtype=float)


def test_counts():
    for picture in (GREY, GREY.T, np.zeros((99, 99), np.uint8), np.full((99, 99), 255, np.uint8), IMAGE):
        check("numpy.unique", picture)
        check("numpy.unique", picture, return_counts=True)
        check("numpy.histogram", picture, 256, (0, 256))
        check("numpy.histogram", picture, bins=[0, 3, 3.5, 255], density=True)
        check("numpy.histogram", picture)
        check("numpy.median", picture)
        check("numpy.percentile", picture, [0, 1, 50, 99.9, 100])
        check("numpy.quantile", picture, 1 / 3)
        check("numpy.bincount", picture.ravel(), minlength=300)
    assert "keyword" not in reason("numpy.bincount", GREY.ravel())
    assert "signature" in reason("numpy.bincount", x=GREY.ravel())
    assert "indices" in reason("numpy.unique", GREY, True)
    assert "bins" in reason("numpy.histogram", GREY, "auto")
    assert "range" in reason("numpy.histogram", GREY, 10, (5, 5))
    assert "method" in reason("numpy.percentile", GREY, 5, method="lower")
    assert "q is" in reason("numpy.percentile", GREY, 101)
    assert "q is" in reason("numpy.quantile", GREY, float("nan"))


@pytest.mark.parametrize("share", [n / 997 for n in range(0, 998, 7)])
def test_quantiles_of_even_and_odd_counts(share):
    for size in (2048, 2049, 5003):
        picture = noise((size,), high=1 + size % 250, seed=size)
        check("numpy.quantile", picture, share)
        check("numpy.percentile", picture, [share * 100, 100 - share * 100])


def test_tables():
    check("numpy.isin", noise((300, 300)), [1, 2, 300, -1], invert=True)
    check("numpy.interp", GREY, [0, 10.5, 200], [1.0, 0.1, 1e-9], left=-1.0)
    check("numpy.digitize", GREY, np.linspace(0, 255, 11), right=True)
    check("numpy.digitize", GREY.T[::-1], [3])
    assert "grow" in reason("numpy.interp", GREY, [3, 2, 1], [1, 2, 3])
    assert "growing" in reason("numpy.digitize", GREY, [3, 2, 1])
    assert "few" in reason("numpy.isin", noise((300, 300)), [1.5])
    assert "too small" in reason("numpy.isin", GREY, [1])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "int32", "float32", "int64", "float64"])
def test_turned_images(dtype):
    for shape in ((280, 190), (80, 90, 3), (80, 90, 4), (50, 900, 2), (140, 150, 3), (2, 30000), (30000, 2)):
        base = noise(shape, high=2 if dtype == "bool" else 100).astype(dtype)
        views = [base[:, ::-1], base[::-1, ::-1], base.swapaxes(0, 1), np.rot90(base), np.rot90(base, 3)]
        if base.ndim == 3:
            planes = np.ascontiguousarray(base.transpose(2, 0, 1))
            views += [base[:, :, ::-1], base.transpose(2, 0, 1), planes.transpose(1, 2, 0)]
        for view in views:
            if not reason("numpy.ascontiguousarray", view):
                check("numpy.ascontiguousarray", view)
                assert of("numpy.ascontiguousarray").run(view).flags.owndata


def test_bits_of_nans_are_moved():
    bits = np.random.default_rng(3).integers(0, 2**32, (64, 64, 3), dtype=np.uint32).view(np.float32)
    for view in (bits[:, ::-1], bits[:, :, ::-1], bits.transpose(1, 0, 2), np.rot90(bits)):
        check("numpy.ascontiguousarray", view)
    planes = np.ascontiguousarray(bits.transpose(2, 0, 1))
    check("numpy.ascontiguousarray", planes.transpose(1, 2, 0))
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        check("numpy.pad -> cv2", bits, ((1, 2), (3, 4), (0, 0)), mode)


@pytest.mark.parametrize("view", ["C", "rows", "gap", "like"])
def test_other_views_are_left_to_numpy(view):
    picture = {"C": LARGE, "rows": LARGE[::-1], "gap": LARGE[:, ::2], "like": LARGE[:, ::-1]}[view]
    assert reason("numpy.ascontiguousarray", picture, **({"dtype": np.int8} if view == "like" else {}))


def test_borders():
    for mode in ("edge", "reflect", "symmetric", "wrap"):
        for width in (0, 1, 99, ((1, 0), (0, 30)), (4, 5)):
            check("numpy.pad -> cv2", GREY, width, mode)
    check("numpy.pad -> cv2", noise(dtype="int32") * 1000, 3, constant_values=-77)
    assert "wider" in reason("numpy.pad -> cv2", GREY, 100, "reflect")
    check("numpy.pad -> cv2", GREY, 100, "symmetric")
    assert "Fortran" in reason("numpy.pad -> cv2", np.asfortranarray(GREY), 3)
    assert "cval" in reason("numpy.pad -> cv2", GREY, 3, constant_values=300)
    assert "mode" in reason("numpy.pad -> cv2", GREY, 3, "mean")
    assert "pad_width" in reason("numpy.pad -> cv2", IMAGE, 3)
    assert "mode" in reason("numpy.pad -> cv2", GREY, 3, "edge", constant_values=0)


def test_borders_of_small_arrays():
    small = noise((32, 32, 3))
    for mode in ("edge", "reflect", "symmetric", "wrap"):
        for width in (0, 1, ((4, 4), (4, 4), (0, 0)), [(0, 1), (2, 0), (1, 1)], (3, 4)):
            check("numpy.pad -> numpy", small, width, mode)
            check("numpy.pad -> numpy", small[::-1, 1:], width, mode)
        check("numpy.pad -> numpy", noise((5,)), 70, mode)  # several times as wide as the array
        check("numpy.pad -> numpy", noise((1, 3)), 5, mode)
    check("numpy.pad -> numpy", noise((3, 4, 5, 6), "int64"), 2, constant_values=-7)
    check("numpy.pad -> numpy", noise((90, 100), "bool", 2), (4, 0))
    assert "large" in reason("numpy.pad -> numpy", noise((300, 300)), 3, "edge")
    assert "Fortran" in reason("numpy.pad -> numpy", np.asfortranarray(GREY), 3)
    assert "cval" in reason("numpy.pad -> numpy", GREY, 3, constant_values=300)
    assert "mode" in reason("numpy.pad -> numpy", GREY, 3, "mean")
    assert "pad_width" in reason("numpy.pad -> numpy", GREY, (1, 2, 3))
    assert "plain number" in reason("numpy.pad -> numpy", GREY, 3, constant_values=True)


def test_places_of_masks():
    for mask in (GREY > 250, GREY > 300, GREY >= 0, noise((1, 3000), "bool", 2), noise((3000, 1), "bool", 2)):
        check("numpy.nonzero", mask)
        check("numpy.argwhere", mask)
        check("numpy.where", mask)
    check("numpy.nonzero", GREY.view(bool))
    assert "mask" in reason("numpy.nonzero", GREY)
    assert "C-ordered" in reason("numpy.nonzero", (GREY > 9).T)
    assert "x and y" in reason("numpy.where", GREY > 9, 1, 2)
    assert "signature" in reason("numpy.where", condition=GREY > 9)


class Sub(np.ndarray):
    pass


ODD = {"list": [1, 2], "subclass": noise().view(Sub), "masked": np.ma.masked_array(noise()), "empty": noise((0, 9))}
MORE = {
    "numpy.percentile": (5,),
    "numpy.quantile": (0.5,),
    "numpy.isin": ([1],),
    "numpy.interp": ([0, 1], [0, 1]),
    "numpy.digitize": ([1],),
    "numpy.pad": (3,),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", NAMES)
def test_odd_inputs_are_declined(name, kind):
    assert reason(name, ODD[kind], *MORE.get(name.partition(" -> ")[0], ()))
