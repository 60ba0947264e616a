"""Substitutions for an accelerator: reductions, choices, products and new arrays of numpy, with numpy's dtypes.

Not run on hardware here: the tests run them on the processor's tensors. Sums of whole numbers, choices and copies give
the same bits on any device; sums and products of floats in another order are ULP.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from codedag.backends import torch_device_more_calls as samples
from codedag.backends.on_device import LEAST, Array, back, c_ordered, nowhere, orderly, plain, there
from codedag.backends.reasons import answer, left_out
from codedag.backends.registry import EXACT, ULP, Call, Equivalence, Substitution, substitutes
from codedag.backends.torch_device_arrays_ import NUMPY, PU, TORCH
from codedag.instrument.guard import Declined
from codedag.ir.verdict import Verdict

_NO: Any = np._NoValue
_DTYPES = {"f": "float32", "d": "float64", "l": "int64", "i": "int32", "B": "uint8"}


def _registered(
    name: str, run: Callable[..., Any], guard: Callable[[Any], Verdict], calls: Any, gives: Equivalence = EXACT
) -> Substitution:
    """A function of numpy, written with its signature, under its name."""
    run.__name__ = name
    made = substitutes(f"numpy.{name}", into="torch", gives=gives, needs=TORCH, source_needs=NUMPY, pu=PU, stays=True)(
        run
    )
    made.guard(guard)
    made.calls(calls)
    return made


# Along an axis.


def _axis(call: Any, codes: str) -> str:
    """The reason why a call does not reduce a plain array along one of several axes."""
    reason = left_out(call, ("dtype", "out", "where")) or nowhere() or plain(call.a, codes)
    if reason or call.a.ndim < 2 or type(call.axis) is not int or not -call.a.ndim <= call.axis < call.a.ndim:
        return reason or "no axis of several"
    kept = call.keepdims is _NO or type(call.keepdims) is bool
    return "" if kept and c_ordered(call.a) else "an odd keepdims, or not in C order"


def _one_sign(values: Any) -> str:
    """The reason why a sum of floats may cancel: what is left would have fewer digits in another order."""
    if values.dtype.kind != "f" or float(values.min()) >= 0 or float(values.max()) <= 0:
        return ""
    return "floats of both signs: their sum has no fixed digits"


def _mean(codes: str, gives: Equivalence, into: str) -> Substitution:
    """numpy.mean along an axis: of whole numbers in float64, of floats in their own dtype."""

    def mean(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NO, *, where: Any = _NO
    ) -> Array:
        """One mean for each line along the axis."""
        torch = sys.modules["torch"]
        values = there(a)
        kept = keepdims is True
        if a.dtype.kind == "f":
            return back(values.mean(dim=axis, keepdim=kept))
        return back(values.sum(dim=axis, keepdim=kept, dtype=torch.int64).to(torch.float64) / a.shape[axis])

    def guard(call: Any) -> Verdict:
        """C-ordered arrays of two and more dimensions from 64 finite elements on, floats of one sign; one axis."""
        return answer(_axis(call, codes) or _one_sign(call.a))

    made = substitutes("numpy.mean", into=into, gives=gives, needs=TORCH, source_needs=NUMPY, pu=PU, stays=True)(mean)
    made.guard(guard)
    made.calls(lambda rng: samples.reduced(rng, tuple(_DTYPES[code] for code in codes)))
    return made


mean_of_bytes = _mean("Bi", EXACT, "torch.whole")
mean = _mean("fd", ULP, "torch")


def _total(name: str, operation: str, codes: str, gives: Equivalence, into: str = "torch") -> Substitution:
    """numpy.sum or cumsum along an axis."""

    def run(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
        """One element for each line, or the sums so far."""
        return back(getattr(sys.modules["torch"], operation)(there(a), dim=axis))

    def guard(call: Any) -> Verdict:
        """C-ordered arrays of two and more dimensions from 64 finite elements on, floats of one sign; one axis."""
        reason = left_out(call, ("dtype", "out")) or nowhere() or plain(call.a, codes)
        if reason or call.a.ndim < 2 or type(call.axis) is not int or not -call.a.ndim <= call.axis < call.a.ndim:
            return answer(reason or "no axis of several")
        return answer(_one_sign(call.a) or ("" if c_ordered(call.a) else "not in C order"))

    run.__name__ = name
    made = substitutes(f"numpy.{name}", into=into, gives=gives, needs=TORCH, source_needs=NUMPY, pu=PU, stays=True)(run)
    made.guard(guard)
    made.calls(lambda rng: _without_keepdims(samples.reduced(rng, tuple(_DTYPES[code] for code in codes))))
    return made


def _without_keepdims(call: Call) -> Call:
    return Call(call.args, {name: value for name, value in call.kwargs.items() if name != "keepdims"})


LONG = 1024  # elements of float32 beyond which numpy's own sums, one after the other, lose the promised digits


def _spread(name: str) -> Substitution:
    """numpy.var or numpy.std along an axis: of whole numbers in float64, of floats in their own dtype."""

    def run(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = _NO,
        *,
        where: Any = _NO,
        mean: Any = _NO,
        correction: Any = _NO,
    ) -> Array:
        """How far the elements of each line along the axis are from their mean."""
        torch = sys.modules["torch"]
        values = there(a) if a.dtype.kind == "f" else there(a).to(torch.float64)
        made = torch.std(values, dim=axis, correction=ddof, keepdim=keepdims is True)
        most = float(values.abs().max())
        if not (1e-15 < most < 1e15 and float(made.max()) * 10 >= most):
            raise Declined("lines of almost equal elements, or of ones whose squares are no fixed digits")
        return back(made if name == "std" else torch.var(values, dim=axis, correction=ddof, keepdim=keepdims is True))

    def guard(call: Any) -> Verdict:
        """C-ordered arrays of two and more dimensions from 64 finite elements on; one axis, float32 of at most 1024
        along it, ddof a small whole number.
        """
        reason = left_out(call, ("mean", "correction")) or _axis(call, "fdBi")
        if reason or type(call.ddof) is not int or not 0 <= call.ddof < min(call.a.shape[call.axis], 3):
            return answer(reason or "an odd ddof")
        return answer("" if call.a.dtype.char != "f" or call.a.shape[call.axis] <= LONG else "a long sum of float32")

    return _registered(name, run, guard, samples.spread_out, ULP)


var, std = _spread("var"), _spread("std")

cumsum = _total("cumsum", "cumsum", "l", EXACT)
sum_of_floats = _total("sum", "sum", "fd", ULP, "torch.floats")


# Choices.


def _clip(a: Any, a_min: Any = _NO, a_max: Any = _NO, out: Any = None) -> Array:
    """The elements within two bounds."""
    return back(there(a).clamp(a_min, None if a_max is _NO else a_max))


def _clip_guard(call: Any) -> Verdict:
    """Plain C-ordered arrays from 64 finite elements on; bounds that are whole numbers from 0 to 255, the upper may be
    missing.
    """
    reason = left_out(call, ("out",)) or nowhere() or plain(call.a, "fdlB")
    whole = type(call.a_min) is int and 0 <= call.a_min <= 255
    whole = whole and (call.a_max is None or (type(call.a_max) is int and call.a_min <= call.a_max <= 255))
    if reason or not whole:
        return answer(reason or "bounds that are not whole numbers from 0 to 255")
    return answer(orderly(call.a) or ("" if c_ordered(call.a) else "not in C order"))


clip = _registered("clip", _clip, _clip_guard, samples.limited)


def _where(condition: Any, x: Any = _NO, y: Any = _NO, /) -> Array:
    """Elements of one array where a condition holds, else of the other."""
    return back(sys.modules["torch"].where(there(condition), there(x), there(y)))


def _where_guard(call: Any) -> Verdict:
    """A plain array of bool and two of one dtype and its shape, all in C order, from 64 elements on."""
    reason = nowhere() or plain(call.condition, "?") or plain(call.x, "fdlB") or plain(call.y, "fdlB")
    if reason or call.x.dtype != call.y.dtype or not call.x.shape == call.y.shape == call.condition.shape:
        return answer(reason or "two dtypes or shapes")
    return answer("" if all(map(c_ordered, (call.condition, call.x, call.y))) else "not in C order")


where = _registered("where", _where, _where_guard, samples.chosen)


# Places.


def _again(name: str, operation: Callable[[Any, int, Any], Any], odd: tuple[Any, ...]) -> Substitution:
    """numpy.roll or numpy.repeat: the elements of an array in another order or several times."""

    def roll(a: Any, shift: Any, axis: Any = None) -> Array:
        """The elements moved along an axis."""
        return back(operation(there(a), shift, axis))

    def repeat(a: Any, repeats: Any, axis: Any = None) -> Array:
        """Each element several times along an axis."""
        return back(operation(there(a), repeats, axis))

    def guard(call: Any) -> Verdict:
        """Plain C-ordered arrays from 64 finite elements on, a small number, and an axis."""
        number = call.shift if name == "roll" else call.repeats
        reason = nowhere() or plain(call.a, "fdlB")
        if reason or type(number) is not int or not 0 < number < 100:
            return answer(reason or "not a small number")
        known = type(call.axis) is int and -call.a.ndim <= call.axis < call.a.ndim
        return answer("" if known and c_ordered(call.a) else "no such axis, or not in C order")

    run = roll if name == "roll" else repeat
    return _registered(name, run, guard, lambda rng: samples.repeated(rng, name, odd))


roll = _again("roll", lambda tensor, shift, axis: tensor.roll(shift, axis), (0, "a", -1, 2.5))
repeat = _again("repeat", lambda tensor, count, axis: tensor.repeat_interleave(count, dim=axis), (0, "a", -1, [1, 2]))


# Products.


def _product(name: str) -> Substitution:
    """numpy.matmul or numpy.dot of two matrices."""

    def matmul(x1: Any, x2: Any, /) -> Array:
        """The product of two matrices."""
        return back(there(x1) @ there(x2))

    def dot(a: Any, b: Any, out: Any = None) -> Array:
        """The product of two matrices."""
        return back(there(a) @ there(b))

    def guard(call: Any) -> Verdict:
        """Two plain C-ordered matrices of finite floats of one dtype that fit, from 64 elements on."""
        left, right = (call.x1, call.x2) if name == "matmul" else (call.a, call.b)
        reason = (
            nowhere()
            or plain(left, "fd")
            or plain(right, "fd")
            or ("" if name == "matmul" else left_out(call, ("out",)))
        )
        if reason or left.ndim != 2 or right.ndim != 2 or left.dtype != right.dtype or left.shape[1] != right.shape[0]:
            return answer(reason or "not two matrices that fit")
        most = max(abs(float(bound)) for part in (left, right) for bound in (part.min(), part.max()))
        return answer("" if most < 1e15 and c_ordered(left) and c_ordered(right) else "huge, or not in C order")

    return _registered(name, matmul if name == "matmul" else dot, guard, samples.products, ULP)


matmul, dot = _product("matmul"), _product("dot")


# New arrays.

_MADE = {"float32": "f", "float64": "d", "int64": "l", "int32": "i", "uint8": "B"}


def _kind(dtype: Any) -> Any:
    """The dtype that numpy makes of an argument, if a device has it; else None."""
    if dtype is None:
        return np.dtype(np.float64)
    known = (
        isinstance(dtype, (np.dtype, str))
        or dtype in (float, int)
        or (isinstance(dtype, type) and issubclass(dtype, np.generic))
    )
    name = np.dtype(dtype).name if known and (not isinstance(dtype, str) or dtype in _MADE) else ""
    return np.dtype(name) if name in _MADE else None


def _shape(shape: Any) -> tuple[int, ...] | None:
    """A shape of at least 64 elements, or None."""
    sides = (shape,) if type(shape) is int else tuple(shape) if type(shape) in (tuple, list) else ()
    if not sides or not all(type(side) is int and 0 < side < 100_000 for side in sides):
        return None
    return sides if LEAST <= int(np.prod(sides)) <= 1 << 30 else None


def _filled(name: str, value: int) -> Substitution:
    """numpy.zeros or numpy.ones."""

    def run(shape: Any, dtype: Any = None, order: Any = "C") -> Array:
        """An array of one number."""
        torch, sides = sys.modules["torch"], _shape(shape)
        return back(torch.full(sides, value, dtype=getattr(torch, _kind(dtype).name), device=_device()))

    def guard(call: Any) -> Verdict:
        """Shapes of 64 elements and more, the usual dtypes, C order."""
        known = _shape(call.shape) is not None and _kind(call.dtype) is not None and call.order == "C"
        return answer(nowhere() or ("" if known else "an odd shape, dtype or order"))

    return _registered(name, run, guard, samples.made)


def _device() -> Any:
    from codedag.backends.on_device import device

    return device()


zeros, ones = _filled("zeros", 0), _filled("ones", 1)


def _arange(start: Any, stop: Any = None, step: Any = 1) -> Array:
    """Whole numbers one after the other."""
    torch = sys.modules["torch"]
    first, last = (0, start) if stop is None else (start, stop)
    return back(torch.arange(first, last, step, dtype=torch.int64, device=_device()))


def _arange_guard(call: Any) -> Verdict:
    """Plain whole numbers that give 64 elements and more."""
    first, last = (0, call.start) if call.stop is None else (call.start, call.stop)
    whole = all(type(number) is int and abs(number) < 1 << 40 for number in (first, last, call.step)) and call.step > 0
    return answer(nowhere() or ("" if whole and LEAST <= (last - first) // call.step < 1 << 30 else "an odd range"))


arange = _registered("arange", _arange, _arange_guard, samples.counted)
