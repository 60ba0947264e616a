"""What pandas' functions and the methods of its tables do, where no column holds objects of the user's.

Many of them change the filters of warnings while they run, which belong to the whole process.
"""

from __future__ import annotations

import sys
from typing import Any

from codedag.backends.known_builtins import device
from codedag.backends.known_table import Effect, Table

_METHODS = (
    "abs add all any astype between clip copy count cummax cummin cumprod cumsum describe diff div drop "
    "drop_duplicates dropna duplicated eq fillna floordiv ge gt head idxmax idxmin isin isna isnull kurt le lt mask "
    "max mean median min mod mul ne nlargest notna notnull nsmallest nunique pow prod quantile rank rename replace "
    "reset_index round rsub sem set_index shift skew sort_index sort_values std sub sum tail truediv unique "
    "value_counts var where to_dict tolist to_list item pivot pivot_table melt join corr cov interpolate"
)
_FUNCTIONS = (
    "concat merge get_dummies cut qcut factorize isna isnull notna notnull to_numeric to_datetime unique crosstab"
)
_READS = "read_csv read_table"
MOST = 1_000_000  # values of a table that are looked at
_SIMPLE = frozenset({int, float, bool, str, type(None)})
#: What reads single rows and values of a table.
INDEXERS = frozenset({"_iLocIndexer", "_LocIndexer", "_iAtIndexer", "_AtIndexer"})


def learn(table: Table, pandas: Any) -> None:
    """Adds pandas."""
    for kind in (pandas.DataFrame, pandas.Series):
        table.hold(kind, _without_objects)
        table.methods_of(kind, _METHODS, outs=(), fresh=False, declines=_in_place, one_at_a_time=True)
    table.hold(pandas.Index, lambda index: index.dtype != object)
    table.functions_of(pandas, _FUNCTIONS, outs=(), fresh=False, one_at_a_time=True)
    table.functions_of(pandas, "DataFrame Series", outs=(), fresh=False, one_at_a_time=True)
    table.functions_of(
        pandas,
        _READS,
        outs=(),
        effect=Effect.READS,
        files=(0, "filepath_or_buffer"),
        declines=_not_a_file,
        one_at_a_time=True,
    )


def _without_objects(value: Any) -> bool:
    """Whether no column holds anything but numbers and texts: a row of several kinds of columns is made of objects."""
    return all(block.dtype != object or _all_simple(block.values) for block in value._mgr.blocks)


def _all_simple(values: Any) -> bool:
    number = sys.modules["numpy"].generic
    held = values.ravel().tolist() if values.size <= MOST else [values]
    return all(type(each) in _SIMPLE or (isinstance(each, number) and not each.dtype.hasobject) for each in held)


def _in_place(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    return "it changes the table in place" if keywords.get("inplace") else ""


def _not_a_file(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    name = args[0] if args else keywords.get("filepath_or_buffer")
    if type(name).__module__ not in ("builtins", "pathlib") or "://" in str(name):
        return "it is not given the name of a file"
    return "it is read in pieces" if keywords.get("chunksize") or keywords.get("iterator") else device(name)
