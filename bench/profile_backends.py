"""Equivalents of numpy's functions on other runtimes of the same cores, for bench/profile.py alone.

They are registered as any plug-in registers its own, and are as near as rounding allows (ULP).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from codedag.backends.registry import ULP, Call, substitutes
from codedag.ir.verdict import No, Yes

UNARY = ("exp", "sqrt", "tanh", "log1p", "absolute", "square")
BINARY = ("add", "multiply", "maximum", "true_divide", "hypot")
REDUCED = ("sum", "mean", "std", "max", "cumsum")


def plain(call: Any) -> Any:
    """Arrays of float32 that lie row by row."""
    values = [each for name in call.__slots__ if isinstance(each := getattr(call, name), np.ndarray)]
    good = all(each.dtype == np.float32 and each.flags.c_contiguous for each in values)
    return Yes if values and good else No("not plain arrays of float32")


def register(source: str, pu: str, run: Callable[..., Any], arrays: int, dimensions: int = 2) -> None:
    made = substitutes(f"numpy.{source}", into=pu.replace(":", " "), gives=ULP, needs="numpy", pu=pu)(run)
    made.guard(plain)

    def call(rng: random.Random) -> Call:
        size = rng.randint(1, 8)
        source = np.random.default_rng(rng.getrandbits(32))
        return Call.of(*(source.random((size,) * dimensions, np.float32) for _ in range(arrays)))

    made.calls(call)


def on_torch() -> None:
    import torch

    def unary(name: str) -> Callable[..., Any]:
        function = getattr(torch, name)
        return lambda x: function(torch.from_numpy(x)).numpy()

    def binary(name: str) -> Callable[..., Any]:
        function = getattr(torch, name)
        return lambda x1, x2: function(torch.from_numpy(x1), torch.from_numpy(x2)).numpy()

    def reduced(name: str) -> Callable[..., Any]:
        if name == "std":
            return lambda a, axis=None: torch.std(torch.from_numpy(a), axis, correction=0).numpy()
        if name == "cumsum":
            return lambda a, axis=None: torch.cumsum(torch.from_numpy(a).reshape(-1), 0).numpy()
        function = getattr(torch, {"max": "amax"}.get(name, name))
        return lambda a, axis=None: function(torch.from_numpy(a), () if axis is None else axis).numpy()[()]

    for name in UNARY:
        register(name, "torch:cpu", unary(name), 1)
    for name in BINARY:
        register(name, "torch:cpu", binary(name), 2)
    for name in REDUCED:
        register(name, "torch:cpu", reduced(name), 1)
    register("matmul", "torch:cpu", binary("matmul"), 2)
    register("sort", "torch:cpu", lambda a, axis=-1: torch.sort(torch.from_numpy(a), axis).values.numpy(), 1)


def on_numba() -> None:
    import numba

    compiled = numba.njit(error_model="numpy")
    of_one = {"exp": np.exp, "sqrt": np.sqrt, "tanh": np.tanh, "absolute": np.abs}
    of_two = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}
    for name, function in of_one.items():
        register(name, "numba:cpu", _unary(compiled, function), 1)
    for name, function in of_two.items():
        register(name, "numba:cpu", _binary(compiled, function), 2)


def _unary(compiled: Any, function: Any) -> Callable[..., Any]:
    @compiled
    def run(x: Any) -> Any:
        out = np.empty_like(x)
        for i in range(x.size):
            out.flat[i] = function(x.flat[i])
        return out

    return lambda x: run(x.ravel()).reshape(x.shape)


def _binary(compiled: Any, function: Any) -> Callable[..., Any]:
    @compiled
    def run(x1: Any, x2: Any) -> Any:
        out = np.empty_like(x1)
        for i in range(x1.size):
            out.flat[i] = function(x1.flat[i], x2.flat[i])
        return out

    return lambda x1, x2: run(x1.ravel(), x2.ravel()).reshape(x1.shape)


on_torch()
on_numba()
