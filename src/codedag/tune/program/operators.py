"""Programs by name: matmul, softmax, layernorm, normalise, standardise, decibel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codedag.tune.declined import CannotTune
from codedag.tune.program.program import Program
from codedag.tune.program.record import record

EPSILON = 1e-5


def softmax(x: Any) -> Any:
    """The softmax along the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    """Rows with mean 0 and variance 1, then scaled and shifted."""
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + EPSILON) * scale + shift


def normalise(x: Any, mean: Any, std: Any) -> Any:
    """An image of bytes as normalised planes of float32."""
    return ((x / 255.0 - mean) / std).transpose(2, 0, 1).astype(np.float32).copy()


def standardise(x: Any) -> Any:
    """An array with mean 0 and deviation 1."""
    return (x - x.mean()) / x.std()


def decibel(power: Any) -> Any:
    """The levels of a spectrogram in decibels, at most 80 below the greatest one, with mean 0 and deviation 1."""
    db = 10.0 * np.log10(np.maximum(power, 1e-10))
    db = np.maximum(db, db.max() - 80.0)
    return (db - db.mean()) / (db.std() + 1e-6)


def matmul(a: Any, b: Any) -> Any:
    """The product of two matrices."""
    return a @ b


@dataclass(frozen=True, slots=True)
class Operator:
    """A named function, the words for its shape, and the arrays that it takes."""

    function: Callable[..., Any]
    shape: tuple[str, ...]
    arguments: Callable[[tuple[int, ...], str], list[Any]]
    dtypes: tuple[str, ...] = ("f4", "f8")


def _matrices(shape: tuple[int, ...], dtype: str) -> list[Any]:
    rows, inner, columns = shape
    return [np.zeros((rows, inner), dtype), np.zeros((inner, columns), dtype)]


def _image(shape: tuple[int, ...], dtype: str) -> list[Any]:
    return [np.zeros(shape, np.uint8), np.zeros(shape[-1]), np.ones(shape[-1])]


OPERATORS = {
    "matmul": Operator(matmul, ("rows", "inner", "columns"), _matrices),
    "softmax": Operator(softmax, ("rows", "columns"), lambda s, d: [np.zeros(s, d)]),
    "layernorm": Operator(layernorm, ("rows", "columns"), lambda s, d: [np.zeros(s, d), *(np.zeros(s[-1], d),) * 2]),
    "normalise": Operator(normalise, ("height", "width", "channels"), _image, ("u1",)),
    "standardise": Operator(standardise, ("height", "width", "channels"), lambda s, d: [np.zeros(s, d)]),
    "decibel": Operator(decibel, ("bands", "frames"), lambda s, d: [np.zeros(s, d)]),
}


def program_of_name(name: str, shape: tuple[int, ...], dtype: str) -> Program:
    """The program of an operator; CannotTune names the part of the shape that does not fit."""
    operator = OPERATORS[name]
    if len(shape) != len(operator.shape):
        words = ",".join(operator.shape).upper()
        raise CannotTune(f"{name} has {len(operator.shape)} sizes, {len(shape)} were given", hint=f"--shape {words}")
    if min(shape) < 0:
        wrong = next(word for word, size in zip(operator.shape, shape, strict=True) if size < 0)
        raise CannotTune(f"{name}: {wrong} is {min(shape)}", hint="Sizes are 0 or more.")
    if dtype not in operator.dtypes:
        raise CannotTune(f"{name} is not made for type {dtype}", hint=f"--dtype {' or '.join(operator.dtypes)}")
    arrays = operator.arguments(shape, dtype)
    return replace(record(operator.function, arrays, name), name=name)
