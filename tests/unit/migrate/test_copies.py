"""Copies of what is kept lie in memory as the original does."""

from __future__ import annotations

import pytest

from codedag.backends.same import same
from codedag.migrate.memo.copies import copied

numpy = pytest.importorskip("numpy")

GRID = numpy.arange(24.0).reshape(2, 3, 4)
LAID_OUT = {
    "plain": GRID,
    "fortran": numpy.asfortranarray(GRID),
    "turned": GRID.transpose(1, 2, 0),
    "a view": GRID[1],
    "a sum that keeps its axis": GRID.sum(axis=0, keepdims=True),
    "a sum along a row": numpy.ones((1025, 87)).sum(axis=-2, keepdims=True),
    "one element": GRID[:1, :1, :1].copy(),
    "empty": GRID[:0].copy(),
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_a_copy_cannot_be_told_apart(name):
    value = LAID_OUT[name]
    copy = copied(value)
    assert same(value, copy)
    assert same(value, copied(copy))
    assert not numpy.may_share_memory(value, copy)
