"""Orders of sums: the emulations are numpy's own sums, and answers are remembered for their shape alone."""

from __future__ import annotations

import numpy as np
import pytest

from codedag.tune.program import orders
from codedag.tune.program.program import Buffer, contiguous
from codedag.tune.task import Task


def _buffer(kind: str, *shape: int) -> Buffer:
    return Buffer("x", kind, shape, contiguous(shape))


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 63, 127, 128, 129, 200, 1000, 4097])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_pairwise_sums_are_those_of_a_contiguous_axis(count, kind, codedag_home):
    rows = orders.hard_numbers((5, count), kind, count)
    assert orders.pairwise(rows).tobytes() == np.add.reduce(rows, axis=1).tobytes()


@pytest.mark.parametrize(
    ("buffer", "axes", "dtype", "order"),
    [
        (_buffer("f4", 40, 300), (1,), "f4", orders.PAIRWISE),
        (_buffer("f4", 400, 30), (0,), "f4", orders.ACROSS),
        (_buffer("f4", 4, 5, 30, 31), (0, 2, 3), "f4", orders.PLANES),
        (_buffer("u1", 100, 200), (0, 1), "u8", orders.ANY),
        (_buffer("i4", 100, 20), (0,), "i8", orders.ANY),
    ],
)
def test_numpy_is_asked_for_its_order(buffer, axes, dtype, order, codedag_home):
    assert orders.ask_order(buffer, axes, "sum", dtype) == order


def test_the_greatest_element_has_no_order(codedag_home):
    assert orders.ask_order(_buffer("f4", 3, 4), (1,), "max", "f4") == orders.ANY


def test_an_array_that_does_not_lie_in_order_has_none_of_the_list(codedag_home):
    turned = Buffer("x", "f4", (30, 40), (1, 30))
    assert orders.ask_order(turned, (1,), "sum", "f4") == ""


def test_an_order_that_is_none_of_the_list_is_no_answer(monkeypatch, codedag_home):
    monkeypatch.setattr(orders, "_EMULATIONS", {"across": orders._as_across})
    assert orders._asked(_buffer("f4", 3, 500), (1,), "f4") == ""


def test_answers_are_remembered(monkeypatch, codedag_home):
    asked = []
    question = ["a question of this test", 1]
    monkeypatch.setattr(orders, "_answers", {})
    assert orders.remembered(question, lambda: asked.append(1) or "yes") == "yes"
    monkeypatch.setattr(orders, "_answers", {})
    assert orders.remembered(question, lambda: asked.append(2) or "no") == "yes"
    assert asked == [1]


def test_what_could_not_be_asked_is_asked_again(monkeypatch, codedag_home):
    question = ["a question of this test", 2]
    monkeypatch.setattr(orders, "_answers", {})
    assert orders.remembered(question, lambda: None) == ""
    assert orders.remembered(question, lambda: "yes") == "yes"


def test_the_text_of_a_task_states_the_order_of_every_sum(compiler, codedag_home):
    text = str(Task.of(lambda x: (x - x.max(0)).sum(1), like="f4[30,200]"))
    assert "max over r0<30 in order 'any'" in text
    assert "sum over r0<200 in order 'pairwise'" in text
    assert "in order 'open'" in str(Task.of("i k, k j -> i j", sizes={"i": 3, "k": 4000, "j": 5}))
    stack = Task.of(lambda a, b: np.einsum("nik,nkj->nij", a, b), like="f4[23,9,9],f4[23,9,9]", allow=("ulp",))
    assert f"in order {stack.order or 'open'!r}" in str(stack)
