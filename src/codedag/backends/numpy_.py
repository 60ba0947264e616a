"""Substitutions from numpy: reductions of bytes and masks by counting, functions of bytes by table.

Sums of whole numbers below 2**53 are the same in any order, counts and order statistics do not round at all, and
a table holds what numpy itself gave for each of the 256 values.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import _pixels
from codedag.backends import numpy_calls as samples
from codedag.backends.bytes_tables import EVERY_BYTE, Array, byte_array, counts, looked_up
from codedag.backends.reasons import among, answer, increasing, is_number, left_out, numbers
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

NUMPY = "numpy>=2.0"
# The fewest elements at which guard and substitute together gained 1.1 times in bench/substitutions.py.
LEAST = 2048
LEAST_COUNTED = 8192  # where numpy itself counts, or searches few bins
LEAST_TABLE = 32_768  # numpy.isin itself is a table for few numbers
LARGEST = 2**28
_NO: Any = np._NoValue


# Sums and means of bytes and masks.


@substitutes("numpy.sum", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def sum(  # noqa: A001 - the source's own name
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NO,
    initial: Any = _NO,
    where: Any = _NO,
) -> Any:
    """The sum of an array of bytes (uint64) or the number of true elements (int64)."""
    if a.dtype.kind == "b":
        return np.int64(np.count_nonzero(a.view(np.uint8)))
    return np.uint64(_totals(a)[0]) if axis is None else np.array(_totals(a, a.shape[2]), np.uint64)


@sum.guard
def _(call: Any) -> Verdict:
    """Plain bytes or masks from 2048 elements on: all of them, or bytes per channel over axes (0, 1)."""
    given = left_out(call, ("dtype", "out", "initial", "where"))
    return answer(given or _keepdims(call) or _bytes_or_mask(call.a) or _axes(call))


@substitutes("numpy.mean", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NO, *, where: Any = _NO) -> Any:
    """The mean of bytes or of a mask as float64: an exact sum, divided once as numpy does."""
    if a.dtype.kind == "b":
        return np.float64(np.count_nonzero(a.view(np.uint8))) / np.float64(a.size)
    if axis is None:
        return np.float64(_totals(a)[0]) / np.float64(a.size)
    sums = np.array(_totals(a, a.shape[2]), np.float64)
    return np.true_divide(sums, a.shape[0] * a.shape[1], out=sums)


@mean.guard
def _(call: Any) -> Verdict:
    """Plain bytes or masks from 2048 elements on: all of them, or bytes per channel over axes (0, 1)."""
    given = left_out(call, ("dtype", "out", "where"))
    return answer(given or _keepdims(call) or _bytes_or_mask(call.a) or _axes(call))


@sum.calls
@mean.calls
def _(rng: random.Random) -> Call:
    return samples.reduction(rng)


def _totals(values: Array, channels: int = 1) -> list[int]:
    """The exact sum of each channel; sums of bytes stay below 2**53."""
    return list(_pixels.sums(np.ascontiguousarray(values), channels))


def _keepdims(call: Any) -> str:
    return "" if call.keepdims is _NO or call.keepdims is False else "keepdims is given"


def _bytes_or_mask(value: Any) -> str:
    if type(value) is np.ndarray and value.dtype.char == "?":
        return "" if LEAST <= value.size <= LARGEST else "the array is too small to gain"
    return byte_array(value, LEAST, LARGEST)


def _axes(call: Any) -> str:
    if call.axis is None:
        return ""
    if not among(call.axis, (0, 1)) or not all(type(one) is int for one in call.axis):
        return "axes other than rows and columns"
    if call.a.ndim != 3 or not 1 <= call.a.shape[2] <= 4 or call.a.dtype.kind == "b":
        return "not an image with 1 to 4 channels"
    return ""


# Counting bytes.


@substitutes("numpy.bincount", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Array:
    """How often each number occurs among bytes."""
    found = counts(x)
    length = max(int(found.nonzero()[0][-1]) + 1, minlength)
    result = np.zeros(length, np.intp)
    result[: min(length, 256)] = found[:length]
    return result


@bincount.guard
def _(call: Any) -> Verdict:
    """One row of 8192 to 2**24 plain bytes, no weights."""
    return answer(
        left_out(call, ("weights",)) or byte_array(call.x, LEAST_COUNTED) or _one_row(call.x) or _length(call.minlength)
    )


@bincount.calls
def _(rng: random.Random) -> Call:
    return samples.bincount(rng)


def _one_row(value: Array) -> str:
    return "" if value.ndim == 1 else f"{value.ndim} dimensions"


def _length(value: Any) -> str:
    return "" if type(value) is int and 0 <= value <= 65536 else "minlength is not a plain number"


@substitutes("numpy.unique", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def unique(
    ar: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    *,
    equal_nan: Any = True,
    sorted: Any = True,  # noqa: A002
) -> Any:
    """The values that occur among bytes, in order, and how often."""
    found = counts(ar)
    values = found.nonzero()[0]
    present = values.astype(np.uint8)
    return (present, found[values]) if return_counts else present


@unique.guard
def _(call: Any) -> Verdict:
    """2048 to 2**24 plain bytes, values alone or with counts."""
    return answer(byte_array(call.ar, LEAST) or _unique_options(call))


def _unique_options(call: Any) -> str:
    if call.return_index is not False or call.return_inverse is not False:
        return "indices are asked for"
    if call.axis is not None or call.sorted is not True:
        return "an axis, or another order"
    plain = type(call.return_counts) is bool and type(call.equal_nan) is bool
    return "" if plain else "return_counts or equal_nan is not a bool"


@unique.calls
def _(rng: random.Random) -> Call:
    return samples.unique(rng)


@substitutes("numpy.histogram", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,  # noqa: A002
    density: Any = None,
    weights: Any = None,
) -> tuple[Array, Array]:
    """Numpy's own histogram of the values that occur, each weighted by how often it does."""
    found = counts(a)
    present = found.nonzero()[0]
    return np.histogram(present.astype(np.uint8), bins, range, density, found[present])


@histogram.guard
def _(call: Any) -> Verdict:
    """8192 to 2**24 plain bytes; a number of bins or growing edges, no weights."""
    return answer(left_out(call, ("weights",)) or byte_array(call.a, LEAST_COUNTED) or _bins(call.bins) or _range(call))


def _bins(bins: Any) -> str:
    if type(bins) is int:
        return "" if 1 <= bins <= 65536 else "not a number of bins"
    return "" if numbers(bins) and len(bins) > 1 and increasing(bins) else "bins that are not increasing numbers"


def _range(call: Any) -> str:
    if call.density is not None and type(call.density) is not bool:
        return "density is not a bool"
    if call.range is None:
        return ""
    plain = type(call.range) in (tuple, list) and len(call.range) == 2 and all(map(is_number, call.range))
    return "" if plain and call.range[0] < call.range[1] else "a range that is not two growing numbers"


@histogram.calls
def _(rng: random.Random) -> Call:
    return samples.histogram(rng)


# Order statistics of bytes.


@substitutes("numpy.median", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    """The median of all bytes, from their counts."""
    low, high = _at(counts(a), np.array([(a.size - 1) // 2, a.size // 2]))
    return np.float64((low + high) / 2)


@median.guard
def _(call: Any) -> Verdict:
    """2048 to 2**24 plain bytes, all of them."""
    return answer(left_out(call, ("axis", "out")) or byte_array(call.a, LEAST) or _untouched(call))


def _untouched(call: Any) -> str:
    return "" if call.overwrite_input is False and call.keepdims is False else "overwrite_input or keepdims is given"


@median.calls
def _(rng: random.Random) -> Call:
    return samples.median(rng)


@substitutes("numpy.percentile", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    """Percentiles of all bytes, from their counts, between neighbours as numpy does it."""
    return _quantiles(a, np.true_divide(q, 100))


@substitutes("numpy.quantile", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    """Quantiles of all bytes, from their counts, between neighbours as numpy does it."""
    return _quantiles(a, np.asarray(q, np.float64))


@percentile.guard
def _(call: Any) -> Verdict:
    """2048 to 2**24 plain bytes, all of them, method linear, plain numbers q."""
    return _quantile_verdict(call, 100)


@quantile.guard
def _(call: Any) -> Verdict:
    """2048 to 2**24 plain bytes, all of them, method linear, floats q."""
    return _quantile_verdict(call, 1)


def _quantile_verdict(call: Any, most: int) -> Verdict:
    return answer(
        left_out(call, ("axis", "out", "weights"))
        or byte_array(call.a, LEAST)
        or _untouched(call)
        or ("" if among(call.method, "linear") else "a method other than linear")
        or _shares(call.q, most)
    )


def _shares(q: Any, most: int) -> str:
    values = q if type(q) in (list, tuple) else (q,)
    if not values or len(values) > 256 or not all(is_number(value) and 0 <= value <= most for value in values):
        return "q is not made of plain numbers in range"
    if most == 1 and any(type(value) is not float for value in values):
        return "q is not made of floats"
    return ""


def _quantiles(values: Array, shares: Any) -> Any:
    last = values.size - 1
    where = last * np.atleast_1d(shares)
    before = np.minimum(np.floor(where), last).astype(np.intp)
    found = counts(values)
    low, high = _at(found, before), _at(found, np.minimum(before + 1, last))
    part, step = where - before, high - low
    between = np.where(part >= 0.5, high - step * (1 - part), low + step * part)
    return between if np.ndim(shares) else between[0]


def _at(found: Array, places: Array) -> Array:
    """The values at places in the sorted array, as float64."""
    return np.searchsorted(np.cumsum(found), places, side="right").astype(np.float64)


@percentile.calls
def _(rng: random.Random) -> Call:
    return samples.quantile(rng, 100)


@quantile.calls
def _(rng: random.Random) -> Call:
    return samples.quantile(rng, 1)


# Functions of one byte.


@substitutes("numpy.isin", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def isin(
    element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False, *, kind: Any = None
) -> Array:
    """Which bytes are among a few numbers, by table."""
    found = looked_up(element.reshape(-1), np.isin(EVERY_BYTE, test_elements, invert=invert))
    return found.reshape(element.shape)  # a view, as numpy's result is


@isin.guard
def _(call: Any) -> Verdict:
    """32768 to 2**24 plain bytes among at most 256 plain numbers."""
    return answer(byte_array(call.element, LEAST_TABLE) or _isin_options(call))


def _isin_options(call: Any) -> str:
    if call.assume_unique is not False or type(call.invert) is not bool or call.kind is not None:
        return "assume_unique, kind or an odd invert is given"
    wanted = call.test_elements
    plain = numbers(wanted, 256) and (type(wanted) is np.ndarray or all(type(item) is int for item in wanted))
    return "" if plain else "test_elements are not a few plain numbers"


@isin.calls
def _(rng: random.Random) -> Call:
    return samples.isin(rng)


@substitutes("numpy.interp", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Array:
    """Bytes through a piecewise linear function, by table."""
    return looked_up(x, np.interp(EVERY_BYTE, xp, fp, left, right))


@interp.guard
def _(call: Any) -> Verdict:
    """2048 to 2**24 plain bytes, growing xp, no period."""
    return answer(left_out(call, ("period",)) or byte_array(call.x, LEAST) or _curve(call))


def _curve(call: Any) -> str:
    if not (numbers(call.xp) and numbers(call.fp) and len(call.xp) == len(call.fp)):
        return "xp and fp are not equally many plain numbers"
    if not all(edge is None or is_number(edge) for edge in (call.left, call.right)):
        return "left or right is not a plain number"
    return "" if increasing(call.xp) else "xp does not grow"  # else the result depends on the neighbours


@interp.calls
def _(rng: random.Random) -> Call:
    return samples.interp(rng)


@substitutes("numpy.digitize", into="codedag", gives=EXACT, needs=NUMPY, source_needs=NUMPY)
def digitize(x: Any, bins: Any, right: Any = False) -> Array:
    """The bin of each byte, by table."""
    return looked_up(x, np.digitize(EVERY_BYTE, bins, right))


@digitize.guard
def _(call: Any) -> Verdict:
    """8192 to 2**24 plain bytes, growing bins."""
    return answer(byte_array(call.x, LEAST_COUNTED) or _edges(call))


def _edges(call: Any) -> str:
    if type(call.right) is not bool:
        return "right is not a bool"
    return "" if numbers(call.bins) and increasing(call.bins) else "bins are not growing numbers"


@digitize.calls
def _(rng: random.Random) -> Call:
    return samples.digitize(rng)
