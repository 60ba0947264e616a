"""Loops over the rows of graphs, compiled by numba, without the GIL: sums by target, gathers, biases, counting sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

# Sums may be reordered; NaN and infinity stay what they are (no `nnan`, no `ninf`).
_FASTMATH = {"reassoc", "nsz", "contract", "arcp"}


def _compiled(loop: Callable[..., Any]) -> Any:
    """The loop as a function that numba compiles at its first call, kept on disk where there is a place for it."""
    try:
        return numba.njit(nogil=True, fastmath=_FASTMATH, cache=True)(loop)
    except RuntimeError:  # no directory that can be written: it is compiled again in each process
        return numba.njit(nogil=True, fastmath=_FASTMATH)(loop)


def _inlined(loop: Callable[..., Any]) -> Any:
    return numba.njit(nogil=True, fastmath=_FASTMATH, inline="always")(loop)


def call(loop: Any, *arguments: Any) -> Any:
    """The result of a compiled loop, also where its code could not be written to disk (it is in memory then)."""
    try:
        return loop(*arguments)
    except OSError:  # a full disk: numba has compiled the loop before it tried to keep it
        return loop(*arguments)


@_inlined
def _sum_row(indptr: Any, ids: Any, values: Any, out: Any, i: Any) -> None:
    """out[i] = the sum of values[ids[e], 0] over the edges e of row i, eight rows at a time (1.6x one at a time)."""
    e, end = indptr[i], indptr[i + 1]
    width, few = out.shape[1], (end - e) & 7
    if few == 0:
        for k in range(width):
            out[i, k] = 0
    if few & 1:
        a = ids[e]
        e += 1
        for k in range(width):
            out[i, k] = values[a, 0, k]
    if few & 2:
        a, b = ids[e], ids[e + 1]
        e += 2
        if few & 1:
            for k in range(width):
                out[i, k] += values[a, 0, k] + values[b, 0, k]
        else:
            for k in range(width):
                out[i, k] = values[a, 0, k] + values[b, 0, k]
    if few & 4:
        a, b, c, d = ids[e], ids[e + 1], ids[e + 2], ids[e + 3]
        e += 4
        if few & 3:
            for k in range(width):
                out[i, k] += (values[a, 0, k] + values[b, 0, k]) + (values[c, 0, k] + values[d, 0, k])
        else:
            for k in range(width):
                out[i, k] = (values[a, 0, k] + values[b, 0, k]) + (values[c, 0, k] + values[d, 0, k])
    while e < end:
        a, b, c, d = ids[e], ids[e + 1], ids[e + 2], ids[e + 3]
        f, g, h, j = ids[e + 4], ids[e + 5], ids[e + 6], ids[e + 7]
        e += 8
        for k in range(width):
            first = (values[a, 0, k] + values[b, 0, k]) + (values[c, 0, k] + values[d, 0, k])
            second = (values[f, 0, k] + values[g, 0, k]) + (values[h, 0, k] + values[j, 0, k])
            out[i, k] += first + second


@_compiled
def sum_rows(indptr: Any, ids: Any, values: Any, out: Any, begin: int, first: int, last: int) -> None:
    """out[i - begin] = the sum over row i, for rows first to last - 1; values are [rows, 1 or 2, width]."""
    for i in range(first, last):
        _sum_row(indptr[begin:], ids, values, out, i - begin)


@_compiled
def mean_rows(indptr: Any, ids: Any, values: Any, out: Any, begin: int, first: int, last: int) -> None:
    """out[i - begin] = the mean over row i, 0 for a row without edges."""
    for row in range(first, last):
        i = row - begin
        _sum_row(indptr[begin:], ids, values, out, i)
        share = np.float32(1.0) / np.float32(max(indptr[row + 1] - indptr[row], 1))
        for k in range(out.shape[1]):
            out[i, k] *= share


@_compiled
def layer_rows(indptr: Any, ids: Any, values: Any, bias: Any, relu: bool, out: Any, first: int, last: int) -> None:
    """out[i] = the mean of values[., 0] over row i + values[i, 1] + bias, then ReLU if it is asked for."""
    for i in range(first, last):
        _sum_row(indptr, ids, values, out, i)
        share = np.float32(1.0) / np.float32(max(indptr[i + 1] - indptr[i], 1))
        if relu:
            for k in range(out.shape[1]):
                value = out[i, k] * share + values[i, 1, k] + bias[k]
                out[i, k] = np.float32(0.0) if value < 0 else value
        else:
            for k in range(out.shape[1]):
                out[i, k] = out[i, k] * share + values[i, 1, k] + bias[k]


@_compiled
def add_rows(more: Any, bias: Any, relu: bool, out: Any, first: int, last: int) -> None:
    """out[i] += more[i] + bias, then ReLU if it is asked for; NaN stays NaN."""
    for i in range(first, last):
        if relu:
            for k in range(out.shape[1]):
                value = out[i, k] + more[i, k] + bias[k]
                out[i, k] = np.float32(0.0) if value < 0 else value
        else:
            for k in range(out.shape[1]):
                out[i, k] += more[i, k] + bias[k]


@_compiled
def gather_rows(x: Any, ids: Any, out: Any, first: int, last: int) -> None:
    """out[e] = x[ids[e]]."""
    for e in range(first, last):
        row = np.uint64(ids[e])
        for k in range(out.shape[1]):
            out[e, k] = x[row, k]


@_compiled
def divide_rows(total: Any, degree: Any, out: Any, first: int, last: int) -> None:
    """out[i] = total[i] / max(degree[i], 1)."""
    for i in range(first, last):
        share = np.float32(1.0) / max(degree[i], np.float32(1.0))
        for k in range(out.shape[1]):
            out[i, k] = total[i, k] * share


@_compiled
def relu_rows(values: Any, out: Any, first: int, last: int) -> None:
    """out[i] = values[i], and 0 where that is negative; NaN stays NaN."""
    for i in range(first, last):
        for k in range(out.shape[1]):
            value = values[i, k]
            out[i, k] = np.float32(0.0) if value < 0 else value


@_compiled
def first_outside(ids: Any, nodes: int) -> int:
    """The position of the first id that is not in 0 to nodes - 1, or -1."""
    wrong = False
    for e in range(ids.shape[0]):
        wrong |= (ids[e] < 0) | (ids[e] >= nodes)
    if wrong:
        for e in range(ids.shape[0]):
            if ids[e] < 0 or ids[e] >= nodes:
                return e
    return -1


@_compiled
def counting_sort(sources: Any, targets: Any, indptr: Any, sorted_sources: Any, edges: Any) -> None:
    """Fills the CSR form of checked edges: edges of one target stay in their order."""
    for e in range(targets.shape[0]):
        indptr[targets[e] + 1] += 1
    for i in range(indptr.shape[0] - 1):
        indptr[i + 1] += indptr[i]
    place = indptr[:-1].copy()
    for e in range(targets.shape[0]):
        at = place[targets[e]]
        place[targets[e]] = at + 1
        sorted_sources[at] = sources[e]
        edges[at] = e


@_compiled
def differs(a: Any, b: Any, first: int, last: int) -> bool:
    """Whether two arrays of ids differ anywhere from first to last - 1."""
    mixed = np.int64(0)
    for e in range(first, last):
        mixed |= a[e] ^ b[e]
    return bool(mixed != 0)
