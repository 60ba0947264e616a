"""Sizes as expressions: how they are evaluated, and how they begin a key."""

from __future__ import annotations

import pytest

from codedag.stages.sizes import evaluate, key_of, sizes_of, symbols_of


@pytest.mark.parametrize(
    ("expression", "number"),
    [(7, 7), ("batch", 8), ("4*batch", 32), ("(batch + 3) // 2", 5), ("batch**2 - 1", 63), ("max(batch, 9) % 4", 1)],
)
def test_expressions_are_evaluated(expression, number):
    assert evaluate(expression, {"batch": 8}) == number


@pytest.mark.parametrize("expression", ["other", "batch.real", "print(batch)", "batch / 2", "1 +", "[batch]"])
def test_what_is_no_size_is_refused(expression):
    with pytest.raises(ValueError, match="no size"):
        evaluate(expression, {"batch": 8})


def test_symbols_are_names_without_functions():
    assert symbols_of("max(a, 2*b)") == {"a", "b"}
    assert symbols_of(4) == frozenset()


@pytest.mark.parametrize("sizes", [{"nodes": 10, "edges": 0}, {"batch": 8}, {"batch": 1, "tokens": 128}, {}])
def test_keys_are_read_as_they_were_written(sizes):
    assert sizes_of(key_of(sizes)) == sizes


@pytest.mark.parametrize("key", ["1,2,3", "batch=", "=3", "batch=x", "batch"])
def test_keys_without_sizes_are_refused(key):
    with pytest.raises(ValueError, match="does not begin with sizes"):
        sizes_of(key)
