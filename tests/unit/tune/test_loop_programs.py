"""Loop programs: recorded functions, names and texts, their text, JSON and evaluation by numpy."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from codedag.tune.declined import CannotTune
from codedag.tune.measure.recording_check import recorded
from codedag.tune.program.einsum_text import parts_of, program_of_text
from codedag.tune.program.evaluate import evaluate
from codedag.tune.program.operators import OPERATORS, program_of_name
from codedag.tune.program.program import decoded
from codedag.tune.program.record import record

DRAW = np.random.default_rng(3)


def _array(kind: str, *shape: int) -> np.ndarray:
    if kind.startswith("u"):
        return DRAW.integers(0, 255, shape).astype(kind)
    return DRAW.uniform(0.5, 3.0, shape).astype(kind)


FUNCTIONS = {
    "chain": (lambda x: np.clip((x * 2 - 1) / 3 + abs(-x), 0.5, 1), [("f4", 5, 7)]),
    "where": (lambda x, y: np.where(x > y, x, y[0]) + (x >= 1) * 2.0, [("f8", 4, 6), ("f8", 4, 6)]),
    "sums": (lambda x: x.sum(0) + x.mean(0) * x.var(0, ddof=1) - x.std(), [("f4", 9, 5)]),
    "extremes": (lambda x: (x.max(1, keepdims=True) - x.min(1, keepdims=True)) / x, [("f4", 6, 30)]),
    "bytes": (lambda x, m: (x / 255.0 - m).astype(np.float32), [("u1", 4, 5, 3), ("f8", 3)]),
    "turned": (lambda x: (x.T + 1)[::2].copy(), [("f4", 6, 4)]),
    "slices": (lambda x: x[1:, None, ::2] * x[0, 1], [("f8", 5, 6)]),
    "reshape": (lambda x: np.sqrt(x.reshape(3, -1)) ** 2, [("f4", 6, 4)]),
    "in place": (lambda x: _in_place(x), [("f4", 4, 4)]),
    "product": (lambda a, b: a @ b, [("f4", 3, 4, 5), ("f4", 3, 5, 2)]),
    "einsum": (lambda a, b: np.einsum("nik,nkj->nij", a, b), [("f8", 3, 4, 5), ("f8", 3, 5, 2)]),
    "logs": (lambda x: 10 * np.log10(np.maximum(np.exp(x), 2)), [("f4", 3, 40)]),
}  # fmt: skip


def _in_place(x):
    y = x * 2
    y -= y.mean(axis=1, keepdims=True)
    y /= 3
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_program_of_a_function_gives_its_bits_types_and_layout(name):
    function, specs = FUNCTIONS[name]
    arrays = [_array(*spec) for spec in specs]
    program = decoded(record(function, arrays, name).encoded())
    expected, found = function(*arrays), evaluate(program, arrays)
    assert found.tobytes() == np.asarray(expected).tobytes()
    assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides)


def test_the_text_of_a_program_has_a_line_for_every_statement():
    program = program_of_name("softmax", (5, 7), "f4")
    lines = str(program).splitlines()
    assert lines[0] == "program softmax"
    assert len(lines) == 1 + len(program.inputs) + len(program.statements)
    assert "max over r0<7" in lines[2]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: np.fft.fft(x), "numpy.fft.fft is not written down"),
        (lambda x: x if x.max() > 0 else -x, "the value of an element decides"),
        (lambda x: x + np.arange(3.0), "that is no argument"),
        (lambda x: x**3, "a power of 3"),
        (lambda x: x.cumsum(), "cumsum is not written down"),
        (lambda x: _assigned(x), "assignment to elements"),
        (lambda x: np.sin(x), "sin is not written down"),
        (lambda x: 3, "not an array"),
        (lambda x: x, "does nothing"),
        (lambda x: x[::-1], "a view of an argument"),
        (lambda x: (x + 1)[::2], "leaves elements out"),
        (lambda x: (x + 1)[::-1], "turns them round"),
        (lambda x: np.clip(x, np.nan, 1.0), "a bound that is NaN"),
        (lambda x: x.astype(np.int8) < 1000, "1000 is out of the range of type int8"),
        (lambda x: np.einsum("i,j->k", x, x), r"line \d+ .*axis k of the result"),
        (lambda x: np.sum(x, where=x > 0), "with these arguments"),
        (lambda x: x.mean(dtype=np.int32), "a mean in type int32"),
        (lambda x: sys.exit(3), "ends the program on arrays like these"),
    ],
)
def test_what_does_not_fit_is_declined_with_its_reason(function, words):
    with pytest.raises(CannotTune, match=words):
        record(function, [np.ones(3)])


def test_a_function_that_does_something_else_each_time_is_declined():
    draw = random.Random(0)
    with pytest.raises(CannotTune, match="something else when it runs again"):
        recorded(lambda x: x * draw.random(), [np.ones(3)], "drawn")


def test_a_mean_of_more_elements_than_float32_can_count_is_numpys(monkeypatch):
    """numpy divides by the count in float64; float32 has no number 16,777,219."""
    count = (1 << 24) + 3
    x = np.full(count, 1.1, np.float32)
    program = record(lambda x: x.mean(), [x])
    assert evaluate(program, [x]).tobytes() == x.mean().tobytes()


def _assigned(x):
    x = x + 1
    x[0] = 3
    return x


def test_a_decline_names_the_line():
    with pytest.raises(CannotTune, match=r"line \d+ \(x\[0\] = 3\)"):
        record(_assigned, [np.ones(3)])


def test_types_that_are_not_here_are_named():
    with pytest.raises(CannotTune, match="float16"):
        record(lambda x: x + 1, [np.ones(3, np.float16)])


@pytest.mark.parametrize(
    ("text", "sizes", "words"),
    [
        ("i k, k j", {}, "not the text of a product"),
        ("i i, i j -> j", {}, "axis i occurs twice"),
        ("i k, k j -> i z", {}, "axis z of the result"),
        ("i k l, k j -> i j", {}, "axis l is summed over in one operand"),
        ("i k, k j -> i j", {"i": 2, "k": 3}, "axis j has no size"),
        ("i k, k j -> i j", {"i": 2, "k": 3, "j": 4, "q": 5}, "no axis q"),
        ("i k, k j -> i j", {"i": 2, "k": -3, "j": 4}, "axis k has size -3"),
        ("i 2, k j -> i j", {}, "no list of axes"),
    ],
)
def test_texts_and_sizes_that_do_not_fit_name_the_axis(text, sizes, words):
    with pytest.raises(CannotTune, match=words):
        program_of_text(text, sizes, "f4")


def test_a_text_is_the_einsum_of_its_axes():
    assert parts_of("n i k, n k j -> n i j") == (("n", "i", "k"), ("n", "k", "j"), ("n", "i", "j"))
    program = program_of_text("row k, k col -> col row", {"row": 3, "k": 4, "col": 5}, "f8")
    a, b = _array("f8", 3, 4), _array("f8", 4, 5)
    assert evaluate(program, [a, b]).tobytes() == np.einsum("ab,bc->ca", a, b).tobytes()


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_say_which_sizes_they_want(name):
    with pytest.raises(CannotTune, match=f"{name} has"):
        program_of_name(name, (3, 4, 5, 6, 7), OPERATORS[name].dtypes[0])
    with pytest.raises(CannotTune, match="is -1"):
        program_of_name(name, (-1,) * len(OPERATORS[name].shape), OPERATORS[name].dtypes[0])
    with pytest.raises(CannotTune, match="type c16"):
        program_of_name(name, (2,) * len(OPERATORS[name].shape), "c16")
