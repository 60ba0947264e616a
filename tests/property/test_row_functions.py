"""Random functions of a row over random tables: where the substitute answers, pandas itself gives the same."""

from __future__ import annotations

import importlib.util
import random

import pytest

pytest.importorskip("pandas")

from row_programs import HEAD, Source, table

from codedag.backends import more_pandas_
from codedag.backends.more_pandas_ import apply
from codedag.backends.registry import attempt
from codedag.backends.same import same

pytestmark = pytest.mark.filterwarnings("ignore")
IN_ONE_FILE = 100


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """Tables of any size are taken."""
    monkeypatch.setattr(more_pandas_, "LEAST", 1)


def functions(tmp_path, seed):
    """Random functions of a row, from a file of their own."""
    source = Source(random.Random(seed))
    names = [f"f{number}" for number in range(IN_ONE_FILE)]
    path = tmp_path / f"rows_{seed}.py"
    path.write_text(HEAD + "".join("\n\n" + source.function(name) for name in names))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [*(getattr(module, name) for name in names), module.CLOSED]


def compare(function, frame):
    """Whether the substitute answered a call; if so, its answer is pandas' own."""
    if not apply.accepts((frame, function), {"axis": 1}):
        return False
    before = frame.copy(deep=True)
    ours = attempt(apply.run, frame, function, axis=1)
    expected = attempt(apply.original(), frame, function, axis=1)
    verdict = same(before, frame)
    assert verdict, verdict
    if ours.error is not None:
        return False
    assert expected.error is None, (expected.error, function)
    verdict = same(expected.value, ours.value)
    assert verdict, (verdict, function, frame.dtypes)
    return True


def answered(tmp_path, seed, files):
    rng = random.Random(seed)
    return sum(
        compare(function, table(rng))
        for number in range(files)
        for function in functions(tmp_path, seed * 1000 + number)
        for _ in range(2)
    )


def test_random_functions_of_a_row(tmp_path, seed):
    assert answered(tmp_path, seed, 2) >= 40


@pytest.mark.long
def test_many_random_functions_of_a_row(tmp_path, seed):
    assert answered(tmp_path, seed + 1, 30) >= 600
