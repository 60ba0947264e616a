"""Substitutions from pandas: functions of one value are asked once for each value that occurs, then looked up."""

from __future__ import annotations

import itertools
import random
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends import pandas_calls
from codedag.backends.reasons import answer
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import No, Verdict

PANDAS = "pandas>=3,<4"
NUMPY = "numpy>=2.0"
LEAST = 2048
WIDEST = 65_536
Array = npt.NDArray[Any]
_ABSENT: Any = object()


@substitutes("pandas.Series.map", into="numpy", gives=EXACT, needs=NUMPY, source_needs=PANDAS)
def map(self: Any, func: Any = None, na_action: Any = None, engine: Any = None, **kwargs: Any) -> Any:  # noqa: A001
    """The series through a dictionary: pandas' own answer for each value that occurs."""
    codes, few = _coded(self)
    return _spread(self, codes, few.map(func))


@substitutes("pandas.Series.replace", into="numpy", gives=EXACT, needs=NUMPY, source_needs=PANDAS)
def replace(
    self: Any, to_replace: Any = None, value: Any = _ABSENT, *, inplace: Any = False, regex: Any = False
) -> Any:
    """The series with some values replaced: pandas' own answer for each value that occurs."""
    codes, few = _coded(self)
    if not few.isin(list(to_replace)).any():
        return self.copy(deep=False)  # as pandas has it: the same memory until one of the two is written
    return _spread(self, codes, few.replace(to_replace))


def _spread(series: Any, codes: Array, few: Any) -> Any:
    """The series whose values are those of a few, by their places."""
    result = sys.modules["pandas"].Series(few._values.take(codes), index=series.index, copy=False)
    return result.__finalize__(series)


def _coded(series: Any) -> tuple[Array, Any]:
    """Which of the values that occur stands at each place, and these values as a series."""
    pandas = sys.modules["pandas"]
    if not isinstance(series.dtype, np.dtype):
        codes, few = pandas.factorize(series._values)
        return codes, pandas.Series(few, dtype=series.dtype)
    values = series.to_numpy()
    low = int(values.min())
    shifted = values.astype(np.intp) - low
    present = np.bincount(shifted).nonzero()[0]
    places = np.zeros(int(present[-1]) + 1, np.intp)
    places[present] = np.arange(len(present))
    return places[shifted], pandas.Series((present + low).astype(values.dtype))


@map.guard
def _(call: Any) -> Verdict:
    """A plain dictionary over 2048 and more texts without gaps."""
    if type(call.func) is not dict or call.na_action is not None or call.engine is not None or call.kwargs:
        return No("not a plain dictionary, or further options")
    return answer(_texts(call.self))


@replace.guard
def _(call: Any) -> Verdict:
    """A plain dictionary of small ints over 2048 and more whole numbers near each other."""
    if type(call.to_replace) is not dict or call.inplace is not False or call.regex is not False:
        return No("not a plain dictionary, or further options")
    pairs = itertools.chain(call.to_replace, call.to_replace.values())
    if (
        call.value is not _ABSENT
        or not call.to_replace
        or not all(type(one) is int and abs(one) < 2**15 for one in pairs)
    ):
        return No("a value is given, or not a dictionary of small ints")
    return answer(_whole(call.self))


def _whole(value: Any) -> str:
    """The reason why a value is not a plain series of whole numbers that lie near each other."""
    pandas = sys.modules.get("pandas")
    if pandas is None or type(value) is not pandas.Series or len(value) < LEAST:
        return "not a plain series of enough values"
    if not isinstance(value.dtype, np.dtype) or value.dtype.kind not in "iu" or value.dtype.char in "LQ":
        return "not whole numbers"
    numbers = value.to_numpy()
    low, high = int(numbers.min()), int(numbers.max())
    return "" if high - low < min(WIDEST, 4 * len(numbers)) and abs(low) < 2**40 else "numbers too far apart"


def _texts(value: Any) -> str:
    pandas = sys.modules.get("pandas")
    if pandas is None or type(value) is not pandas.Series or len(value) < LEAST:
        return "not a plain series of enough values"
    if not isinstance(value.dtype, pandas.StringDtype):
        return "not texts"
    return "gaps among the texts" if value.hasnans else ""


@map.calls
def _(rng: random.Random) -> Call:
    return pandas_calls.map(rng)


@replace.calls
def _(rng: random.Random) -> Call:
    return pandas_calls.replace(rng)


@substitutes("pandas.Series.isin", into="numpy", gives=EXACT, needs=NUMPY, source_needs=PANDAS)
def isin(self: Any, values: Any) -> Any:
    """Which whole numbers are among a few, by table."""
    pandas = sys.modules["pandas"]
    numbers = self.to_numpy()
    low, high = int(numbers.min()), int(numbers.max())
    table = np.isin(np.arange(low, high + 1), np.array(list(values), np.int64))
    found = table[numbers.astype(np.intp) - low] if low else table[numbers]
    return pandas.Series(found, index=self.index, copy=False).__finalize__(self)


@isin.guard
def _(call: Any) -> Verdict:
    """2048 and more whole numbers near each other among a list or set of plain ints."""
    if type(call.values) not in (list, set, tuple) or not 0 < len(call.values) <= 4096:
        return No("not a list of a few values")
    plain = all(type(one) is int and abs(one) < 2**62 for one in call.values)
    return answer(_whole(call.self) if plain else "values that are not plain ints")


@isin.calls
def _(rng: random.Random) -> Call:
    return pandas_calls.isin(rng)


@substitutes("pandas.Series.nunique", into="numpy", gives=EXACT, needs=NUMPY, source_needs=PANDAS)
def nunique(self: Any, dropna: Any = True) -> int:
    """How many whole numbers occur, by counting."""
    numbers = self.to_numpy()
    return int(np.count_nonzero(np.bincount(numbers.astype(np.intp) - int(numbers.min()))))


@nunique.guard
def _(call: Any) -> Verdict:
    """2048 and more whole numbers near each other."""
    return answer("an odd dropna" if type(call.dropna) is not bool else _whole(call.self))


@nunique.calls
def _(rng: random.Random) -> Call:
    return pandas_calls.nunique(rng)
