"""The user's patterns: what they choose, and what bad ones say."""

from __future__ import annotations

import pytest

from codedag.instrument.selection import FilterConfig


def test_nothing_said_wants_everything():
    chosen = FilterConfig()
    assert chosen.wants_module("anything.at.all")
    assert chosen.wants_function("f")
    assert chosen.wants_function("")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("pipeline", True),
        ("pipeline.io", True),
        ("pipeline.slow", False),
        ("pipeline.slow.more", False),
        ("other", False),
    ],
)
def test_modules(name: str, wanted: bool):
    assert FilterConfig(include_modules=["pipe*"], exclude_modules=["*.slow"]).wants_module(name) is wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("preprocess", True), ("Photos.preprocess", True), ("Photos.preprocess.<locals>.inner", True),
        ("Photos.preprocess.<lambda>", True), ("Photos.__getitem__", False), ("", False), ("Audio.load", True),
        ("Audio.load_all", True), ("Audio.load_slow", False),
    ],
)  # fmt: skip
def test_functions_by_name_and_by_qualified_name(name: str, wanted: bool):
    chosen = FilterConfig(include_functions=("preprocess", "Audio.*"), exclude_functions=("load_slow",))
    assert chosen.wants_function(name) is wanted


def test_exclusion_wins_over_inclusion():
    chosen = FilterConfig(
        include_functions=("f",), exclude_functions=("f",), include_modules=("m",), exclude_modules=("m",)
    )
    assert not chosen.wants_function("f")
    assert not chosen.wants_module("m")


def test_code_outside_functions_has_a_name():
    assert FilterConfig(include_functions=("<module>",)).wants_function("")
    assert not FilterConfig(exclude_functions=("<module>",)).wants_function("")


@pytest.mark.parametrize("field", ["include_modules", "exclude_modules", "include_functions", "exclude_functions"])
@pytest.mark.parametrize("value", ["text", b"bytes", None, 3, {"a"}, [1], ("a", None)])
def test_bad_values_name_the_field(field: str, value: object):
    with pytest.raises(TypeError, match=field):
        FilterConfig(**{field: value})  # type: ignore[arg-type]
