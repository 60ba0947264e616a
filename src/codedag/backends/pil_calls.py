"""Random calls of the Pillow functions with substitutes: usual, odd, and such that raise."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted

_SIDES = (32, 33, 47, 64, 90, 101, 160)
_CHANNELS = {"L": (), "RGB": (3,), "RGBA": (4,), "CMYK": (4,), "YCbCr": (3,), "HSV": (3,), "LA": (2,)}


_USUAL = ("RGB", "RGB", "RGB", "L", "RGBA")
_LARGE = (160, 181, 224, 256)
_COLOURFUL = ("RGB", "RGB", "RGBA")
_LARGER = (182, 224, 256, 301)
_WIDER = (193, 224, 301, 400, 450)


def image(rng: random.Random, usual: tuple[str, ...] = _USUAL, lengths: tuple[int, ...] = _SIDES) -> Any:
    """Mostly an image of a usual mode; at times small, long, of another mode or no image."""
    from PIL import Image

    if rng.random() < 0.03:
        return rng.choice((None, 5, np.zeros((40, 40, 3), np.uint8)))
    sides = rng.choice(lengths), rng.choice(lengths)
    sides = weighted(rng, (sides,), ((1, 1), (3, 700), (800, 2), (1, 40), (0, 0)), 0.06)
    mode = weighted(rng, usual, ("CMYK", "YCbCr", "HSV", "LA", "1", "P", "I", "F"))
    if mode not in _CHANNELS:
        return Image.new(mode, sides)
    made = Image.fromarray(array(rng, (max(sides[1], 1), max(sides[0], 1), *_CHANNELS[mode]), "uint8"), mode)
    if rng.random() < 0.2:
        made.info.update(rng.choice(({"dpi": (72, 72)}, {"comment": b"a"}, {"transparency": 3})))
    return made


def _filter(rng: random.Random) -> Any:
    from PIL.Image import Resampling

    usual = (Resampling.BILINEAR, 2, Resampling.BICUBIC, Resampling.LANCZOS, 1, 3, Resampling.BOX, Resampling.HAMMING)
    return weighted(rng, usual, (0, Resampling.NEAREST, None, 9, 2.0, "bilinear"))


def _size(rng: random.Random) -> Any:
    usual = (rng.randint(8, 120), rng.randint(8, 120))
    return weighted(
        rng, (usual, usual, (64, 64), (224, 224)), ((1, 1), [40, 50], (0, 5), (-1, 5), (40.0, 50), 5, (1, 300))
    )


def resize(rng: random.Random) -> Call:
    """A call of Image.resize."""
    picture = image(rng)
    values: dict[str, Any] = {"self": picture, "size": _size(rng)}
    if rng.random() < 0.8:
        values["resample"] = _filter(rng)
    if rng.random() < 0.25:
        width, height = picture.size if hasattr(picture, "mode") else (9, 9)
        left, top = rng.choice((0, rng.random() * width * 0.6)), rng.choice((0, int(height * 0.3)))
        usual = (left, top, width - rng.choice((0, width * 0.2)), height - rng.choice((0, 1.5)))
        values["box"] = weighted(rng, (usual,), ((0, 0, 9999, 9999), (5, 5, 2, 2), None, [0, 0, 5, 5], (0, 0)))
    maybe(rng, values, 0.15, "reducing_gap", (2.0, 3, 1.0, None, 0.5))
    return _method(rng, values, ("size", "resample", "box", "reducing_gap"))


def reduce(rng: random.Random) -> Call:
    """A call of Image.reduce."""
    picture = image(rng, lengths=(160, *_LARGER, 400))
    usual = (2, 2, 3, 4, (2, 3), (1, 2), (5, 1), rng.randint(2, 40), (rng.randint(1, 9), rng.randint(1, 9)))
    values: dict[str, Any] = {"self": picture, "factor": weighted(rng, usual, (1, 0, -1, 2.0, "2", [2, 2], (2,), 300))}
    if rng.random() < 0.3:
        width, height = picture.size if hasattr(picture, "mode") else (9, 9)
        left, top = rng.randint(0, width // 4), rng.randint(0, height // 4)
        box = (left, top, rng.randint(left, width), rng.randint(top, height))
        values["box"] = weighted(rng, (box, box, None), ((0, 0, 9999, 9), (5, 5, 2, 2), (0.5, 0, 9, 9), [0, 0, 9, 9]))
    return _method(rng, values, ("factor", "box"))


def _method(rng: random.Random, values: dict[str, Any], names: tuple[str, ...]) -> Call:
    """A call of a method: the object comes first."""
    picture = values.pop("self")
    call = spread(rng, names, values)
    return Call((picture, *call.args), call.kwargs)


def fitting(rng: random.Random, more: tuple[str, ...]) -> Call:
    """A call of a function of ImageOps that brings an image to a size."""
    values: dict[str, Any] = {"image": image(rng), "size": _size(rng)}
    if rng.random() < 0.6:
        values["method"] = _filter(rng)
    if "bleed" in more:
        maybe(rng, values, 0.2, "bleed", (0.0, 0.1, 0.7))
    if "color" in more:
        maybe(rng, values, 0.2, "color", (None, 0, 128, "red", "nonsense"))
    if "centering" in more:
        maybe(rng, values, 0.3, "centering", ((0.5, 0.5), (0, 1), (0.25, 0.3)))
    return spread(rng, ("image", "size", "method"), values)


def scale(rng: random.Random) -> Call:
    """A call of ImageOps.scale."""
    values = {"image": image(rng), "factor": weighted(rng, (0.5, 2, 1.3, 0.77, 1.7), (1, 0, -1, 0.001, "a"))}
    if rng.random() < 0.5:
        values["resample"] = _filter(rng)
    return spread(rng, ("image", "factor", "resample"), values)


def transpose(rng: random.Random) -> Call:
    """A call of Image.transpose."""
    from PIL.Image import Transpose

    method = weighted(rng, (*Transpose, 0, 2, 5), (7, -1, None, "x"))
    picture = image(rng, lengths=_LARGE)
    return Call((picture,), {"method": method}) if rng.random() < 0.4 else Call((picture, method))


def alone(rng: random.Random) -> Call:
    """A call with an image and nothing else."""
    return spread(rng, ("image",), {"image": image(rng, lengths=_LARGE)})


def colourful(rng: random.Random) -> Call:
    """A call with an image that mostly has colours."""
    return spread(rng, ("image",), {"image": image(rng, _COLOURFUL)})


def rotate(rng: random.Random) -> Call:
    """A call of Image.rotate, mostly bilinear or by quarters."""
    angles = (10, -30.5, 45, 5.25, rng.random() * 360, 90, 180, 270, -90)
    values: dict[str, Any] = {
        "self": image(rng, ("RGB", "RGB", "L"), _LARGE),
        "angle": weighted(rng, angles, (0, 360, "a", None)),
    }
    if rng.random() < 0.85:
        values["resample"] = weighted(rng, (2,), (0, 3, 1, 9), 0.2)
    maybe(rng, values, 0.3, "expand", (True, False, 1, 0))
    maybe(rng, values, 0.05, "center", (None, (3, 4)))
    maybe(rng, values, 0.05, "translate", (None, (3, 4)))
    maybe(rng, values, 0.15, "fillcolor", (None, 0, 128, "white"))
    return _method(rng, values, ("angle", "resample", "expand", "center", "translate", "fillcolor"))


def convert(rng: random.Random) -> Call:
    """A call of Image.convert between the usual modes."""
    picture = image(rng, ("RGB", "RGB", "L", "RGBA"))
    usual = {"RGB": ("L", "RGBA"), "L": ("RGB", "RGBA"), "RGBA": ("L", "RGB")}.get(getattr(picture, "mode", ""), ("L",))
    values: dict[str, Any] = {"self": picture, "mode": weighted(rng, usual, ("P", "1", "HSV", "nonsense", None))}
    maybe(rng, values, 0.05, "dither", (None, 0))
    maybe(rng, values, 0.03, "matrix", (None, (0.5, 0.2, 0.3, 0)))
    return _method(rng, values, ("mode",))


def tobytes(rng: random.Random) -> Call:
    """A call of Image.tobytes, mostly without options."""
    picture = image(rng, ("RGB", "RGB", "RGB", "HSV"), _LARGE)
    args = weighted(rng, ((),), (("raw",), ("raw", getattr(picture, "mode", "L")), ("raw", "BGR"), ("nonsense",)), 0.2)
    return Call((picture, *args))


def fromarray(rng: random.Random) -> Call:
    """A call of Image.fromarray, mostly with three channels."""
    sides = rng.choice(_SIDES), rng.choice(_SIDES)
    shape = weighted(rng, ((*sides, 3),), (sides, (*sides, 4), (1, 1, 3), (0, 4, 3), (2, 2, 2, 2), (3, 900, 3)), 0.15)
    layout = rng.choice(("plain", "plain", "plain", "plain", "readonly", "reversed", "fortran", "strided"))
    values: dict[str, Any] = {
        "obj": array(rng, shape, weighted(rng, ("uint8",), ("float32", "uint16", "bool")), layout)
    }
    maybe(rng, values, 0.1, "mode", (None, "RGB", "HSV", "nonsense"))
    return spread(rng, ("obj", "mode"), values)


@functools.lru_cache(maxsize=4096)
def _blur_filter(name: str, *radius: Any) -> Any:
    """A filter, the same object for the same radius: two of them cannot be compared."""
    from PIL import ImageFilter

    return getattr(ImageFilter, name)(*radius)


def blur(rng: random.Random) -> Call:
    """A call of Image.filter, mostly with a blur."""
    from PIL import ImageFilter

    radius = weighted(rng, (1, 2, 0.5, 3.7, rng.random() * 9 + 0.1, (1.5, 2.5)), (0, (0, 3), 60))
    usual = (_blur_filter("GaussianBlur", radius), _blur_filter("GaussianBlur"), _blur_filter("BoxBlur", radius))
    odd = (ImageFilter.SHARPEN, _blur_filter("MedianFilter", 3), None, 5, ImageFilter.GaussianBlur)
    return Call((image(rng), weighted(rng, usual, odd)))


def _factor(rng: random.Random) -> Any:
    return weighted(rng, (0.5, 0.8, 1.2, rng.random() * 2, 1.7, -0.3), (0, 1, 0.0, 1.0, 40, 1e9, None, "a", True))


def blend(rng: random.Random) -> Call:
    """A call of Image.blend, mostly of two images of one kind."""
    one = image(rng, _COLOURFUL, _LARGER)
    alike = getattr(one, "mode", "") in _CHANNELS and rng.random() < 0.95
    other = image(rng, _COLOURFUL, _LARGER) if not alike else one.rotate(180) if rng.random() < 0.5 else one.copy()
    return spread(rng, ("im1", "im2", "alpha"), {"im1": one, "im2": other, "alpha": _factor(rng)})


@functools.lru_cache(maxsize=4096)
def _enhancer(name: str, number: int) -> Any:
    """An enhancer, the same object for the same number: two of them cannot be compared."""
    from PIL import ImageEnhance

    rng = random.Random(number)
    picture = image(rng, _COLOURFUL, _LARGER)
    while getattr(picture, "mode", "") not in _CHANNELS or not min(picture.size):
        picture = image(rng, _COLOURFUL, _LARGER)
    return getattr(ImageEnhance, name)(picture)


def enhancer_of(rng: random.Random, usual: tuple[str, ...]) -> Call:
    """A call of a class of ImageEnhance, which must be loaded for it."""
    import PIL.ImageEnhance  # noqa: F401

    return spread(rng, ("image",), {"image": image(rng, usual, _LARGE)})


def array_of(rng: random.Random, more: tuple[str, ...], usual: tuple[str, ...] = _USUAL) -> Call:
    """A call of numpy.array or numpy.asarray with an image."""
    picture = image(rng, usual, _WIDER)
    options: dict[str, Any] = {}
    maybe(rng, options, 0.1, rng.choice(more), ("K", "C", None, True, False, 0, 3))
    if rng.random() < 0.5:
        usual_types = (None, np.uint8, np.float32, "float32", float, np.dtype("float64"), np.int64, np.int16, "uint8")
        kind = weighted(
            rng, usual_types, (np.int8, "nonsense", "f4", np.floating, np.dtype(">f4"), bool, object, np.complex64)
        )
        return Call((picture, kind), options) if rng.random() < 0.5 else Call((picture,), {"dtype": kind, **options})
    return Call((picture,), options)


def enhance(rng: random.Random) -> Call:
    """A call of enhance."""
    names = ("Brightness", "Contrast", "Color", "Sharpness")
    enhancer = _enhancer(rng.choice(names), rng.randrange(60))
    values = {"self": weighted(rng, (enhancer,), (None, 5), 0.04), "factor": _factor(rng)}
    return _method(rng, values, ("factor",))
