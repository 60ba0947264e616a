"""The sizes at which stages are measured."""

from __future__ import annotations

import json

import pytest

from codedag.ir import BadFile
from codedag.stages.measuring.grid import SEED15, around, default_sizes, read_cases


def test_the_guides_cases():
    assert len(SEED15) == 15
    assert SEED15[0] == {"nodes": 1000, "edges": 1000}
    assert SEED15[-1] == {"nodes": 10000, "edges": 10000}
    assert all(case["edges"] >= case["nodes"] for case in SEED15)


def test_a_file_of_cases_says_sizes_and_settings(tmp_path):
    path = tmp_path / "test_cases.json"
    config = {"feature_dim": 16, "num_warmup": 0, "num_iterations": 3}
    path.write_text(json.dumps({"config": config, "test_cases": [{"nodes": 5, "edges": 9}]}))
    cases = read_cases(path, ("nodes", "edges"))
    assert (cases.sizes, cases.features, cases.warmup, cases.repeats) == ([{"nodes": 5, "edges": 9}], 16, 0, 3)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("", "is not JSON"),
        ("[]", "test_cases"),
        ('{"test_cases": []}', "test_cases"),
        ('{"test_cases": [3]}', r"test_cases\[0\]"),
        ('{"test_cases": [{"nodes": 3}]}', r"test_cases\[0\]\.edges"),
        ('{"test_cases": [{"nodes": -1, "edges": 2}]}', r"test_cases\[0\]\.nodes"),
        ('{"test_cases": [{"nodes": 1.5, "edges": 2}]}', r"test_cases\[0\]\.nodes"),
        ('{"config": {"num_iterations": 0}, "test_cases": [{"nodes": 1, "edges": 2}]}', r"config\.num_iterations"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_field(tmp_path, content, field):
    path = tmp_path / "cases.json"
    path.write_text(content)
    with pytest.raises(BadFile, match=field) as told:
        read_cases(path, ("nodes", "edges"))
    assert str(path) in told.value.message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadFile, match="cannot read"):
        read_cases(tmp_path / "none.json", ("nodes", "edges"))


def test_sizes_of_other_models():
    assert [one["batch"] for one in default_sizes(("batch",), {"batch": 3})] == [1, 2, 3, 4, 8]
    assert default_sizes((), {}) == [{}]
    assert default_sizes(("batch", "tokens"), {"batch": 1, "tokens": 7})[0] == {"batch": 1, "tokens": 7}


def test_brackets_hold_the_parts():
    parts = [{"nodes": 100, "edges": 900}, {"nodes": 110, "edges": 1000}, {"nodes": 90, "edges": 1200}]
    found = around(parts)
    assert min(one["edges"] for one in found) <= 450
    assert max(one["edges"] for one in found) >= 1200 * 1.5
    assert around([]) == []
