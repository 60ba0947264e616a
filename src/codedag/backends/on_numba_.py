"""Substitutes by numba: one loop over the elements, compiled when it is first called, on one thread.

Without fast-math LLVM keeps every rounding, so + - * / sqrt give numpy's bits.  Not in parallel: numba's own thread
pool ends the process when two threads of a program use it at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codedag.backends.runtimes import EXACT, Array, Runtime, binary, unary

PU, NUMBA = "numba:cpu", "numba>=0.59"
INFINITY = math.inf
ROW = 1024  # elements of one inner loop: one over three channels alone does not become wide instructions


@functools.lru_cache(maxsize=1)
def _compiler() -> Callable[[Any], Any]:
    import numba

    return numba.njit(nogil=True, error_model="numpy")  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=64)
def _element(name: str) -> Any:
    """The function of single elements."""
    return _compiler()(_ELEMENTS[name])


_ELEMENTS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": lambda a, b: a if a >= b or a != a else b,
    "minimum": lambda a, b: a if a <= b or a != a else b,
    "absolute": lambda a: abs(a),
    "negative": lambda a: -a,
    "square": lambda a: a * a,
}


@functools.lru_cache(maxsize=64)
def _pairs(name: str) -> Any:
    """The loop over pairs of elements; the second operand is used again for each row."""
    element = _element(name)

    def loop(one: Any, other: Any, made: Any) -> bool:
        good = True
        for row in range(one.shape[0]):
            for at in range(one.shape[1]):
                value = element(one[row, at], other[at])
                made[row, at] = value
                good &= abs(value) < INFINITY
        return good

    return _compiler()(loop)


@functools.lru_cache(maxsize=64)
def _singles(name: str) -> Any:
    """The loop over the elements of one operand."""
    element = _element(name)

    def loop(one: Any, made: Any) -> bool:
        good = True
        for at in range(one.size):
            value = element(one[at])
            made[at] = value
            good &= abs(value) < INFINITY
        return good

    return _compiler()(loop)


@functools.lru_cache(maxsize=64)
def _with_number(name: str) -> Any:
    """The loop over the elements of one operand, all with the same number."""
    element = _element(name)

    def loop(one: Any, number: Any, made: Any) -> bool:
        good = True
        for at in range(one.size):
            value = element(one[at], number)
            made[at] = value
            good &= abs(value) < INFINITY
        return good

    return _compiler()(loop)


def _compute(name: str, operands: tuple[Array, ...], made: Array) -> tuple[float, float]:
    one, flat = operands[0].reshape(-1), made.reshape(-1)
    if len(operands) == 1:
        good = _singles(name)(one, flat)
    elif operands[1].ndim == 0:
        good = _with_number(name)(one, operands[1][()], flat)
    else:
        good = _by_rows(_pairs(name), one, operands[1].reshape(-1), flat)
    return (0.0, 1.0) if good else (0.0, INFINITY)


def _by_rows(loop: Any, one: Array, other: Array, made: Array) -> bool:
    """Whether all results are finite; short rows (the channels of a picture) are taken together, as many as fit."""
    wide = np.tile(other, max(1, ROW // other.size))
    whole = one.size - one.size % wide.size
    good = bool(loop(one[:whole].reshape(-1, wide.size), wide, made[:whole].reshape(-1, wide.size)))
    rest = (-1, other.size)
    return good and bool(loop(one[whole:].reshape(rest), other, made[whole:].reshape(rest)))


RUNTIME = Runtime(PU, NUMBA, _compute, has_threads=False, home=__name__)
for _name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"):
    binary(RUNTIME, _name, "fd" if _name == "divide" else "fdliB")
for _name in ("absolute", "negative", "square"):
    unary(RUNTIME, _name, "fd", EXACT)
