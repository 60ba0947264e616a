"""The typical calls that bench/substitutions.py times: per original function, words and a maker of arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

Shape = tuple[int, int]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Maker = Callable[[Shape, bool], Arguments]
Case = tuple[str, Maker]

DISK = np.hypot(*np.mgrid[-3:4, -3:4]) <= 3
FULL = np.ones((3, 3), int)


def image(shape: tuple[int, ...], dtype: str, plain: bool) -> np.ndarray:
    """Noise, or a single colour: on that scipy's filters are fastest."""
    values = np.zeros(shape, int) if plain else np.random.default_rng(0).integers(0, 256, shape)
    return values > 100 if dtype == "bool" else values.astype(dtype)


def grey(*args: Any, dtype: str = "uint8", **options: Any) -> Maker:
    """Calls with an image of one channel and further arguments."""
    return lambda shape, plain: ((image(shape, dtype, plain), *args), options)


def colour(*args: Any, dtype: str = "uint8", **options: Any) -> Maker:
    """Calls with an image of three channels."""
    return lambda shape, plain: ((image((*shape, 3), dtype, plain), *args), options)


def small(*args: Any, dtype: str = "uint8", **options: Any) -> Maker:
    """Calls with an image of 32 x 32 pixels and three channels, whatever the size."""
    return lambda shape, plain: ((image((32, 32, 3), dtype, plain), *args), options)


def view(turn: Callable[[np.ndarray], np.ndarray], dtype: str = "uint8", channels: tuple[int, ...] = (3,)) -> Maker:
    """Calls with a view of an image."""
    return lambda shape, plain: ((turn(image((*shape, *channels), dtype, plain)),), {})


def mask(share: float) -> Maker:
    """Calls with a mask of which a share is true."""
    return lambda shape, plain: ((np.random.default_rng(0).random(shape) < share,), {})


def blobs(*args: Any) -> Maker:
    """Calls with a mask of connected areas."""

    def make(shape: Shape, plain: bool) -> Arguments:
        from scipy import ndimage

        return (ndimage.gaussian_filter(np.random.default_rng(0).random(shape), 4) > 0.5, *args), {}

    return make


def floats(dtype: str, *args: Any, **options: Any) -> Maker:
    """Calls with an image of floats between 0 and 1."""
    return lambda shape, plain: ((np.random.default_rng(0).random(shape).astype(dtype), *args), options)


def two(shape: Shape, plain: bool) -> Arguments:
    """A call with two images."""
    picture = image((*shape, 3), "uint8", plain)
    return (picture, np.ascontiguousarray(picture[::-1])), {}


def sound(name: str = "", **options: Any) -> Maker:
    """Calls with noise of about 1, 2 and 14 seconds, by position or under a name."""

    def make(shape: Shape, plain: bool) -> Arguments:
        samples = np.random.default_rng(0).standard_normal(shape[0] * shape[1]).astype(np.float32)
        return ((), {name: samples, **options}) if name else ((samples,), options)

    return make


def records(count: int) -> str:
    """A text of JSON with so many records of words and numbers."""
    words = "a caption of some words, naïve ones too"
    return json.dumps([{"id": i, "text": words, "box": [i * 0.1, 3.5, i], "ok": i % 2 == 0} for i in range(count)])


def filtered(filters: int, bins: int) -> Maker:
    """Products of a bank of filters, each over some frequencies, and a spectrogram of 128, 224 and 640 frames."""

    def make(shape: Shape, plain: bool) -> Arguments:
        bank, width = np.zeros((filters, bins), np.float32), 2 * bins // filters
        for number, row in enumerate(bank):
            row[number * bins // (filters + 1) :][:width] = 0.5
        strength = np.random.default_rng(0).random((shape[1], bins), np.float32)
        return (bank, strength.T), {}

    return make


def fixed(*args: Any, **options: Any) -> Maker:
    """Calls whose arguments do not depend on a size."""
    return lambda shape, plain: (args, options)


def flat(shape: Shape, plain: bool) -> Arguments:
    """A call with bytes in one row."""
    return (image(shape, "uint8", plain).ravel(),), {}


def picture(mode: str, *args: Any, **options: Any) -> Maker:
    """Calls with a Pillow image in a mode, as the first argument."""

    def make(shape: Shape, plain: bool) -> Arguments:
        from PIL import Image

        return (Image.fromarray(image((*shape, 3), "uint8", plain)).convert(mode), *args), options

    return make


def blurred(name: str, mode: str) -> Maker:
    """Calls with a Pillow image and a filter of radius 2."""

    def make(shape: Shape, plain: bool) -> Arguments:
        from PIL import ImageFilter

        return (*picture(mode)(shape, plain)[0], getattr(ImageFilter, name)(2)), {}

    return make


def blended(mode: str, share: float) -> Maker:
    """Calls with two Pillow images and a share."""

    def make(shape: Shape, plain: bool) -> Arguments:
        one = picture(mode)(shape, plain)[0][0]
        return (one, one.rotate(180), share), {}

    return make


def enhanced(name: str, factor: float) -> Maker:
    """Calls with an enhancer of a Pillow image."""

    def make(shape: Shape, plain: bool) -> Arguments:
        from PIL import ImageEnhance

        return (getattr(ImageEnhance, name)(picture("RGB")(shape, plain)[0][0]), factor), {}

    return make


def colour_floats(dtype: str, *args: Any, **options: Any) -> Maker:
    """Calls with an image of three channels of floats between 0 and 1."""
    return lambda shape, plain: ((np.random.default_rng(0).random((*shape, 3)).astype(dtype), *args), options)


def _planes(picture: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(picture.transpose(2, 0, 1)).transpose(1, 2, 0)


def _options(*cases: tuple[str, dict[str, Any]]) -> tuple[Case, ...]:
    return tuple((f"{dtype} {_words(options)}", grey(dtype=dtype, **options)) for dtype, options in cases)


def _words(options: dict[str, Any]) -> str:
    shown = {name: "x".join(map(str, np.shape(v))) if np.ndim(v) == 2 else v for name, v in options.items()}
    return " ".join(f"{name}={value}" for name, value in shown.items())


MEDIAN = _options(
    ("uint8", {"size": 3}),
    ("uint8", {"size": 5}),
    ("uint8", {"size": 9}),
    ("float32", {"size": 5}),
    ("float64", {"size": 3}),
)
EXTREME = _options(
    ("uint8", {"size": 3}),
    ("uint8", {"size": 5}),
    ("uint8", {"size": (5, 3), "mode": "wrap"}),
    ("float32", {"size": 5}),
    ("float64", {"size": 3, "mode": "constant"}),
    ("bool", {"size": (1, 3)}),
    ("uint8", {"footprint": DISK}),
    ("float32", {"footprint": DISK}),
)
BINARY = _options(
    ("bool", {}),
    ("bool", {"structure": DISK}),
    ("uint8", {"iterations": 3}),
    ("bool", {"iterations": 10}),
    ("bool", {"structure": np.ones((3, 3)), "border_value": 1}),
)
OPENING = _options(("uint8", {"size": 3}), ("uint16", {"size": 5}), ("uint8", {"footprint": DISK}))
GRADIENT = (
    ("float64", floats("float64")),
    ("float32", floats("float32")),
    ("float64 axis=0", floats("float64", axis=0)),
    ("float32 mode=nearest", floats("float32", mode="nearest")),
)
PLACES = (("2 %", mask(0.02)), ("50 %", mask(0.5)))
QUANTILES = (("grey", grey([2.0, 98.0])), ("colour", colour(50.0)))
TURNED = (
    ("columns flipped", view(lambda a: a[:, ::-1])),
    ("BGR", view(lambda a: a[:, :, ::-1])),
    ("HWC to CHW", view(lambda a: a.transpose(2, 0, 1))),
    ("CHW to HWC", view(_planes)),
    ("CHW to HWC float32", view(_planes, "float32")),
    ("rows and columns", view(lambda a: a.transpose(1, 0, 2))),
    ("rot90", view(np.rot90)),
    ("rot90 grey", view(np.rot90, channels=())),
    ("T grey", view(lambda a: a.T, channels=())),
    ("T float32", view(lambda a: a.T, "float32", ())),
    ("flip float64", view(lambda a: a[:, ::-1], "float64", ())),
    ("half turn", view(lambda a: a[::-1, ::-1])),
)
SIDES = ((8, 8), (8, 8), (0, 0))
MORPHOLOGY = (
    ("default", grey()),
    ("3x3", grey(np.ones((3, 3)))),
    ("disk", grey(DISK)),
    ("uint16", grey(dtype="uint16")),
)
WINDOW = (("hann 512", fixed("hann", 512)), ("hamming 2048", fixed("hamming", 2048)))

TILT = np.array([[0.98, 0.17], [-0.17, 0.98]])
BLUR = (
    ("float32 1", floats("float32", 1)),
    ("float32 2", floats("float32", 2)),
    ("float64 2", floats("float64", 2)),
    ("uint8 1.5", grey(1.5)),
    ("colour", colour_floats("float32", (2, 2, 0))),
)
SLOPES = (("float32 1", floats("float32", 1)), ("float64 2", floats("float64", 2)))
LOOKUP = ("linear", {"order": 1}), ("nearest", {"order": 0}), ("cubic", {})
FITTING = (("224", picture("RGB", (100, 100))), ("bilinear", picture("RGB", (150, 80), 2)))

DESIGNS: dict[str, tuple[Any, ...]] = {
    "butter": (4, 0.2),
    "cheby1": (4, 1, 0.2),
    "cheby2": (4, 40, 0.2),
    "ellip": (4, 1, 40, 0.2),
    "firwin": (101, 0.2),
}


def numbers(kind: type) -> Maker:
    """Calls with a list of as many numbers as an image has rows times eight."""
    return lambda shape, plain: (([kind(number % 97) for number in range(shape[0] * 8)],), {})


def tensor(dtype: str, *args: Any, **options: Any) -> Maker:
    """Calls with a tensor of numbers from 0 to 255, or of floats between 0 and 1."""

    def make(shape: Shape, plain: bool) -> Arguments:
        import torch

        made = torch.randint(0, 256, shape) if dtype != "float32" else torch.rand(shape)
        return (made.to(getattr(torch, dtype)), *args), options

    return make


def series(*args: Any, texts: bool = False) -> Maker:
    """Calls with a pandas series of numbers from 0 to 49, or of as many words."""

    def make(shape: Shape, plain: bool) -> Arguments:
        import pandas

        values = np.random.default_rng(0).integers(0, 50, shape[0] * shape[1])
        return (pandas.Series([f"word {value}" for value in values] if texts else values), *args), {}

    return make


def glass(channels: tuple[int, ...]) -> Maker:
    """Calls that exchange pixels with others up to 4 away."""

    def make(shape: Shape, plain: bool) -> Arguments:
        moves = np.random.default_rng(0).integers(-4, 4, (shape[0] * shape[1], 1, 2))
        return (image((*shape, *channels), "uint8", plain), 0.7, 4, 1, moves, "exact"), {}

    return make


PER_CHANNEL = np.array([123.7, 116.3, 103.5], np.float32), np.array([0.017, 0.0175, 0.0174], np.float32)

FILTERED = (("64 filters", filtered(64, 513)), ("128 filters", filtered(128, 1025)))
CASES: dict[str, tuple[Case, ...]] = {
    "pandas.Series.map": (("texts", series({f"word {number}": number for number in range(50)}, texts=True)),),
    "pandas.Series.replace": (("whole numbers", series({number: number + 1 for number in range(50)})),),
    "pandas.Series.isin": (("3", series([1, 2, 3])),),
    "pandas.Series.nunique": (("50", series()),),
    "albucore.normalize": (("colour", colour(*PER_CHANNEL)),),
    "albucore.to_float": (("colour", colour()), ("grey", grey())),
    "albucore.from_float": (("colour", colour_floats("float32", np.uint8)), ("grey", floats("float32", np.uint8))),
    "albumentations.augmentations.blur.functional.glass_blur": (("colour", glass((3,))), ("grey", glass(()))),
    "albumentations.augmentations.pixel.functional.slic": (("colour 100", colour(100)),),
    "torch.tensor": (("ints", numbers(int)), ("floats", numbers(float))),
    "torch.unique": (
        ("bytes", tensor("uint8")),
        ("int64", tensor("int64")),
        ("counts", tensor("int64", return_counts=True)),
    ),
    "torch.quantile": (("median", tensor("float32", 0.5)), ("99 %", tensor("float32", 0.99))),
    **{f"scipy.signal.{name}": (("low", fixed(*arguments)),) for name, arguments in DESIGNS.items()},
    "scipy.signal.lfilter_zi": (("2", fixed(np.array([0.1, 0.2, 0.1]), np.array([1.0, -0.9, 0.3]))),),
    "librosa.stft": (("2048", sound()), ("512", sound(n_fft=512, hop_length=160))),
    "librosa.feature.mfcc": (("20", sound("y")), ("13 of 40", sound("y", n_mfcc=13, n_mels=40, n_fft=512))),
    "json.loads": (("50 records", fixed(records(50))), ("500 records", fixed(records(500)))),
    "librosa.feature.zero_crossing_rate": (("2048", sound()),),
    "librosa.filters.chroma": (("2048", fixed(sr=22050, n_fft=2048)),),
    "PIL.Image.Image.resize": (
        ("RGB 224", picture("RGB", (224, 224), 2)),
        ("RGB bicubic", picture("RGB", (160, 120))),
        ("RGB larger", picture("RGB", (700, 500), 3)),
        ("RGB Lanczos", picture("RGB", (64, 64), 1)),
        ("L 224", picture("L", (224, 224), 2)),
        ("RGBA", picture("RGBA", (160, 160), 2)),
    ),
    "PIL.Image.Image.reduce": (
        ("RGB by 2", picture("RGB", 2)),
        ("RGB by 3", picture("RGB", 3)),
        ("L by 2", picture("L", 2)),
        ("RGBA by 2", picture("RGBA", 2)),
    ),
    "PIL.Image.Image.transpose": tuple(
        (f"{mode} {way}", picture(mode, way)) for mode, way in (("RGB", 0), ("RGB", 2), ("RGB", 3), ("L", 0), ("L", 4))
    ),
    "PIL.Image.Image.rotate": (
        ("RGB bilinear", picture("RGB", 10, 2)),
        ("L bilinear", picture("L", 10, 2)),
        ("90", picture("RGB", 90, expand=True)),
    ),
    "PIL.Image.Image.convert": tuple(
        (f"{one} to {other}", picture(one, other))
        for one, other in (("RGB", "L"), ("L", "RGB"), ("RGB", "RGBA"), ("RGBA", "RGB"))
    ),
    "PIL.Image.Image.filter": (
        ("Gaussian 2 RGB", blurred("GaussianBlur", "RGB")),
        ("Gaussian 2 L", blurred("GaussianBlur", "L")),
        ("box 2 RGB", blurred("BoxBlur", "RGB")),
    ),
    "PIL.Image.blend": (("RGB", blended("RGB", 0.3)), ("L", blended("L", 0.3)), ("RGBA by 1.4", blended("RGBA", 1.4))),
    "PIL.ImageEnhance._Enhance.enhance": tuple(
        (f"{name} {factor}", enhanced(name, factor)) for name, factor in (("Brightness", 0.8), ("Contrast", 1.2))
    ),
    "PIL.ImageEnhance.Contrast": (("RGB", picture("RGB")), ("L", picture("L"))),
    "PIL.ImageEnhance.Color": (("RGB", picture("RGB")),),
    "numpy.array": (
        ("RGB image", picture("RGB")),
        ("L image", picture("L")),
        ("RGB image as float32", picture("RGB", "float32")),
    ),
    "numpy.asarray": (("RGB image", picture("RGB")), ("RGB image as float32", picture("RGB", "float32"))),
    "PIL.Image.Image.tobytes": (("RGB", picture("RGB")),),
    "PIL.Image.fromarray": (("RGB", colour()),),
    "PIL.ImageOps.fit": FITTING,
    "PIL.ImageOps.contain": FITTING,
    "PIL.ImageOps.cover": FITTING,
    "PIL.ImageOps.pad": FITTING,
    "PIL.ImageOps.scale": (("half", picture("RGB", 0.5)), ("1.3", picture("RGB", 1.3))),
    "PIL.ImageOps.mirror": (("RGB", picture("RGB")), ("L", picture("L"))),
    "PIL.ImageOps.grayscale": (("RGB", picture("RGB")),),
    "scipy.ndimage.gaussian_filter": BLUR,
    "scipy.ndimage.gaussian_filter1d": BLUR[:4],
    "scipy.ndimage.gaussian_laplace": SLOPES,
    "scipy.ndimage.gaussian_gradient_magnitude": SLOPES,
    "scipy.ndimage.laplace": (("float32", floats("float32")), ("float64", floats("float64"))),
    "scipy.ndimage.correlate1d": (
        ("9", floats("float32", [0.1] * 9)),
        ("5 axis 0", floats("float64", [1.0, 2.0, 3.0, 2.0, 1.0], 0)),
    ),
    "scipy.ndimage.convolve1d": (
        ("9", floats("float32", [0.1] * 9)),
        ("3 axis 0", floats("float64", [1.0, 0.0, -1.0], 0)),
    ),
    "scipy.ndimage.zoom": (
        *((f"{words} 0.5", floats("float32", 0.5, **options)) for words, options in LOOKUP),
        ("colour 2", colour_floats("float32", (2, 2, 1), order=1)),
    ),
    "scipy.ndimage.shift": tuple((words, floats("float32", (3.5, -2.25), **options)) for words, options in LOOKUP),
    "scipy.ndimage.affine_transform": tuple((words, floats("float32", TILT, **options)) for words, options in LOOKUP),
    "scipy.ndimage.rotate": tuple(
        (words, floats("float32", 10, reshape=False, **options)) for words, options in LOOKUP
    ),
    "scipy.ndimage.distance_transform_edt": (("2 % zeros", mask(0.98)), ("half", mask(0.5)), ("blobs", blobs())),
    "skimage.transform.resize": (
        ("bytes to 224", colour((224, 224))),
        ("float32 to 224", colour_floats("float32", (224, 224))),
        ("float32 to 224, not smooth", colour_floats("float32", (224, 224), anti_aliasing=False)),
        ("grey to 224", floats("float32", (224, 224))),
        ("float32 smooth", floats("float32", (100, 100))),
        ("float32", floats("float32", (100, 100), anti_aliasing=False)),
        ("colour bytes", colour((100, 100))),
        ("colour larger", colour_floats("float64", (700, 500))),
    ),
    "skimage.transform.rescale": (("half", floats("float32", 0.5)), ("1.5", floats("float64", 1.5))),
    "skimage.filters.gaussian": (
        ("float32 2", floats("float32", 2)),
        ("colour", colour_floats("float32", 2, channel_axis=-1)),
    ),
    "skimage.color.rgb2hsv": (("bytes", colour()), ("float32", colour_floats("float32"))),
    "skimage.color.hsv2rgb": (("bytes", colour()), ("float32", colour_floats("float32"))),
    "scipy.ndimage.median_filter": MEDIAN,
    "scipy.ndimage.rank_filter": _options(("uint8", {"rank": 3, "size": 5}), ("float64", {"rank": -2, "size": 3})),
    "scipy.ndimage.percentile_filter": _options(
        ("uint8", {"percentile": 20, "size": 5}),
        ("float32", {"percentile": 75, "size": 3}),
        ("float64", {"percentile": 50, "size": 5}),
    ),
    "scipy.ndimage.minimum_filter": EXTREME,
    "scipy.ndimage.maximum_filter": EXTREME,
    "scipy.ndimage.grey_erosion": EXTREME,
    "scipy.ndimage.grey_dilation": EXTREME,
    "scipy.ndimage.binary_erosion": BINARY,
    "scipy.ndimage.binary_dilation": BINARY,
    "scipy.ndimage.binary_opening": BINARY,
    "scipy.ndimage.binary_closing": BINARY,
    "scipy.ndimage.grey_opening": OPENING,
    "scipy.ndimage.grey_closing": OPENING,
    "scipy.ndimage.white_tophat": OPENING,
    "scipy.ndimage.black_tophat": OPENING,
    "scipy.ndimage.morphological_gradient": OPENING,
    "scipy.ndimage.label": (("noise", mask(0.5)), ("2 %", mask(0.02)), ("blobs", blobs()), ("blobs 8", blobs(FULL))),
    "scipy.ndimage.binary_fill_holes": (("blobs", blobs()), ("noise", mask(0.5)), ("blobs 8", blobs(FULL))),
    "scipy.ndimage.sobel": GRADIENT,
    "scipy.ndimage.prewitt": GRADIENT,
    "scipy.ndimage.uniform_filter": (("3", grey(3)), ("5", grey(5)), ("(1, 9)", grey((1, 9)))),
    "scipy.signal.convolve2d": (
        ("float32 3x3", floats("float32", np.ones((3, 3), np.float32), "same", "symm")),
        ("float64 5x5", floats("float64", np.ones((5, 5)), "same")),
        ("uint8 9x9", grey(np.ones((9, 9)), "same")),
    ),
    "scipy.signal.medfilt": (("uint8", grey()), ("float32", grey(5, dtype="float32"))),
    "scipy.signal.medfilt2d": (("uint8", grey()), ("float32", grey(5, dtype="float32"))),
    "scipy.signal.get_window": WINDOW,
    "librosa.filters.get_window": WINDOW,
    "librosa.filters.mel": (("128", fixed(sr=22050, n_fft=2048)), ("40", fixed(sr=16000, n_fft=512, n_mels=40))),
    "librosa.feature.melspectrogram": (("128", sound("y")), ("40", sound("y", n_mels=40, n_fft=1024, hop_length=256))),
    "librosa.effects.preemphasis": (("float32", sound()),),
    "numpy.sum": (("colour", colour()), ("mask", mask(0.3)), ("per channel", colour(axis=(0, 1)))),
    "numpy.mean": (("colour", colour()), ("mask", mask(0.3)), ("per channel", colour(axis=(0, 1)))),
    "numpy.dot": FILTERED,
    "numpy.matmul": FILTERED,
    "operator.matmul": FILTERED,
    "numpy.bincount": (("bytes", flat),),
    "numpy.unique": (("grey", grey()), ("with counts", grey(return_counts=True))),
    "numpy.histogram": (("256", grey(256, (0, 256))), ("10", grey()), ("colour", colour(256, (0, 255)))),
    "numpy.median": (("grey", grey()), ("colour", colour())),
    "numpy.percentile": QUANTILES,
    "numpy.quantile": (("grey", grey([0.02, 0.98])), ("colour", colour(0.5))),
    "numpy.isin": (("2", grey([3, 7])), ("20", grey(list(range(20))))),
    "numpy.interp": (
        ("3 points", grey([0, 100, 255], [0.0, 0.5, 1.0])),
        ("256", grey(np.arange(256), np.arange(256.0))),
    ),
    "numpy.digitize": (("3 bins", grey([10, 50, 200])), ("16 bins", grey(np.arange(0, 256, 16)))),
    "numpy.pad": (
        ("constant", colour(SIDES)),
        ("reflect", grey(8, mode="reflect")),
        ("edge", colour(SIDES, "edge")),
        ("float32 symmetric", grey(8, "symmetric", dtype="float32")),
        ("32 x 32, reflect", small(SIDES, "reflect")),
        ("32 x 32, constant", small(SIDES)),
    ),
    "numpy.ascontiguousarray": TURNED,
    "numpy.nonzero": PLACES,
    "numpy.argwhere": PLACES,
    "numpy.where": PLACES,
    "skimage.exposure.rescale_intensity": (
        ("grey", grey()),
        ("colour", colour((10, 200))),
        ("to float", grey(out_range=(0, 1))),
    ),
    "skimage.exposure.adjust_gamma": (("grey", grey(0.5)), ("colour", colour(2.2))),
    "skimage.exposure.equalize_hist": (("grey", grey()),),
    "skimage.filters.threshold_otsu": (("grey", grey()),),
    "skimage.filters.median": (("default", grey()), ("5x5", grey(np.ones((5, 5)))), ("float32", grey(dtype="float32"))),
    "skimage.color.gray2rgb": (("uint8", grey()), ("float32", grey(dtype="float32"))),
    "skimage.util.img_as_ubyte": (("float32", floats("float32")),),
    "skimage.metrics.mean_squared_error": (("colour", two),),
    "skimage.metrics.peak_signal_noise_ratio": (("colour", two),),
    "skimage.morphology.erosion": MORPHOLOGY,
    "skimage.morphology.dilation": MORPHOLOGY,
    "skimage.morphology.opening": MORPHOLOGY,
    "skimage.morphology.closing": MORPHOLOGY,
}
