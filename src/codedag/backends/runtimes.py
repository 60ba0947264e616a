"""What substitutes on other runtimes of the same processor share: their guards, and results in fresh memory.

Elements are not looked at before the call: that would cost as much as the work itself.  A result that is not finite
is given up after it was made, and the original runs: numpy might warn about it, and bits of NaN are not promised.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from codedag.backends import runtimes_calls as samples
from codedag.backends.reasons import answer
from codedag.backends.registry import EXACT, ULP, CallMaker, Decorator, Equivalence, Guard, Substitution, substitutes
from codedag.instrument.guard import Declined
from codedag.ir.verdict import No, Verdict

Array = npt.NDArray[Any]
NUMPY = "numpy>=2.0"
LEAST = 1024  # elements; below, calling another library costs more than any work
LARGEST = 2**28
MODERATE = 1e30  # float32 holds the products of what is used with 1e8
TINY = 1e-30
SCALARS = 2.0**24  # whole numbers up to here are the same in every float
_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "matmul": "matmul", "negative": "neg",
    "absolute": "abs",
}  # fmt: skip
_born = os.getpid()


@dataclass(frozen=True, slots=True)
class Runtime:
    """A library on the processor: which unit it is, what it needs, and how it fills an array with a result."""

    pu: str
    needs: str
    # name of the function, operands, where the result goes; the least and the largest element, if it has found them
    compute: Callable[[str, tuple[Array, ...], Array], tuple[float, float] | None]
    has_threads: bool = True
    home: str = ""  # the backend file, which must be loaded to have its substitutes

    def filled(self, name: str, operands: tuple[Array, ...], made: Array, least: float = 0.0) -> Array:
        """The result, if it is finite and its largest element not below `least`; else the original must run."""
        found = self.compute(name, operands, made)
        if made.dtype.kind == "f" and made.size:
            low, high = found or (float(made.min()), float(made.max()))
            if not -math.inf < low <= high < math.inf or max(-low, high) < least:
                raise Declined("elements that are tiny or not finite")
        return made

    def offer(self, source: str, gives: Equivalence) -> Decorator:
        """The decorator that registers a substitute for a function."""
        return substitutes(source, into=self.pu, gives=gives, needs=self.needs, source_needs=NUMPY, pu=self.pu)

    def register(
        self, name: str, run: Callable[..., Any], gives: Equivalence, guard: Guard, calls: CallMaker
    ) -> list[Substitution]:
        """The registered substitutes for a function of numpy and for the operator that does the same to arrays."""
        found = []
        run.__module__ = self.home
        for source in (f"numpy.{name}", *(f"operator.{each}" for each in (_OPERATORS.get(name),) if each)):
            made = self.offer(source, gives)(run)
            made.guard(guard)
            made.calls(calls)
            found.append(made)
        return found

    def absent(self) -> str:
        """The reason why it cannot be used in this process, or empty."""
        return "a forked process cannot use the threads of its parent" if self.has_threads and is_forked() else ""


def is_forked() -> bool:
    """Whether this process was forked from the one that loaded us: threads of libraries exist only there."""
    return os.getpid() != _born


def plain(value: Any, codes: str, least: int = LEAST) -> str:
    """The reason why a value is not a plain array of one of the dtypes that lies row by row, or empty."""
    if type(value) is not np.ndarray or value.dtype.char not in codes or not value.dtype.isnative:
        return "not a plain array of the dtypes that are known"
    flags = value.flags
    if not (flags.c_contiguous and flags.aligned and flags.writeable):
        return "not in C order, or not writeable"
    return "" if least <= value.size <= LARGEST else "too small to be worth it, or too large"


# Two operands.


def binary(runtime: Runtime, name: str, codes: str, gives: Equivalence = EXACT) -> list[Substitution]:
    """A registered function of numpy that treats each pair of elements by itself."""

    def run(x1: Any, x2: Any, /) -> Array:
        """The result in the dtype of the first array."""
        other = x2 if type(x2) is np.ndarray else np.array(x2, x1.dtype)
        made = np.empty(x1.shape, x1.dtype)
        return runtime.filled(name, (x1, other), made)

    def guard(call: Any) -> Verdict:
        """A plain array from 1024 elements on; with it one of its dtype for all or its last axes, or a number."""
        reason = runtime.absent() or plain(call.x1, codes) or _other(name, call.x1, call.x2)
        return answer(reason or _errors(name))

    run.__name__ = name
    return runtime.register(
        name, run, gives, guard, lambda rng: samples.two(rng, codes, name in ("maximum", "minimum"))
    )


def _other(name: str, array: Array, value: Any) -> str:
    """The reason why a second operand is not taken."""
    if type(value) in (int, float):
        return _number(name, array, value)
    if type(value) is not np.ndarray or value.dtype != array.dtype or not value.dtype.isnative:
        return "the second operand is neither a plain number nor an array of the same dtype"
    if not (value.flags.c_contiguous and value.flags.aligned and value.flags.writeable and value.size):
        return "the second operand is not in C order, not writeable or empty"
    if name in ("maximum", "minimum") and array.dtype.kind == "f":
        return "which of two zeros is the larger is not said"
    return "" if 0 < value.ndim <= array.ndim and value.shape == array.shape[-value.ndim :] else "two shapes"


def _number(name: str, array: Array, value: float) -> str:
    if array.dtype.kind != "f":
        return "a number with whole numbers"
    if not -MODERATE < value < MODERATE or (type(value) is int and abs(value) > SCALARS):
        return "a huge number"
    if name in ("maximum", "minimum") and abs(value) < TINY:
        return "which of two zeros is the larger is not said"
    return "" if value != 0 or name != "divide" else "a division by zero"


def _errors(name: str) -> str:
    """The reason why what numpy ignores by default would be said in this program."""
    return "numpy says here when a number gets too small" if np.geterr()["under"] != "ignore" else ""


# One operand.


def unary(runtime: Runtime, name: str, codes: str, gives: Equivalence = EXACT) -> list[Substitution]:
    """A registered function of numpy that treats each element by itself."""
    least = 0.0 if gives is EXACT else TINY

    def run(x: Any, /) -> Array:
        """The result in the array's own dtype."""
        made = np.empty(x.shape, x.dtype)
        return runtime.filled(name, (x,), made, least)

    def guard(call: Any) -> Verdict:
        """Plain arrays from 1024 elements on."""
        return answer(runtime.absent() or plain(call.x, codes) or _errors(name))

    run.__name__ = name
    return runtime.register(name, run, gives, guard, lambda rng: samples.one(rng, codes))


# Products of matrices.


def product(runtime: Runtime, codes: str, name: str = "matmul") -> list[Substitution]:
    """A registered product of two matrices, whose sums are added in another order than numpy does."""

    def run(x1: Any, x2: Any, /) -> Array:
        """The product in the dtype of both."""
        made = np.empty((x1.shape[0], x2.shape[1]), x1.dtype)
        return runtime.filled("matmul", (x1, x2), made, TINY)

    def dot(a: Any, b: Any) -> Array:
        """The product in the dtype of both."""
        return run(a, b)

    def guard(call: Any) -> Verdict:
        """Two plain matrices of floats that fit each other, the first from 1024 elements on."""
        one, other = (call.x1, call.x2) if name == "matmul" else (call.a, call.b)
        reason = runtime.absent() or plain(one, codes) or plain(other, codes, 1)
        if reason or one.ndim != 2 or other.ndim != 2:
            return No(reason or "not two matrices")
        return answer("" if one.shape[1] == other.shape[0] and one.dtype == other.dtype else "they do not fit")

    chosen = run if name == "matmul" else dot
    return runtime.register(name, chosen, ULP, guard, lambda rng: samples.product(rng, codes))


# Along an axis.


def reduction(runtime: Runtime, name: str, codes: str, gives: Equivalence = ULP) -> list[Substitution]:
    """A registered reduction of numpy along one axis; the largest and the least are exact unless they are zero."""
    chooses = name in ("max", "min")

    def run(a: Any, axis: Any = None) -> Array:
        """One element for each line along the axis."""
        place = axis % a.ndim
        made = np.empty(a.shape[:place] + a.shape[place + 1 :], a.dtype)
        runtime.filled(f"{name} {place}", (a,), made, 0.0 if chooses else TINY)
        if chooses and made.dtype.kind == "f" and not made.all():
            raise Declined("which of two zeros is the larger is not said")
        return made

    def guard(call: Any) -> Verdict:
        """Plain arrays of two and more dimensions from 1024 elements on, along one axis."""
        reason = runtime.absent() or plain(call.a, codes)
        if reason or call.a.ndim < 2 or type(call.axis) is not int:
            return No(reason or "no axis of several")
        return answer("" if -call.a.ndim <= call.axis < call.a.ndim else "an axis out of range")

    run.__name__ = name
    return runtime.register(name, run, gives, guard, lambda rng: samples.reduced(rng, codes))


__all__ = ["EXACT", "ULP", "Array", "Runtime", "binary", "is_forked", "product", "reduction", "unary"]
