"""Random functions of a row, as source, and random tables for them."""

from __future__ import annotations

import random

import numpy as np
import pandas

COLUMNS = ("a", "b", "c", "d", "s", "t", "o")
_NUMBERS = ("0", "1", "2", "-3", "0.5", "10", "1e3", "True", "None", "RATE")
_TEXTS = ("''", "'x'", "'Mr. Y'", "'b'", "WORD")
HEAD = """import math
import numpy as np
import pandas as pd
RATE, WORD, TABLE, NAMES = 1.5, "x", {"x": 1, "b": 2.5, 3: "three"}, ["x", "b"]
LIMIT = [4]


def helper(u, v=2):
    w = u if v is None else v
    for k in (1, 2):
        w = w if k == 1 else (w, u)[0]
    return w


def close(factor, words):
    return lambda row: factor if row["a"] == factor else row["s"] in words


CLOSED = close(2, "xyz")
"""


class Source:
    """Random functions of a row."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: list[str] = []

    def read(self) -> str:
        name = self.rng.choice(COLUMNS)
        return self.rng.choice((f"row[{name!r}]".replace("'", '"'), f"row.{name}"))

    def number(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice((self.read(), self.read(), rng.choice(_NUMBERS), *self.names[-2:]))
        one, two = self.number(depth - 1), self.number(depth - 1)
        return rng.choice((
            f"({one} {rng.choice(('+', '-', '*', '/', '//', '%', '**'))} {two})", f"(-{one})", f"abs({one})",
            f"(({one}) if {self.truth(depth - 1)} else ({two}))", f"round({one}, {rng.choice((0, 1, 2))})",
            f"max({one}, {two})", f"min([{one}, {two}])", f"float({one})", f"int({one})", f"math.floor({one})",
            f"np.sqrt({one})", f"np.where({self.truth(depth - 1)}, {one}, {two})", f"helper({one}, v={two})",
            f"TABLE.get({self.text(depth - 1)}, {one})", f"len({self.text(depth - 1)})", f"sum([{one}, {two}])",
            f"sum(k for k in ({one}, {two}) if k == k)", f"math.hypot({one}, {two})", f"np.log1p({one})",
        ))  # fmt: skip

    def truth(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice((self.read(), "True", f"{self.read()} == {self.read()}"))
        one, two = self.number(depth - 1), self.number(depth - 1)
        return rng.choice((
            f"({one} {rng.choice(('<', '<=', '>', '>=', '==', '!=', 'is', 'is not'))} {two})", f"(not {one})",
            f"({self.truth(depth - 1)} {rng.choice(('and', 'or'))} {self.truth(depth - 1)})",
            f"({self.text(depth - 1)} in NAMES)", f"pd.isna({one})", f"({one} < {two} <= 5)",
            f"isinstance({one}, ({rng.choice(('int', 'float', 'str'))}, np.int64))", f"({one} in (1, 2.0, None))",
            f"({one} in ({two}, 2.0))", f"([{one}] == [{two}])", f"(len(set(({one}, {two}))) == 1)",
        ))  # fmt: skip

    def text(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice(('row["s"]', "row.t", rng.choice(_TEXTS)))
        one = self.text(depth - 1)
        return rng.choice((
            f"str({self.number(depth - 1)})", f"{one}.upper()", f"({one} + {self.text(depth - 1)})",
            f"{one}.split('.')[0]", f"f'{{{self.read()}}}'", f"'%s' % ({self.number(0)},)",
            f"{one}.strip()[:2]",
            f"({one} if {self.truth(depth - 1)} else {one})",
        ))  # fmt: skip

    def value(self, depth: int) -> str:
        return self.rng.choice((self.number, self.number, self.truth, self.text))(depth)

    def function(self, name: str) -> str:
        """One function of a row: a lambda, or several statements."""
        self.names = []
        rng, depth = self.rng, self.rng.choice((0, 1, 1, 2, 2, 3))
        if rng.random() < 0.5:
            return f"{name} = lambda row: {self.value(depth)}\n"
        lines = [f"def {name}(row, extra={rng.choice(_NUMBERS)}):"]
        lines += [f"    first = {self.value(depth)}"]
        self.names = ["first", "extra"]
        if rng.random() < 0.4:
            lines += [f"    if {self.truth(depth)}:", f"        return {self.value(depth)}"]
        if rng.random() < 0.3:
            lines += ["    try:", f"        first = {self.number(depth)}", "    except Exception:", "        pass"]
        if rng.random() < 0.3:
            lines += ["    total = 0", f"    for each in (first, {self.number(0)}):", "        total += each"]
            self.names.append("total")
        if rng.random() < 0.2:
            lines += [f"    while {self.truth(0)}:", "        break"]
        return "\n".join([*lines, f"    return {self.value(depth)}", ""])


def table(rng: random.Random) -> pandas.DataFrame:
    """A small table: every dtype, gaps, objects, repeated names and labels, empty ones."""
    source, count = np.random.default_rng(rng.getrandbits(32)), rng.choice((0, 1, 2, 7, 12, 20))
    kinds = [_numbers(rng, source, count) for _ in "abcd"]
    columns = dict(zip("abcd", kinds, strict=True))
    if rng.random() < 0.7:
        columns["s"] = pandas.Series(source.choice(["x", "b", "Mr. Y", ""], count).astype(object))
        columns["t"] = pandas.Series([rng.choice(("x", "b", None)) for _ in range(count)], dtype=object)
        if rng.random() < 0.6:
            columns = {k: v.astype("str") if k in "st" else v for k, v in columns.items()}
    if rng.random() < 0.3:
        columns["o"] = pandas.Series(
            [rng.choice((1, 2.5, "x", None, True, np.nan)) for _ in range(count)], dtype=object
        )
    if rng.random() < 0.1:
        columns["o"] = pandas.Series([rng.choice(([1], (2,), {"k": 1}, 3)) for _ in range(count)], dtype=object)
    if rng.random() < 0.1:
        columns["o"] = pandas.Series(pandas.date_range("2020", periods=count))
    if rng.random() < 0.1:
        columns["o"] = pandas.Series(["u", "v"] * count).astype("category").iloc[:count]
    if rng.random() < 0.1:
        columns["a"] = pandas.array([1, None, 3] * count, dtype="Int64")[:count]
    names = rng.sample(list(columns), len(columns))
    made = pandas.DataFrame({name: columns[name] for name in names})
    if rng.random() < 0.1:
        made.columns = [rng.choice(("a", "b", "c", 3)) for _ in names]
    if rng.random() < 0.3 and count:
        made.index = (
            pandas.Index(source.choice(["p", "q"], count)) if rng.random() < 0.5 else [n // 2 for n in range(count)]
        )
    if rng.random() < 0.2:
        made.attrs["source"] = "here"
    return made


def _numbers(rng: random.Random, source: np.random.Generator, count: int) -> pandas.Series:
    kind = rng.choice(("int64", "int64", "float64", "float64", "float32", "bool", "int8", "uint8", "uint64"))
    if kind.startswith("float"):
        values = source.choice([0.0, -0.0, 1.5, -2.25, 3.0, 1e30, np.nan, np.inf], count)
    elif kind == "bool":
        values = source.random(count) < 0.5
    else:
        values = source.choice([0, 1, 2, 3, 5, 100], count)
    return pandas.Series(values.astype(kind))
