"""Substitutions from scikit-image into OpenCV: functions of bytes by table, counts, flat morphology."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import cv2_, skimage_calls
from codedag.backends.bytes_tables import EVERY_BYTE, Array, byte_array, counts, looked_up, settle
from codedag.backends.reasons import among, answer, is_number, left_out
from codedag.backends.registry import EXACT, Call, Substitution, substitutes
from codedag.ir.verdict import No, Verdict

CV2 = cv2_.CV2
SKIMAGE = "scikit-image>=0.26,<0.27"  # copies of its formulas; another release may change them
LEAST = 4096
LARGEST = 2**28
_ONES = np.ones((3, 3), bool)
_CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)


# Intensities of bytes, by table.


@substitutes("skimage.exposure.rescale_intensity", into="codedag", gives=EXACT, needs=SKIMAGE, source_needs=SKIMAGE)
def rescale_intensity(image: Any, in_range: Any = "image", out_range: Any = "dtype") -> Array:
    """The image stretched from one range to another: skimage's own result for each byte."""
    if in_range == "image":
        in_range = (int(image.min()), int(image.max()))
    return looked_up(image, rescale_intensity.original()(EVERY_BYTE, in_range, out_range))


@rescale_intensity.guard
def _(call: Any) -> Verdict:
    """4096 to 2**24 plain bytes in C order; ranges image, dtype or two growing numbers."""
    return answer(_bytes_in_order(call.image) or _ranges(call))


def _ranges(call: Any) -> str:
    if not (_is_range(call.in_range) or among(call.in_range, "image", "dtype", "uint8")):
        return "an in_range that is not two growing numbers"
    known = type(call.out_range) is str and call.out_range in ("dtype", "uint8", "float32", "float64", "float")
    known = known or call.out_range is np.uint8 or _is_range(call.out_range)
    return "" if known else "an out_range that is not known"


def _is_range(value: Any) -> bool:
    plain = type(value) is tuple and len(value) == 2 and all(map(is_number, value))
    return plain and abs(value[0]) < 1e6 and abs(value[1]) < 1e6 and value[0] < value[1]


@rescale_intensity.calls
def _(rng: random.Random) -> Call:
    return skimage_calls.rescale(rng)


@substitutes("skimage.exposure.adjust_gamma", into="codedag", gives=EXACT, needs=SKIMAGE, source_needs=SKIMAGE)
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Array:
    """The image through a power curve: skimage's own table."""
    return looked_up(image, adjust_gamma.original()(EVERY_BYTE, gamma, gain))


@adjust_gamma.guard
def _(call: Any) -> Verdict:
    """4096 to 2**24 plain bytes in C order."""
    plain = is_number(call.gamma) and is_number(call.gain) and 0 <= call.gamma < 100 and 0 <= call.gain <= 1000
    return answer(_bytes_in_order(call.image) or ("" if plain else "gamma or gain is not a plain positive number"))


@adjust_gamma.calls
def _(rng: random.Random) -> Call:
    return skimage_calls.gamma(rng)


@substitutes("skimage.exposure.equalize_hist", into="codedag", gives=EXACT, needs=SKIMAGE, source_needs=SKIMAGE)
def equalize_hist(image: Any, nbins: Any = 256, mask: Any = None) -> Array:
    """The image with evenly spread intensities: one table from the counts of its bytes."""
    found, centres = _histogram(image)
    sums = found.cumsum()
    table = np.interp(EVERY_BYTE, centres, sums / float(sums[-1]))
    return looked_up(image.reshape(-1), table).reshape(image.shape)  # a view, as skimage's result is


@equalize_hist.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes in two dimensions from 4096 pixels on, no mask."""
    return answer(left_out(call, ("mask",)) or _grey(call.image) or _bins(call.nbins))


@equalize_hist.calls
def _(rng: random.Random) -> Call:
    return skimage_calls.equalize(rng)


@substitutes("skimage.filters.threshold_otsu", into="codedag", gives=EXACT, needs=SKIMAGE, source_needs=SKIMAGE)
def threshold_otsu(image: Any = None, nbins: Any = 256, *, hist: Any = None) -> Any:
    """Otsu's threshold: skimage's own search in the counts of the image's bytes."""
    found, centres = _histogram(image)
    return image.flat[0] if len(found) == 1 else threshold_otsu.original()(hist=(found, centres))


@threshold_otsu.guard
def _(call: Any) -> Verdict:
    """Plain images of bytes in two dimensions from 4096 pixels on."""
    return answer(left_out(call, ("hist",)) or _grey(call.image) or _bins(call.nbins))


@threshold_otsu.calls
def _(rng: random.Random) -> Call:
    return skimage_calls.otsu(rng)


def _histogram(image: Array) -> tuple[Array, Array]:
    """The counts from the least to the greatest byte that occurs, and these bytes as numbers."""
    found = counts(image)
    present = found.nonzero()[0]
    low, high = int(present[0]), int(present[-1]) + 1
    return found[low:high], np.arange(low, high)


def _bins(value: Any) -> str:
    return "" if type(value) is int and value > 0 else "nbins is not a plain number"


def _bytes_in_order(value: Any) -> str:
    reason = byte_array(value, LEAST)
    return reason or ("" if value.flags.c_contiguous else "not in C order")


def _grey(value: Any) -> str:
    reason = byte_array(value, LEAST)
    return reason or ("" if value.ndim == 2 else "not two-dimensional")


# Types and channels.


@substitutes("skimage.color.gray2rgb", into="cv2", gives=EXACT, needs=CV2, source_needs=SKIMAGE)
def gray2rgb(image: Any, *, channel_axis: Any = -1) -> Array:
    """Three equal channels."""
    import cv2

    return cv2.merge((image, image, image))  # type: ignore[no-any-return]


@gray2rgb.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered images of one channel from 4096 pixels on, channels last."""
    value = call.image
    if type(value) is not np.ndarray or value.dtype.char not in "BHhfd" or value.ndim != 2:
        return answer("not a plain image of one channel")
    if not value.flags.c_contiguous or value.flags.f_contiguous or not LEAST <= value.size <= LARGEST:
        return answer("not in C order, or too small to gain")
    return answer("" if type(call.channel_axis) is int and call.channel_axis in (-1, 2) else "another axis")


@gray2rgb.calls
def _(rng: random.Random) -> Call:
    return skimage_calls.grey_to_rgb(rng)


@substitutes("skimage.util.img_as_ubyte", into="cv2", gives=EXACT, needs=CV2, source_needs=SKIMAGE)
def img_as_ubyte(image: Any, force_copy: Any = False) -> Array:
    """Floats from 0 to 1 as bytes: one product, rounded half to even by both."""
    import cv2

    result = np.empty(image.shape, np.uint8)
    target = result.reshape(1, -1)
    settle(target, cv2.convertScaleAbs(image.reshape(1, -1), target, 255.0))
    return result


@img_as_ubyte.guard
def _(call: Any) -> Verdict:
    """Plain C-ordered float32 arrays from 4096 elements on, all between 0 and 1."""
    value = call.image
    if type(value) is not np.ndarray or value.dtype.char != "f" or not value.flags.c_contiguous:
        return answer("not a plain float32 array in C order")
    if type(call.force_copy) is not bool or not LEAST <= value.size <= LARGEST:
        return answer("too small to gain, or an odd force_copy")
    bits = value.view(np.uint32)  # a sign, a NaN and all above 1 have greater bits than 1
    return answer("" if int(bits.max()) <= 0x3F800000 else "values outside 0 to 1")


@img_as_ubyte.calls
def _(rng: random.Random) -> Call:
    return skimage_calls.ubyte(rng)


# Differences of bytes: squares of whole numbers add up without rounding.


@substitutes("skimage.metrics.mean_squared_error", into="cv2", gives=EXACT, needs=CV2, source_needs=SKIMAGE)
def mean_squared_error(image0: Any, image1: Any) -> Any:
    """The mean of the squared differences of two arrays of bytes."""
    return _mean_square(image0, image1)


@mean_squared_error.guard
def _(call: Any) -> Verdict:
    """Two plain arrays of 4096 to 2**24 bytes of one shape."""
    return answer(_two(call.image0, call.image1))


@mean_squared_error.calls
def _(rng: random.Random) -> Call:
    return skimage_calls.two(rng, ("image0", "image1"))


@substitutes("skimage.metrics.peak_signal_noise_ratio", into="cv2", gives=EXACT, needs=CV2, source_needs=SKIMAGE)
def peak_signal_noise_ratio(image_true: Any, image_test: Any, *, data_range: Any = None) -> Any:
    """The peak signal-to-noise ratio from the exact mean of squares."""
    error = _mean_square(image_true, image_test)
    if error == 0:  # skimage divides by it and warns
        return peak_signal_noise_ratio.original()(image_true, image_test, data_range=data_range)
    return 10 * np.log10(float(255 if data_range is None else data_range) ** 2 / error)


@peak_signal_noise_ratio.guard
def _(call: Any) -> Verdict:
    """Two plain arrays of 4096 to 2**24 bytes of one shape."""
    known = call.data_range is None or (is_number(call.data_range) and 0 < call.data_range < 1e6)
    return answer(_two(call.image_true, call.image_test) or ("" if known else "an odd data_range"))


@peak_signal_noise_ratio.calls
def _(rng: random.Random) -> Call:
    return skimage_calls.psnr(rng)


def _two(one: Any, other: Any) -> str:
    reason = byte_array(one, LEAST) or byte_array(other, LEAST)
    return reason or ("" if one.shape == other.shape else "two shapes")


def _mean_square(one: Array, other: Array) -> Any:
    """From the counts of the differences; cv2.norm rounds its sum of squares."""
    import cv2

    left, right = (np.ascontiguousarray(value).reshape(1, -1) for value in (one, other))
    total = int(counts(cv2.absdiff(left, right)) @ _SQUARES)
    return np.float64(total) / np.float64(one.size)


_SQUARES = np.arange(256) ** 2


# Filters that choose.


@substitutes("skimage.filters.median", into="cv2", gives=EXACT, needs=CV2, source_needs=SKIMAGE)
def median(
    image: Any,
    footprint: Any = None,
    out: Any = None,
    mode: Any = "nearest",
    cval: Any = 0.0,
    behavior: Any = "ndimage",
) -> Array:
    """The median of a square window around each pixel."""
    window = _ONES if footprint is None else footprint
    return cv2_.median_filter.run(image, footprint=window, mode=mode, cval=cval)  # type: ignore[no-any-return]


@median.guard
def _(call: Any) -> Verdict:
    """Behaviour ndimage, no output; otherwise as scipy.ndimage.median_filter."""
    if call.out is not None or not among(call.behavior, "ndimage"):
        return No("an output or another behaviour is asked for")
    window = _ONES if call.footprint is None else call.footprint
    return cv2_.median_filter.accepts((call.image,), {"footprint": window, "mode": call.mode, "cval": call.cval})


@median.calls
def _(rng: random.Random) -> Call:
    return skimage_calls.median(rng)


def _morphology(name: str, *steps: Substitution) -> Substitution:
    """A registered morphology of skimage that runs one or two steps of scipy.ndimage's by cv2."""

    def run(image: Any, footprint: Any = None, out: Any = None, *, mode: Any = "reflect", cval: Any = 0.0) -> Array:
        """The steps in a row, with a symmetric footprint, of which mirror images are no matter."""
        window = _CROSS if footprint is None else footprint
        for step in steps:
            image = step.run(image, footprint=window, mode=mode, cval=cval)
        return image  # type: ignore[no-any-return]

    run.__name__ = name
    made = substitutes(f"skimage.morphology.{name}", into="cv2", gives=EXACT, needs=CV2, source_needs=SKIMAGE)(run)
    made.guard(_flat_symmetric)
    made.calls(skimage_calls.morphology)
    return made


def _flat_symmetric(call: Any) -> Verdict:
    """Plain C-ordered images of one channel, an odd symmetric footprint; otherwise as scipy.ndimage.grey_erosion."""
    image, window = call.image, _CROSS if call.footprint is None else call.footprint
    if call.out is not None or type(image) is not np.ndarray or image.dtype.kind not in "iuf" or image.ndim != 2:
        return No("an output is given, or the input is not a plain image of numbers")
    if not image.flags.c_contiguous or type(window) is not np.ndarray or window.ndim != 2:
        return No("the image is not in C order, or the footprint is not one array")
    if not all(side & 1 for side in window.shape) or not np.array_equal(window, window[::-1, ::-1]):
        return No("a footprint that is even or not symmetric")
    return cv2_.grey_erosion.accepts((image,), {"footprint": window, "mode": call.mode, "cval": call.cval})


erosion = _morphology("erosion", cv2_.grey_erosion)
dilation = _morphology("dilation", cv2_.grey_dilation)
opening = _morphology("opening", cv2_.grey_erosion, cv2_.grey_dilation)
closing = _morphology("closing", cv2_.grey_dilation, cv2_.grey_erosion)
