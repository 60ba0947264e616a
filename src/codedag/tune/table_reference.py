"""What a table kernel must compute, said in one line of numpy: the oracle of proofs and tests."""

from __future__ import annotations

import numpy as np

from codedag.tune.layout import Array


def table_reference(view: Array, table: Array, row_step: tuple[int, ...]) -> Array:
    """A new array: table[sum of idx[a] * row_step[a], view[idx]] at every index."""
    return table[row_index(view.shape, row_step), view]


def row_index(shape: tuple[int, ...], row_step: tuple[int, ...]) -> Array:
    """The table row of every index, with extent 1 on the axes along which it stays."""
    rows = np.zeros((1,) * len(shape), np.intp)
    for axis, step in enumerate(row_step):
        if step:
            along = [1] * len(shape)
            along[axis] = shape[axis]
            rows = rows + (np.arange(shape[axis], dtype=np.intp) * step).reshape(along)
    return rows
