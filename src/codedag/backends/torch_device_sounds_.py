"""Substitutions for an accelerator: signals of scipy resampled and convolved.

Not run on hardware here: the tests run them on the processor's tensors. Transforms in another order are ULP.
librosa.resample is not offered: what it calls (soxr) has no equal on a device. Nor is librosa.feature.mfcc: it takes
the logarithm of what is 80 dB below the loudest, where a transform in another order has lost the promised digits.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from codedag.backends import torch_device_calls, torch_device_more_calls
from codedag.backends.on_device import Array, back, nowhere, plain, there
from codedag.backends.reasons import answer, left_out
from codedag.backends.registry import ULP, Call, substitutes
from codedag.backends.torch_device_arrays_ import PU, SCIPY, TORCH
from codedag.ir.verdict import Verdict


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
    torch = sys.modules["torch"]
    spectrum, before = torch.fft.rfft(there(x), dim=0), x.shape[0]
    least = min(num, before)
    spectrum = spectrum[: least // 2 + 1].clone()
    if least % 2 == 0 and num != before:  # the sample at half the rate belongs to both sides
        spectrum[least // 2] *= 2.0 if num < before else 0.5
    return back(torch.fft.irfft(spectrum, n=num, dim=0) * (num / before))


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
