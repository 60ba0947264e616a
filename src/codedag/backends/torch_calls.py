"""Random calls of the torch functions with substitutes: usual, odd, and such that raise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends.numpy_calls import maybe
from codedag.backends.registry import Call
from codedag.backends.samples import array, spread, weighted


def tensor(rng: random.Random) -> Call:
    """A call of torch.tensor with lists."""
    import torch

    count = rng.choice((64, 65, 200, 500))
    ints = [rng.randint(-9, 9) * 10 ** rng.choice((0, 3, 15)) for _ in range(count)]
    floats = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-50, 50) for _ in range(count)]
    rows = [[rng.random() for _ in range(30)] for _ in range(rng.choice((3, 8)))]
    usual = (ints, floats, rows, [[1, 2, 3]] * 40, [value > 0 for value in ints], [*floats, float("nan")])
    odd: tuple[Any, ...] = ([1, 2], 5, [1, 2.5] * 50, [[1, 2], [3]] * 40, [2**70] * 70, ["a"] * 70, None, [], [[]] * 80)
    data = weighted(rng, usual, (*odd, np.ones(70), [np.float32(1)] * 70, (1, 2) * 50), 0.15)
    values: dict[str, Any] = {}
    if rng.random() < 0.3:
        exact = torch.int64 if data is ints else torch.float32
        values["dtype"] = weighted(rng, (exact, None), (torch.float64, torch.int32, torch.int64, "float32"), 0.3)
    maybe(rng, values, 0.04, "requires_grad", (True, False))
    return Call((data,), values) if rng.random() < 0.9 else Call((), {"data": data, **values})


def _whole(rng: random.Random, least: int = 4096) -> Any:
    import torch

    shape = weighted(rng, ((least,), (70, 71), (3, 50, 60)), ((3, 4), (0,), (1, 1), (least, 2)), 0.1)
    top = rng.choice((3, 10, 250))
    dtype = weighted(
        rng, (torch.int64, torch.int64, torch.uint8, torch.int32), (torch.float32, torch.int16, torch.bool)
    )
    made = torch.from_numpy(np.random.default_rng(rng.getrandbits(32)).integers(0, top, shape)).to(dtype)
    if made.dtype.is_signed and rng.random() < 0.3:
        made = made - rng.choice((5, 1000))
    return made.T if rng.random() < 0.05 and made.ndim == 2 else made


def unique(rng: random.Random) -> Call:
    """A call of torch.unique."""
    values: dict[str, Any] = {"input": _whole(rng)}
    maybe(rng, values, 0.1, "sorted", (True, False))
    maybe(rng, values, 0.1, "return_inverse", (True, False))
    maybe(rng, values, 0.3, "return_counts", (True, False))
    maybe(rng, values, 0.05, "dim", (None, 0))
    return spread(rng, ("input", "sorted"), values)


def quantile(rng: random.Random) -> Call:
    """A call of torch.quantile over all elements."""
    import torch

    shape = weighted(rng, ((5000,), (70, 71), (3, 50, 60)), ((3, 4), (1,), (0,)), 0.08)
    dtype = weighted(rng, ("float32", "float32", "float64"), ("int64", "float16"), 0.08)
    numbers = array(rng, shape, dtype, "plain")
    if numbers.dtype.kind == "f" and rng.random() < 0.9:
        with np.errstate(all="ignore"):
            numbers = np.clip(np.nan_to_num(numbers), -1e29, 1e29).astype(dtype)
    shares = (0.5, 0.0, 1.0, 0.99, 0.01, rng.random())
    values: dict[str, Any] = {"input": torch.tensor(numbers), "q": weighted(rng, shares, (1.5, -0.1, 1, "a", None))}
    maybe(rng, values, 0.06, "dim", (None, 0))
    maybe(rng, values, 0.06, "interpolation", ("linear", "nearest", "bogus"))
    return spread(rng, ("input", "q", "dim"), values)
