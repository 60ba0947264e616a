"""Orders of summation that numpy really has here: asked on numbers that show the order, and remembered.

An answer holds for one machine, numpy version, type, shape, axes and layout. No match means that no order of the
list is numpy's, and that a kernel of such a sum is not EXACT.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from codedag.tune import kernel_cache
from codedag.tune.program.program import Buffer, Program, loads_of

PAIRWISE, ACROSS, PLANES, PIECES, ANY = "pairwise", "across", "planes", "pieces", "any"
ORDERS = (PAIRWISE, ACROSS, PLANES, PIECES, ANY)  # ANY: whole numbers, greatest and least elements
OPEN = "open"  # no kernel keeps it: what a schedule does is as good
BLOCK = 128
ROUNDS, ROUNDS_MAX, ELEMENTS_MIN = 3, 64, 4096  # few numbers may hide an order
Array = Any


def hard_numbers(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    """Numbers of both signs and of many magnitudes, whose sums differ by the order."""
    draw = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return draw.random(shape) < 0.5
    if np.dtype(dtype).kind != "f":
        info = np.iinfo(dtype)
        return draw.integers(max(info.min, -(2**15)), min(info.max, 2**15), shape, dtype, endpoint=True)
    return (draw.standard_normal(shape) * 10.0 ** draw.uniform(-6, 6, shape)).astype(dtype)


def pairwise(rows: Array) -> Array:
    """Numpy's pairwise sums along the last axis: eight sums side by side in blocks of 128, halves above that."""
    count = rows.shape[-1]
    if count < 8:
        return functools.reduce(
            np.add, [rows[..., k] for k in range(count)], np.full(rows.shape[:-1], -0.0, rows.dtype)
        )
    if count > BLOCK:
        half = count // 2 - count // 2 % 8
        return pairwise(rows[..., :half]) + pairwise(rows[..., half:])
    whole = count - count % 8
    r = functools.reduce(np.add, [rows[..., k : k + 8] for k in range(0, whole, 8)])
    total = ((r[..., 0] + r[..., 1]) + (r[..., 2] + r[..., 3])) + ((r[..., 4] + r[..., 5]) + (r[..., 6] + r[..., 7]))
    return functools.reduce(np.add, [rows[..., k] for k in range(whole, count)], total)


def _in_order(parts: Array) -> Array:
    """Sums along the first axis, one after the other."""
    return functools.reduce(np.add, list(parts), np.full(parts.shape[1:], -0.0, parts.dtype))


def _as_pairwise(array: Array, axes: tuple[int, ...]) -> Array:
    kept = [k for k in range(array.ndim) if k not in axes]
    return pairwise(array.transpose(*kept, *axes).reshape([array.shape[k] for k in kept] + [-1]))


def _as_across(array: Array, axes: tuple[int, ...]) -> Array:
    kept = [k for k in range(array.ndim) if k not in axes]
    return _in_order(array.transpose(*axes, *kept).reshape([-1] + [array.shape[k] for k in kept]))


def leading_count(ndim: int, axes: tuple[int, ...]) -> int:
    """How many of the axes that are reduced come before the last one that is kept."""
    last = max((k for k in range(ndim) if k not in axes), default=-1)
    return sum(a < last for a in axes)


def _as_planes(array: Array, axes: tuple[int, ...]) -> Array | None:
    kept = [k for k in range(array.ndim) if k not in axes]
    count = leading_count(array.ndim, axes)
    if count in (0, len(axes)):
        return None
    parts = array.transpose(*axes[:count], *kept, *axes[count:])
    shape = [-1, *[array.shape[k] for k in kept], math.prod(array.shape[a] for a in axes[count:])]
    return _in_order(pairwise(parts.reshape(shape)))


def _as_pieces(array: Array, axes: tuple[int, ...]) -> Array | None:
    kept = [k for k in range(array.ndim) if k not in axes]
    flat = array.transpose(*kept, *axes).reshape([array.shape[k] for k in kept] + [-1])
    size = np.getbufsize()
    parts = [pairwise(flat[..., at : at + size]) for at in range(0, flat.shape[-1], size)]
    return _in_order(np.stack(parts)) if parts else None


_EMULATIONS: dict[str, Callable[[Array, tuple[int, ...]], Array | None]] = {
    PAIRWISE: _as_pairwise, ACROSS: _as_across, PLANES: _as_planes, PIECES: _as_pieces,
}  # fmt: skip


def ask_order(source: Buffer, axes: tuple[int, ...], op: str, dtype: str) -> str:
    """The order in which numpy reduces an array of this layout, or nothing if it is none of the list."""
    if op in ("max", "min") or np.dtype(dtype).kind in "iu":
        return ANY
    if not source.is_c_contiguous or not source.size:
        return ""
    question = ["order of sums", np.__version__, source.dtype, dtype, list(source.shape), list(axes), np.getbufsize()]
    return remembered(question, lambda: _asked(source, axes, dtype))


def remembered(question: list[Any], ask: Callable[[], str | None]) -> str:
    """The answer to a question about this machine's numpy, from the cache or asked now; None is not remembered."""
    text = json.dumps(question)
    key = kernel_cache.kernel_key(hashlib.sha256(text.encode()).hexdigest())
    if key in _answers:
        return _answers[key]
    entry = kernel_cache.remembered_fact(key)
    if entry is None or entry.get("question") != question:
        answer = ask()
        if answer is None:
            return ""
        entry = {"question": question, "answer": answer}
        kernel_cache.remember_proof(key, entry)
    _answers[key] = str(entry["answer"])
    return _answers[key]


_answers: dict[str, str] = {}


@functools.cache
def start_of_sums() -> float:
    """What numpy adds the elements of a sum to: 0.0, or -0.0 in versions whose sum of negative zeros is negative."""
    return float(np.add.reduce(np.full(9, -0.0)))


def stated(program: Program, order_of_products: str) -> Program:
    """The program with the order of every reduction: numpy's here, or `open` where kernels do not repeat it."""
    made = []
    for one in program.statements:
        if one.reduction is not None and one.how.startswith("reduce"):
            source = program.buffers[next(loads_of(one.expr)).buffer]
            axes = tuple(int(axis) for axis in one.how.split()[1:])
            order = ask_order(source, axes, one.reduction.op, program.buffers[one.target].dtype)
        else:
            order = order_of_products
        reduction = one.reduction and replace(one.reduction, order=order or OPEN)
        made.append(replace(one, reduction=reduction))
    return replace(program, statements=tuple(made))


def _asked(source: Buffer, axes: tuple[int, ...], dtype: str) -> str:
    left = list(_EMULATIONS)
    for seed in range(max(ROUNDS, min(ROUNDS_MAX, ELEMENTS_MIN // source.size))):
        array = hard_numbers(source.shape, source.dtype, seed)
        expected = np.add.reduce(array, axis=axes, dtype=dtype)
        cast = array.astype(dtype)
        left = [name for name in left if _same(_EMULATIONS[name](cast, axes), expected)]
    natural = _natural(source.shape, axes)
    return natural if natural in left else left[0] if left else ""


def _natural(shape: tuple[int, ...], axes: tuple[int, ...]) -> str:
    """The order that goes through memory as it lies: sums of whole numbers have no other reason to choose one."""
    long = [k for k, extent in enumerate(shape) if extent != 1]
    own = tuple(long.index(a) for a in axes if a in long)
    leading = leading_count(len(long), own)
    return PAIRWISE if not leading else ACROSS if leading == len(own) else PLANES


def _same(found: Array | None, expected: Array) -> bool:
    return found is not None and np.asarray(found).tobytes() == np.asarray(expected).tobytes()
