"""Substitutions for an accelerator: signals of scipy resampled and convolved, sounds of librosa.

Not run on hardware here: the tests run them on the processor's tensors. Transforms in another order are ULP.
librosa.resample is offered for transforms alone: what it calls by itself (soxr) has no equal on a device. In
librosa.feature.mfcc the logarithm of what is far below the loudest has lost the promised digits: such sounds are given
up once their spectrum is known.
"""

from __future__ import annotations

import math
import random
import sys
from typing import Any

import numpy as np

from codedag.backends import librosa_frames_calls, torch_device_calls, torch_device_more_calls
from codedag.backends.librosa_ import LIBROSA
from codedag.backends.librosa_frames_ import mfcc as mfcc_here
from codedag.backends.on_device import Array, back, c_ordered, constant, device, nowhere, plain, there, using
from codedag.backends.reasons import answer, is_number, left_out
from codedag.backends.registry import ULP, Call, substitutes
from codedag.backends.torch_device_arrays_ import PU, SCIPY, TORCH, _decibels, mel_spectrogram
from codedag.instrument.guard import Declined
from codedag.ir.verdict import Verdict

#: The share of the loudest power below which its logarithm has lost the promised digits.
QUIET = {"torch.float32": 1e-5, "torch.float64": 1e-12}


@substitutes("scipy.fft.irfft", into="torch", gives=ULP, needs=TORCH, source_needs=SCIPY, pu=PU, stays=True)
def irfft(
    x: Any, n: Any = None, axis: Any = -1, norm: Any = None, overwrite_x: Any = False, workers: Any = None
) -> Array:
    """The real signal of half a spectrum."""
    return back(sys.modules["torch"].fft.irfft(there(x), dim=axis))


@irfft.guard
def _(call: Any) -> Verdict:
    """Plain complex arrays from 64 finite elements on, along an axis, without length and norm."""
    given = left_out(call, ("n", "norm", "workers")) or ("" if call.overwrite_x is False else "overwrite_x is given")
    reason = given or nowhere() or plain(call.x, "FD")
    known = not reason and type(call.axis) is int and -call.x.ndim <= call.axis < call.x.ndim
    return answer(reason or ("" if known and call.x.shape[call.axis] > 1 else "no such axis"))


@irfft.calls
def _(rng: random.Random) -> Call:
    call = torch_device_calls.waves(rng)
    wave = call.args[0]
    return Call((np.fft.rfft(wave).astype("complex64" if wave.dtype == np.float32 else "complex128"),), call.kwargs)


@substitutes("scipy.signal.resample", into="torch", gives=ULP, needs=TORCH, source_needs=SCIPY, pu=PU, stays=True)
def resample(x: Any, num: Any, t: Any = None, axis: Any = 0, window: Any = None, domain: Any = "time") -> Array:
    """The signal with another number of samples: its spectrum cut or continued with zeros."""
    return back(_another_length(x, num))


def _another_length(signal: Any, count: int) -> Any:
    torch = sys.modules["torch"]
    spectrum, before = torch.fft.rfft(there(signal), dim=0), signal.shape[0]
    least = min(count, before)
    spectrum = spectrum[: least // 2 + 1].clone()
    if least % 2 == 0 and count != before:  # the sample at half the rate belongs to both sides
        spectrum[least // 2] *= 2.0 if count < before else 0.5
    return torch.fft.irfft(spectrum, n=count, dim=0) * (count / before)


@resample.guard
def _(call: Any) -> Verdict:
    """Plain arrays of finite floats from 64 elements on, along the first axis, without window and times."""
    reason = left_out(call, ("t", "window")) or nowhere() or plain(call.x, "fd")
    if reason or type(call.num) is not int or not 2 <= call.num < 1 << 24 or call.x.shape[0] < 2:
        return answer(reason or "an odd number of samples")
    return answer(
        "" if call.axis == 0 and type(call.axis) is int and call.domain == "time" else "another axis or domain"
    )


@resample.calls
def _(rng: random.Random) -> Call:
    return torch_device_more_calls.resampled(rng)


@substitutes("scipy.signal.convolve", into="torch", gives=ULP, needs=TORCH, source_needs=SCIPY, pu=PU, stays=True)
def convolve(in1: Any, in2: Any, mode: Any = "full", method: Any = "auto") -> Array:
    """The convolution of two rows by transforms."""
    torch = sys.modules["torch"]
    length = in1.shape[0] + in2.shape[0] - 1
    spectra = [torch.fft.rfft(there(one), n=length) for one in (in1, in2)]
    return back(torch.fft.irfft(spectra[0] * spectra[1], n=length))


@convolve.guard
def _(call: Any) -> Verdict:
    """Two plain rows of finite floats of one dtype, the whole result."""
    reason = nowhere() or plain(call.in1, "fd") or plain(call.in2, "fd", 2)
    if reason or call.in1.ndim != 1 or call.in2.ndim != 1 or call.in1.dtype != call.in2.dtype:
        return answer(reason or "not two rows of one dtype")
    return answer(
        "" if call.mode == "full" and call.method in ("auto", "fft", "direct") else "another part of the result"
    )


@convolve.calls
def _(rng: random.Random) -> Call:
    return torch_device_calls.rows(rng)


@substitutes("librosa.resample", into="torch", gives=ULP, needs=TORCH, source_needs=LIBROSA, pu=PU, stays=True)
def slowed(
    y: Any,
    *,
    orig_sr: Any,
    target_sr: Any,
    res_type: Any = "soxr_hq",
    fix: Any = True,
    scale: Any = False,
    axis: Any = -1,
    **kwargs: Any,
) -> Array:
    """The sound at another rate: its spectrum cut or continued with zeros."""
    ratio = float(target_sr) / orig_sr
    made = _another_length(y, math.ceil(y.shape[0] * ratio))
    return back(made / math.sqrt(ratio) if scale else made)


@slowed.guard
def _(call: Any) -> Verdict:
    """One plain channel of finite floats from 64 samples on, two other rates, by transforms (fft or scipy)."""
    reason = nowhere() or plain(call.y, "fd")
    if reason or call.y.ndim != 1 or not c_ordered(call.y) or call.axis not in (-1, 0) or call.kwargs:
        return answer(reason or "several channels, or further options")
    if type(call.res_type) is not str or call.res_type not in ("fft", "scipy"):
        return answer("not by transforms of the whole sound")
    rates = is_number(call.orig_sr) and is_number(call.target_sr) and min(call.orig_sr, call.target_sr) >= 1
    if not rates or call.orig_sr == call.target_sr or type(call.fix) is not bool or type(call.scale) is not bool:
        return answer("rates or options that are odd")
    return answer("" if 2 <= call.y.shape[0] * call.target_sr / call.orig_sr < 1 << 24 else "an odd length")


@slowed.calls
def _(rng: random.Random) -> Call:
    return torch_device_more_calls.slowed(rng)


@substitutes("librosa.feature.mfcc", into="torch", gives=ULP, needs=TORCH, source_needs=LIBROSA, pu=PU, stays=True)
def mfcc(
    *,
    y: Any = None,
    sr: Any = 22050,
    S: Any = None,  # noqa: N803
    n_mfcc: Any = 20,
    dct_type: Any = 2,
    norm: Any = "ortho",
    lifter: Any = 0,
    mel_norm: Any = "slaney",
    **kwargs: Any,
) -> Array:
    """Coefficients of the decibels of a spectrogram, by a product with a matrix."""
    with using(str(device()), stay=True):
        power = mel_spectrogram.run(y=y, sr=sr, norm=mel_norm, **kwargs).tensor
    if not float(power.min()) >= QUIET[str(power.dtype)] * float(power.max()):
        raise Declined("parts so quiet that a transform in another order has lost their digits")
    (matrix,) = _cosines(power.shape[-2], n_mfcc, norm, lifter)
    return back(matrix.to(power.dtype) @ _decibels(power, 1.0, 1e-10, 80.0))


@constant
def _cosines(size: int, count: int, norm: Any, lifter: float) -> tuple[Array]:
    """The matrix of a cosine transform and of what lifts its result."""
    import scipy.fft

    matrix = scipy.fft.dct(np.eye(size), type=2, norm=norm, axis=0)[:count]
    if lifter:
        matrix = matrix * (1 + lifter / 2 * np.sin(np.pi * np.arange(1, 1 + len(matrix)) / lifter))[:, None]
    return (matrix.astype(np.float64),)


@mfcc.guard
def _(call: Any) -> Verdict:
    """What the substitute on the processor takes, with filters no finer than the sound."""
    missing = nowhere() or ("no float64 on this device" if device().type == "mps" else "")
    verdict = answer(missing) if missing else mfcc_here._guard(call)
    if not verdict:
        return verdict
    return mel_spectrogram.accepts((), {"y": call.y, "sr": call.sr, "norm": call.mel_norm, **call.kwargs})


@mfcc.calls
def _(rng: random.Random) -> Call:
    return librosa_frames_calls.mfcc(rng)
