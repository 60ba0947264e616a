"""Substitutions that run functions of cv2 by OpenCL, through cv2.UMat, on a processor with an OpenCL driver (PoCL).

What only moves, compares or adds whole numbers gives the same bits by any code. Linear resizing, blurring and warping
round elsewhere: measured within one grey level (docs/devices.md). Canny and nearest resizing are not offered: they
differ by more than a level on some pixels.
"""

# ruff: noqa: N803 - the names are those of cv2

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends import umat_calls as samples
from codedag.backends.on_device import plain
from codedag.backends.reasons import answer, is_number
from codedag.backends.registry import EXACT, LEVEL1, Call, Decorator, Equivalence, Substitution, substitutes
from codedag.devices import opencl
from codedag.ir.verdict import No, Verdict

Array = npt.NDArray[Any]
CV2 = "opencv-python-headless>=4.8"
LEAST, LONGEST = 4096, 16_000
LINEAR, AREA = 1, 3
CONSTANT, REFLECT_101 = 0, 4
_COLOURS = ("COLOR_BGR2RGB", "COLOR_RGB2BGR", "COLOR_BGR2GRAY", "COLOR_RGB2GRAY")


def _there(picture: Array) -> Any:
    """The picture on the device."""
    return sys.modules["cv2"].UMat(picture)


def _offer(name: str, gives: Equivalence) -> Decorator:
    return substitutes(f"cv2.{name}", into="cv2.UMat", gives=gives, needs=CV2, source_needs=CV2, pu=opencl.CPU)


def _original(name: str) -> Any:
    """The library's own function, also while a patch stands in its place."""
    return _MADE[name].original()


def _picture(value: Any) -> str:
    """The reason why a value is not a plain picture of bytes, or OpenCL is not there."""
    here = opencl.usable()
    reason = here.reason if isinstance(here, No) else plain(value, "B", LEAST)
    if reason or value.ndim not in (2, 3) or (value.ndim == 3 and value.shape[2] not in (3, 4)):
        return reason or "not a picture of 1, 3 or 4 channels"
    if not value.flags.c_contiguous or min(value.shape[:2]) < 16 or max(value.shape) > LONGEST:
        return "not in C order, or too small or too long"
    return ""


# Within one grey level.


@_offer("resize", LEVEL1)
def resize(src: Any, dsize: Any, dst: Any = None, fx: Any = 0, fy: Any = 0, interpolation: Any = LINEAR) -> Array:
    """The picture in another size."""
    return _original("resize")(_there(src), dsize, interpolation=interpolation).get()  # type: ignore[no-any-return]


@resize.guard
def _(call: Any) -> Verdict:
    """Plain pictures of bytes to a size from 8 x 8 on, linear or by areas."""
    if not _is_size(call.dsize) or call.dst is not None or call.fx != 0 or call.fy != 0:
        return No("no size, or a target or factors are given")
    known = type(call.interpolation) is int and call.interpolation in (LINEAR, AREA)
    return answer(_picture(call.src) or ("" if known else "another interpolation"))


def _is_size(value: Any) -> bool:
    if type(value) is not tuple or len(value) != 2:
        return False
    return all(type(side) is int and 8 <= side <= LONGEST for side in value)


@_offer("GaussianBlur", LEVEL1)
def gaussian_blur(
    src: Any, ksize: Any, sigmaX: Any, dst: Any = None, sigmaY: Any = 0, borderType: Any = REFLECT_101, hint: Any = 0
) -> Array:
    """The blurred picture."""
    return _original("GaussianBlur")(_there(src), ksize, sigmaX).get()  # type: ignore[no-any-return]


@gaussian_blur.guard
def _(call: Any) -> Verdict:
    """Plain pictures of bytes, odd square windows of 3, 5 and 7, one width, the usual border."""
    if call.ksize not in _WINDOWS or not is_number(call.sigmaX) or not 0 <= call.sigmaX <= 10:
        return No("another window or width")
    given = call.dst is not None or call.sigmaY != 0 or call.borderType != REFLECT_101 or call.hint != 0
    return answer("other options are given" if given else _picture(call.src))


_WINDOWS = tuple((size, size) for size in (3, 5, 7))


@_offer("pyrDown", LEVEL1)
def pyr_down(src: Any, dst: Any = None, dstsize: Any = None, borderType: Any = REFLECT_101) -> Array:
    """The picture in half the size."""
    return _original("pyrDown")(_there(src)).get()  # type: ignore[no-any-return]


@pyr_down.guard
def _(call: Any) -> Verdict:
    """Plain pictures of bytes without options."""
    given = call.dst is not None or call.dstsize is not None or call.borderType != REFLECT_101
    return answer("other options are given" if given else _picture(call.src))


def _warp(name: str, rows: int) -> Substitution:
    """A registered warp by a matrix of so many rows."""

    def run(
        src: Any, M: Any, dsize: Any, dst: Any = None, flags: Any = LINEAR, borderMode: Any = CONSTANT,
        borderValue: Any = None, hint: Any = 0,
    ) -> Array:  # fmt: skip
        """The warped picture, black around it."""
        return _original(name)(_there(src), M, dsize).get()  # type: ignore[no-any-return]

    def guard(call: Any) -> Verdict:
        """Plain pictures of bytes, a matrix of finite floats that can be inverted, linear, black around."""
        given = call.dst is not None or call.flags != LINEAR or call.borderMode != CONSTANT or call.hint != 0
        if given or call.borderValue is not None or not _is_size(call.dsize):
            return No("other options are given, or no size")
        return answer(_matrix(call.M, rows) or _picture(call.src))

    run.__name__ = name
    made = _offer(name, LEVEL1)(run)
    made.guard(guard)
    made.calls(samples.affine if rows == 2 else samples.perspective)
    return made


def _matrix(value: Any, rows: int) -> str:
    """The reason why a value is not a matrix that maps pictures to pictures of about their size."""
    if type(value) is not np.ndarray or value.shape != (rows, 3) or value.dtype.char not in "fd":
        return "not a matrix of floats"
    if not bool((np.abs(value) < LONGEST).all()):
        return "a matrix of huge or not finite elements"
    turn = value[0, 0] * value[1, 1] - value[0, 1] * value[1, 0]
    mild = rows == 2 or (value[2, 2] == 1 and bool((np.abs(value[2, :2]) < 2e-4).all()))
    return "" if mild and 0.04 < abs(float(turn)) < 25 else "a matrix that shrinks or bends too much"


warp_affine = _warp("warpAffine", 2)
warp_perspective = _warp("warpPerspective", 3)


# The same bits.


@_offer("cvtColor", EXACT)
def cvt_color(src: Any, code: Any, dst: Any = None, dstCn: Any = 0, hint: Any = 0) -> Array:
    """The picture in other colours."""
    return _original("cvtColor")(_there(src), code).get()  # type: ignore[no-any-return]


@cvt_color.guard
def _(call: Any) -> Verdict:
    """Plain pictures of three channels of bytes: red and blue exchanged, or grey."""
    if call.dst is not None or call.dstCn != 0 or call.hint != 0 or type(call.code) is not int:
        return No("other options are given")
    codes = {getattr(sys.modules["cv2"], name) for name in _COLOURS} if "cv2" in sys.modules else set()
    reason = _picture(call.src) if call.code in codes else "other colours"
    return answer(reason or ("" if call.src.ndim == 3 and call.src.shape[2] == 3 else "not three channels"))


@_offer("flip", EXACT)
def flip(src: Any, flipCode: Any, dst: Any = None) -> Array:
    """The picture mirrored."""
    return _original("flip")(_there(src), flipCode).get()  # type: ignore[no-any-return]


@flip.guard
def _(call: Any) -> Verdict:
    """Plain pictures of bytes, any of the three ways."""
    known = call.dst is None and type(call.flipCode) is int and call.flipCode in (-1, 0, 1)
    return answer(_picture(call.src) if known else "other options are given")


@_offer("medianBlur", EXACT)
def median_blur(src: Any, ksize: Any, dst: Any = None) -> Array:
    """The median of the neighbours of each pixel."""
    return _original("medianBlur")(_there(src), ksize).get()  # type: ignore[no-any-return]


@median_blur.guard
def _(call: Any) -> Verdict:
    """Plain pictures of bytes, windows of 3 and 5."""
    known = call.dst is None and type(call.ksize) is int and call.ksize in (3, 5)
    return answer(_picture(call.src) if known else "another window, or a target is given")


def _extreme(name: str) -> Substitution:
    """A registered erosion or dilation."""

    def run(
        src: Any, kernel: Any, dst: Any = None, anchor: Any = None, iterations: Any = 1, borderType: Any = CONSTANT,
        borderValue: Any = None,
    ) -> Array:  # fmt: skip
        """The least or greatest of the neighbours of each pixel."""
        return _original(name)(_there(src), kernel, iterations=iterations).get()  # type: ignore[no-any-return]

    def guard(call: Any) -> Verdict:
        """Plain pictures of bytes, odd windows of bytes of 3 and 5, one to three times."""
        given = call.dst is not None or call.anchor is not None or call.borderType != CONSTANT
        if given or call.borderValue is not None or type(call.iterations) is not int or not 1 <= call.iterations <= 3:
            return No("other options are given")
        return answer(_window(call.kernel) or _picture(call.src))

    run.__name__ = name
    made = _offer(name, EXACT)(run)
    made.guard(guard)
    made.calls(samples.extreme)
    return made


def _window(value: Any) -> str:
    if type(value) is not np.ndarray or value.dtype != np.uint8 or value.ndim != 2:
        return "not a window of bytes"
    known = all(side in (3, 5) for side in value.shape) and bool(value.any())
    return "" if known else "another window"


erode = _extreme("erode")
dilate = _extreme("dilate")
_MADE = {made.source.removeprefix("cv2."): made for made in (
    resize, gaussian_blur, pyr_down, warp_affine, warp_perspective, cvt_color, flip, median_blur, erode, dilate,
)}  # fmt: skip


@resize.calls
def _(rng: random.Random) -> Call:
    return samples.resize(rng)


@gaussian_blur.calls
def _(rng: random.Random) -> Call:
    return samples.blur(rng)


@pyr_down.calls
def _(rng: random.Random) -> Call:
    return samples.half(rng)


@cvt_color.calls
def _(rng: random.Random) -> Call:
    return samples.colours(rng)


@flip.calls
def _(rng: random.Random) -> Call:
    return samples.flip(rng)


@median_blur.calls
def _(rng: random.Random) -> Call:
    return samples.median(rng)
