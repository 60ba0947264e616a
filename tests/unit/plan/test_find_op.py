"""Operations by the names that `codedag view` shows: whole, their last parts, with a place, or near misses."""

from __future__ import annotations

import pytest

from codedag.ir import BadGraph, Graph, Op
from codedag.plan.explain import find_op


def _op(number, name, line, seconds=1.0, kind="call", file="src/train.py"):
    return Op(id=number, name=name, kind=kind, file=file, line=line, context=f"f/{name}", count=1,
              self_seconds=seconds, total_seconds=seconds, out_nbytes=8)  # fmt: skip


GRAPH = Graph.build([
    _op(1, "PIL.Image.Image.resize", 7), _op(2, "PIL.Image.Image.resize", 7, 5.0), _op(3, "cv2.resize", 9),
    _op(4, "numpy.stack", 11), _op(5, "numpy.stack", 12), _op(6, "__main__.stack", 1, kind="region"),
])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3), ("cv2.resize", 3), ("PIL.Image.Image.resize", 2), ("Image.resize", 2),
        ("Image.resize@src/train.py:7", 2),
        ("resize@train.py:9", 3), ("numpy.stack@train.py:12", 5),
    ],
)  # fmt: skip
def test_the_names_that_view_shows(text, number):
    assert find_op(GRAPH, text) == number


def test_at_several_places_one_must_be_named():
    with pytest.raises(BadGraph, match="is the name of 2 ops") as raised:
        find_op(GRAPH, "stack")
    assert "stack@src/train.py:11" in raised.value.hint


def test_a_near_miss_is_named():
    with pytest.raises(BadGraph, match=r"there is no op `Image.rezise` in this graph \(near: .*resize"):
        find_op(GRAPH, "Image.rezise")
