"""The numba engine: the same walk as the C text, for machines with numba and without a C compiler."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codedag.ir.verdict import No
from codedag.tune.layout import AXES, CHANNELS_MAX, Array, Layout

ITEMSIZES = (1, 2, 4, 8)
Loops = Callable[..., None]


def numba_version() -> str | No:
    """The version of numba, or why it cannot be used."""
    if importlib.util.find_spec("numba") is None:
        return No("numba is not installed")
    try:
        import numba
    except Exception as error:  # noqa: BLE001 - it refuses numpy versions with whatever it likes
        return No(f"numba cannot be imported: {error}")
    return str(numba.__version__)


def loops_text() -> str:
    """The text that the proof of these loops depends on."""
    return Path(__file__).read_text()


@functools.cache
def compile_loops(itemsize: int) -> tuple[Loops, Loops]:
    """The two walks for elements of this size, compiled: axis 4 innermost, axis 3 innermost."""
    import numba
    from numba import types

    element = getattr(types, f"uint{8 * itemsize}")
    signature = types.void(
        types.Array(types.uint8, AXES, "A", readonly=True),
        types.Array(element, 2, "C", readonly=True, aligned=False),
        types.Array(element, AXES, "C", aligned=False),
        types.UniTuple(types.int64, AXES),
    )
    return tuple(numba.njit(signature, nogil=True)(walk) for walk in (_walk, _walk_channels))


def apply_numba(layout: Layout, row_step: tuple[int, ...], view: Array, table: Array, out: Array) -> None:
    """Fills `out` by the compiled walk that suits the layout."""
    order, bits = layout.order, f"u{out.itemsize}"
    front = (None,) * (AXES - len(order))
    loops, channel_loops = compile_loops(out.itemsize)
    walk = channel_loops if layout.channels and layout.channels <= CHANNELS_MAX else loops
    steps = (0,) * len(front) + tuple(row_step[a] for a in order)
    target = out.transpose(order).view(bits)[front]
    walk(view.transpose(order)[front], table.view(bits), target, steps)


def _walk(view: Any, table: Any, out: Any, step: Any) -> None:
    n0, n1, n2, n3, n4 = view.shape
    for i0 in range(n0):
        for i1 in range(n1):
            for i2 in range(n2):
                for i3 in range(n3):
                    row = i0 * step[0] + i1 * step[1] + i2 * step[2] + i3 * step[3]
                    line, target = view[i0, i1, i2, i3], out[i0, i1, i2, i3]
                    if step[4] == 0:
                        values = table[row]
                        for i4 in range(n4):
                            target[i4] = values[line[i4]]
                    else:
                        for i4 in range(n4):
                            target[i4] = table[row + i4 * step[4], line[i4]]


def _walk_channels(view: Any, table: Any, out: Any, step: Any) -> None:
    n0, n1, n2, n3, n4 = view.shape
    for i0 in range(n0):
        for i1 in range(n1):
            for i2 in range(n2):
                for i4 in range(n4):
                    row = i0 * step[0] + i1 * step[1] + i2 * step[2] + i4 * step[4]
                    line, target = view[i0, i1, i2, :, i4], out[i0, i1, i2, :, i4]
                    if step[3] == 0:
                        values = table[row]
                        for i3 in range(n3):
                            target[i3] = values[line[i3]]
                    else:
                        for i3 in range(n3):
                            target[i3] = table[row + i3 * step[3], line[i3]]
