"""Substitutions from scipy.signal: filters that are always designed alike from the same plain numbers, remembered."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np

from codedag.backends import signal_designs_calls as samples
from codedag.backends.reasons import among, answer, is_number
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.backends.remembered import Array, Remembered, exact_key
from codedag.ir.verdict import No, Verdict

SCIPY = "scipy>=1.15,<1.18"
NUMPY = "numpy>=2.0"
HUGE = 1e100  # squares of smaller numbers have room
_BANDS = frozenset({"low", "lowpass", "high", "highpass", "band", "bandpass", "bandstop", "stop"})
_memory = Remembered()


def _designed(made: Any, output: str, *args: Any) -> Any:
    """Fresh copies of the arrays that scipy designed before with the same arguments."""
    key = exact_key(made.source, output, *args)
    make = functools.partial(made.original(), *args[:-1], output=output, fs=args[-1])
    if output == "sos":
        return _memory.copy(key, make)
    return _memory.copy((key, 0), lambda: make()[0]), _memory.copy((key, 1), lambda: make()[1])


@substitutes("scipy.signal.butter", into="numpy", gives=EXACT, needs=NUMPY, source_needs=SCIPY)
def butter(
    N: Any,  # noqa: N803
    Wn: Any,  # noqa: N803
    btype: Any = "low",
    analog: Any = False,
    output: Any = "ba",
    fs: Any = None,
) -> Any:
    """A Butterworth filter."""
    return _designed(butter, output, N, Wn, btype, analog, fs)


@substitutes("scipy.signal.cheby1", into="numpy", gives=EXACT, needs=NUMPY, source_needs=SCIPY)
def cheby1(
    N: Any,  # noqa: N803
    rp: Any,
    Wn: Any,  # noqa: N803
    btype: Any = "low",
    analog: Any = False,
    output: Any = "ba",
    fs: Any = None,
) -> Any:
    """A Chebyshev filter with ripples where it lets pass."""
    return _designed(cheby1, output, N, rp, Wn, btype, analog, fs)


@substitutes("scipy.signal.cheby2", into="numpy", gives=EXACT, needs=NUMPY, source_needs=SCIPY)
def cheby2(
    N: Any,  # noqa: N803
    rs: Any,
    Wn: Any,  # noqa: N803
    btype: Any = "low",
    analog: Any = False,
    output: Any = "ba",
    fs: Any = None,
) -> Any:
    """A Chebyshev filter with ripples where it stops."""
    return _designed(cheby2, output, N, rs, Wn, btype, analog, fs)


@substitutes("scipy.signal.ellip", into="numpy", gives=EXACT, needs=NUMPY, source_needs=SCIPY)
def ellip(
    N: Any,  # noqa: N803
    rp: Any,
    rs: Any,
    Wn: Any,  # noqa: N803
    btype: Any = "low",
    analog: Any = False,
    output: Any = "ba",
    fs: Any = None,
) -> Any:
    """An elliptic filter."""
    return _designed(ellip, output, N, rp, rs, Wn, btype, analog, fs)


@butter.guard
@cheby1.guard
@cheby2.guard
@ellip.guard
def _(call: Any) -> Verdict:
    """Digital filters of order 1 to 12 with plain numbers, as ba or sos."""
    known = type(call.N) is int and among(call.output, "ba", "sos")
    if not known or not 1 <= call.N <= 12 or call.analog is not False:
        return No("an odd order, an analog filter or another output")
    if type(call.btype) is not str or call.btype not in _BANDS:
        return No("a kind of filter that is not known")
    ripples = [getattr(call, name) for name in ("rp", "rs") if hasattr(call, name)]
    if not all(is_number(ripple) and 0 < ripple <= 200 for ripple in ripples) or ripples != sorted(set(ripples)):
        return No("odd ripples")
    return answer(_edges(call.Wn, call.btype, call.fs))


def _edges(edges: Any, kind: str, rate: Any) -> str:
    """The reason why the edges are not one or two growing plain numbers below half of the rate."""
    if not (rate is None or (is_number(rate) and rate > 0)):
        return "an odd rate"
    both = edges if type(edges) in (tuple, list) else (edges,)
    if len(both) != (1 if kind in ("low", "lowpass", "high", "highpass") else 2) or not all(map(is_number, both)):
        return "not one edge for each side"
    share = [edge / (1.0 if rate is None else rate / 2) for edge in both]
    return "" if all(0.001 < part < 0.999 for part in share) and share == sorted(set(share)) else "edges out of range"


@butter.calls
def _(rng: random.Random) -> Call:
    return samples.design(rng, ())


@cheby1.calls
def _(rng: random.Random) -> Call:
    return samples.design(rng, ("rp",))


@cheby2.calls
def _(rng: random.Random) -> Call:
    return samples.design(rng, ("rs",))


@ellip.calls
def _(rng: random.Random) -> Call:
    return samples.design(rng, ("rp", "rs"))


@substitutes("scipy.signal.firwin", into="numpy", gives=EXACT, needs=NUMPY, source_needs=SCIPY)
def firwin(
    numtaps: Any,
    cutoff: Any,
    *,
    width: Any = None,
    window: Any = "hamming",
    pass_zero: Any = True,
    scale: Any = True,
    fs: Any = None,
) -> Array:
    """A filter of finite length by the window method."""
    options = {"window": window, "pass_zero": pass_zero, "scale": scale, "fs": fs}
    key = exact_key("firwin", numtaps, cutoff, *options.values())
    return _memory.copy(key, lambda: firwin.original()(numtaps, cutoff, **options))


@firwin.guard
def _(call: Any) -> Verdict:
    """3 to 4095 taps, one or two plain edges, a window by name."""
    if type(call.numtaps) is not int or not 3 <= call.numtaps <= 4095 or call.numtaps % 2 == 0:
        return No("an odd number of taps is needed")
    flags = type(call.pass_zero) is bool and type(call.scale) is bool
    if call.width is not None or not flags or not among(call.window, "hamming", "hann", "blackman"):
        return No("a width or an odd option")
    kind = "low" if is_number(call.cutoff) else "band"
    return answer(_edges(call.cutoff, kind, call.fs))


@firwin.calls
def _(rng: random.Random) -> Call:
    return samples.firwin(rng)


@substitutes("scipy.signal.lfilter_zi", into="numpy", gives=EXACT, needs=NUMPY, source_needs=SCIPY)
def lfilter_zi(b: Any, a: Any) -> Array:
    """The state of a filter at rest, which filtfilt asks for at each call."""
    key = ("lfilter_zi", b.tobytes(), a.tobytes())
    return _memory.copy(key, lambda: lfilter_zi.original()(b, a))


@lfilter_zi.guard
def _(call: Any) -> Verdict:
    """Two plain rows of 2 to 64 numbers in double precision, not huge, of which the last ones begin with 1."""
    for value in (call.b, call.a):
        if type(value) is not np.ndarray or value.dtype.char != "d" or value.ndim != 1 or not 2 <= value.size <= 64:
            return No("not plain rows of numbers")
    if not (np.abs(call.a).max() < HUGE and np.abs(call.b).max() < HUGE):  # nor NaN
        return No("numbers so large that sums of them may be too large")
    return answer(
        "" if call.a[0] == 1 and abs(call.a.sum()) > 1e-9 else "a filter that is not normalised or has no rest"
    )


@lfilter_zi.calls
def _(rng: random.Random) -> Call:
    return samples.rest(rng)
