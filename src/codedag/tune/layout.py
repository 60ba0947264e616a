"""Layouts: the axes of a table kernel's job in the order in which `out` lies in memory, merged."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from codedag.ir.verdict import No

AXES = 5  # a kernel walks five axes; fewer are padded in front
CHANNELS_MAX = 16  # interleaved channels up to here become a constant of the kernel

Array = Any  # numpy.ndarray: its type parameters say nothing that this room needs


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop: how often, and how far the view (bytes) and the table (rows) move at each turn."""

    n: int
    view: int
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """One job's loops; `packed` is what the C kernel reads, `address` where it lies."""

    axes: tuple[Axis, ...]  # outermost first, no axis of extent 1
    order: tuple[int, ...]  # all axes of the arrays, outermost in `out` first
    rows: int  # rows that the table must have
    size: int
    channels: int  # interleaved channels, 0 if the innermost axis keeps its row
    packed: ctypes.Array[ctypes.c_int64]
    address: int


def layout_of(
    shape: tuple[int, ...],
    view_strides: tuple[int, ...],
    row_step: tuple[int, ...],
    out_strides: tuple[int, ...],
    itemsize: int,
) -> Layout | No:
    """The layout of a job, or why no kernel takes it."""
    if not 1 <= len(shape) <= AXES:
        return No(f"{len(shape)} axes; kernels take 1 to {AXES}")
    if len(row_step) != len(shape):
        return No(f"{len(row_step)} row steps for {len(shape)} axes")
    if any(step < 0 for step in row_step):
        return No("a negative row step")
    order = _memory_order(shape, out_strides)
    if not _dense(shape, out_strides, order, itemsize):
        return No("out is not contiguous in any order of its axes")
    axes = _merged([Axis(shape[a], view_strides[a], int(row_step[a])) for a in order if shape[a] != 1])
    rows = 1 + sum((n - 1) * int(step) for n, step in zip(shape, row_step, strict=True) if n > 1)
    return _pack(axes, order, rows)


def _memory_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The axes, largest stride first; axes of extent 1 go first, as their stride means nothing."""
    return tuple(sorted(range(len(shape)), key=lambda a: (shape[a] != 1, -strides[a])))


def _dense(shape: tuple[int, ...], strides: tuple[int, ...], order: tuple[int, ...], itemsize: int) -> bool:
    """True if walking the axes in this order visits memory from front to back without a gap."""
    if 0 in shape:
        return True
    expected = itemsize
    for a in reversed(order):
        if shape[a] != 1 and strides[a] != expected:
            return False
        expected *= shape[a]
    return True


def _merged(axes: list[Axis]) -> tuple[Axis, ...]:
    """The axes with every neighbour joined into one where one step of the outer is n steps of the inner."""
    done: list[Axis] = []
    for inner in axes:
        outer = done[-1] if done else None
        if outer and outer.view == inner.view * inner.n and outer.row == inner.row * inner.n:
            done[-1] = Axis(outer.n * inner.n, inner.view, inner.row)
        else:
            done.append(inner)
    return tuple(done)


def _pack(axes: tuple[Axis, ...], order: tuple[int, ...], rows: int) -> Layout:
    size = 1
    for axis in axes:
        size *= axis.n
    padded = (Axis(1, 0, 0),) * (AXES - len(axes)) + axes
    packed = (ctypes.c_int64 * (3 * AXES))(*(x for axis in padded for x in (axis.n, axis.view, axis.row)))
    return Layout(axes, order, rows, size, _channels(padded), packed, ctypes.addressof(packed))


def _channels(padded: tuple[Axis, ...]) -> int:
    """The extent of an innermost axis on which the row changes while it stays on the next one."""
    pixel, inner = padded[-2:]
    small = 2 <= inner.n <= CHANNELS_MAX
    return inner.n if inner.row and small and not pixel.row else 0
