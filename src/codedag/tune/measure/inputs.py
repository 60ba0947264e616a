"""Arrays for checks and timings: reproducible values, wild values, and every layout that numpy has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codedag.tune.program.evaluate import evaluated
from codedag.tune.program.program import Buffer, Op, Program, loads_of

Array = Any
ODD = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-42, 5e-324, 3e38, -1.0, 255.5, 1e9)


def values(buffer: Buffer, draw: Any, wild: bool = False, shape: tuple[int, ...] | None = None) -> Array:
    """An array of this type and shape."""
    shape, dtype = buffer.shape if shape is None else shape, np.dtype(buffer.dtype)
    if dtype.kind == "b":
        return np.asarray(draw.random(shape) < 0.5)
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        made = draw.integers(max(info.min, -(2**40)), min(info.max, 2**40), shape, dtype, endpoint=True)
        if wild:
            ends = np.array([info.min, info.max, 0, 1], dtype)
            made = np.where(draw.random(shape) < 0.1, draw.choice(ends, shape), made)
        return np.asarray(made, dtype)
    made = (draw.standard_normal(shape) * 10.0 ** draw.uniform(-1.5, 1.5, shape)).astype(dtype)
    if len(shape) <= 1:
        made = np.abs(made) + dtype.type(0.1)  # parameters are divided by
    if wild and draw.random() < 0.1:
        made = made * dtype.type(draw.choice((-0.0, 1e-38)))  # zeros of both signs; products that become too small
    made = np.array(made)  # numbers too
    if wild and made.size:
        some = draw.random(shape) < min(0.02, 2.0 / made.size)
        with np.errstate(all="ignore"):
            made[some] = draw.choice(ODD, int(some.sum())).astype(dtype)
    return made


def arrays_for(program: Program, seed: int, wild: bool = False) -> list[Array]:
    """Arrays that lie in order, for a program; if they are not wild, from a range of which numpy does not warn."""
    draw = np.random.default_rng(seed)
    drawn = [values(program.buffers[name], draw, wild) for name in program.inputs]
    for narrowed in () if wild else RANGES:
        arrays = [narrowed(array) for array in drawn]
        if _is_usual(program, arrays):
            return arrays
    return drawn


def _is_usual(program: Program, arrays: list[Array]) -> bool:
    try:
        with np.errstate(all="raise", under="ignore"):
            known = evaluated(program, arrays)
    except FloatingPointError:
        return False
    result = known[program.output]
    if result.dtype.kind == "f" and not np.isfinite(result).all():
        return False
    casts = [one for one in program.statements if isinstance(one.expr, Op) and one.expr.name == "cast"]
    return all(_fits(known[next(loads_of(one.expr)).buffer], program.buffers[one.target].dtype) for one in casts)


def _fits(array: Array, dtype: str) -> bool:
    """Whether a cast keeps every element in the range of its type, or is none to whole numbers."""
    if np.dtype(dtype).kind not in "iu" or array.dtype.kind != "f":
        return True
    info = np.iinfo(dtype)
    return bool(((array > float(info.min) - 1) & (array < float(info.max) + 1)).all())


def _small(array: Array) -> Array:
    """Whole numbers of at most two digits."""
    return (array % 100).astype(array.dtype) if array.dtype.kind in "iu" else array


def _positive(array: Array) -> Array:
    return np.abs(array) + array.dtype.type(0.1) if array.dtype.kind == "f" else _small(array)


def _below_one(array: Array) -> Array:
    return np.minimum(_positive(array), array.dtype.type(0.9)) if array.dtype.kind == "f" else _small(array)


def _above_one(array: Array) -> Array:
    return np.maximum(_positive(array), array.dtype.type(1.1)) if array.dtype.kind == "f" else _small(array)


RANGES: tuple[Callable[[Array], Array], ...] = (_small, _positive, _below_one, _above_one)


def laid_out(array: Array, draw: Any) -> Array:
    """The same values in another layout: in order, at an odd offset, cropped, thinned, flipped or with turned axes."""
    kind = int(draw.integers(8))
    if kind < 3 or not array.ndim:
        return _at_offset(array, int(draw.integers(64)) * array.itemsize % 64)
    if kind == 3:
        return _at_offset(array, int(draw.integers(1, 64)))  # may be unaligned
    axis = int(draw.integers(array.ndim))
    if kind == 4:
        return np.flip(np.flip(array, axis).copy(), axis)
    if kind == 5:
        wide = np.zeros([n + 3 for n in array.shape], array.dtype)
        inside = wide[tuple(slice(1, 1 + n) for n in array.shape)]
        inside[...] = array
        return inside
    if kind == 6:
        twice = np.repeat(array, 2, axis=axis)
        return twice[tuple(slice(None, None, 2) if k == axis else slice(None) for k in range(array.ndim))]
    order = draw.permutation(array.ndim)
    return array.transpose(order).copy().transpose(np.argsort(order))


def _at_offset(array: Array, offset: int) -> Array:
    raw = np.zeros(array.nbytes + 128, np.uint8)
    start = -int(raw.ctypes.data) % 64 + offset
    made = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
