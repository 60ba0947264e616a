"""Functions of torch on the processor: what numpy orders otherwise, or cannot read, is torch's own."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from substitution_checks import check, of, reason

from codedag.backends.registry import attempt
from codedag.backends.same import same
from codedag.instrument.guard import Declined


def zeros_of_both_signs(count, seed, dtype):
    numbers = np.random.default_rng(seed).choice(np.array([0.0, -0.0, 1.0, -1.0], dtype), count)
    return torch.from_numpy(numbers)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("share", [0.25, 0.3, 0.5, 0.7, 0.75])
def test_a_quantile_between_zeros_of_both_signs_is_that_of_torch(share, dtype):
    made = of("torch.quantile")
    for seed in range(20):
        numbers = zeros_of_both_signs(5000 + seed, seed, dtype)
        got = attempt(made.run, numbers, share)
        if not isinstance(got.error, Declined):
            assert got.error is None
            assert same(torch.quantile(numbers, share), got.value)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_quantile_between_zeros_of_one_sign_is_taken(zero):
    numbers = torch.from_numpy(np.random.default_rng(0).choice(np.array([zero, 1.0, -1.0], np.float32), 5000))
    check("torch.quantile", numbers, 0.5)
    check("torch.quantile", numbers, 0.4)


@pytest.mark.parametrize("name", ["torch.quantile", "torch.unique"])
def test_a_view_that_only_says_minus_is_declined(name):
    numbers = torch._neg_view(torch.arange(5000, dtype=torch.float32 if name == "torch.quantile" else torch.int64))
    assert "minus" in reason(name, numbers, *([0.5] if name == "torch.quantile" else []))


@pytest.mark.parametrize("dtype", [np.zeros(2), [1, 2], "float32", np.float32])
def test_a_dtype_that_is_none_of_torch_is_declined(dtype):
    assert reason("torch.tensor", [1.0] * 100, dtype=dtype) == "another dtype"
