"""Calls through a substitution and its original, compared bit by bit."""

from __future__ import annotations

import numpy as np

from codedag.backends.proof import prove
from codedag.backends.registry import EXACT, find
from codedag.backends.same import same


def of(name):
    """The exact substitution of a function; where there are several, by `function -> library`."""
    exact = (made for made in find(name.partition(" -> ")[0]) if made.pu == "cpu" and made.equivalence is EXACT)
    (found,) = (made for made in exact if name in (made.source, made.name))
    return found


def noise(shape=(100, 120), dtype="uint8", high=256, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


def reason(name, *args, **kwargs):
    verdict = of(name).accepts(args, kwargs)
    return "" if verdict else verdict.reason


def check(name, *args, **kwargs):
    """Runs an accepted call through both and wants the same result and untouched arguments."""
    made = of(name)
    verdict = made.accepts(args, kwargs)
    assert verdict, verdict
    before = [arg.tobytes() if isinstance(arg, np.ndarray) else arg for arg in args]
    result = made.run(*args, **kwargs)
    verdict = same(made.original()(*args, **kwargs), result)
    assert verdict, verdict
    assert before == [arg.tobytes() if isinstance(arg, np.ndarray) else arg for arg in args]


ENOUGH = 1000  # accepted calls


def prove_a_thousand(made, seed):
    """Compares substitute and original on random calls until so many were accepted; all must agree."""
    accepted = tried = 0
    while accepted < ENOUGH:
        proof = prove(made, calls=200, seed=1000 * (seed + 1) + tried)
        assert proof.verdict, proof
        accepted, tried = accepted + proof.accepted, tried + proof.calls
        assert tried <= 6 * ENOUGH  # the generator makes calls of which at least a sixth is taken
