"""Chains of any numbers: what they take, what they decline, and what lists of numbers are to a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fusing import fuse, plain

from codedag.migrate.fuse.deferred import Step
from codedag.migrate.fuse.flow import Flow, Never, opening
from codedag.migrate.guard import attempt
from codedag.migrate.placeholder import Placeholder
from codedag.tune.flow_source import SCALAR, FlowStep

FLOATS = np.linspace(0, 1, 64 * 90 * 3, dtype=np.float32).reshape(64, 90, 3)


def flow(array: Any = FLOATS) -> Flow:
    opened = opening(array)
    assert isinstance(opened, Placeholder), opened
    return opened.deferred


def added(found: Flow, name: str, at: int, *parameters: Any, **keywords: Any) -> Any:
    from codedag.backends.elementwise import ROLES

    last = name.rpartition(".")[2]
    function = last if at < 0 else getattr(__import__(name.partition(".")[0]), last)
    return attempt(found.add, Step(ROLES[name], function, at, parameters, keywords))


def test_numbers_are_arguments_and_arrays_are_inputs() -> None:
    found, mean = flow(), np.array([0.1, 0.2, 0.3], np.float32)
    assert added(found, "operator.mul", 0, 1.5) is None
    assert added(found, "operator.sub", 1, mean) is None
    assert found.plan == [FlowStep("mul", "f4", (SCALAR,)), FlowStep("sub", "f4", ("f4",), swapped=True)]
    assert found.scalars == [1.5]
    assert found.inputs[1][1] == (0, 0, 4)
    mean[0] = 9  # the parameter was what it was at its step
    assert found.inputs[1][0][0] == np.float32(0.1)


def test_types_are_those_of_numpy() -> None:
    found = flow()
    added(found, "operator.sub", 0, np.array([0.1, 0.2, 0.3]))
    added(found, "operator.truediv", 0, np.float64(2))
    added(found, "numpy.ndarray.astype", -1, "float32")
    assert [step.dtype for step in found.plan] == ["f8", "f8", "f4"]


def test_what_is_open_is_declined() -> None:
    def reason(name: str, at: int, *parameters: Any, **keywords: Any) -> str:
        return str(getattr(added(flow(), name, at, *parameters, **keywords), "reason", "taken"))

    assert reason("operator.mul", 0, 0.5) == "taken"
    assert reason("operator.isub", 0, 0.5) == "the first operation does not compute"
    assert reason("operator.mul", 0, float("nan")) == "a parameter that is not finite"
    assert reason("operator.mul", 0, 1e300) == "a parameter that is not finite"
    assert reason("operator.mul", 0, 2**60) == "a parameter that is no plain number"
    assert reason("operator.add", 0, np.ones((2, 64, 90, 3))) == "a parameter with more axes than the array"
    assert reason("operator.add", 0, np.ones((90, 64, 3)).swapaxes(0, 1)).endswith("lie in another order")
    assert "a_min" in reason("numpy.ndarray.clip", -1, a_min=0, a_max=1)
    assert reason("numpy.ndarray.astype", -1, np.int64).startswith("a cast from f4")
    assert reason("numpy.ndarray.astype", -1, np.float32, copy=False) == "a cast that gives its input itself"


def test_what_does_not_enter() -> None:
    assert "float16" in str(opening(FLOATS.astype(np.float16)))
    assert "list" in str(opening([1.0]))
    assert "shape" in str(opening(FLOATS[:2, :2]))
    with np.errstate(under="warn"):
        assert "too small" in str(opening(FLOATS))


def test_a_chain_that_meets_tensors_ends_at_once() -> None:
    torch = pytest.importorskip("torch")
    never = opening(torch.ones(200, 200))
    assert isinstance(never, Never)
    assert "tensor" in never.reason


def test_a_list_is_a_parameter_of_a_table() -> None:
    source = "def f(x):\n    return (x / 255.0 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]\n"
    image = np.arange(60 * 50 * 3, dtype=np.uint8).reshape(60, 50, 3)
    fused = fuse(source, lambda module: [module.f(image) for _ in range(3)])
    for _ in range(3):
        assert fused.f(image).tobytes() == plain(source).f(image).tobytes()
    assert fused.trial.calls == 3
    assert not fused.trial.declined


def test_one_number_with_more_axes_would_give_more_axes() -> None:
    declined = added(flow(), "operator.sub", 0, np.full((1, 1, 1, 1), 0.5, np.float32))
    assert "more axes than the array" in declined.reason
