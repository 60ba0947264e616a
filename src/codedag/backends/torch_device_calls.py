"""Random calls of the functions that have a substitute on an accelerator: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import pil_calls
from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_LAYOUTS = ("plain",) * 5 + ("readonly", "cut", "reversed", "fortran", "strided")


def image(rng: random.Random, channels: tuple[int, ...] = (0, 3, 3, 4, 2), dtypes: tuple[str, ...] = ("uint8",)) -> Any:
    """Mostly a small image; at times tiny, of another dtype or no array."""
    if rng.random() < 0.02:
        return rng.choice((None, 5, [[1, 2], [3, 4]]))
    sides = rng.randint(8, 60), rng.randint(8, 60)
    sides = weighted(rng, (sides,), ((1, 1), (2, 90), (120, 3)), 0.06)
    tail = rng.choice(channels)
    made = array(
        rng, (*sides, tail) if tail else sides, weighted(rng, dtypes, ("int64", "uint16")), rng.choice(_LAYOUTS)
    )
    if made.dtype.kind == "f":
        with np.errstate(all="ignore"):
            made = np.clip(np.nan_to_num(made), -1e29, 1e29).astype(made.dtype)
    return made


def resize(rng: random.Random) -> Call:
    """A call of cv2.resize."""
    usual = (rng.randint(1, 90), rng.randint(1, 90))
    values: dict[str, Any] = {"src": image(rng), "dsize": weighted(rng, (usual, usual, (30, 30)), (None, (0, 5), 7))}
    if rng.random() < 0.6:
        values["interpolation"] = weighted(rng, (0, 1, 1, 6), (2, 3, 99))
    if isinstance(values["src"], np.ndarray) and rng.random() < 0.2:  # whole blocks by their means
        sides = [rng.choice([n for n in range(1, side + 1) if side % n == 0]) for side in values["src"].shape[:2]]
        values |= {"dsize": (sides[1], sides[0]), "interpolation": 3}
    return spread(rng, ("src", "dsize"), values)


def flip(rng: random.Random) -> Call:
    """A call of cv2.flip."""
    values = {
        "src": image(rng, dtypes=("uint8", "float32", "float64")),
        "flipCode": weighted(rng, (0, 1, -1), ("a", None)),
    }
    return spread(rng, ("src", "flipCode"), values)


def border(rng: random.Random) -> Call:
    """A call of cv2.copyMakeBorder."""
    values: dict[str, Any] = {"src": image(rng, dtypes=("uint8", "float32"))}
    values |= {name: weighted(rng, (0, 1, 3, 7), (-1, 40)) for name in ("top", "bottom", "left", "right")}
    values["borderType"] = weighted(rng, (1, 2, 3, 4), (0, 99, None))
    return spread(rng, ("src", "top", "bottom", "left", "right", "borderType"), values)


def colours(rng: random.Random) -> Call:
    """A call of cv2.cvtColor."""
    import cv2

    picture = image(rng, (0, 3, 3, 3))
    flat = isinstance(picture, np.ndarray) and picture.ndim == 2
    three = (cv2.COLOR_BGR2RGB, cv2.COLOR_RGB2BGR, cv2.COLOR_BGR2GRAY, cv2.COLOR_RGB2GRAY)
    usual = (cv2.COLOR_GRAY2BGR, cv2.COLOR_GRAY2RGB) if flat else three
    values = {"src": picture, "code": weighted(rng, usual, (cv2.COLOR_BGR2HSV, cv2.COLOR_BGR2Lab, 9999, None), 0.15)}
    return spread(rng, ("src", "code"), values)


def threshold(rng: random.Random) -> Call:
    """A call of cv2.threshold."""
    values: dict[str, Any] = {"src": image(rng), "thresh": weighted(rng, (0, 100, 127, 255, 12.0), (-1, 99.5, "a"))}
    values["maxval"] = weighted(rng, (255, 1, 200.0), (300, None))
    values["type"] = weighted(rng, (0, 1, 2, 3, 4), (8, 99))
    return spread(rng, ("src", "thresh", "maxval", "type"), values)


def blur(rng: random.Random) -> Call:
    """A call of cv2.GaussianBlur."""
    sizes = ((3, 3), (5, 5), (7, 3), (3, 3), (5, 5), (4, 4), (9, 9))
    values: dict[str, Any] = {"src": image(rng), "ksize": rng.choice(sizes)}
    values["sigmaX"] = weighted(rng, (0, 1, 1.5, 2.25), (-1, "a"))
    maybe(rng, values, 0.1, "borderType", (4, 1, 0))
    return spread(rng, ("src", "ksize", "sigmaX"), values)


def picture(rng: random.Random) -> Call:
    """A call of Image.resize on an image of L or RGB."""
    call = pil_calls.resize(rng)
    values = dict(call.kwargs)
    if rng.random() < 0.8:
        values.pop("box", None)
        values.pop("reducing_gap", None)
    made = pil_calls.image(rng, ("RGB", "RGB", "L"))
    return Call((made, *call.args[1:3]), values)


_MOSTLY = ("plain",) * 12 + ("readonly", "fortran", "strided", "reversed")


def two(rng: random.Random, dtypes: tuple[str, ...], small: bool = False) -> Call:
    """A call of a function of two arrays of one dtype, mostly of one shape; small: of moderate elements."""
    dtype = weighted(rng, dtypes, ("complex64", "bool", "float16"), 0.05)
    shape = weighted(rng, ((40, 30), (3000,), (8, 9, 10)), ((0,), (3,)), 0.05)
    pair = [_finite(array(rng, shape, dtype, rng.choice(_MOSTLY))) for _ in range(2)]
    if small and dtype in ("float32", "float64"):
        pair = [(np.random.default_rng(rng.getrandbits(32)).random(shape) + 0.01).astype(dtype) for _ in range(2)]
    odd = (2, 0.5, None, "a", pair[1][:1])
    return Call((pair[0], weighted(rng, (pair[1],), odd, 0.1)))


def one(rng: random.Random, dtypes: tuple[str, ...], **options: tuple[Any, ...]) -> Call:
    """A call of a function of one array, with some of the options."""
    shape = weighted(rng, ((40, 30), (3000,), (8, 9, 10)), ((0,), (3,), (1, 1)), 0.08)
    dtype = weighted(rng, dtypes, ("complex64", "float16"), 0.05)
    values: dict[str, Any] = {}
    for name, choices in options.items():
        maybe(rng, values, 0.5, name, choices)
    return Call((_finite(array(rng, shape, dtype, rng.choice(_MOSTLY))),), values)


def _finite(values: Any) -> Any:
    if values.dtype.kind not in "fc":
        return values
    with np.errstate(all="ignore"):
        return np.clip(np.nan_to_num(values.real), -1e29, 1e29).astype(values.dtype)


def positive(rng: random.Random, codes: str) -> Call:
    """A call with one array of one of the dtypes, mostly of positive elements."""
    dtypes = {"f": "float32", "d": "float64", "l": "int64", "i": "int32"}
    call = one(rng, tuple(dtypes[code] for code in codes))
    if call.args[0].dtype.kind != "f" or rng.random() < 0.1:
        return call
    return Call((np.abs(call.args[0]) + call.args[0].dtype.type(0.125),))


def reduced(rng: random.Random, dtypes: tuple[str, ...]) -> Call:
    """A call of a reduction, mostly along an axis."""
    call = one(rng, dtypes, axis=(0, 1, -1))
    if call.args[0].ndim == 1 and rng.random() < 0.8:
        call = Call((np.stack([call.args[0]] * 3),), call.kwargs)
    if call.kwargs or rng.random() < 0.1:
        return call
    return Call(call.args, {"axis": rng.choice((0, 0, -1, 9))})


def waves(rng: random.Random) -> Call:
    """A call of a transform of floats."""
    source, shape = np.random.default_rng(rng.getrandbits(32)), rng.choice(((300,), (20, 64), (7, 33)))
    values = source.standard_normal(shape).astype(weighted(rng, ("float32", "float64"), ("int64", "float16")))
    options: dict[str, Any] = {}
    maybe(rng, options, 0.4, "axis", (0, -1, 0, 9))
    maybe(rng, options, 0.2, "n", (None, None, 16))
    maybe(rng, options, 0.1, "norm", (None, "ortho", "bogus"))
    return Call((values,), options)


def several(rng: random.Random) -> Call:
    """A call with a list of arrays, mostly of one shape."""
    shape = weighted(rng, ((20, 30), (200,), (4, 5, 6)), ((0,), (3,)), 0.06)
    dtype = rng.choice(("float32", "uint8", "int64"))
    arrays = [_finite(array(rng, shape, dtype, "plain")) for _ in range(rng.choice((2, 3, 5)))]
    if rng.random() < 0.08:
        arrays.append(rng.choice((np.zeros((3, 3)), 5, "a", arrays[0].astype(np.float64))))
    values: dict[str, Any] = {}
    maybe(rng, values, 0.5, "axis", (0, -1, 0, 1, 9))
    return Call((arrays if rng.random() < 0.93 else tuple(arrays),), values)


def rows(rng: random.Random) -> Call:
    """A call with two rows of floats."""
    dtype = rng.choice(("float32", "float64"))
    source = np.random.default_rng(rng.getrandbits(32))
    first, second = (
        source.standard_normal(count).astype(dtype) for count in (rng.randint(100, 3000), rng.randint(2, 99))
    )
    values: dict[str, Any] = {
        "in1": first,
        "in2": weighted(rng, (second,), (second.astype(np.int64), second[:, None], None)),
    }
    maybe(rng, values, 0.2, "mode", ("full", "full", "same", "bogus"))
    return spread(rng, ("in1", "in2", "mode"), values)


def levels(rng: random.Random) -> Call:
    """A call of power_to_db or amplitude_to_db."""
    source = np.random.default_rng(rng.getrandbits(32))
    shape = weighted(rng, ((40, 30), (128, 20), (500,)), ((3,), (0,)), 0.06)
    values = source.random(shape).astype(weighted(rng, ("float32", "float64"), ("int64", "complex64")))
    options: dict[str, Any] = {}
    maybe(rng, options, 0.3, "ref", (1.0, 0.5, 2, np.max))
    maybe(rng, options, 0.2, "amin", (1e-10, 1e-5, 0))
    maybe(rng, options, 0.3, "top_db", (80.0, None, 40, -1))
    return Call((values,), options)
