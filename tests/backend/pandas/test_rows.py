"""Functions of a row: which are taken, which are declined and why, and what remains as it was."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas

from codedag.backends.more_pandas_ import apply
from codedag.backends.registry import attempt
from codedag.backends.same import same
from codedag.instrument.guard import Declined

pytestmark = pytest.mark.filterwarnings("ignore")
COUNT = 300
SEEN = []
CODES = {"x": 1, "y": 2}


def frame(**more):
    numbers = np.arange(COUNT)
    return pandas.DataFrame({"a": numbers / 4, "b": numbers % 5, "s": ["x", "y", "z"] * (COUNT // 3), **more})


def helper(value, factor=2):
    return math.sqrt(value) * factor


def noisy(row):
    SEEN.append(row["a"])
    return row["a"]


def changing(row):
    row["a"] = 1
    return row["b"]


def drawing(row):
    return row["a"] + random.random()


def closure(rate):
    return lambda row: row["a"] * rate


def reassigned(row):
    row = dict(row)
    return row["a"]


def returning_in_parts(row):
    """Some statements."""
    total = 0
    for value in (row["a"], row.b):
        total += value
    try:
        return total / row["b"]
    except ZeroDivisionError:
        return None


# fmt: off
TAKEN = [
    lambda r: r["a"] + r.b, lambda r: "high" if r["a"] > 10 else None, lambda r: helper(r["a"]), closure(3),
    lambda r: CODES.get(r["s"], -1), lambda r: r["s"].upper() + str(r["b"]), lambda row: returning_in_parts(row),
    returning_in_parts, lambda r, k=2: r["a"] * k, lambda r: sum(x for x in (r["a"], r["b"])),
    lambda r: r["s"] in CODES,
]
DECLINED = [
    noisy, changing, drawing, reassigned, lambda r: r.sum(), lambda r: r["missing"], lambda r: len(r), lambda r: r.name,
    lambda r: r[["a", "b"]].max(), lambda r: SEEN.append(1), lambda r: pandas.Series([r["a"]]), lambda r: [r["a"]],
    lambda r: print(r["a"]), np.sum, "sum", lambda r: r["a"] if SEEN else r["b"], lambda r: r.index,
]
# fmt: on


@pytest.mark.parametrize("number", range(len(TAKEN)))
def test_functions_that_read_single_columns_are_taken(number):
    table = frame()
    verdict = apply.accepts((table, TAKEN[number]), {"axis": 1})
    assert verdict, verdict
    verdict = same(table.apply(TAKEN[number], axis=1), apply.run(table, TAKEN[number], axis=1))
    assert verdict, verdict


@pytest.mark.parametrize("number", range(len(DECLINED)))
def test_functions_that_do_more_are_declined(number):
    verdict = apply.accepts((frame(), DECLINED[number]), {"axis": 1})
    assert not verdict
    assert not SEEN


def test_options_and_odd_tables_are_declined():
    function = TAKEN[0]
    doubled = frame()
    doubled.columns = ["a", "b", "b"]
    tables = [frame().iloc[:10], doubled, frame().astype({"a": "Float64"}), frame(b=pandas.array([1] * COUNT, "Int64"))]
    for table in tables:
        assert not apply.accepts((table, function), {"axis": 1})
    for options in ({}, {"axis": 0}, {"axis": 1, "raw": True}, {"axis": 1, "result_type": "expand"}, {"axis": True}):
        assert not apply.accepts((frame(), function), options)
    assert not apply.accepts((frame(), function), {"axis": 1, "args": (2,)})


def test_a_division_that_numpy_would_warn_about_is_left_to_pandas():
    table = frame().drop(columns="s")
    function = lambda r: r["a"] / r["b"]  # noqa: E731
    assert apply.accepts((table, function), {"axis": 1})
    with pytest.raises(Declined):
        apply.run(table, function, axis=1)


def test_an_exception_of_the_function_is_left_to_pandas():
    function = lambda r: 1 // r["b"]  # noqa: E731
    assert isinstance(attempt(apply.run, frame(), function, axis=1).error, ZeroDivisionError)
    assert isinstance(attempt(frame().apply, function, axis=1).error, ZeroDivisionError)


def test_globals_are_those_of_the_moment():
    function = lambda r: CODES.get(r["s"], 0)  # noqa: E731
    before = apply.run(frame(), function, axis=1)
    CODES["z"] = 7
    try:
        verdict = same(frame().apply(function, axis=1), apply.run(frame(), function, axis=1))
        assert verdict, verdict
        assert not same(before, apply.run(frame(), function, axis=1))
        CODES["z"] = [1]
        assert not apply.accepts((frame(), function), {"axis": 1})
    finally:
        del CODES["z"]


def test_the_check_on_some_rows_finds_a_difference():
    table, function = frame(), TAKEN[0]
    result = apply.run(table, function, axis=1)
    verdict, seconds = apply.part_check((table, function), {"axis": 1}, result)
    assert verdict
    assert seconds > 0


def test_the_check_on_some_rows_sees_a_function_that_is_not_what_its_source_says(monkeypatch):
    from codedag.backends import more_pandas_

    table = frame()
    monkeypatch.setattr(more_pandas_, "_results", lambda some, func: [0.0] * len(some))
    verdict, _ = apply.part_check((table, TAKEN[0]), {"axis": 1}, None)
    assert not verdict


def test_a_source_that_was_changed_is_declined(tmp_path):
    path = tmp_path / "changed.py"
    text = "def price(row):\n    return row['a'] * 2\n"
    path.write_text(text)
    space = {"__name__": "changed"}
    exec(compile(text, str(path), "exec", dont_inherit=True), space)
    assert apply.accepts((frame(), space["price"]), {"axis": 1})
    path.write_text(text.replace("2", "3"))
    verdict = apply.accepts((frame(), space["price"]), {"axis": 1})
    assert not verdict
    assert "changed" in verdict.reason


def same_object(one, two):
    return one is two


def in_a_loop(row):
    seen = []
    for _ in (1, 2):
        if row["a"] in seen:
            return True
        seen.append(row["a"])
    return False


@pytest.mark.parametrize(
    "function",
    [
        lambda r: r["a"] is r.a,
        lambda r: r["a"] is not r["a"],
        lambda r: same_object(r["a"], r.a),
        lambda r: r["a"] in (r["a"], 1),
        lambda r: len({r["a"], r.a}),
        lambda r: len(set(map(abs, (r["a"], r.a)))),
        lambda r: (r["a"],) == (r.a,),
        in_a_loop,
    ],
)
def test_values_that_are_read_twice_are_two_objects(function):
    """Identity, which containers ask before equality: a gap equals only itself."""
    numbers = frame().drop(columns="s").astype("float64")
    numbers.loc[::7, "a"] = np.nan
    expected = apply.original()(numbers, function, axis=1)
    if apply.accepts((numbers, function), {"axis": 1}):
        assert same(expected, apply.run(numbers, function, axis=1))


def test_singletons_may_be_asked_for_and_containers_hold_numbers():
    table = frame()
    for function in (lambda r: r["a"] is None, lambda r: (r["b"] is not None) + max([r["b"], r["b"] * 2])):
        assert apply.accepts((table, function), {"axis": 1})
        assert same(apply.original()(table, function, axis=1), apply.run(table, function, axis=1))
