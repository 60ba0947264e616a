"""Random calls of scipy.signal's design functions: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import spread, weighted


def design(rng: random.Random, ripples: tuple[str, ...]) -> Call:
    """A call of a function that designs a filter by its order and edges."""
    values: dict[str, Any] = {"N": weighted(rng, (1, 2, 4, 5, 8), (0, -1, 2.5, 40, "a"))}
    values |= {name: weighted(rng, ((0.5, 1, 3.0) if name == "rp" else (20, 40.0, 60)), (0, -1)) for name in ripples}
    kind = rng.choice(("low", "low", "lowpass", "high", "band", "bandstop"))
    rate = rng.choice((None, None, 16000, 250.0))
    half = 1.0 if rate is None else rate / 2
    edge, other = half * rng.choice((0.1, 0.2, rng.random() * 0.4 + 0.01)), half * (0.5 + rng.random() * 0.45)
    usual: tuple[Any, ...] = (edge,) if kind in ("low", "lowpass", "high") else ((edge, other), [edge, other])
    values["Wn"] = weighted(rng, usual, (2 * half, -1, "a", (other, edge), None))
    values["btype"] = weighted(rng, (kind,), ("bogus",), 0.04)
    maybe(rng, values, 0.03, "analog", (True, False))
    if rng.random() < 0.6:
        values["output"] = weighted(rng, ("ba", "sos"), ("zpk", "bogus"))
    if rate is not None:
        values["fs"] = rate
    return spread(rng, ("N", *ripples, "Wn", "btype", "analog", "output", "fs"), values)


def firwin(rng: random.Random) -> Call:
    """A call of firwin."""
    edges = (0.2, rng.random() * 0.9 + 0.02, (0.2, 0.5), [0.1, 0.7])
    values: dict[str, Any] = {
        "numtaps": weighted(rng, (11, 31, 101), (10, 0, 2.5)),
        "cutoff": weighted(rng, edges, (2.0, -1, "a", (0.5, 0.2))),
    }
    maybe(rng, values, 0.3, "window", ("hamming", "hann", "blackman", "bogus"))
    maybe(rng, values, 0.3, "pass_zero", (True, False, "lowpass"))
    maybe(rng, values, 0.1, "scale", (True, False))
    maybe(rng, values, 0.1, "fs", (2.0, 2, None))
    return spread(rng, ("numtaps", "cutoff"), values)


def rest(rng: random.Random) -> Call:
    """A call of lfilter_zi with the coefficients of a low-pass filter."""
    order = rng.choice((1, 2, 4))
    a = np.array([1.0, *(0.3 * rng.random() - 0.1 for _ in range(order))])
    b = np.array([rng.random() for _ in range(rng.choice((order, order, 1)) + 1)])
    odd: tuple[Any, ...] = (a.tolist(), a * 2, a[:1], a.astype(np.float32), None)
    return spread(rng, ("b", "a"), {"b": b, "a": weighted(rng, (a,), odd)})
