"""More random calls of functions with a substitute on an accelerator: images that are bent, numbers, sounds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import pil_calls, torch_device_calls
from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import spread, weighted
from codedag.backends.torch_device_calls import image, one


def crop(rng: random.Random) -> Call:
    """A call of Image.crop."""
    picture = pil_calls.image(rng)
    width, height = picture.size if hasattr(picture, "mode") else (9, 9)
    left, upper = rng.randint(0, max(width - 2, 0)), rng.randint(0, max(height - 2, 0))
    usual = (left, upper, rng.randint(left + 1, max(width, left + 1)), rng.randint(upper + 1, max(height, upper + 1)))
    odd = (None, (0, 0, width, height), (-3, -3, 5, 5), (5, 5, 2, 2), (0.5, 1, 7, 8), "a")
    return Call((picture,), {"box": weighted(rng, (usual,), odd)})


def rotate(rng: random.Random) -> Call:
    """A call of Image.rotate, mostly by nearest pixels or quarters."""
    call = pil_calls.rotate(rng)
    values = dict(call.kwargs)
    if rng.random() < 0.8:
        return Call(call.args[:2], {**values, "resample": 0} if len(call.args) < 3 and rng.random() < 0.5 else {})
    return call


def bent(rng: random.Random) -> Call:
    """A call of cv2.warpAffine."""
    angle, scale = rng.uniform(0, 6.28), rng.uniform(0.5, 1.8)
    turn = scale * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    matrix = np.hstack([turn, [[rng.uniform(-20, 40)], [rng.uniform(-20, 40)]]])
    odd = (matrix.tolist(), matrix[:1], None, np.zeros((2, 3)))
    values: dict[str, Any] = {
        "src": image(rng, (0, 3, 3, 4)),
        "M": weighted(rng, (matrix, matrix.astype(np.float32)), odd),
    }
    values["dsize"] = weighted(rng, ((rng.randint(8, 70), rng.randint(8, 70)),), (None, (0, 5), 7))
    maybe(rng, values, 0.2, "flags", (1, 1, 1, 0, 99))
    maybe(rng, values, 0.1, "borderMode", (0, 1))
    return spread(rng, ("src", "M", "dsize"), values)


def weighed(rng: random.Random) -> Call:
    """A call of cv2.resize in the ways that are not bit-equal."""
    size = weighted(rng, ((rng.randint(2, 90), rng.randint(2, 90)), (6, 7), (60, 66)), (None, (0, 5), 7))
    values: dict[str, Any] = {"src": image(rng), "dsize": size}
    values["interpolation"] = weighted(rng, (2, 4, 3), (1, 99))
    return spread(rng, ("src", "dsize"), values)


def stretched(rng: random.Random) -> Call:
    """A call of cv2.normalize, mostly from the least to the greatest."""
    values: dict[str, Any] = {"src": image(rng), "dst": None}
    values["alpha"] = weighted(rng, (0, 0.0, 1, 10.5, 255), ("a", None))
    values["beta"] = weighted(rng, (255, 1, 200.0, 99), ("a",))
    values["norm_type"] = weighted(rng, (32,), (4, 2, 99))
    maybe(rng, values, 0.1, "dtype", (-1, 0, 5))
    return spread(rng, ("src", "dst", "alpha", "beta", "norm_type"), values)


def reduced(rng: random.Random, dtypes: tuple[str, ...]) -> Call:
    """A call of a reduction, mostly along an axis, mostly of positive elements."""
    call = torch_device_calls.reduced(rng, dtypes)
    options = dict(call.kwargs)
    maybe(rng, options, 0.3, "keepdims", (True, False))
    values = call.args[0]
    if values.dtype.kind == "f" and rng.random() < 0.95:
        source = np.random.default_rng(rng.getrandbits(32))
        values = (source.random(values.shape) + 0.01).astype(values.dtype)
    return Call((values,), options)


def spread_out(rng: random.Random) -> Call:
    """A call of numpy.var or std."""
    call = reduced(rng, ("float32", "float64", "uint8", "int32"))
    options = dict(call.kwargs)
    maybe(rng, options, 0.4, "ddof", (0, 1, 1, 2, 0.5, 99))
    return Call(call.args, options)


def limited(rng: random.Random) -> Call:
    """A call of numpy.clip with plain numbers."""
    call = one(rng, ("float32", "float64", "uint8", "int64"))
    low, high = sorted((rng.randint(0, 200), rng.randint(0, 200)))
    bounds = weighted(rng, ((low, high), (low, None), (0, 255)), (("a", 3), (None, None), (np.zeros(3), 5)))
    return Call((call.args[0], *bounds))


def chosen(rng: random.Random) -> Call:
    """A call of numpy.where with three arrays."""
    shape = rng.choice(((20, 30), (300,), (4, 5, 6)))
    source = np.random.default_rng(rng.getrandbits(32))
    dtype = rng.choice(("float32", "float64", "uint8", "int64"))
    parts = [(source.random(shape) * 100).astype(dtype) for _ in range(2)]
    odd = ((parts[0][:1], parts[1]), (parts[0].astype("float16"), parts[1]), (None, 5))
    return Call((source.random(shape) < 0.5, *weighted(rng, (tuple(parts),), odd)))


def repeated(rng: random.Random, name: str, odd: tuple[Any, ...]) -> Call:
    """A call of numpy.roll, tile or repeat with an array and a number."""
    call = one(rng, ("float32", "float64", "uint8", "int64"))
    values: dict[str, Any] = {}
    if name != "tile":
        maybe(rng, values, 0.85, "axis", (0, 0, -1, -1, 9))
    return Call((call.args[0], weighted(rng, (1, 2, 3), odd)), values)


def made(rng: random.Random, *more: Any) -> Call:
    """A call of numpy.zeros, ones or full."""
    shape = weighted(rng, ((20, 30), 500, (4, 5, 6), [30, 40]), ((0,), "a", (3,), -1))
    values: dict[str, Any] = {}
    maybe(rng, values, 0.7, "dtype", (np.float32, "uint8", np.int64, float, np.dtype("int32"), None, "bogus"))
    maybe(rng, values, 0.1, "order", ("C", "F"))
    return Call((shape, *more), values)


def counted(rng: random.Random) -> Call:
    """A call of numpy.arange with whole numbers."""
    stop = rng.randint(70, 3000)
    usual = ((stop,), (rng.randint(0, 5), stop), (0, 3 * stop, 3))
    return Call(weighted(rng, usual, ((0.5, 99.5), ("a",), (5,), (0, 9, 0))))


def products(rng: random.Random) -> Call:
    """A call of numpy.matmul or dot with two matrices."""
    source = np.random.default_rng(rng.getrandbits(32))
    rows, inner, columns = (rng.randint(8, 40) for _ in range(3))
    dtype = rng.choice(("float32", "float64"))
    left, right = (source.standard_normal(shape).astype(dtype) for shape in ((rows, inner), (inner, columns)))
    return Call((left, weighted(rng, (right,), (right[:-1], right.astype(np.int64), 5, None))))


def resampled(rng: random.Random) -> Call:
    """A call of scipy.signal.resample."""
    source = np.random.default_rng(rng.getrandbits(32))
    shape = rng.choice(((rng.randint(70, 900),), (rng.randint(70, 90), 3)))
    sound = source.standard_normal(shape).astype(weighted(rng, ("float32", "float64"), ("int64",)))
    values: dict[str, Any] = {"x": sound, "num": weighted(rng, (rng.randint(40, 1500), shape[0] // 2), (0, "a", 2.5))}
    maybe(rng, values, 0.1, "window", (None, "hann"))
    return spread(rng, ("x", "num"), values)


def slowed(rng: random.Random) -> Call:
    """A call of librosa.resample, mostly by transforms."""
    source = np.random.default_rng(rng.getrandbits(32))
    sound = source.standard_normal(rng.randint(200, 3000)).astype(weighted(rng, ("float32", "float64"), ("int64",)))
    values: dict[str, Any] = {"orig_sr": weighted(rng, (22050, 16000, 44100.0), (0, "a"))}
    values["target_sr"] = weighted(rng, (16000, 11025, 8000.0, 22050, 48000), (0, -5))
    values["res_type"] = weighted(rng, ("fft", "scipy"), ("soxr_hq", "bogus", 3))
    maybe(rng, values, 0.3, "fix", (True, False))
    maybe(rng, values, 0.3, "scale", (True, False))
    maybe(rng, values, 0.1, "axis", (-1, 0, 5))
    return Call((sound,), values)
