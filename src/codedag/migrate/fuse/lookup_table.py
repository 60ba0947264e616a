"""The table of a chain: the user's own expression, run once on every value that a uint8 can have.

It grows with the chain.  Each step runs, when the program reaches it, on a probe that holds 0..255 along one axis; so
an operation that would raise or warn is found at its own place, before anything that comes after it.  A table that
was built before is followed as long as the parameters are the same.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from codedag.backends.elementwise import PERMUTE, SLICE, Role
from codedag.instrument.floating_point import float_mode
from codedag.migrate.fuse.parameters import plain_dtypes
from codedag.migrate.guard import Declined

Array = Any
Run = Callable[[Any], Any]


class Known:
    """One step of a table: its parameters, the probe after it, and what it does to memory and axes."""

    __slots__ = (
        "aliases", "converts", "dtype", "facts", "key", "next", "places", "role", "rows", "table", "value", "varies",
    )  # fmt: skip

    def __init__(self, key: tuple[Any, ...], value: Any, aliases: bool) -> None:
        self.key, self.value, self.aliases = key, value, aliases
        self.dtype = value.dtype
        self.next: Known | None = None  # the step after this one in the latest call that came this way
        self.role: Role | None = None  # noted, once the step is known to be one that can be deferred:
        self.facts: tuple[Any, ...] | None = None  # its parameters, as `parameters.fact` gives them
        self.varies: tuple[int, int] | None = None  # the axis along which a parameter varies, and its extent
        self.places: tuple[int, ...] = ()  # the permutation
        self.converts = False  # a pack to another dtype
        self.table: Array = None  # of the last step:
        self.rows: tuple[int, ...] = ()

    def step(
        self, key: tuple[Any, ...], role: Role, run: Run, grow: tuple[int, int] | None, bounds: tuple[Any, ...]
    ) -> Known:
        """The table after one more step; raises whatever the operation raises or warns on some uint8 value."""
        found = self.next
        if found is None or found.key != key:
            found = self.next = _run(self, key, role, run, grow, bounds)
        return found


def root(known: Known | None, ndim: int, value_axis: int, is_tensor: bool) -> Known:
    """The probe before the first step: the known one if it is for such arrays, else a new one."""
    torch = sys.modules.get("torch")
    key = (ndim, value_axis, is_tensor, torch and torch.get_default_dtype(), float_mode())
    return known if known is not None and known.key == key else Known(key, _start(ndim, value_axis, is_tensor), False)


def _start(ndim: int, axis: int, is_tensor: bool) -> Any:
    probe = _probe(ndim, axis).copy()
    return sys.modules["torch"].from_numpy(probe) if is_tensor else probe


@lru_cache(maxsize=64)
def _probe(ndim: int, axis: int) -> Array:
    import numpy

    shape = [1] * ndim
    shape[axis] = 256
    return numpy.arange(256, dtype=numpy.uint8).reshape(shape)


def _run(
    last: Known, key: tuple[Any, ...], role: Role, run: Run, grow: tuple[int, int] | None, bounds: tuple[Any, ...]
) -> Known:
    before = last.value
    if role.in_place:
        before = grown(before, grow)
    if role.chooses:
        check_zeros(before, bounds)
    if role.kind == PERMUTE or role.kind == SLICE:
        return Known(key, run(before), False)
    with sys.modules["numpy"].errstate(all="raise"):
        after = run(before)
    _check_kind(after, before, role)
    if after.dtype != last.dtype:
        check_cast(before, after)
    return Known(key, after, after is before or _share(before, after))


def _share(before: Any, after: Any) -> bool:
    """Whether a torch operation gave its input in a new wrapper; numpy's either copy or give the very object."""
    if type(after) is sys.modules["numpy"].ndarray or type(before) is not type(after):
        return False
    return bool(before.data_ptr() == after.data_ptr())


def grown(value: Any, grow: tuple[int, int] | None) -> Any:
    """A copy to be changed in place, with room for a parameter that varies along an axis."""
    if grow is None or value.shape[grow[0]] != 1:
        return value.copy() if type(value) is sys.modules["numpy"].ndarray else value.clone()
    axis, extent = grow
    if type(value) is sys.modules["numpy"].ndarray:
        return value.repeat(extent, axis)
    return value.repeat_interleave(extent, axis)


def _check_kind(after: Any, before: Any, role: Role) -> None:
    """Only plain arrays and plain CPU tensors of plain numbers can be copied element by element."""
    numpy, torch = sys.modules["numpy"], sys.modules.get("torch")
    if type(after) is not type(before) and not (
        torch is not None and role.makes_tensor and type(after) is torch.Tensor
    ):
        raise Declined(f"an operation that gives a {type(after).__name__}")
    if type(after) is numpy.ndarray:
        if after.dtype.kind not in "biuf" or after.dtype.itemsize > 8:
            raise Declined(f"elements of type {after.dtype}")
    elif after.device.type != "cpu" or after.requires_grad or after.dtype not in plain_dtypes():
        raise Declined(f"a tensor of type {after.dtype} on {after.device.type}")


def check_cast(before: Any, after: Any) -> None:
    """What a float outside an integer's range becomes is up to the machine, and may depend on where it stands."""
    before, after = as_array(before), as_array(after)
    if before.dtype.kind != "f" or after.dtype.kind not in "iu":
        return
    info = sys.modules["numpy"].iinfo(after.dtype)
    low, high = before.min(), before.max()
    if not (float(low) > info.min - 1 and float(high) < float(info.max) + 1):
        raise Declined(f"a cast of values that {after.dtype} cannot hold")


def check_zeros(before: Any, bounds: tuple[Any, ...]) -> None:
    """Which of 0.0 and -0.0 a minimum, maximum or clip hands on depends on the loop that numpy or torch chooses."""
    before = as_array(before)
    if before.dtype.kind != "f":
        return
    numpy = sys.modules["numpy"]
    signs: set[bool] = set()  # of the zeros among the bounds and values; True is the minus
    for bound in bounds:
        if type(bound) is int or type(bound) is float:
            signs |= {math.copysign(1, bound) < 0} if bound == 0 else set()
        elif bound is not None:
            values = numpy.asarray(as_array(bound) if hasattr(bound, "numel") else bound, float)
            signs |= set(numpy.signbit(values[values == 0]).tolist())
    if signs:
        signs |= set(numpy.signbit(before[before == 0]).tolist())
    if len(signs) > 1:
        raise Declined("a bound that is a zero of the other sign")


def as_array(value: Any) -> Array:
    """The elements of an array or tensor as a numpy array."""
    return value if type(value) is sys.modules["numpy"].ndarray else value.numpy()


def elements(value: Any) -> Array:
    """The elements of an array or tensor of ours, to be written; torch does not note that numpy sees its memory."""
    numpy = sys.modules["numpy"]
    if type(value) is numpy.ndarray:
        return value
    import ctypes  # only where there are tensors

    dtype = numpy.dtype(str(value.dtype).removeprefix("torch."))
    last = sum((extent - 1) * stride for extent, stride in zip(value.shape, value.stride(), strict=True))
    memory = (ctypes.c_char * ((last + 1) * dtype.itemsize)).from_address(value.data_ptr())
    strides = [stride * dtype.itemsize for stride in value.stride()]
    return numpy.ndarray(tuple(value.shape), dtype, memory, 0, strides)


def finish(known: Known, axes: tuple[int, ...], value_axis: int) -> None:
    """Makes the table of a last step: rows of 256 results, one per position along the axis of the parameters.

    `rows` says for each axis of the result how many rows of the table one step along it moves.
    """
    import numpy

    result, at = as_array(known.value), axes.index(value_axis)
    rows = tuple([1 if axis != at and extent != 1 else 0 for axis, extent in enumerate(result.shape)])
    if result.ndim != len(axes) or result.shape[at] != 256 or sum(rows) > 1:
        raise Declined(f"the chain changes the shape of its input ({result.shape})")
    if result.dtype.kind == "f" and numpy.isnan(result.min()):
        raise Declined("the chain gives NaN")
    values_last = [axis for axis in range(len(axes)) if axis != at]
    known.rows = rows
    known.table = numpy.ascontiguousarray(result.transpose(*values_last, at).reshape(-1, 256))
