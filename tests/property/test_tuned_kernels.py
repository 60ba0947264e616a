"""Tuned kernels that claim EXACT are bit-equal to the function itself, on every layout and on hard values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from codedag.ir.verdict import No
from codedag.tune.compiler import find_compiler
from codedag.tune.declined import CannotTune
from codedag.tune.measure.inputs import laid_out, values
from codedag.tune.program.operators import OPERATORS
from codedag.tune.program.record import record
from codedag.tune.schedule.space import point_text
from codedag.tune.task import Task

CALLS = 200
FUNCTIONS = {
    "layernorm": (OPERATORS["layernorm"].function, "f4[13,211],f4[211],f4[211]"),
    "layernorm f8": (OPERATORS["layernorm"].function, "f8[5,130],f8[130],f8[130]"),
    "softmax": (OPERATORS["softmax"].function, "f4[31,53]"),
    "softmax f8": (OPERATORS["softmax"].function, "f8[7,19]"),
    "normalise": (OPERATORS["normalise"].function, "u1[17,19,3],f8[3],f8[3]"),
    "normalise one": (OPERATORS["normalise"].function, "u1[1,1,3],f8[3],f8[3]"),
    "standardise": (OPERATORS["standardise"].function, "f4[11,23,3]"),
    "standardise bytes": (OPERATORS["standardise"].function, "u1[61,67,3]"),
    "columns": (lambda x: (x - x.mean(0)) / x.std(0), "f4[37,23]"),
    "planes": (lambda x: x - x.mean((0, 2, 3), keepdims=True), "f4[3,5,7,11]"),
    "chain": (lambda x: np.clip((x * 2 - 1) / 3 + x, 0, 1), "f4[41,43]"),
    "channels": (lambda x, m, s: (x / np.float32(255) - m) / s, "f4[17,19,3],f4[3],f4[3]"),
    "where": (lambda x, y: np.where(x > y, np.sqrt(abs(x)), y) - 1, "f8[29,31],f8[29,31]"),
    "extremes": (lambda x: (x - x.min(1, keepdims=True)) / (x.max(1, keepdims=True) + 1), "f4[19,97]"),
    "extremes across": (lambda x: np.maximum(x, x.min(0)) - x.max(0), "f4[19,37]"),
    "decibel": (lambda x: 10 * np.log10(np.maximum(x * x, 1e-10)), "f4[13,101]"),
    "turned": (lambda x: (x.T * 2 + 1).astype(np.float64), "f4[13,17]"),
    "levels": (lambda x, s: np.clip(x * s + 3, 0, 255).astype(np.uint8), "f4[13,17,3],f4[3]"),
    "sound": (lambda x: (x / 32768.0).astype(np.float32), "i2[997]"),
    "whole": (lambda x: x - x.sum(0), "i4[13,17]"),
    "one": (lambda x: (x - x.mean(-1, keepdims=True)) * 2, "f4[1,1]"),
    "einsum": (lambda a, b: np.einsum("nik,nkj->nij", a, b), "f4[23,9,9],f4[23,9,9]"),
    "einsum f8": (lambda a, b: np.einsum("nik,nkj->nij", a, b), "f8[11,12,12],f8[11,12,12]"),
    "einsum column": (lambda a, b: np.einsum("nik,nkj->nij", a, b), "f4[53,3,3],f4[53,3,1]"),
    "einsum lines": (lambda a, b: np.einsum("nik,njk->nij", a, b), "f4[7,11,37],f4[7,13,37]"),
    "einsum lines f8": (lambda a, b: np.einsum("nik,njk->nij", a, b), "f8[5,4,131],f8[5,3,131]"),
    "einsum dots": (lambda a, b: np.einsum("nk,nk->n", a, b), "f4[53,67],f4[53,67]"),
    "pixels": (lambda a, b: a @ b, "f4[331,3],f4[3,3]"),
    "image by a matrix": (lambda a, b: a @ b, "f4[17,19,3],f4[3,3]"),
    "mean of all": (lambda x: x.mean(), "f4[37,61]"),
    "share of truth": (lambda x: (x > 0).mean(), "f4[37,61]"),
    "sums of truth values": (lambda x, y: (x + y).var(1) + (x * y).sum(1), "b1[37,61],b1[37,61]"),
    "squares of whole numbers": (lambda x: x**2 - x, "i2[37,61]"),
    "sum of bytes": (lambda x: x.sum(), "u1[37,61]"),
    "means of bytes between axes": (lambda x: x.mean((0, 2)), "u1[5,37,61]"),
    "planes with gaps": (lambda x: x.std((0, 2, 4), keepdims=True), "f4[4,3,2,5,6]"),
    "mean pool": (lambda x: (x * 2).reshape(4, 18, 2, 30, 2).mean((2, 4)), "f4[4,36,60]"),
    "max pool": (lambda x: x.reshape(18, 2, 30, 2).max((1, 3)), "f8[36,60]"),
    "joined axes": (lambda x: (x * 2 + 1).reshape(6, -1).mean(1), "f4[6,5,4]"),
    "cut anew": (lambda x: (x + 1).reshape(12, 4) * 2, "f4[6,8]"),
    "sum of negative zeros": (lambda x: (x * -0.0).sum(1), "f4[37,61]"),
    "whole numbers that overflow": (lambda x: (x + 1) > x, "i4[37,61]"),
    "long numbers that overflow": (lambda x: (abs(x) < 0) | (-x == x), "i8[37,61]"),
    "scalars that overflow": (lambda x: x + (x.max() - x.min()), "i1[1,2]"),
    "scalars of bytes": (lambda x: (x - x.min()) / (x.max() - x.min()), "u1[37,61]"),
    "a branch that is not taken": (lambda x, y: np.where(y != 0, x / y, 0), "f4[37,61],f4[37,61]"),
    "branches in branches": (lambda x: np.where(x > 0, 1 / (1 / x), np.sqrt(x)), "f8[1,2]"),
    "quotients that are cut off": (lambda x, y: np.sqrt(abs(x / y)[1:, :-1]), "f4[37,61],f4[37,61]"),
    "bounds beyond bytes": (lambda x: np.clip(x, -500, 500) + np.clip(x, 3, None), "u1[37,61]"),
    "one matrix for a stack": (lambda a, b: a @ b, "f4[1,5,4],f4[8,4,3]"),
    "outer product": (lambda a, b: np.einsum("i,j->ij", a, b), "f8[9],f8[13]"),
    "einsum dot": (lambda a, b: np.einsum("i,i->", a, b), "f8[131],f8[131]"),
    "logarithms": (lambda x: np.log(x).sum(1), "f4[1,2]"),
    "stacks of two axes": (lambda a, b: np.einsum("mnik,mnkj->mnij", a, b), "f4[3,5,6,6],f4[3,5,6,6]"),
}


def _task(name: str) -> Task:
    if isinstance(find_compiler(), No):
        pytest.skip("no C compiler")
    function, like = FUNCTIONS[name]
    try:
        return Task.of(function, like=like)
    except CannotTune as error:
        pytest.skip(error.message)  # numpy adds up in another order on this machine


def _called(function, arrays):
    """The result, and the warnings that numpy gave."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = function(*arrays)
    return result, sorted({str(one.message) for one in told})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_hundred_random_calls_are_numpys_own(name, codedag_home):
    function, _ = FUNCTIONS[name]
    draw = np.random.default_rng(len(name))
    with _task(name) as task:
        assert task.exactness == "EXACT"
        points = {str(p["sketch"]): p for p in task.space.sample(30, seed=len(name))}
        for point in points.values():
            kernel = task.kernel(point)
            for case in range(CALLS):
                _same_call(task, kernel, function, draw, f"{point_text(point)}, case {case}", wild=case % 4 == 3)
            assert kernel.as_written < CALLS, kernel.why


def _same_call(task, kernel, function, draw, what, wild):
    arrays = [laid_out(values(task.program.buffers[n], draw, wild), draw) for n in task.program.inputs]
    before = [array.tobytes() for array in arrays]
    expected, told = _called(function, arrays)
    found, also = _called(kernel, arrays)
    assert type(found) is type(expected), what
    assert found.tobytes() == expected.tobytes(), what
    assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides), what
    assert (also, [array.tobytes() for array in arrays]) == (told, before), what


def test_candidates_are_checked_on_numbers_that_the_function_is_made_for(codedag_home):
    if isinstance(find_compiler(), No):
        pytest.skip("no C compiler")
    functions = (
        lambda x: np.log(x).sum(1), lambda x: np.sqrt(1 - x) * 2, lambda x: np.sqrt(x - 1).mean(),
        lambda x: (x * 10).astype(np.uint8),
    )  # fmt: skip
    for function in functions:
        with Task.of(function, like="f4[36,60]") as task:
            (record_,) = task.measure(task.space.sample(1, seed=0))
            assert record_.seconds, record_.why


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_single_chain_of_sums_is_fused_too(dtype, codedag_home):
    """gcc leaves narrow chains unfused where it thinks that faster, whatever it was told of contraction."""
    if isinstance(find_compiler(), No):
        pytest.skip("no C compiler")
    with Task.of(lambda a, b: a @ b, like=f"{dtype}[50,4,4],{dtype}[50,4,4]", allow=["ulp"]) as task:
        if task.order != "fused":
            pytest.skip("numpy adds up in another order on this machine")
        for point in ({"sketch": "small", "fused": 1, "vb": vb, "mr": 1, "ku": 2} for vb in (16, 32)):
            assert task.kernel(point).exactness == "EXACT"


@pytest.mark.parametrize("shape", [(0, 53), (1, 53), (29, 53), (31, 1)])
def test_other_extents_run_as_written(shape, codedag_home):
    with _task("softmax") as task:
        kernel = task.kernel(task.space.sample(1, seed=0)[0])
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        assert kernel(x).tobytes() == OPERATORS["softmax"].function(x).tobytes()
        assert kernel.as_written == 1


def test_products_of_class_ulp_take_other_sizes_and_layouts(codedag_home):
    if isinstance(find_compiler(), No):
        pytest.skip("no C compiler")
    with Task.of("i k, k j -> i j", sizes={"i": 97, "k": 101, "j": 103}) as task:
        kernel = task.kernel(task.space.sample(1, seed=5)[0])
        draw = np.random.default_rng(0)
        for rows, inner, columns in ((97, 101, 103), (1, 65, 67), (131, 200, 71), (0, 70, 80), (66, 0, 90)):
            a = draw.standard_normal((inner, rows)).astype(np.float32).T
            b = draw.standard_normal((inner, columns)).astype(np.float32)[:, ::-1]
            expected = a.astype(np.float64) @ b.astype(np.float64)
            assert np.allclose(kernel(a, b), expected, rtol=0, atol=1e-4 * max(inner, 1) ** 0.5)


def test_other_types_run_as_written_whatever_the_class(codedag_home):
    with Task.of("i k, k j -> i j", sizes={"i": 97, "k": 101, "j": 103}) as task:
        kernel = task.kernel(task.space.sample(1, seed=5)[0])
        a, b = np.ones((97, 101)), np.ones((101, 103), np.float32)
        assert kernel(a, b).dtype == np.einsum("ik,kj->ij", a, b).dtype == np.float64
        assert kernel.as_written == 1
        with pytest.raises(TypeError):
            kernel(a)


def test_every_value_of_a_byte_is_compared_for_every_set_of_parameters(codedag_home):
    """A line that gives other bits for one value is not used."""
    with _task("normalise") as task:
        mapping = task.family.mapping
        draw = np.random.default_rng(1)
        x = draw.integers(0, 255, (17, 19, 3)).astype(np.uint8)
        for _ in range(30):
            arrays = [x, draw.uniform(0, 1, 3), draw.uniform(0.1, 1, 3)]
            table, _ = mapping.table(arrays)
            line = mapping.line(arrays)
            if line is not None:
                values_ = np.arange(256.0)[:, None] * line[0] + line[1]
                assert values_.astype(np.float32).tobytes() == np.ascontiguousarray(table).tobytes()


def test_recording_does_not_run_on_the_users_arrays():
    x = np.ones((3, 4))
    record(lambda a: (a - a.mean()) * 2, [x])
    assert (x == 1).all()
