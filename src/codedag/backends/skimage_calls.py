"""Random calls of the scikit-image functions with substitutes: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_DISK = (np.hypot(*np.mgrid[-3:4, -3:4]) <= 3).astype(np.uint8)
_LAYOUTS = ("plain",) * 8 + ("readonly", "cut", "reversed", "fortran", "strided")


def _bytes(rng: random.Random, colour: bool = True, dtypes: tuple[str, ...] = ("uint8",)) -> Any:
    """Mostly an image of bytes; at times small, flat, of another dtype or no array."""
    if rng.random() < 0.03:
        return rng.choice(([[1, 2], [3, 4]], None, 5))
    sides = (rng.choice((80, 101, 128)), rng.choice((70, 99, 200)))
    usual: tuple[tuple[int, ...], ...] = (sides, (*sides, 3)) if colour else (sides,)
    shape = weighted(rng, usual, ((0, 5), (3, 4), (6000,), (*sides, 4), (1, 5000), (1, 1)))
    return array(rng, shape, weighted(rng, dtypes, ("uint16", "float64", "int16")), rng.choice(_LAYOUTS))


def rescale(rng: random.Random) -> Call:
    """A call of rescale_intensity."""
    values: dict[str, Any] = {"image": _bytes(rng)}
    ins = ("image", "dtype", "uint8", (0, 255), (10, 200), (2.5, 97.25), (-5, 300))
    outs = ("dtype", "uint8", (0, 1), (0.0, 255.0), (0, 255), "float32", np.uint8, (-1, 1))
    if rng.random() < 0.6:
        values["in_range"] = weighted(rng, ins, ((5, 5), (9, 2), "bogus", None, [0, 255], "float"))
    if rng.random() < 0.5:
        values["out_range"] = weighted(rng, outs, ("image", "uint16", "bogus", (3, 3), [0, 1], "uint10"))
    return spread(rng, ("image", "in_range", "out_range"), values)


def gamma(rng: random.Random) -> Call:
    """A call of adjust_gamma."""
    values: dict[str, Any] = {"image": _bytes(rng)}
    maybe(rng, values, 0.8, "gamma", (1, 0.5, 2, 2.2, 0, rng.random() * 3, -1, None))
    maybe(rng, values, 0.3, "gain", (1, 0.5, 2, 1.5, "a"))
    return spread(rng, ("image", "gamma", "gain"), values)


def equalize(rng: random.Random) -> Call:
    """A call of equalize_hist."""
    values: dict[str, Any] = {"image": _bytes(rng, colour=False)}
    maybe(rng, values, 0.2, "nbins", (256, 10, 2.0))
    maybe(rng, values, 0.04, "mask", (None, np.ones((3, 3), bool)))
    return spread(rng, ("image", "nbins", "mask"), values)


def otsu(rng: random.Random) -> Call:
    """A call of threshold_otsu, at times with an image of one colour."""
    values: dict[str, Any] = {"image": _bytes(rng, colour=False)}
    if rng.random() < 0.05:
        values["image"] = np.full((90, 90), 7, np.uint8)
    maybe(rng, values, 0.2, "nbins", (256, 10))
    return spread(rng, ("image", "nbins"), values)


def grey_to_rgb(rng: random.Random) -> Call:
    """A call of gray2rgb."""
    dtypes = ("uint8", "uint8", "float32", "float64", "uint16")
    values: dict[str, Any] = {"image": _bytes(rng, colour=False, dtypes=dtypes)}
    maybe(rng, values, 0.2, "channel_axis", (-1, 2, 0, 5))
    return spread(rng, ("image",), values)


def ubyte(rng: random.Random) -> Call:
    """A call of img_as_ubyte, mostly with floats between 0 and 1."""
    image = _bytes(rng)
    if isinstance(image, np.ndarray) and rng.random() < 0.9:
        source = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
        steps = source.integers(0, 511, image.shape, dtype=np.int64)
        # Half of the images lie on and beside the halves where rounding decides.
        near = (steps / 510 + source.integers(-2, 3, image.shape) * 2e-8).clip(0, 1)
        image = np.asarray(source.random(image.shape) if rng.random() < 0.5 else near, np.float32)
        if rng.random() < 0.05 and image.size:
            image.flat[0] = rng.choice((1.5, -0.5, np.nan, -0.0))
    values: dict[str, Any] = {"image": image}
    maybe(rng, values, 0.2, "force_copy", (True, False, 1))
    return spread(rng, ("image", "force_copy"), values)


def two(rng: random.Random, names: tuple[str, str]) -> Call:
    """A call with two images, mostly of one shape."""
    one = _bytes(rng)
    other = array(rng, one.shape, "uint8") if isinstance(one, np.ndarray) and rng.random() < 0.95 else _bytes(rng)
    return spread(rng, names, {names[0]: one, names[1]: other})


def psnr(rng: random.Random) -> Call:
    """A call of peak_signal_noise_ratio."""
    call = two(rng, ("image_true", "image_test"))
    values: dict[str, Any] = {}
    maybe(rng, values, 0.3, "data_range", (255, 1.0, None, 0, "a"))
    return Call(call.args, {**call.kwargs, **values})


def median(rng: random.Random) -> Call:
    """A call of filters.median."""
    values: dict[str, Any] = {"image": _bytes(rng, colour=False, dtypes=("uint8", "uint8", "uint16", "float32"))}
    usual = (None, np.ones((3, 3)), np.ones((5, 5), np.uint8))
    if rng.random() < 0.6:
        values["footprint"] = weighted(rng, usual, (_DISK, np.ones((3, 5)), np.ones((2, 2)), np.zeros((3, 3))))
    maybe(rng, values, 0.3, "mode", ("nearest", "reflect", "mirror", "constant", "wrap", "bogus"))
    maybe(rng, values, 0.05, "behavior", ("ndimage", "rank"))
    return spread(rng, ("image", "footprint"), values)


def morphology(rng: random.Random) -> Call:
    """A call of an erosion, dilation, opening or closing."""
    values: dict[str, Any] = {"image": _bytes(rng, colour=False, dtypes=("uint8", "uint8", "uint8", "uint16", "int16"))}
    usual = (np.ones((3, 3)), np.ones((5, 5), np.uint8), _DISK, None, np.ones((3, 5)))
    odd = (np.eye(3), np.ones((2, 2)), np.ones((4, 3)), np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]]), np.ones(3), [[1]])
    if rng.random() < 0.8:
        values["footprint"] = weighted(rng, usual, odd)
    if rng.random() < 0.3:
        values["mode"] = weighted(
            rng, ("reflect", "nearest", "mirror", "constant"), ("wrap", "max", "min", "ignore", 3)
        )
    maybe(rng, values, 0.1, "cval", (0.0, 0, 5, 0.5))
    return spread(rng, ("image", "footprint", "out"), values)
