"""The numpy engine: right for every layout, and what remains where nothing can be compiled.

224x224x3 uint8 -> float32, best microseconds of 60 interleaved rounds on a Zen 4 core: one take per row 138
(CHW) and 184 (HWC), one take over computed rows 1087 and 371. In that run the arithmetic
that it replaces took 1142-1344; with an allocator that keeps its pages (bench/table_kernels.py), 600-650.
"""

from __future__ import annotations

import itertools

import numpy as np

from codedag.tune.layout import Array, Layout
from codedag.tune.table_reference import row_index

TAKES_MAX = 64  # a take costs some 2 microseconds before its first element


def apply_numpy(layout: Layout, row_step: tuple[int, ...], view: Array, table: Array, out: Array) -> None:
    """Fills `out` by numpy's take, row by row if the rows are few."""
    view, out = view.transpose(layout.order), out.transpose(layout.order)
    steps = tuple(row_step[a] for a in layout.order)
    takes = 1
    for n, step in zip(view.shape, steps, strict=True):
        takes *= n if step else 1
    if takes <= TAKES_MAX:
        _row_by_row(view, table, steps, out)
    else:
        np.take(table.reshape(-1), row_index(view.shape, steps) * 256 + view, out=out, mode="clip")


def _row_by_row(view: Array, table: Array, steps: tuple[int, ...], out: Array) -> None:
    along = [range(n) if step else (None,) for n, step in zip(view.shape, steps, strict=True)]
    for index in itertools.product(*along):
        where = tuple(slice(None) if i is None else slice(i, i + 1) for i in index)
        row = sum(i * step for i, step in zip(index, steps, strict=True) if i is not None)
        part = out[where]
        if part.flags.c_contiguous:
            np.take(table[row], view[where], out=part, mode="clip")  # "raise" would need a buffer
        else:
            part[...] = np.take(table[row], view[where], mode="clip")
