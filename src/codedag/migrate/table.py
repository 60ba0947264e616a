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
from codedag.migrate.guard import Declined
from codedag.migrate.parameters import plain_dtypes

Array = Any
Run = Callable[[Any], Any]


class Known:
    """One step of a table: its parameters, the probe after it, and whether it handed on the memory that it got."""

    __slots__ = ("aliases", "dtype", "key", "table", "value")

    def __init__(self, key: tuple[Any, ...], value: Any, aliases: bool) -> None:
        self.key, self.value, self.aliases = key, value, aliases
        self.dtype = value.dtype
        self.table: Array = None


class Tower:
    """The probe on its way through one call of a chain, following what an earlier call knew."""

    __slots__ = ("_known", "steps", "value_axis")

    def __init__(self, known: list[Known], ndim: int, value_axis: int, is_tensor: bool) -> None:
        key = (
            ndim,
            value_axis,
            sys.modules["torch"].get_default_dtype() if "torch" in sys.modules else None,
            is_tensor,
        )
        self.value_axis = value_axis
        if known and known[0].key == key:
            self._known, self.steps = known, [known[0]]
        else:
            self._known, self.steps = [], [Known(key, _start(ndim, value_axis, is_tensor), False)]

    @property
    def last(self) -> Known:
        """The latest step."""
        return self.steps[-1]

    def extent(self, axis: int) -> int:
        """The extent of the probe along an axis: 1 unless a parameter varies along it."""
        return int(self.last.value.shape[axis])

    def step(
        self, key: tuple[Any, ...], role: Role, run: Run, grow: tuple[int, int] | None, bounds: tuple[Any, ...]
    ) -> Known:
        """The table after one more step; raises whatever the operation raises or warns on some uint8 value."""
        number = len(self.steps)
        if number < len(self._known) and self._known[number].key == key:
            found = self._known[number]
        else:
            self._known = []
            found = _run(self.last, key, role, run, grow, bounds)
        self.steps.append(found)
        return found


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
        before = _grown(before, grow)
    if role.chooses:
        _check_zeros(before, bounds)
    if role.kind == PERMUTE or role.kind == SLICE:
        return Known(key, run(before), False)
    with sys.modules["numpy"].errstate(all="raise"):
        after = run(before)
    _check_kind(after, before, role)
    if after.dtype != last.dtype:
        _check_cast(before, after)
    return Known(key, after, after is before or _share(before, after))


def _share(before: Any, after: Any) -> bool:
    """Whether a torch operation gave its input in a new wrapper; numpy's either copy or give the very object."""
    if type(after) is sys.modules["numpy"].ndarray or type(before) is not type(after):
        return False
    return bool(before.data_ptr() == after.data_ptr())


def _grown(value: Any, grow: tuple[int, int] | None) -> Any:
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


def _check_cast(before: Any, after: Any) -> None:
    """What a float outside an integer's range becomes is up to the machine, and may depend on where it stands."""
    before, after = as_array(before), as_array(after)
    if before.dtype.kind != "f" or after.dtype.kind not in "iu":
        return
    info = sys.modules["numpy"].iinfo(after.dtype)
    low, high = before.min(), before.max()
    if not (float(low) > info.min - 1 and float(high) < float(info.max) + 1):
        raise Declined(f"a cast of values that {after.dtype} cannot hold")


def _check_zeros(before: Any, bounds: tuple[Any, ...]) -> None:
    """Which of 0.0 and -0.0 a minimum, maximum or clip hands on depends on the loop that numpy or torch chooses."""
    before = as_array(before)
    if before.dtype.kind != "f":
        return
    numpy = sys.modules["numpy"]
    signs: set[bool] = set()
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


def table_of(known: Known, axes: tuple[int, ...], value_axis: int) -> Array:
    """The finished table: rows of 256 results, one row per position along the axis in which a parameter varies."""
    if known.table is None:
        import numpy

        result = as_array(known.value)
        at = axes.index(value_axis)
        extents = [extent for axis, extent in enumerate(result.shape) if axis != at and extent != 1]
        if result.ndim != len(axes) or result.shape[at] != 256 or len(extents) > 1:
            raise Declined(f"the chain changes the shape of its input ({result.shape})")
        if result.dtype.kind == "f" and numpy.isnan(result.min()):
            raise Declined("the chain gives NaN")
        values_last = [axis for axis in range(len(axes)) if axis != at]
        known.table = numpy.ascontiguousarray(result.transpose(*values_last, at).reshape(-1, 256))
    return known.table
