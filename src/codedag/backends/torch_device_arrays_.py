"""Substitutions for an accelerator: numpy's arithmetic with numpy's dtypes, transforms of scipy, spectra of librosa.

Not run on hardware here: the tests run them on the processor's tensors. Arithmetic of whole numbers and + - * / of
floats give the same bits on any device; sums in another order, transforms and logarithms are ULP.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from codedag.backends import librosa_calls, librosa_frames_calls
from codedag.backends import torch_device_calls as samples
from codedag.backends.frames import window_of
from codedag.backends.librosa_ import LIBROSA, melspectrogram
from codedag.backends.librosa_frames_ import stft as stft_here
from codedag.backends.on_device import Array, Held, back, c_ordered, nowhere, orderly, plain, there
from codedag.backends.reasons import answer, is_number, left_out
from codedag.backends.registry import EXACT, ULP, Call, Equivalence, Substitution, substitutes
from codedag.ir.verdict import No, Verdict

TORCH, NUMPY, SCIPY = "torch>=2.2", "numpy>=2.0", "scipy>=1.11"
PU = "cuda"
_NO: Any = np._NoValue


# Arithmetic of two arrays of one dtype and shape.


def _binary(name: str, operation: str, codes: str) -> Substitution:
    """A registered function of numpy that treats each pair of elements by itself."""

    def run(x1: Any, x2: Any, /) -> Array:
        """The result in the dtype that both have."""
        return back(getattr(sys.modules["torch"], operation)(there(x1), there(x2)))

    def guard(call: Any) -> Verdict:
        """Two plain arrays of one dtype and shape from 64 finite elements on."""
        reason = nowhere() or plain(call.x1, codes) or plain(call.x2, codes)
        if reason or call.x1.dtype != call.x2.dtype or call.x1.shape != call.x2.shape:
            return answer(reason or "two dtypes or shapes")
        if not (c_ordered(call.x1) and c_ordered(call.x2)):
            return No("not in C order")
        chooses = operation in ("maximum", "minimum")
        if chooses:
            return answer(orderly(call.x1) or orderly(call.x2))
        return answer(_moderate(operation, call.x1, call.x2))

    run.__name__ = name
    made = substitutes(f"numpy.{name}", into="torch", gives=EXACT, needs=TORCH, source_needs=NUMPY, pu=PU, stays=True)(
        run
    )
    made.guard(guard)
    dtypes = {"f": "float32", "d": "float64", "l": "int64", "i": "int32", "B": "uint8"}
    small = operation in ("mul", "true_divide")
    made.calls(lambda rng: samples.two(rng, tuple(dtypes[code] for code in codes), small))
    return made


def _moderate(operation: str, one: Any, other: Any) -> str:
    """The reason why a product or quotient may leave the range of floats, about which numpy warns."""
    if operation not in ("mul", "true_divide") or one.dtype.kind != "f":
        return ""
    least = _nearest_zero(other) if operation == "true_divide" else 1.0
    most = max(abs(float(bound)) for part in (one, other) for bound in (part.min(), part.max()))
    return "" if most < 1e15 and least > 1e-15 else "elements that are huge or next to zero"


def _nearest_zero(values: Any) -> float:
    """The least magnitude of all elements."""
    return float(values.tensor.abs().min().item() if type(values) is Held else np.abs(values).min())


add = _binary("add", "add", "fdliB")
subtract = _binary("subtract", "sub", "fdliB")
multiply = _binary("multiply", "mul", "fdli")
divide = _binary("divide", "true_divide", "fd")
maximum = _binary("maximum", "maximum", "fdliB")
minimum = _binary("minimum", "minimum", "fdliB")


# Functions of one array.


def _unary(name: str, operation: str, codes: str, gives: Equivalence) -> Substitution:
    """A registered function of numpy that treats each element by itself."""

    def run(x: Any, /) -> Array:
        """The result in the array's own dtype."""
        return back(getattr(sys.modules["torch"], operation)(there(x)))

    def guard(call: Any) -> Verdict:
        """Plain C-ordered arrays from 64 finite elements on; for roots and logarithms positive ones."""
        reason = nowhere() or plain(call.x, codes)
        if reason or not c_ordered(call.x):
            return answer(reason or "not in C order")
        signed = operation in ("sqrt", "log", "log10")
        return answer("elements that are not positive" if signed and not float(call.x.min()) > 0 else "")

    run.__name__ = name
    made = substitutes(f"numpy.{name}", into="torch", gives=gives, needs=TORCH, source_needs=NUMPY, pu=PU, stays=True)(
        run
    )
    made.guard(guard)
    made.calls(lambda rng: samples.positive(rng, codes))
    return made


sqrt = _unary("sqrt", "sqrt", "fd", ULP)
absolute = _unary("absolute", "abs", "fdli", EXACT)
negative = _unary("negative", "neg", "fdli", EXACT)
floor = _unary("floor", "floor", "fd", EXACT)
ceil = _unary("ceil", "ceil", "fd", EXACT)
log = _unary("log", "log", "fd", ULP)
log10 = _unary("log10", "log10", "fd", ULP)
tanh = _unary("tanh", "tanh", "fd", ULP)


# Along an axis.


def _along(name: str, operation: str, codes: str, gives: Equivalence) -> Substitution:
    """A registered reduction of numpy along one axis."""

    def run(a: Any, axis: Any = None, out: Any = None) -> Array:
        """One element for each line along the axis."""
        found = getattr(sys.modules["torch"], operation)(there(a), dim=axis)
        return back(found)

    def guard(call: Any) -> Verdict:
        """Plain arrays of two and more dimensions from 64 finite elements on, one axis."""
        reason = left_out(call, ("out",)) or nowhere() or plain(call.a, codes)
        if reason or call.a.ndim < 2 or type(call.axis) is not int:
            return answer(reason or "no axis of several")
        if not -call.a.ndim <= call.axis < call.a.ndim or not c_ordered(call.a):
            return answer("an axis out of range, or not in C order")
        return answer(orderly(call.a) if operation in ("amax", "amin") else "")

    run.__name__ = name
    made = substitutes(f"numpy.{name}", into="torch", gives=gives, needs=TORCH, source_needs=NUMPY, pu=PU, stays=True)(
        run
    )
    made.guard(guard)
    dtypes = {"f": "float32", "d": "float64", "l": "int64", "i": "int32", "B": "uint8"}
    made.calls(lambda rng: samples.reduced(rng, tuple(dtypes[code] for code in codes)))
    return made


amax = _along("max", "amax", "fdliB", EXACT)
amin = _along("min", "amin", "fdliB", EXACT)
total = _along("sum", "sum", "l", EXACT)


# Shapes.


@substitutes("numpy.concatenate", into="torch", gives=EXACT, needs=TORCH, source_needs=NUMPY, pu=PU, stays=True)
def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None) -> Array:
    """Arrays one after the other."""
    return back(sys.modules["torch"].cat([there(one) for one in arrays], dim=axis))


@substitutes("numpy.stack", into="torch", gives=EXACT, needs=TORCH, source_needs=NUMPY, pu=PU, stays=True)
def stack(arrays: Any, axis: Any = 0, out: Any = None) -> Array:
    """Arrays side by side along a new axis."""
    return back(sys.modules["torch"].stack([there(one) for one in arrays], dim=axis))


@concatenate.guard
@stack.guard
def _(call: Any) -> Verdict:
    """A list of plain C-ordered arrays of one dtype and shape, an axis of theirs."""
    if type(call.arrays) is not list or not call.arrays or type(call.axis) is not int or call.out is not None:
        return No("not a list of arrays and an axis")
    for one in call.arrays:
        reason = nowhere() or plain(one, "fdliB")
        if reason or not c_ordered(one):
            return answer(reason or "not in C order")
    first = call.arrays[0]
    alike = all(one.dtype == first.dtype and one.shape == first.shape for one in call.arrays)
    return answer("" if alike and -first.ndim <= call.axis < first.ndim else "two dtypes or shapes, or no such axis")


@concatenate.calls
@stack.calls
def _(rng: random.Random) -> Call:
    return samples.several(rng)


# Transforms.


def _transform(name: str) -> Substitution:
    """A registered transform of scipy.fft along the last axis."""

    def run(
        x: Any, n: Any = None, axis: Any = -1, norm: Any = None, overwrite_x: Any = False, workers: Any = None
    ) -> Array:
        """The transform along an axis, in the precision of the input."""
        return back(getattr(sys.modules["torch"].fft, name)(there(x), dim=axis))

    def guard(call: Any) -> Verdict:
        """Plain arrays of finite floats from 64 elements on, along an axis, without length and norm."""
        given = left_out(call, ("n", "norm", "workers")) or (
            "" if call.overwrite_x is False else "overwrite_x is given"
        )
        reason = given or nowhere() or plain(call.x, "fd" if name == "rfft" else "fdFD")
        known = not reason and type(call.axis) is int and -call.x.ndim <= call.axis < call.x.ndim
        return answer(reason or ("" if known else "no such axis"))

    run.__name__ = name
    made = substitutes(
        f"scipy.fft.{name}", into="torch", gives=ULP, needs=TORCH, source_needs=SCIPY, pu=PU, stays=True
    )(run)
    made.guard(guard)
    made.calls(samples.waves)
    return made


fft, ifft, rfft = (_transform(name) for name in ("fft", "ifft", "rfft"))


@substitutes("scipy.signal.fftconvolve", into="torch", gives=ULP, needs=TORCH, source_needs=SCIPY, pu=PU, stays=True)
def fftconvolve(in1: Any, in2: Any, mode: Any = "full", axes: Any = None) -> Array:
    """The convolution of two rows by transforms."""
    torch = sys.modules["torch"]
    length = len(in1) + len(in2) - 1
    spectra = [torch.fft.rfft(there(one), n=length) for one in (in1, in2)]
    return back(torch.fft.irfft(spectra[0] * spectra[1], n=length))


@fftconvolve.guard
def _(call: Any) -> Verdict:
    """Two plain rows of finite floats of one dtype, the whole result."""
    reason = nowhere() or plain(call.in1, "fd") or plain(call.in2, "fd", 2)
    if reason or call.in1.ndim != 1 or call.in2.ndim != 1 or call.in1.dtype != call.in2.dtype:
        return answer(reason or "not two rows of one dtype")
    return answer("" if call.mode == "full" and call.axes is None else "another part of the result")


@fftconvolve.calls
def _(rng: random.Random) -> Call:
    return samples.rows(rng)


# Spectra.


@substitutes("librosa.stft", into="torch", gives=ULP, needs=TORCH, source_needs=LIBROSA, pu=PU, stays=True)
def stft(
    y: Any,
    *,
    n_fft: Any = 2048,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = "hann",
    center: Any = True,
    dtype: Any = None,
    pad_mode: Any = "constant",
    out: Any = None,
) -> Array:
    """The spectrum of each frame."""
    return back(_spectrum(y, n_fft, hop_length or n_fft // 4, window), "F")


def _spectrum(sound: Array, length: int, step: int, window: str) -> Any:
    torch = sys.modules["torch"]
    shape = there(window_of(window, length).astype(sound.dtype))
    options = {"window": shape, "center": True, "pad_mode": "constant", "return_complex": True}
    return torch.stft(there(sound), length, step, **options)


@stft.guard
def _(call: Any) -> Verdict:
    """What the substitute on the processor takes."""
    return answer(nowhere()) if nowhere() else stft_here._guard(call)


@stft.calls
def _(rng: random.Random) -> Call:
    return librosa_frames_calls.stft(rng)


@substitutes(
    "librosa.feature.melspectrogram", into="torch", gives=ULP, needs=TORCH, source_needs=LIBROSA, pu=PU, stays=True
)
def mel_spectrogram(
    *,
    y: Any = None,
    sr: Any = 22050,
    S: Any = None,  # noqa: N803
    n_fft: Any = 2048,
    hop_length: Any = 512,
    win_length: Any = None,
    window: Any = "hann",
    center: Any = True,
    pad_mode: Any = "constant",
    power: Any = 2.0,
    n_mels: Any = 128,
    fmin: Any = 0.0,
    fmax: Any = None,
    htk: Any = False,
    norm: Any = "slaney",
    dtype: Any = np.float32,
) -> Array:
    """The spectrogram's product with a bank of filters."""
    from codedag.backends.librosa_ import _bank

    strength = _spectrum(y, n_fft, hop_length, window).abs() ** power
    bank = there(_bank(sr, n_fft, n_mels, fmin, fmax, htk, norm, dtype))
    kind = sys.modules["torch"].promote_types(bank.dtype, strength.dtype)
    return back(bank.to(kind) @ strength.to(kind))


@mel_spectrogram.guard
def _(call: Any) -> Verdict:
    """What the substitute on the processor takes, with filters no finer than the sound."""
    verdict = answer(nowhere()) if nowhere() else melspectrogram._guard(call)
    if verdict and np.dtype(call.dtype).itemsize > call.y.dtype.itemsize:
        return No("filters finer than the sound: the result would promise more digits than its spectrum has")
    return verdict


@mel_spectrogram.calls
def _(rng: random.Random) -> Call:
    return librosa_calls.spectrogram(rng)


@substitutes("librosa.power_to_db", into="torch", gives=ULP, needs=TORCH, source_needs=LIBROSA, pu=PU, stays=True)
def power_to_db(S: Any, *, ref: Any = 1.0, amin: Any = 1e-10, top_db: Any = 80.0) -> Array:  # noqa: N803
    """Power in decibels above a reference, not further below the greatest than asked for."""
    return back(_decibels(there(S), ref, amin, top_db))


@substitutes("librosa.amplitude_to_db", into="torch", gives=ULP, needs=TORCH, source_needs=LIBROSA, pu=PU, stays=True)
def amplitude_to_db(S: Any, *, ref: Any = 1.0, amin: Any = 1e-5, top_db: Any = 80.0) -> Array:  # noqa: N803
    """Amplitudes in decibels above a reference."""
    return back(_decibels(there(S).square(), ref**2, amin**2, top_db))


def _decibels(power: Any, ref: float, amin: float, top: float | None) -> Any:
    torch = sys.modules["torch"]
    levels = 10.0 * torch.log10(power.clamp(min=amin)) - float(10.0 * np.log10(max(amin, abs(ref))))
    return levels if top is None else torch.maximum(levels, levels.max() - top)


@power_to_db.guard
@amplitude_to_db.guard
def _(call: Any) -> Verdict:
    """Plain arrays of finite floats from 64 elements on, plain numbers."""
    reason = nowhere() or plain(call.S, "fd")
    known = is_number(call.ref) and is_number(call.amin) and call.amin > 0 and call.ref != 0
    top = call.top_db is None or (is_number(call.top_db) and call.top_db >= 0)
    return answer(reason or ("" if known and top else "options that are not plain numbers"))


@power_to_db.calls
@amplitude_to_db.calls
def _(rng: random.Random) -> Call:
    return samples.levels(rng)
