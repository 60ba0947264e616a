"""The table of a chain: the user's own expression, run once on every value that a uint8 can have."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from codedag.backends.elementwise import SLICE
from codedag.migrate.deferred import Declined, Deferred

Array = Any


def build_table(deferred: Deferred) -> Array:
    """The table (rows of 256 results, one row per position along the parameter axis) of the steps of a chain.

    The steps run in their order on a probe that holds 0..255 along one axis, and nothing else is computed here, so a
    table entry is what the program itself would have computed for that value.  Slices are left out: they choose
    elements and change none.
    """
    import numpy

    axis = _value_axis(deferred)
    probe = _probe(len(deferred.axes), axis, deferred.param_axis, deferred.param_extent)
    value: Any = sys.modules["torch"].from_numpy(probe.copy()) if type(deferred.source) is not numpy.ndarray else probe.copy()
    start = value
    with numpy.errstate(divide="raise", over="raise", invalid="raise"):
        for step in deferred.steps:
            if step.role.kind == SLICE:
                continue
            if step.role.in_place and _shares(value, start):
                raise Declined("an in-place operation would reach the input")
            value = step.run(value)
    if _shares(value, start):
        raise Declined("the result would share memory with the input")
    return _rows(_as_array(value), deferred, axis)


def _value_axis(deferred: Deferred) -> int:
    free = [axis for axis in range(len(deferred.axes)) if axis != deferred.param_axis]
    if not free:
        raise Declined("a parameter that varies along the only axis")
    return free[-1]


@lru_cache(maxsize=64)
def _probe(ndim: int, axis: int, param_axis: int, extent: int) -> Array:
    import numpy

    shape = [1] * ndim
    shape[axis] = 256
    values = numpy.arange(256, dtype=numpy.uint8).reshape(shape)
    if param_axis >= 0:
        shape[param_axis] = extent
    return numpy.ascontiguousarray(numpy.broadcast_to(values, shape))


def _shares(value: Any, start: Any) -> bool:
    import numpy

    return bool(numpy.may_share_memory(_as_array(value), _as_array(start)))


def _as_array(value: Any) -> Array:
    import numpy

    if type(value) is numpy.ndarray:
        return value
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor or value.device.type != "cpu" or value.requires_grad:
        raise Declined(f"the chain gives a {type(value).__name__}, not an array or a plain CPU tensor")
    if value.dtype == torch.bfloat16:
        raise Declined("the chain gives bfloat16")
    return value.numpy()


def _rows(result: Array, deferred: Deferred, axis: int) -> Array:
    import numpy

    expected = [1] * len(deferred.axes)
    expected[axis] = 256
    if deferred.param_axis >= 0:
        expected[deferred.param_axis] = deferred.param_extent
    canonical = result.transpose([deferred.axes.index(a) for a in range(len(deferred.axes))]) if result.ndim == len(expected) else None
    if canonical is None or list(canonical.shape) != expected:
        raise Declined(f"the chain changes the shape of its input ({result.shape})")
    return numpy.ascontiguousarray(numpy.moveaxis(canonical, axis, -1).reshape(deferred.param_extent, 256))


def allocate(deferred: Deferred, dtype: Any) -> tuple[Any, Array]:
    """A new result with the strides that the steps as written would give: the object to return, and its elements."""
    import numpy

    shape = deferred.view.shape
    memory = tuple(deferred.axes.index(a) for a in deferred.order)  # axes of the result, outermost in memory first
    if deferred.is_tensor:
        torch = sys.modules["torch"]
        template = torch.from_numpy(numpy.empty(0, dtype)).dtype
        tensor = torch.empty_strided(shape, _strides(shape, memory), dtype=template)
        return tensor, tensor.numpy()
    if memory == tuple(range(len(shape))):
        out = numpy.empty(shape, dtype)
    else:
        lying = numpy.empty([shape[a] for a in memory], numpy.uint8).transpose([memory.index(a) for a in range(len(shape))])
        out = numpy.empty_like(lying, dtype=dtype, order="K", subok=False)
    return out, out


def _strides(shape: tuple[int, ...], memory: tuple[int, ...]) -> list[int]:
    strides, step = [0] * len(shape), 1
    for axis in reversed(memory):
        strides[axis] = step
        step *= shape[axis]
    return strides


def row_steps(deferred: Deferred) -> tuple[int, ...]:
    """For each axis of the result, how many rows of the table one step along it moves."""
    return tuple(1 if axis == deferred.param_axis else 0 for axis in deferred.axes)
