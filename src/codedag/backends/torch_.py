"""Substitutions from torch on the processor: tensors from lists, counts of small numbers, order statistics."""

from __future__ import annotations

import itertools
import random
import sys
from typing import Any

import numpy as np

from codedag.backends import torch_calls
from codedag.backends.reasons import among, answer
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.instrument.guard import Declined
from codedag.ir.verdict import No, Verdict

TORCH = "torch>=2.2"
NUMPY = "numpy>=2.0"
LEAST = 64
LEAST_COUNTED = 4096
MOST_VALUES = 65_536
_INTS, _FLOATS, _BOOLS = frozenset({int}), frozenset({float}), frozenset({bool})


# Tensors from lists.


@substitutes("torch.tensor", into="numpy", gives=EXACT, needs=NUMPY, source_needs=TORCH)
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False
) -> Any:
    """A tensor of the numbers in a list or in lists of one length, converted by numpy into the tensor's memory."""
    torch = sys.modules["torch"]
    values = np.array(data)
    kind = dtype or {"i": torch.int64, "f": torch.float32, "b": torch.bool}[values.dtype.kind]
    result = torch.empty(values.shape, dtype=kind)
    with np.errstate(all="ignore"):  # torch says nothing about numbers that float32 cannot hold
        np.copyto(result.numpy(), values, casting="unsafe")
    return result


@tensor.guard
def _(call: Any) -> Verdict:
    """Lists of 64 and more plain ints, floats or bools, or lists of such lists; dtype left out, or int64 for ints,
    float32 or float64 for floats.
    """
    if call.device is not None or call.requires_grad is not False or call.pin_memory is not False:
        return No("a device, a gradient or pinned memory is asked for")
    torch = sys.modules.get("torch")
    if torch is None or torch.get_default_dtype() is not torch.float32:
        return No("another default dtype")
    kinds = _kinds(call.data)
    if kinds not in (_INTS, _FLOATS, _BOOLS):
        return No("not a list of enough plain numbers of one type")
    known = {_INTS: (None, torch.int64), _FLOATS: (None, torch.float32, torch.float64), _BOOLS: (None, torch.bool)}
    if not any(call.dtype is one for one in known[kinds]):
        return No("another dtype")
    return answer("" if kinds != _INTS or _in_range(call.data) else "numbers beyond 64 bits")


def _kinds(data: Any) -> frozenset[type]:
    """The types of the elements of a list, or of lists of one length; empty if it is something else or too short."""
    if type(data) is not list or not data:
        return frozenset()
    if type(data[0]) is not list:
        return frozenset(map(type, data)) if len(data) >= LEAST else frozenset()
    if set(map(type, data)) != {list} or len(set(map(len, data))) != 1 or len(data) * len(data[0]) < LEAST:
        return frozenset()
    return frozenset(map(type, itertools.chain.from_iterable(data)))


def _in_range(data: Any) -> bool:
    low, high = (min(map(min, data)), max(map(max, data))) if type(data[0]) is list else (min(data), max(data))
    return bool(low >= -(2**63) and high < 2**63)


@tensor.calls
def _(rng: random.Random) -> Call:
    return torch_calls.tensor(rng)


# Small whole numbers.


@substitutes("torch.unique", into="numpy", gives=EXACT, needs=NUMPY, source_needs=TORCH)
def unique(
    input: Any,  # noqa: A002 - the source's own name
    sorted: Any = True,  # noqa: A002
    return_inverse: Any = False,
    return_counts: Any = False,
    dim: Any = None,
) -> Any:
    """The values that occur among small whole numbers, in order, and how often: by counting."""
    torch = sys.modules["torch"]
    values = input.numpy().reshape(-1)
    low = int(values.min())
    found = np.bincount(values - low if low else values)
    present = found.nonzero()[0]
    result = torch.empty(len(present), dtype=input.dtype)
    np.add(present, low, out=result.numpy(), casting="unsafe")
    return (result, torch.tensor(found[present])) if return_counts else result


@unique.guard
def _(call: Any) -> Verdict:
    """Contiguous tensors of 4096 and more bytes or whole numbers that lie within 65536 of each other."""
    if call.sorted is not True or call.return_inverse is not False or type(call.return_counts) is not bool:
        return No("another order, or indices are asked for")
    reason = _whole(call.input)
    return answer(reason or ("a dimension is given" if call.dim is not None else ""))


def _whole(value: Any) -> str:
    """The reason why a value is not a plain tensor of small whole numbers on the processor."""
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor or value.device.type != "cpu" or value.is_sparse:
        return "not a plain tensor on the processor"
    if value.dtype not in (torch.uint8, torch.int64, torch.int32) or value.numel() < LEAST_COUNTED:
        return "not enough whole numbers"
    if not value.is_contiguous() or value.requires_grad or value.is_neg():
        return "not in order, or a view that only says minus"
    low, high = (0, 255) if value.dtype is torch.uint8 else (int(value.min()), int(value.max()))
    return "" if low > -(2**31) and high - low < min(MOST_VALUES, 4 * value.numel()) else "numbers too far apart"


@unique.calls
def _(rng: random.Random) -> Call:
    return torch_calls.unique(rng)


# Order statistics.


@substitutes("torch.quantile", into="numpy", gives=EXACT, needs=NUMPY, source_needs=TORCH)
def quantile(
    input: Any,  # noqa: A002
    q: Any,
    dim: Any = None,
    keepdim: Any = False,
    *,
    interpolation: Any = "linear",
    out: Any = None,
) -> Any:
    """The quantile of all elements: the two around it are selected, not sorted, and torch goes between them."""
    torch = sys.modules["torch"]
    rank = torch.tensor(q, dtype=input.dtype) * (input.numel() - 1)
    below, above = int(rank.floor()), int(rank.ceil())
    chosen = np.partition(input.numpy().reshape(-1), (below, above))
    low, high = (torch.tensor(chosen[place], dtype=input.dtype) for place in (below, above))
    if not low.all() or not high.all():
        _want_one_zero(chosen)
    return torch.lerp(low, high, rank - below)


def _want_one_zero(values: Any) -> None:
    """Gives up where zeros of both signs are equal in order, and the result may be either."""
    signs = np.signbit(values[values == 0])
    if signs.any() and not signs.all():
        raise Declined("zeros of both signs, which have no order")


@quantile.guard
def _(call: Any) -> Verdict:
    """One plain share of all elements of a contiguous float tensor of 4096 to 10 million finite elements."""
    whole = call.dim is None and call.keepdim is False and call.out is None
    if not whole or not among(call.interpolation, "linear"):
        return No("a dimension or another way between elements")
    if type(call.q) is not float or not 0 <= call.q <= 1:
        return No("not one plain share")
    return answer(_floats(call.input))


def _floats(value: Any) -> str:
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor or value.device.type != "cpu":
        return "not a plain tensor on the processor"
    if value.dtype not in (torch.float32, torch.float64) or not LEAST_COUNTED <= value.numel() <= 10_000_000:
        return "not enough floats"
    if not value.is_contiguous() or value.requires_grad or value.is_neg():
        return "not in order, a view that only says minus, or a gradient is needed"
    low, high = float(value.min()), float(value.max())
    return "" if low > -1e30 and high < 1e30 else "elements that are huge or not finite"


@quantile.calls
def _(rng: random.Random) -> Call:
    return torch_calls.quantile(rng)
