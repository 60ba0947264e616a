"""The cv2 substitutions against their originals: an accepted call is bit-equal, any other has a reason."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("cv2")
ndimage = pytest.importorskip("scipy.ndimage")

from substitution_checks import prove_a_thousand  # noqa: E402

from codedag.backends.proof import prove  # noqa: E402
from codedag.backends.registry import EXACT, attempt, find  # noqa: E402
from codedag.backends.same import same  # noqa: E402

FILTERS = ("median_filter", "minimum_filter", "maximum_filter")
GREY = ("grey_erosion", "grey_dilation")
BINARY = ("binary_erosion", "binary_dilation")
ALL = FILTERS + GREY + BINARY
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)


def of(name):
    (found,) = (made for made in find(f"scipy.ndimage.{name}") if made.into == "cv2")
    return found


def noise(dtype="uint8", shape=(130, 150), high=100, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


def reason(name, *args, **kwargs):
    verdict = of(name).accepts(args, kwargs)
    return "" if verdict else verdict.reason


def check(name, *args, **kwargs):
    """Runs an accepted call through both and wants the same result and untouched arguments."""
    substitution = of(name)
    assert substitution.accepts(args, kwargs)
    before = [arg.tobytes() if isinstance(arg, np.ndarray) else arg for arg in args]
    result = substitution.run(*args, **kwargs)
    after = [arg.tobytes() if isinstance(arg, np.ndarray) else arg for arg in args]
    verdict = same(getattr(ndimage, name)(*args, **kwargs), result)
    assert verdict, verdict
    assert before == after
    assert result.flags.owndata
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert not np.shares_memory(result, args[0])


@pytest.mark.parametrize("name", ALL)
def test_random_calls(name, seed):
    proof = prove(of(name), calls=300, seed=seed)
    assert proof.verdict, proof
    assert proof.accepted >= 30  # two in five and more are: no seed in ten million gives so few


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_a_thousand_accepted_calls(name, seed):
    prove_a_thousand(of(name), seed)


@pytest.mark.parametrize("name", ALL)
def test_half_of_the_usual_calls_are_accepted(name):
    substitution, rng, accepted = of(name), random.Random(7), 0
    for _ in range(200):
        picture = noise(rng.choice(("uint8", "uint8", "bool", "float32", "uint16")), high=2 if name in BINARY else 99)
        options = {}
        if name not in BINARY:
            options = {
                "size": rng.choice((3, 3, 5, 7, (3, 3), 4)),
                "mode": rng.choice(("reflect", "nearest", "constant")),
            }
        elif rng.random() < 0.5:
            options = {"structure": np.ones((3, 3)), "iterations": rng.choice((1, 2, 20))}
        accepted += bool(substitution.accepts((picture,), options))
    assert accepted >= 100


@pytest.mark.parametrize("mode", ["reflect", "mirror", "nearest", "constant", "wrap"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "int16", "float32", "float64"])
@pytest.mark.parametrize("name", FILTERS + GREY)
def test_modes_and_dtypes(name, dtype, mode):
    picture = noise(dtype, high=2 if dtype == "bool" else 100)
    check(name, picture, 3, mode=mode, cval=1)
    check(name, picture, size=(5, 5), mode=mode, origin=(1, -2))


@pytest.mark.parametrize("name", FILTERS + GREY)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_are_filtered_apart(name, channels):
    picture = noise(shape=(70, 80, channels))
    check(name, picture, (3, 3, 1))
    check(name, picture, 5, axes=(0, 1))
    check(name, picture, size=3, axes=[-3, -2])
    check(name, picture, footprint=np.ones((3, 3, 1)))
    check(name, noise(shape=(70, 80))[:, :, np.newaxis], (3, 3, 1))


@pytest.mark.parametrize("side", [7, 9, 15, 31, 63])
def test_large_medians_of_bytes(side):
    check("median_filter", noise(shape=(70, 90), high=256), side)
    check("median_filter", noise(shape=(70, 90), high=256, dtype="int64"), side, mode="constant", cval=255)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float64"])
def test_medians_of_values_that_a_narrower_dtype_holds(dtype):
    check("median_filter", noise(dtype, high=60_000), 5)
    check("median_filter", noise(dtype, high=60_000), 3, mode="constant", cval=70_000)


@pytest.mark.parametrize("name", ["minimum_filter", "maximum_filter", *GREY])
def test_windows_of_any_shape(name):
    rng = np.random.default_rng(3)
    for _ in range(30):
        shape = tuple(rng.integers(1, 9, 2))
        footprint = rng.random(shape) < 0.6
        if footprint.sum() and footprint.size > 1:
            check(name, noise(), footprint=footprint, mode="mirror")
            check(name, noise(), size=tuple(int(side) for side in shape), mode="wrap")


@pytest.mark.parametrize("border_value", [0, 1, True])
@pytest.mark.parametrize("iterations", [1, 2, 5, 10])
@pytest.mark.parametrize("name", BINARY)
def test_binary_borders_and_iterations(name, iterations, border_value):
    for structure in (None, CROSS, np.ones((3, 5)), np.eye(3), CROSS.astype(float), ~CROSS):
        for dtype in ("bool", "uint8", "int64", "float32"):
            check(name, noise(dtype, high=2), structure, iterations=iterations, border_value=border_value)


@pytest.mark.parametrize("name", BINARY)
def test_binary_windows_off_centre(name):
    for origin in (1, -1, (0, 1), [1, -1]):
        check(name, noise("bool", high=2), np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]]), origin=origin)
    check(name, noise("bool", high=2), np.ones((2, 4)), origin=(0, 1))
    check(name, noise("bool", (70, 80, 3), high=2), CROSS, axes=(0, 1))


@pytest.mark.parametrize("name", ALL)
def test_layouts(name):
    picture = noise("uint8", high=2, shape=(140, 160))
    read_only = picture.copy()
    read_only.flags.writeable = False
    options = {} if name in BINARY else {"size": 3}
    views = (picture[::-1], picture[:, ::-1], picture[::2], picture[1:-1, 3:-2], picture.T)
    for view in (read_only, np.asfortranarray(picture), *views):
        check(name, view, **options)
    for repeated in (picture[:1], picture[:, :1]):
        check(name, np.broadcast_to(repeated, picture.shape), **options)
    assert "broadcast" in reason(name, np.broadcast_to(picture[0, 0], picture.shape), **options)


def test_a_bool_with_other_bytes_is_true():
    picture = noise("uint8", high=5).view(bool)
    check("binary_erosion", picture)
    assert "bytes other than 0 and 1" in reason("minimum_filter", picture, 3)


SPECIAL = {"NaN": np.nan, "negative zero": -0.0}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FILTERS + GREY)
def test_floats_without_order_are_declined(name, dtype):
    for word, value in SPECIAL.items():
        for sign in (1, -1):
            picture = noise(dtype) + 1
            picture[4, 5] = np.copysign(value, sign) if word == "NaN" else value
            assert word in reason(name, picture, 3)


@pytest.mark.parametrize("name", FILTERS + GREY)
def test_infinities_and_denormals_are_exact(name):
    picture = noise("float32") + np.float32(1)
    picture[::3, ::4] = np.inf
    picture[1::3, ::5] = -np.inf
    picture[2::3, ::2] = 1e-45
    check(name, picture, 3)


class Sub(np.ndarray):
    pass


ODD_INPUTS = {
    "list": ([[1, 2], [3, 4]], "not a plain array"),
    "subclass": (noise().view(Sub), "not a plain array"),
    "masked": (np.ma.masked_array(noise()), "not a plain array"),
    "complex": (noise("complex64"), "dtype"),
    "half": (noise("float16"), "dtype"),
    "big endian": (noise(">u2"), "dtype"),
    "empty": (noise(shape=(0, 9)), "empty"),
    "one row": (noise(shape=(1, 9000)), "whole array"),
    "small": (noise(shape=(9, 9)), "too small"),
    "one dimension": (noise(shape=(9000,)), "dimensions"),
    "four dimensions": (noise(shape=(20, 20, 3, 9)), "dimensions"),
    "unaligned": (np.zeros(40_001, np.uint8)[1:].view(np.uint16)[:20_000].reshape(100, 200), "not aligned"),
    "long": (noise(shape=(3, 40_000)), "longer"),
}


@pytest.mark.parametrize("kind", ODD_INPUTS)
@pytest.mark.parametrize("name", ALL)
def test_odd_inputs_are_declined(name, kind):
    picture, words = ODD_INPUTS[kind]
    assert words in reason(name, picture, **({} if name in BINARY else {"size": 3}))


ODD_OPTIONS = [
    ({}, "no size"),
    ({"size": 3, "footprint": CROSS}, "both"),
    ({"size": 3, "output": np.uint8}, "output"),
    ({"size": 3, "output": noise()}, "output"),
    ({"size": 3, "mode": "grid-wrap"}, "mode"),
    ({"size": 3, "mode": ["reflect", "wrap"]}, "mode"),
    ({"size": 3, "mode": None}, "mode"),
    ({"size": 3, "cval": "0"}, "cval"),
    ({"size": 3, "cval": None}, "cval"),
    ({"size": 3, "cval": 10**400}, "cval"),
    ({"size": 3, "cval": np.nan}, "cval"),
    ({"size": 3, "mode": "constant", "cval": 0.5}, "cval"),
    ({"size": 3, "mode": "constant", "cval": 256}, "cval"),
    ({"size": 3, "mode": "constant", "cval": -1}, "cval"),
    ({"size": 3, "mode": "constant", "cval": -0.0}, "cval"),
    ({"size": 3, "origin": 2}, "beside"),
    ({"size": 3, "origin": 0.0}, "window"),
    ({"size": 3, "origin": (0, 0, 0)}, "window"),
    ({"size": 3.0}, "window"),
    ({"size": True}, "window"),
    ({"size": 0}, "window"),
    ({"size": 1}, "window"),
    ({"size": (3,)}, "window"),
    ({"size": 10**30}, "window"),
    ({"size": np.array([3, 3])}, "window"),
    ({"footprint": [[1, 1], [1]]}, "window"),
    ({"footprint": np.zeros((3, 3))}, "window"),
    ({"footprint": np.ones((3, 0))}, "window"),
    ({"footprint": np.ones(3)}, "window"),
    ({"footprint": np.ones((500, 500))}, "window"),
    ({"size": 3, "axes": (1, 0)}, "axes"),
    ({"size": 3, "axes": 0}, "axes"),
    ({"size": 3, "axes": (0, 7)}, "axes"),
    ({"sise": 3}, "signature"),
]


@pytest.mark.parametrize(("options", "words"), ODD_OPTIONS, ids=[str(number) for number in range(len(ODD_OPTIONS))])
@pytest.mark.parametrize("name", FILTERS + GREY)
def test_odd_options_are_declined(name, options, words):
    assert words in reason(name, noise(), **options)


def test_windows_across_channels_are_declined():
    picture = noise(shape=(70, 80, 3))
    for options in ({"size": 3}, {"size": (3, 3, 3)}, {"footprint": np.ones((3, 3, 3))}):
        assert "third axis" in reason("minimum_filter", picture, **options)
    assert "third axis" in reason("binary_erosion", picture)
    assert "channels" in reason("minimum_filter", noise(shape=(70, 80, 9)), (3, 3, 1))
    assert "channels" in reason("median_filter", noise(shape=(70, 80, 2)), (3, 3, 1))


@pytest.mark.parametrize(
    ("picture", "options", "words"),
    [
        (noise(), {"size": 4}, "odd squares"),
        (noise(), {"size": (3, 5)}, "odd squares"),
        (noise(), {"footprint": CROSS}, "odd squares"),
        (noise(), {"size": 65}, "65 x 65"),
        (noise("float32") / 7, {"size": 9}, "no such median"),
        (noise("float64") / 7, {"size": 9}, "no such median"),
        (noise("float64") * 1e300, {"size": 9}, "no such median"),
        (noise("int64") + 2**60, {"size": 3}, "no such median"),
        (noise("int32"), {"size": 7, "mode": "constant", "cval": -1}, "no such median"),
    ],
)
def test_medians_that_cv2_has_not(picture, options, words):
    assert words in reason("median_filter", picture, **options)


def test_what_gains_nothing_is_left_to_scipy():
    assert "dtype" in reason("maximum_filter", noise("int64"), 3)
    assert "one row or column" in reason("maximum_filter", noise("float32"), (1, 3))
    assert "too small" in reason("maximum_filter", noise(shape=(70, 70)), (1, 3))
    assert "too small" in reason("maximum_filter", noise("float32", (100, 100)), 3)
    check("maximum_filter", noise(), (1, 3))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask": noise("bool")}, "mask"),
        ({"output": noise("bool")}, "output"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": 11}, "iterations"),
        ({"iterations": 1.0}, "iterations"),
        ({"iterations": True}, "iterations"),
        ({"border_value": 2}, "border_value"),
        ({"border_value": None}, "border_value"),
        ({"brute_force": 1}, "brute_force"),
        ({"structure": np.zeros((3, 3))}, "window"),
        ({"structure": np.ones(3)}, "window"),
        ({"structure": [[1, 1]]}, "window"),
        ({"origin": 2}, "beside"),
        ({"origin": 1, "iterations": 2}, "not centred"),
        ({"structure": np.ones((2, 2)), "iterations": 2}, "not centred"),
        ({"axes": (1, 0)}, "axes"),
    ],
)
@pytest.mark.parametrize("name", BINARY)
def test_odd_binary_options_are_declined(name, options, words):
    assert words in reason(name, noise("bool", high=2), **options)


def test_a_structure_that_is_not_flat_is_declined():
    assert "flat" in reason("grey_erosion", noise(), structure=np.ones((3, 3)))


@pytest.mark.parametrize("name", FILTERS + GREY)
def test_calls_that_raise_are_declined(name):
    for options in (
        {},
        {"size": 3, "mode": "bogus"},
        {"size": 3, "origin": 9},
        {"size": (3,)},
        {"size": 3, "cval": "x"},
    ):
        assert attempt(getattr(ndimage, name), noise(), **options).error is not None
        assert reason(name, noise(), **options)


def test_numpy_set_to_raise_does_not_reach_into_the_guard():
    picture = noise("float64") * 1e-320
    with np.errstate(all="raise"):
        assert reason("median_filter", picture, 11)


@pytest.mark.parametrize("name", ALL)
def test_facts(name):
    substitution = of(name)
    assert substitution.original() is getattr(ndimage, name)
    assert (substitution.into, substitution.equivalence, substitution.pu) == ("cv2", EXACT, "cpu")
    assert substitution.available()
