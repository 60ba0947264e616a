"""Substitutions from numpy for products with a bank of filters: a matrix of which nearly everything is zero.

What a mel bank, a chroma bank or a smoothing matrix multiplies is added up in the order of numpy's own product, which
is found by asking it (matrix_parts.py), without the zeros and without the threads that wait for the next product.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from codedag.backends import matrix_parts as parts
from codedag.backends import numpy_products_calls as samples
from codedag.backends.reasons import answer
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

Array = np.ndarray[Any, Any]
NUMPY = "numpy>=2.0"
LEAST = 1 << 20  # products of numbers; below that numpy's own takes microseconds
FILTERS, BINS, FRAMES = (8, 512), (33, 16_385), (8, 1 << 16)
WIDEST = 4  # of a bank at most one part in so many lies between the ends of its filters


@substitutes("numpy.dot", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def dot(a: Any, b: Any, out: Any = None) -> Array:
    """The product of a bank of filters and a spectrogram."""
    return _product(a, b, _dot, np.dot)


@dot.guard
def _(call: Any) -> Verdict:
    """float32: a C-ordered bank of 8 to 512 filters, three quarters of it zero, by a Fortran-ordered spectrogram."""
    return answer(_reason(call.a, call.b) or ("out is given" if call.out is not None else ""))


@dot.calls
def _(rng: random.Random) -> Call:
    return samples.dot(rng)


@substitutes("numpy.matmul", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def matmul(x1: Any, x2: Any, /, out: Any = None) -> Array:
    """The product of a bank of filters and a spectrogram."""
    return _product(x1, x2, _matmul, np.matmul)


@matmul.guard
def _(call: Any) -> Verdict:
    """As numpy.dot, where nobody wants to be told of numbers that are too small."""
    return answer(_reason(call.x1, call.x2) or ("out is given" if call.out is not None else "") or _told())


@matmul.calls
def _(rng: random.Random) -> Call:
    return samples.matmul(rng)


@substitutes("operator.matmul", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def at(a: Any, b: Any, /) -> Array:
    """The product of a bank of filters and a spectrogram, written with @."""
    return _product(a, b, _matmul, np.matmul)


@at.guard
def _(call: Any) -> Verdict:
    """As numpy.matmul."""
    return answer(_reason(call.a, call.b) or _told())


@at.calls
def _(rng: random.Random) -> Call:
    return samples.operands(rng)


_dot = parts.Order(lambda strength, bank: np.dot(bank, strength))
_matmul = parts.Order(lambda strength, bank: np.matmul(bank, strength))


def _product(bank: Array, strength: Array, order: parts.Order, whole: Callable[[Array, Array], Array]) -> Array:
    ends = order.parts(bank.shape[0], bank.shape[1], strength.shape[1])
    made = None if ends is None else parts.multiplied(strength.T, bank, parts.bounds_of(bank), ends)
    return whole(bank, strength) if made is None else made


def _reason(bank: Any, strength: Any) -> str:
    if type(bank) is not np.ndarray or type(strength) is not np.ndarray:
        return "not two plain arrays"
    if bank.dtype.str != "<f4" or strength.dtype.str != "<f4" or bank.ndim != 2 or strength.ndim != 2:
        return "not two matrices of float32"
    (filters, bins), frames = bank.shape, strength.shape[1]
    sizes = ((filters, FILTERS), (bins, BINS), (frames, FRAMES))
    if bins != len(strength) or any(not least <= size <= most for size, (least, most) in sizes):
        return "other sizes than those of filters and frames"
    if filters * bins * frames < LEAST:
        return "too small to gain"
    return _order_of(bank, strength) or _zeros(bank)


def _order_of(bank: Array, strength: Array) -> str:
    ordered = bank.flags.c_contiguous and strength.flags.f_contiguous and bank.flags.aligned and strength.flags.aligned
    return "" if ordered else "not a C-ordered bank and a Fortran-ordered spectrogram"


def _zeros(bank: Array) -> str:
    return "" if WIDEST * parts.measured(bank)[1] <= bank.size else "too few zeros"


def _told() -> str:
    """numpy.matmul tells of numbers that become too small, if the program wants to know."""
    return "" if np.geterr()["under"] == "ignore" else "underflow is told of"
