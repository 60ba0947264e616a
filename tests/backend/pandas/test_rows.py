"""Functions of a row: which are taken, which are declined and why, and what remains as it was."""

from __future__ import annotations

import importlib
import math
import random
import subprocess
import sys
import warnings

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


WORDS = [1.0, 2.0]


def seen_before(row):
    seen = WORDS[:]
    seen.append(row["a"])
    return row["a"] in seen


def written_into(row):
    values = WORDS[:]
    values[0] = row["a"]
    return values.count(row["a"])


def appended(values, one, other):
    values.append(one)
    return other in values


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
        seen_before,
        written_into,
        lambda r: appended(str(r["b"]).split("x")[:0], r["a"], r.a),
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


class Priced:
    __rate = 3.0
    function = staticmethod(lambda r: r["a"] * __rate)


_Priced__rate, __rate = 2.0, 5.0  # the first is what the name means inside of the class


def test_a_default_with_a_function_of_its_own_and_a_private_name():
    table = frame()
    for function in (lambda r, k=sorted(WORDS, key=lambda w: -w)[0]: r["a"] * k, Priced.function):
        expected = apply.original()(table, function, axis=1)
        if apply.accepts((table, function), {"axis": 1}):
            assert same(expected, apply.run(table, function, axis=1))


def test_a_name_that_a_module_makes_up_is_not_plain(tmp_path, monkeypatch):
    (tmp_path / "conf_of_rows.py").write_text("def __getattr__(name):\n    return 1.5\n")
    (tmp_path / "uses_conf_of_rows.py").write_text(
        "import conf_of_rows as conf\nimport numpy as np\n\n\ndef made_up(r):\n    return r['a'] * conf.tick\n\n\n"
        "def patched(r):\n    return np.sqrt(r['a'])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("uses_conf_of_rows")
    assert not apply.accepts((frame(), module.made_up), {"axis": 1})
    assert apply.accepts((frame(), module.patched), {"axis": 1})
    monkeypatch.setattr(np, "sqrt", lambda x: SEEN.append(x))
    assert not apply.accepts((frame(), module.patched), {"axis": 1})


def test_looking_into_a_file_warns_nobody(tmp_path, monkeypatch):
    (tmp_path / "warning_of_rows.py").write_text(
        "def f(r):\n    return r['a'] + 1\n\n\ndef g(x):\n    return x is 5 or '\\d'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module("warning_of_rows")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert apply.accepts((frame(), module.f), {"axis": 1})
    assert heard == []


def test_lambdas_on_one_line_without_columns(tmp_path):
    (tmp_path / "lambdas.py").write_text(
        "import numpy as np, pandas\nfrom codedag.backends.more_pandas_ import apply\n"
        "from codedag.backends.same import same\n"
        "t = pandas.DataFrame({'a': np.arange(300.0), 'b': np.arange(300.0) * 7})\n"
        "one, two = lambda r: r['a'] + 1, lambda r: r['b'] * 2\n"
        "for f in (one, two):\n"
        "    taken = apply.accepts((t, f), {'axis': 1})\n"
        "    assert not taken or same(apply.original()(t, f, axis=1), apply.run(t, f, axis=1)), f\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", "lambdas.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
