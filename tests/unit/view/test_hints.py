"""Hints name something to do, and say whether this run has measured it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from synthetic_reports import heat

from codedag.ir import HotFunction, HotLine
from codedag.view.hints import NOT_MEASURED, hint_for
from codedag.view.html.facts import editor


def function(name, package="", own=9.0, line=10):
    return HotFunction(name=name, file="a.py", line=line, package=package, self_seconds=own, total_seconds=own)


def test_a_loader_in_the_main_process_could_have_workers():
    loader = replace(function("_SingleProcessDataLoaderIter._next_data", "torch"), total_seconds=20.0)
    found = replace(heat(), functions=[loader])
    hint = hint_for(found, function("collate_tensor_fn", "torch"))
    assert "num_workers" in hint.sentence
    assert hint.evidence == NOT_MEASURED
    assert hint_for(replace(heat(), functions=[]), function("collate_tensor_fn", "torch")) is None


def test_rows_of_a_table_and_own_lines():
    assert "itertuples" in hint_for(heat(), function("DataFrame.iterrows", "pandas")).words
    own = replace(heat(), functions=[function("f")], lines=[HotLine(file="a.py", line=12, seconds=5.0, share=0.4)])
    assert hint_for(own, function("f")).words == "look at line 12"
    assert hint_for(own, function("f", own=0.1)) is None
    assert hint_for(own, function("<module>")) is None


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("", "vscode://file{file}:{line}"),
        ("idea://open?file={file}&line={line}", "idea://open?file={file}&line={line}"),
        ("javascript:alert('{file}')", "vscode://file{file}:{line}"),
        ("https://evil.example/{file}", "vscode://file{file}:{line}"),
        ("emacs", "vscode://file{file}:{line}"),
    ],
)
def test_the_editor_is_an_address_of_an_editor(monkeypatch, asked, shown):
    monkeypatch.setenv("CODEDAG_EDITOR", asked)
    assert editor() == shown


def test_the_call_around_a_hot_function_decides_where_it_has_most_of_the_time():
    outer = replace(function("DataFrame.apply", "pandas"), total_seconds=15.0)
    seen = replace(heat(), functions=[outer])
    assert hint_for(seen, function("Series.__getitem__", "pandas")).words == "compute whole columns"
    assert hint_for(seen, function("sort", "numpy")) is None
