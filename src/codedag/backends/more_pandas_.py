"""Substitutions from pandas for functions that are called row by row: the values without the rows."""

from __future__ import annotations

import itertools
import random
import statistics
import sys
from typing import Any

import numpy as np

from codedag.backends import more_pandas_calls
from codedag.backends.pandas_ import NUMPY, PANDAS
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.backends.row_functions import ATOMS, RowFunction, row_function
from codedag.backends.row_source import Unfit
from codedag.backends.same import same
from codedag.instrument.guard import Declined
from codedag.instrument.warned import noticing
from codedag.ir.clock import perf_counter
from codedag.ir.verdict import No, Verdict, Yes

LEAST = 200  # rows
SAMPLE, ENDS = 64, 8  # rows for which the original is asked too, and those of them at each end
_rng = random.Random(0)


@substitutes("pandas.DataFrame.apply", into="codedag", gives=EXACT, needs=NUMPY, source_needs=PANDAS)
def apply(
    self: Any,
    func: Any,
    axis: Any = 0,
    raw: Any = False,
    result_type: Any = None,
    args: Any = (),
    by_row: Any = "compat",
    engine: Any = None,
    engine_kwargs: Any = None,
    **kwargs: Any,
) -> Any:
    """The function's result for each row: the same function, given the values that it reads instead of a row."""
    pandas = sys.modules["pandas"]
    result = pandas.Series(_results(self, func))
    result.index = self.index
    return result.__finalize__(self, method="apply")


@apply.guard
def _(call: Any) -> Verdict:
    """Axis 1; plain functions that read single columns by name from 200 rows on and are known to do nothing else."""
    if call.axis not in (1, "columns") or type(call.axis) not in (int, str) or call.raw is not False:
        return No("not row by row")
    if call.result_type is not None or call.args != () or call.by_row != "compat" or call.kwargs:
        return No("further options")
    if call.engine is not None or call.engine_kwargs is not None:
        return No("another engine")
    try:
        _check_columns(call.self, _function(call.self, call.func))
    except Unfit as reason:
        return No(str(reason))
    return Yes


@apply.calls
def _(rng: random.Random) -> Call:
    return more_pandas_calls.apply(rng)


@apply.partly
def _(args: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> tuple[Verdict, float]:
    """Whether pandas itself gives the same for some of the rows, and how long it would take for all."""
    frame, func = args[0], keywords["func"] if "func" in keywords else args[1]
    count = len(frame)
    middle = _rng.sample(range(ENDS, count - ENDS), SAMPLE - 2 * ENDS)
    some = frame.iloc[[*range(ENDS), *sorted(middle), *range(count - ENDS, count)]]
    found: list[Any] = []
    times: list[float] = []

    def watched(row: Any) -> None:
        found.append(func(row))
        times.append(perf_counter())

    apply.original()(some, watched, axis=1)
    seconds = statistics.median(b - a for a, b in itertools.pairwise(times)) * count
    return same(found, _results(some, func)), seconds


def _function(frame: Any, func: Any) -> RowFunction:
    pandas = sys.modules.get("pandas")
    if pandas is None or type(frame) is not pandas.DataFrame or type(frame.columns) is not pandas.Index:
        raise Unfit("not a plain table with simple column names")
    if len(frame) < LEAST:
        raise Unfit("too few rows to gain")
    if not frame.columns.is_unique:
        raise Unfit("two columns of one name")
    return row_function(func, frame.columns, pandas.Series)


def _results(frame: Any, func: Any) -> list[Any]:
    """What the function gives for each row."""
    made = row_function(func, frame.columns, sys.modules["pandas"].Series)
    row = frame.iloc[0].dtype
    columns, function = [_column(frame[name], row) for name in made.columns], made.by_values
    with noticing() as noticed:
        results = [function(*values) for values in zip(*columns, strict=True)]
    if noticed:
        raise Declined(f"numpy has something to say about a row ({noticed[0]})")
    if type(results[0]) not in ATOMS and not isinstance(results[0], np.number | np.bool_):
        raise Declined("the function gives more than single values")
    return results


def _check_columns(frame: Any, made: RowFunction) -> None:
    """Nothing, or Unfit if it is not known what a row would give for a column."""
    row = frame.iloc[0].dtype
    if (
        not isinstance(row, np.dtype)
        or row != frame.iloc[:0].values.dtype
        or row.kind not in "biufO"
        or row.char == "g"
    ):
        raise Unfit("rows of an unusual kind")
    if not made.columns:
        raise Unfit("it reads no column")
    if row.kind == "f" and any(frame[name].hasnans for name in made.held):
        raise Unfit("it reads a gap twice and puts values into containers, which tell two gaps apart")
    for name in made.columns:
        dtype = frame[name].dtype
        if not isinstance(dtype, sys.modules["pandas"].StringDtype):
            if not isinstance(dtype, np.dtype) or dtype.kind not in "biufO" or dtype.char in "eg":
                raise Unfit(f"a column of {dtype}")
            if dtype.kind == "O" and not set(map(type, frame[name].to_numpy())) <= ATOMS:
                raise Unfit("a column of objects")


def _column(series: Any, row: Any) -> list[Any]:
    """The values of a column, as rows of this dtype hold them."""
    if not isinstance(series.dtype, np.dtype):
        return list(series.astype(object).tolist())
    values = series.to_numpy()
    return list(values.tolist() if row.kind == "O" else values.astype(row, copy=False))
