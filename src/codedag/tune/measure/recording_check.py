"""Check of a recording: the program that was written down gives what the function gives, bit for bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from codedag.instrument.guard import Failed, attempt
from codedag.tune.declined import CannotTune
from codedag.tune.measure.inputs import arrays_for
from codedag.tune.program.evaluate import evaluate
from codedag.tune.program.program import Program
from codedag.tune.program.record import record

NBYTES_MAX = 1 << 27  # of all arguments: larger ones are not compared


def recorded(function: Callable[..., Any], arrays: list[Any], name: str) -> Program:
    """The program of a function, recorded twice and compared with the function; CannotTune if anything differs."""
    program = record(function, arrays, name)
    if record(function, arrays, name) != program:
        raise CannotTune(f"{name}: it does something else when it runs again (random numbers, or a state of its own)")
    if sum(array.nbytes for array in arrays) <= NBYTES_MAX:
        for seed in (0, 1):
            _compare(program, function, name, arrays_for(program, seed, wild=bool(seed)))
    return program


def _compare(program: Program, function: Callable[..., Any], name: str, arrays: list[Any]) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = attempt(function, *arrays)
        found = evaluate(program, arrays)
    if isinstance(expected, Failed):
        raise CannotTune(f"{name} fails on arrays like these: {expected.reason}")
    if not isinstance(expected, np.ndarray if found.ndim else np.generic):
        raise CannotTune(f"{name} returns {type(expected).__name__}, which kernels do not")
    if (expected.dtype, expected.shape) != (found.dtype, found.shape) or expected.tobytes() != found.tobytes():
        raise CannotTune(f"{name}: the operations that were written down give another result than the function")
