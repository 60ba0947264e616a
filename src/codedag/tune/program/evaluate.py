"""numpy's evaluation of a program, statement by statement: the reference of every check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codedag.tune.program.program import Const, Expr, Load, Op, Program, Statement
from codedag.tune.program.recorder import natural_index

Array = Any
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "neg": np.negative,
    "pos": np.positive, "abs": np.absolute, "sqrt": np.sqrt, "square": np.square, "exp": np.exp, "log": np.log,
    "log10": np.log10, "min": np.minimum, "max": np.maximum, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    "not": np.logical_not, "where": np.where, "reciprocal": np.reciprocal, "clip": np.clip, "checked_add": np.add,
    "checked_sub": np.subtract, "checked_mul": np.multiply, "checked_neg": np.negative, "checked_abs": np.absolute,
    "checked_square": np.square,
}  # fmt: skip
REDUCTIONS: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def evaluate(program: Program, arrays: Sequence[Array]) -> Array:
    """The result of a program for these arrays, by numpy's own operations."""
    return evaluated(program, arrays)[program.output]


def evaluated(program: Program, arrays: Sequence[Array]) -> dict[str, Array]:
    """The values of all buffers of a program."""
    known = dict(zip(program.inputs, arrays, strict=True))
    for statement in program.statements:
        known[statement.target] = _evaluated(program, statement, known)
    return known


def _evaluated(program: Program, statement: Statement, known: dict[str, Array]) -> Array:
    word, _, rest = statement.how.partition(" ")
    dtype = program.buffers[statement.target].dtype
    shape = program.buffers[statement.target].shape
    if word in ("matmul", "einsum"):
        operands = [known[load.buffer] for load in _operands(statement.expr)]
        return np.matmul(*operands) if word == "matmul" else np.einsum(rest, *operands)
    if word == "reduce":
        assert statement.reduction is not None
        source = known[next(iter(_operands(statement.expr))).buffer]
        axes = tuple(int(one) for one in rest.split())
        return np.asarray(REDUCTIONS[statement.reduction.op].reduce(source, axis=axes, dtype=dtype)).reshape(shape)
    if word == "view":
        assert isinstance(statement.expr, Load)
        return viewed(known[statement.expr.buffer], statement.expr, statement.axes)
    if word == "copy":
        return known[next(iter(_operands(statement.expr))).buffer].copy(rest or "C")
    return np.asarray(value_of(statement.expr, known, shape, statement.axes))


def _operands(expr: Expr) -> list[Load]:
    if isinstance(expr, Load):
        return [expr]
    return [load for one in expr.args for load in _operands(one)] if isinstance(expr, Op) else []


def value_of(expr: Expr, known: dict[str, Array], shape: tuple[int, ...], axes: Any) -> Array:
    """The value of an expression for all elements at once."""
    if isinstance(expr, Const):
        return np.asarray(expr.value, expr.dtype)
    if isinstance(expr, Load):
        array = known[expr.buffer]
        natural = expr.index == natural_index(array.shape, shape)
        return array if natural else viewed(array, expr, axes)
    args = [value_of(one, known, shape, axes) for one in expr.args]
    return args[0].astype(expr.dtype) if expr.name == "cast" else OPERATIONS[expr.name](*args)


def viewed(array: Array, load: Load, axes: Sequence[tuple[str, int]]) -> Array:
    """The view of an array that a load makes of it."""
    if len(load.index) == 1 and array.ndim != 1:
        steps: tuple[int, ...] = (array.itemsize,)
        array = np.ascontiguousarray(array)
    else:
        steps = array.strides
    strides = dict.fromkeys((name for name, _ in axes), 0)
    offset = 0
    for step, index in zip(steps, load.index, strict=True):
        offset += step * index.offset
        for name, factor in index.terms:
            strides[name] += step * factor
    shape = [extent for _, extent in axes]
    if 0 in shape:
        return np.empty(shape, array.dtype)
    return np.ndarray(shape, array.dtype, _memory(array), _first(array) + offset, tuple(strides.values()))


def _memory(array: Array) -> Array:
    """The bytes that an array lies in, from its first address on."""
    low = sum(min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
    start = array[tuple(slice(-1, None) if s < 0 else slice(0, 1) for s in array.strides)] if array.ndim else array
    return np.lib.stride_tricks.as_strided(start.reshape(-1).view(np.uint8), (high - low,), (1,))


def _first(array: Array) -> int:
    return -sum(min(0, (int(n) - 1) * int(s)) for n, s in zip(array.shape, array.strides, strict=True))
