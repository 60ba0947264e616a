"""Random calls of the pandas functions with substitutes: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import weighted

_WORDS = ("cat", "dog", "bird", "", "Fish", "no")


def _series(rng: random.Random, texts: float = 0.0) -> Any:
    """Mostly whole numbers near each other or texts; at times few, with gaps, floats or objects."""
    import pandas

    source, count = np.random.default_rng(rng.getrandbits(32)), rng.choice((2048, 2500, 4000))
    low, high = rng.choice(((0, 5), (0, 100), (-20, 30), (1000, 1500)))
    usual: Any = source.integers(low, high, count).astype(rng.choice(("int64", "int64", "int32", "int16")))
    if rng.random() < texts:
        usual = [_WORDS[place] for place in source.integers(0, len(_WORDS), count)]
    odd: tuple[Any, ...] = (source.random(count), usual[:9], [None, "cat"] * 1200, [1, "a"] * 1200, usual[:0])
    made = pandas.Series(weighted(rng, (usual,), odd), name=rng.choice((None, "k", 3)))
    if rng.random() < 0.3:
        made.index = pandas.RangeIndex(5, 5 + len(made)) if rng.random() < 0.5 else pandas.Index(made.to_numpy())
    return made


def _mapping(rng: random.Random, series: Any) -> Any:
    """A dictionary for most or all of the values of a series."""
    values = list(dict.fromkeys(series.tolist()))[: rng.choice((3, 500, 500))]
    kind = rng.choice(("int", "float", "text", "same"))
    if kind == "same":
        return {value: value for value in values if value == value}
    return {
        value: {"int": n * 3, "float": n / 3, "text": f"t{n}"}[kind] for n, value in enumerate(values) if value == value
    }


def map(rng: random.Random) -> Call:  # noqa: A001
    """A call of Series.map."""
    series = _series(rng, texts=0.9)
    func = weighted(rng, (_mapping(rng, series),), (str, len, None, {}, series), 0.08)
    values: dict[str, Any] = {}
    maybe(rng, values, 0.05, "na_action", (None, "ignore"))
    return Call((series, func), values) if rng.random() < 0.8 else Call((series,), {"func": func, **values})


def replace(rng: random.Random) -> Call:
    """A call of Series.replace with a dictionary."""
    series = _series(rng)
    numbers = [value for value in dict.fromkeys(series.tolist()) if type(value) is int][: rng.choice((3, 500))]
    usual = {value: n * 3 for n, value in enumerate(numbers)}
    what = weighted(rng, (usual,), (1, "cat", [1, 2], None, _mapping(rng, series)), 0.12)
    values: dict[str, Any] = {}
    maybe(rng, values, 0.05, "regex", (True, False))
    return Call((series, what), values)


def isin(rng: random.Random) -> Call:
    """A call of Series.isin."""
    usual = ([1, 2, 3], {0, 50, -3}, [2000], (5, 7), list(range(40)))
    wanted = weighted(rng, usual, ([], "abc", [1.5], ["a"], None, 3), 0.12)
    return Call((_series(rng), wanted)) if rng.random() < 0.8 else Call((_series(rng),), {"values": wanted})


def nunique(rng: random.Random) -> Call:
    """A call of Series.nunique."""
    values: dict[str, Any] = {}
    maybe(rng, values, 0.2, "dropna", (True, False))
    return Call((_series(rng),), values)
