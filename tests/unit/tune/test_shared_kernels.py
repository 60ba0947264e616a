"""Chains that are alike share one kernel: fewer compilations, the same results."""

from __future__ import annotations

import numpy as np
import pytest

from codedag.ir.verdict import No
from codedag.tune import kernel_cache
from codedag.tune.flow import NO_ERRNO, compiler_for, flow_kernel
from codedag.tune.flow_source import SCALAR, FlowSpec, FlowStep

SHIFT = FlowSpec("f4", (FlowStep("mul", "f4", (SCALAR,)), FlowStep("add", "f4", (SCALAR,))))
DISTANCE = FlowSpec("f8", (FlowStep("sub", "f8", ("f8",)), FlowStep("square", "f8"), FlowStep("sqrt", "f8")))
SHAPES = [(7,), (64, 3), (5, 4, 3), (1000,), (2, 3, 4, 5), (33, 17)]


def numbers(shape, dtype, seed):
    return (np.random.default_rng(seed).random(shape) * 9 + 0.5).astype(dtype)


def applied(kernel, arrays, scalars):
    out = np.empty(arrays[0].shape, kernel.spec.out)
    assert kernel.apply([(array, array.strides, 0) for array in arrays], scalars, out) is None
    return out


@pytest.fixture
def compiled(monkeypatch, codedag_home, compiler):
    """The texts that were compiled."""
    texts = []
    plain = kernel_cache.run_compiler

    def counted(with_, text, target):
        texts.append(text.read_text())
        return plain(with_, text, target)

    monkeypatch.setattr(kernel_cache, "run_compiler", counted)
    return texts


def test_twelve_chains_of_two_patterns_take_two_compilations(compiled):
    same = 0
    for number, shape in enumerate(SHAPES):
        x, y = numbers(shape, "f4", number), numbers(shape, "f8", number)
        by, more = np.float32(0.3 + number), np.float32(number - 2.5)
        shift, distance = flow_kernel(SHIFT), flow_kernel(DISTANCE)
        assert not isinstance(shift, No)
        assert not isinstance(distance, No)
        same += (x * by + more).tobytes() == applied(shift, [x], [float(by), float(more)]).tobytes()
        same += np.sqrt(np.square(y - y[::-1])).tobytes() == applied(distance, [y, y[::-1].copy()], []).tobytes()
        turned = np.asfortranarray(x)
        same += np.array_equal(turned * by + more, applied(shift, [turned], [float(by), float(more)]))
    assert same == 3 * len(SHAPES)
    assert len(compiled) == 2
    assert len(set(compiled)) == 2


def test_another_pattern_or_type_is_another_kernel(compiled):
    other = FlowSpec("f4", SHIFT.steps[::-1])
    wider = FlowSpec("f8", tuple(FlowStep(step.op, "f8", step.parameters) for step in SHIFT.steps))
    for spec in (SHIFT, other, wider, SHIFT, other, wider):
        assert not isinstance(flow_kernel(spec), No)
    assert len(compiled) == 3


def test_roots_need_no_errno_and_nothing_else_is_compiled_differently(compiler):
    assert compiler_for(SHIFT, compiler) is compiler
    assert compiler_for(DISTANCE, compiler).flags == (*compiler.flags, NO_ERRNO)
