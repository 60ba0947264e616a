"""Random calls of functions that go row by row: ordinary functions of a row over tables of every kind."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from codedag.backends.registry import Call
from codedag.backends.samples import weighted

_RATES = {"low": 0.5, "mid": 1, "high": 2.5}
_LIMIT = 3
_WORDS = ("low", "mid", "high", "Mr. A", "", " b ")


def _graded(row: Any) -> Any:
    if row["n"] < 2:
        return "few"
    if row["n"] < 6 and row.flag:
        return "some"
    return "many"


def _with_locals(row: Any, factor: int = 2) -> Any:
    """A docstring, local names, a loop."""
    total = 0
    for each in (row["n"], row.x, factor):
        total += each * factor
    low, high = min(total, 10), max(total, 10)
    return high - low


def _careful(row: Any) -> Any:
    try:
        return row["n"] / (row["n"] - 20)
    except (ZeroDivisionError, TypeError):
        return None


def _hypotenuse(a: Any, b: Any) -> Any:
    a, b = map(float, [a, b])
    return math.sqrt(a**2 + b**2)


# fmt: off
#: Functions that are taken wherever their columns are there.
TAKEN: tuple[Any, ...] = (
    _graded, _with_locals, _careful,
    lambda row: row["x"] * 2 + row["n"],
    lambda r: r.x / r.n if r.n > 1 else r.x,
    lambda row: row["x"] > 0 and row["flag"],
    lambda row: not row.flag or row["n"] in (1, 2, 3),
    lambda r: _hypotenuse(r["x"], r["n"]),
    lambda r: round(r["x"], 1) + _LIMIT,
    lambda r: int(r["n"]) // 2 % 3,
    lambda r: abs(r["x"]) ** 0.5,
    lambda r: np.log1p(abs(r["x"])) + math.pi,
    lambda r: None if r["x"] < 0 else r["x"],
    lambda r: f"{r['n']}-{r.flag}",
    lambda r: max([r["x"], r["n"], 0]),
    lambda row: _graded(row),
)
#: Functions that need the column of texts.
OF_TEXTS: tuple[Any, ...] = (
    lambda r: r["word"].upper() + "!",
    lambda r: len(r["word"].split(".")[0]),
    lambda r: _RATES.get(r["word"], 0.0) * r["x"],
    lambda r: "Mr" in r["word"],
    lambda r: sum(1 for c in r["word"] if c in "aeiou"),
    lambda r: r["word"] if isinstance(r["word"], str) else "gap",
)
#: Functions that are declined.
ODD: tuple[Any, ...] = (
    lambda r: r.sum(),
    lambda r: r["missing"],
    lambda r: [r["n"], 1],
    lambda r: r,
    lambda r: r["x"] + random.random() * 0,
    len, "sum", None,
)
# fmt: on


def table(rng: random.Random, count: int) -> Any:
    """A table of columns x, n, flag and perhaps word and others, of random dtypes, with and without gaps."""
    import pandas

    source = np.random.default_rng(rng.getrandbits(32))
    x: Any = source.normal(0, 10, count).astype(rng.choice(("float64", "float64", "float32")))
    if rng.random() < 0.4:
        x[source.random(count) < 0.1] = np.nan
    n: Any = source.integers(0, 9, count).astype(rng.choice(("int64", "int64", "int32", "uint8", "float64")))
    columns: dict[str, Any] = {"x": x, "n": n, "flag": source.random(count) < 0.5}
    if rng.random() < 0.5:
        columns["word"] = source.choice(_WORDS, count)
    if rng.random() < 0.3:
        columns["flag"] = columns["flag"].astype(int)
    if rng.random() < 0.2:
        columns["mixed"] = [rng.choice((1, 2.5, "a", None, True)) for _ in range(count)]
    if rng.random() < 0.2:
        columns["when"] = pandas.date_range("2020-01-01", periods=count)
    made = pandas.DataFrame(columns)
    if rng.random() < 0.3:
        made.index = pandas.Index(source.integers(0, 50, count), name=rng.choice((None, "id")))
    return made[list(rng.sample(list(made.columns), len(made.columns)))]


def apply(rng: random.Random) -> Call:
    """A call of DataFrame.apply, mostly row by row."""
    frame = table(rng, rng.choice((200, 230, 300)))
    usual = (*TAKEN, *OF_TEXTS) if "word" in frame else TAKEN
    func = weighted(rng, usual, ODD, 0.12)
    if rng.random() < 0.05:
        return Call((frame, func), weighted(rng, ({"axis": 0},), ({"axis": 1, "raw": True},), 0.3))
    return Call((frame, func), {"axis": rng.choice((1, "columns"))}) if rng.random() < 0.8 else Call((frame, func, 1))
