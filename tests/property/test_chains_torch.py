"""Chains of torch operations under settings that change what torch does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from chain_runs import fused_module, plain_module
from torch.overrides import TorchFunctionMode

from codedag.backends.same import same

SOURCE = """
import numpy as np
import torch
def f(t, p):
    x = t * p
    x = x.div(3)
    return x.permute(2, 0, 1).contiguous().clamp_(0.5, 200)
"""


@pytest.fixture
def picture() -> Any:
    values = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    values.reshape(-1)[:256] = np.arange(256)
    return torch.from_numpy(values)


def test_the_default_dtype_is_part_of_the_key(picture):
    module, original = fused_module(SOURCE, lambda module: module.f(picture, 0.5)), plain_module(SOURCE)
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            for _ in range(3):
                verdict = same(original.f(picture, 0.5), module.module.f(picture, 0.5))
                assert verdict, verdict.reason
    finally:
        torch.set_default_dtype(before)
    assert module.calls() == 12


def test_a_mode_sees_every_operation(picture):
    class Watch(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    module, original = fused_module(SOURCE, lambda module: module.f(picture, 0.5)), plain_module(SOURCE)
    module.module.f(picture, 0.5)
    seen = []
    for one in (original, module.module):
        with Watch() as watch:
            one.f(picture, 0.5)
        seen.append(
            [name for name in watch.seen if name in ("mul", "__mul__", "div", "permute", "contiguous", "clamp_")]
        )
    assert seen[0] == seen[1]


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_gradient_modes(picture, mode):
    module, original = fused_module(SOURCE, lambda module: module.f(picture, 0.5)), plain_module(SOURCE)
    with mode():
        for _ in range(4):
            left, right = original.f(picture, 0.5), module.module.f(picture, 0.5)
            assert same(left, right)
            assert left.is_inference() == right.is_inference()
    assert same(original.f(picture, 0.5), module.module.f(picture, 0.5))
    parameter = torch.full((1,), 0.5, requires_grad=True)
    left, right = original.f(picture, parameter), module.module.f(picture, parameter)
    assert left.requires_grad
    assert type(left.grad_fn) is type(right.grad_fn)
    assert same(left.detach(), right.detach())


def test_a_tensor_of_numpy_memory_is_one(picture):
    source = """
import numpy as np
import torch
def f(img, p):
    x = img.astype(np.float32) * p
    return torch.from_numpy(x.transpose(2, 0, 1)).mul_(2)
"""
    img = picture.numpy()
    module, original = fused_module(source, lambda module: module.f(img, 0.5)), plain_module(source)
    for _ in range(4):
        left, right = original.f(img, 0.5), module.module.f(img, 0.5)
        assert same(left, right)
        assert left.untyped_storage().nbytes() == right.untyped_storage().nbytes()
        right.add_(1)
    assert module.calls() == 4
