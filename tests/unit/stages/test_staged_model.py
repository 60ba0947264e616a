"""StagedModel: blocks, producers, sizes of inputs, and what makes a legal model."""

from __future__ import annotations

import numpy as np
import pytest

from codedag.stages.model import BadInput, BadModel, Stage, StagedModel, Tensor

TENSORS = {name: Tensor(name, "float32", ("batch", 4)) for name in ("x", "a", "b", "out")} | {
    "ids": Tensor("ids", "int64", (2, "batch"))
}


def model(stages=None, inputs=("x", "ids"), outputs=("out",)):
    stages = stages or (
        Stage(1, "one", ("x",), ("a",)), Stage(2, "two", ("a", "ids"), ("b",)), Stage(3, "three", ("a", "b"), ("out",)),
    )  # fmt: skip
    return StagedModel("m", stages, TENSORS, inputs, outputs, ("batch",), programs=None)


def test_a_block_reads_what_comes_from_outside_and_gives_what_others_read():
    block = model().block(1, 2)
    assert (block.name, block.inputs, block.outputs) == ("1-2", ("x", "ids"), ("a", "b"))
    assert model().block(2, 3).outputs == ("out",)
    assert len(model().blocks) == 6


def test_producers_are_numbered_from_one():
    assert dict(model().producer) == {"x": 0, "ids": 0, "a": 1, "b": 2, "out": 3}


def test_bytes_follow_the_sizes():
    assert TENSORS["x"].nbytes({"batch": 3}) == 3 * 4 * 4
    assert TENSORS["ids"].at({"batch": 3}) == (2, 3)


def arrays(rows=5, ids=5, dtype=np.float32):
    return {"x": np.zeros((rows, 4), dtype), "ids": np.zeros((2, ids), np.int64)}


def test_sizes_are_those_of_the_arrays():
    assert model().sizes_of(arrays()) == {"batch": 5}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": arrays()["x"]}, "no array `ids`"),
        (arrays(dtype=np.float64), "`x` is float64"),
        (arrays(ids=4), r"`ids` has shape \(2, 4\)"),
        ({**arrays(), "x": np.zeros((5, 3), np.float32)}, r"reads \[batch, 4\]"),
        ({**arrays(), "x": np.zeros(5, np.float32)}, r"shape \(5,\)"),
    ],
)
def test_arrays_that_do_not_fit_are_named(given, message):
    with pytest.raises(BadInput, match=message):
        model().sizes_of(given)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((Stage(1, "one", ("b",), ("out",)),), "reads `b`, which nothing before it makes"),
        ((Stage(1, "one", ("x",), ("x",)),), "makes `x`, which is there already"),
        ((Stage(2, "one", ("x",), ("out",)),), "has number 2; it is at place 1"),
        ((Stage(1, "one", ("x",), ("a",)),), "no stage that makes `out`"),
        ((Stage(1, "one", ("x",), ("out", "new")),), "shape of `new` is not known"),
    ],
)
def test_models_that_cannot_run_are_refused(stages, message):
    with pytest.raises(BadModel, match=message):
        model(stages)
