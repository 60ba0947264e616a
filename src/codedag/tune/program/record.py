"""Recording of a function of numpy arrays: it runs on arrays that write every operation down as a statement.

Each recorded array carries a real one. numpy runs every operation on it, so types, shapes, strides and errors are
numpy's own answers. What cannot be written down is declined with the line of the function that asked for it.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codedag.instrument.guard import Failed, attempt
from codedag.tune.declined import CannotTune, declined
from codedag.tune.program.program import Affine, Const, Expr, Load, Op, Program, Reduction, contiguous
from codedag.tune.program.recorder import Recorder, natural_index, type_of

UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg",
    "positive": "pos", "absolute": "abs", "fabs": "abs", "sqrt": "sqrt", "square": "square", "exp": "exp", "log": "log",
    "log10": "log10", "minimum": "min", "maximum": "max", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "equal": "eq", "not_equal": "ne", "logical_and": "and", "bitwise_and": "and",
    "logical_or": "or", "bitwise_or": "or", "logical_not": "not", "invert": "not", "reciprocal": "reciprocal",
    "clip": "clip",
}  # fmt: skip
LOGICAL = ("and", "or", "not")
BOUNDS = ("min", "max", "clip")
CHECKED = ("add", "sub", "mul", "neg", "abs", "square")  # numpy warns if these overflow whole numbers that are scalars
Array = Any


def record(function: Callable[..., Any], arrays: Sequence[Array], name: str = "") -> Program:
    """The program of a function, run once on stand-ins for these arrays; raises CannotTune where it does not fit."""
    recorder, what = Recorder(Recorded), name or "the function"
    inputs = [recorder.given(f"x{k}", array) for k, array in enumerate(arrays)]
    with np.errstate(all="ignore"):
        result = attempt(_run, function, inputs)
    if isinstance(result, CannotTune):
        raise result
    if isinstance(result, Failed):
        raise CannotTune(f"{what} fails on arrays like these: {result.reason}")
    if not isinstance(result, Recorded):
        raise CannotTune(f"{what} returns {type(result).__name__}, not an array of its operations")
    if result.buffer in recorder.inputs:
        raise CannotTune(f"{what} does nothing to its arguments")
    if any(np.may_share_memory(result.shadow, one.shadow) for one in inputs):
        raise CannotTune(f"{what} returns a view of an argument, which is not computed at all")
    if not _is_dense(result.shadow):
        raise CannotTune(f"{what} returns a view that leaves elements out or turns them round: return a copy of it")
    return recorder.program(name or getattr(function, "__name__", "function"), result.buffer)


def _is_dense(array: Array) -> bool:
    """Whether the elements lie side by side, in any order of the axes."""
    return bool(array.transpose(sorted(range(array.ndim), key=lambda a: -array.strides[a])).flags.c_contiguous)


def _run(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    try:
        return function(*inputs)
    except CannotTune as error:
        return error
    except SystemExit as error:
        return CannotTune(f"the function ends the program on arrays like these (exit code {error.code})")


class Recorded(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that writes down what is done to it."""

    __array_priority__ = 1000

    def __init__(self, recorder: Recorder, buffer: str, shadow: Array) -> None:
        self.recorder, self.buffer, self.shadow = recorder, buffer, shadow
        self.viewed = False

    shape = property(lambda self: self.shadow.shape)
    ndim = property(lambda self: self.shadow.ndim)
    dtype = property(lambda self: self.shadow.dtype)
    size = property(lambda self: self.shadow.size)
    T = property(lambda self: self.transpose())

    def __len__(self) -> int:
        return len(self.shadow)

    def __repr__(self) -> str:
        return f"<recorded array {self.buffer}: {self.dtype}{list(self.shape)}>"

    def _refused(self, *_: Any) -> Any:
        raise declined("the value of an element decides what is done")

    __bool__ = __float__ = __int__ = __index__ = __iter__ = item = tolist = _refused
    __hash__ = object.__hash__

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise declined("an operation that is not written down asks for the elements")

    def __setitem__(self, *_: Any) -> None:
        raise declined("an assignment to elements is not written down")

    def __getattr__(self, name: str) -> Any:
        raise declined(f"ndarray.{name} is not written down")

    # operations on elements

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **keywords: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not keywords and out is None:
            return matmul(self.recorder, *inputs)
        if method == "reduce" and ufunc in REDUCES:
            return REDUCES[ufunc](*inputs, out=out, **keywords)
        if method != "__call__" or keywords or ufunc.__name__ not in UFUNCS:
            raise declined(f"numpy.{ufunc.__name__}{'' if method == '__call__' else '.' + method} is not written down")
        made = apply(self.recorder, ufunc, inputs)
        return made if out is None else self._assigned(out[0], made)

    def _assigned(self, target: Any, made: Recorded) -> Recorded:
        """`x -= y`: the name stands for another array from now on, if nobody else sees the old one."""
        if not isinstance(target, Recorded) or target.viewed or target.buffer in self.recorder.inputs:
            raise declined("writing into an array that others may see is not written down")
        if target.shape != made.shape:
            raise declined(f"an array of shape {made.shape} does not fit into one of {target.shape}")
        if target.dtype != made.dtype:
            made = made.astype(target.dtype)
        target.buffer, target.shadow = made.buffer, made.shadow
        return target

    def __pow__(self, other: Any) -> Any:
        known: dict[float, Any] = {2: np.square, 0.5: np.sqrt, 1: np.positive, -1: np.reciprocal}
        if type(other) in (int, float) and other in known and self.dtype.kind == "f":
            return known[other](self)
        if type(other) is int and other == 2 and self.dtype.kind in "iu":
            return np.square(self)
        raise declined(f"a power of {other!r} of type {self.dtype} is not written down (2, 0.5 and -1 of floats are)")

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """The array in another type."""
        if order != "K":
            raise declined(f"astype with order={order!r} is not written down")
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        with np.errstate(all="ignore"):
            shadow = self.shadow.astype(dtype, casting=casting)
        load = Load(self.buffer, natural_index(self.shape, self.shape))
        return self.recorder.append(shadow, Op("cast", type_of(dtype), (load,)), "ufunc")

    def copy(self, order: str = "C") -> Recorded:
        """A copy in the layout that is asked for."""
        load = Load(self.buffer, natural_index(self.shape, self.shape))
        return self.recorder.append(self.shadow.copy(order), load, f"copy {order}")

    def clip(self, min: Any = None, max: Any = None) -> Any:  # noqa: A002 - numpy's names
        """The array within bounds."""
        return _clip(self, min, max)

    # views

    def _view(self, shadow: Array, index: tuple[Affine, ...]) -> Recorded:
        made = self.recorder.append(shadow, Load(self.buffer, index), "view")
        self.viewed = made.viewed = True
        return made

    def transpose(self, *axes: Any) -> Recorded:
        """The array with its axes in another order."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))) else axes
        order = tuple(reversed(range(self.ndim))) if not order else tuple(a % self.ndim for a in order)
        shadow = self.shadow.transpose(order)
        index = tuple(Affine(((f"d{order.index(k)}", 1),)) for k in range(self.ndim))
        return self._view(shadow, index)

    def reshape(self, *shape: Any, order: str = "C") -> Recorded:
        """The same elements with other axes; the array must lie in order."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        shadow = self.shadow.reshape(wanted)
        if order != "C" or not self.shadow.flags.c_contiguous:
            raise declined("a reshape of an array that does not lie in order is not written down")
        steps = contiguous(shadow.shape)
        terms = tuple((f"d{k}", steps[k]) for k, extent in enumerate(shadow.shape) if extent != 1)
        return self._view(shadow, (Affine(terms),))

    def ravel(self) -> Recorded:
        """The elements along one axis."""
        return self.reshape(-1)

    def __getitem__(self, key: Any) -> Recorded:
        keys = list(key) if isinstance(key, tuple) else [key]
        if any(not (k is None or k is Ellipsis or type(k) in (int, slice)) for k in keys):
            raise declined("an index other than slices, whole numbers, None and ... is not written down")
        if Ellipsis not in keys:
            keys.append(Ellipsis)
        at = keys.index(Ellipsis)
        left = self.ndim - sum(k is not None and k is not Ellipsis for k in keys)
        keys[at : at + 1] = [slice(None)] * left
        return self._view(self.shadow[key], _slices(keys, self.shape))

    # reductions

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Recorded:
        """The sum along axes."""
        return _reduced(self, np.add, "sum", axis, keepdims, dtype, out)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Recorded:
        """The greatest elements along axes."""
        return _reduced(self, np.maximum, "max", axis, keepdims, None, out)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Recorded:
        """The least elements along axes."""
        return _reduced(self, np.minimum, "min", axis, keepdims, None, out)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Recorded:
        """The mean along axes, as numpy computes it: a sum, then a division."""
        if dtype is None and self.dtype.kind in "iub":
            dtype = np.dtype("f8")
        if dtype is not None and np.dtype(dtype).kind != "f":
            raise declined(f"a mean in type {np.dtype(dtype)} is not written down")
        return _divided(_reduced(self, np.add, "sum", axis, keepdims, dtype, out), _count(self, axis))

    def var(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False
    ) -> Recorded:
        """The variance along axes, as numpy computes it: the mean of the squares of what is beyond the mean."""
        if dtype is not None or out is not None or type(ddof) is not int:
            raise declined("var with dtype, out or a ddof that is no whole number is not written down")
        kind = np.dtype("f8") if self.dtype.kind in "iub" else None
        total = _reduced(self, np.add, "sum", axis, True, kind, None)
        apart = self - _divided(total, _count(self, axis))
        square = apart * apart
        again = _reduced(square, np.add, "sum", axis, keepdims, None, None)
        return _divided(again, max(_count(self, axis) - ddof, 0))

    def std(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False
    ) -> Recorded:
        """The root of the variance."""
        return apply(self.recorder, np.sqrt, (self.var(axis, dtype, out, ddof, keepdims),))

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        known, name = FUNCTIONS.get(function), f"{function.__module__}.{function.__name__}"
        if known is None:
            raise declined(f"{name} is not written down")
        try:
            inspect.signature(known).bind(*args, **keywords)
        except TypeError:
            raise declined(f"{name} with these arguments is not written down") from None
        return known(*args, **keywords)


def _slices(keys: list[Any], shape: tuple[int, ...]) -> tuple[Affine, ...]:
    """The index of a view that slices and whole numbers make."""
    index, axis, out = [], 0, 0
    for key in keys:
        if key is None:
            out += 1
        elif isinstance(key, int):
            index.append(Affine((), key % shape[axis]))
            axis += 1
        else:
            start, _, step = key.indices(shape[axis])
            index.append(Affine(((f"d{out}", step),), start))
            axis, out = axis + 1, out + 1
    return tuple(index)


def apply(recorder: Recorder, ufunc: Any, inputs: Sequence[Any]) -> Recorded:
    """The result of an operation on elements, in the type that numpy computes it in."""
    shadows = [one.shadow if isinstance(one, Recorded) else one for one in inputs]
    if any(isinstance(one, np.ndarray) and one.ndim for one in shadows if not _is_recorded(one, inputs)):
        raise declined("an array that is no argument is part of an operation: pass it as an argument")
    kinds = [type(one) if type(one) in (int, float, bool) else np.asarray(one).dtype for one in shadows]
    with np.errstate(all="ignore"):
        shadow = np.asarray(ufunc(*shadows))
        weak = [float if k is float else int if k is int else np.dtype("b1") if k is bool else k for k in kinds]
        loop = ufunc.resolve_dtypes((*weak, *[None] * ufunc.nout))
    name = UFUNCS[ufunc.__name__]
    if name in LOGICAL and any(one != np.dtype("b1") for one in loop[:-1]):
        raise declined(f"numpy.{ufunc.__name__} of numbers is not written down")
    args = tuple(_operand(one, type_of(kind), shadow.shape) for one, kind in zip(inputs, loop, strict=False))
    if name in BOUNDS and any(isinstance(one, Const) and one.value != one.value for one in args):
        raise declined(f"numpy.{ufunc.__name__} with a bound that is NaN is not written down")
    if name == "reciprocal" and loop[-1].kind != "f":
        raise declined("numpy.reciprocal of whole numbers is not written down")
    if name in CHECKED and not shadow.ndim and loop[-1].kind in "iu":
        name = f"checked_{name}"
    return recorder.append(shadow, Op(name, type_of(loop[-1]), args), "ufunc")


def _is_recorded(shadow: Any, inputs: Sequence[Any]) -> bool:
    return any(isinstance(one, Recorded) and one.shadow is shadow for one in inputs)


def _operand(one: Any, dtype: str, shape: tuple[int, ...]) -> Expr:
    if not isinstance(one, Recorded):
        if type(one) is int and np.dtype(dtype).kind in "iu" and not _is_within(one, dtype):
            raise declined(f"the number {one} is out of the range of type {np.dtype(dtype)}")
        return Const(np.asarray(one).astype(dtype).item(), dtype)
    load = Load(one.buffer, natural_index(one.shape, shape))
    return load if type_of(one.dtype) == dtype else Op("cast", dtype, (load,))


def _is_within(number: int, dtype: str) -> bool:
    info = np.iinfo(dtype)
    return int(info.min) <= number <= int(info.max)


def _divided(total: Recorded, count: int) -> Recorded:
    """A sum divided by a number of elements, as numpy does it: in float64, if float32 lacks that number."""
    if total.dtype == np.float32 and int(np.float32(count)) != count:
        wide = apply(total.recorder, np.true_divide, (total.astype(np.float64), count))
        return wide.astype(np.float32)  # type: ignore[no-any-return]
    return apply(total.recorder, np.true_divide, (total, count))


def _axes(array: Recorded, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(array.ndim))
    chosen = axis if isinstance(axis, tuple) else (axis,)
    if any(not isinstance(a, int) or not -array.ndim <= a < array.ndim for a in chosen):
        raise declined(f"axis {axis!r} is none of an array with {array.ndim} axes")
    return tuple(sorted(a % array.ndim for a in chosen))


def _count(array: Recorded, axis: Any) -> int:
    return math.prod(array.shape[a] for a in _axes(array, axis))


def _reduced(array: Recorded, ufunc: Any, op: str, axis: Any, keepdims: Any, dtype: Any, out: Any) -> Recorded:
    """The array of a reduction; its order is asked for when the program is classified."""
    if out is not None:
        raise declined("a reduction with out= is not written down")
    axes, keepdims = _axes(array, axis), bool(keepdims)
    if op != "sum" and not _count(array, axis):
        raise declined(f"the {op} of no elements has no value")
    with np.errstate(all="ignore"):
        shadow = np.asarray(ufunc.reduce(array.shadow, axis=axes, dtype=dtype, keepdims=keepdims))
    kept = iter(range(shadow.ndim))
    index = []
    for k in range(array.ndim):
        if k in axes:
            index.append(Affine(((f"r{axes.index(k)}", 1),)))
            if keepdims:
                next(kept)
        else:
            index.append(Affine(((f"d{next(kept)}", 1),)))
    kind = type_of(shadow.dtype)
    expr: Expr = Load(array.buffer, tuple(index))
    if kind != type_of(array.dtype):
        expr = Op("cast", kind, (expr,))
    names = tuple(f"r{k}" for k in range(len(axes)))
    how = f"reduce {' '.join(map(str, axes))}"
    return array.recorder.append(shadow, expr, how, Reduction(op, names), [array.shape[a] for a in axes])


def matmul(recorder: Recorder, a: Any, b: Any) -> Recorded:
    """The product of two stacks of matrices."""
    if not (isinstance(a, Recorded) and isinstance(b, Recorded)) or min(a.ndim, b.ndim) < 2:
        raise declined("a product that is not of two recorded arrays with two axes or more is not written down")
    shadow = np.matmul(a.shadow, b.shadow)
    stack = shadow.ndim - 2
    inner = Affine((("r0", 1),))
    left = (*natural_index(a.shape[:-2], shadow.shape[:-2]), Affine(((f"d{stack}", 1),)), inner)
    right = (*natural_index(b.shape[:-2], shadow.shape[:-2]), inner, Affine(((f"d{stack + 1}", 1),)))
    return _product(recorder, shadow, (a, left), (b, right), "matmul", (a.shape[-1],))


def _product(
    recorder: Recorder, shadow: Any, a: tuple[Recorded, Any], b: tuple[Recorded, Any], how: str, inner: Sequence[int]
) -> Recorded:
    kind = type_of(shadow.dtype)
    if any(type_of(one.dtype) != kind for one, _ in (a, b)):
        raise declined("a product of arrays of two types is not written down")
    expr = Op("mul", kind, (Load(a[0].buffer, a[1]), Load(b[0].buffer, b[1])))
    names = tuple(f"r{k}" for k in range(len(inner)))
    return recorder.append(shadow, expr, how, Reduction("sum", names), inner)


def _einsum(text: Any, *operands: Any, **keywords: Any) -> Recorded:
    """numpy.einsum of two arrays whose text names every axis once an operand."""
    if keywords or not isinstance(text, str) or len(operands) != 2 or "." in text:
        raise declined("einsum is written down for a text without ..., two arrays and no other argument")
    from codedag.tune.program.einsum_text import parts_of

    a, b = operands
    if not (isinstance(a, Recorded) and isinstance(b, Recorded)):
        raise declined("einsum of an array that is no argument is not written down")
    try:
        left, right, result = parts_of(text, spaced=False)
    except CannotTune as error:
        raise declined(error.message) from None
    shadow = np.einsum(text, a.shadow, b.shadow)
    summed = [name for name in dict.fromkeys([*left, *right]) if name not in result]
    places = {**{name: f"d{k}" for k, name in enumerate(result)}, **{n: f"r{k}" for k, n in enumerate(summed)}}
    sizes = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}
    indices = [tuple(Affine(((places[name], 1),)) for name in names) for names in (left, right)]
    how = f"einsum {text.replace(' ', '')}"
    return _product(a.recorder, shadow, (a, indices[0]), (b, indices[1]), how, [sizes[name] for name in summed])


def _where(condition: Any, *choices: Any) -> Recorded:
    if len(choices) != 2 or not isinstance(condition, Recorded) or condition.dtype != np.dtype("b1"):
        raise declined("where is written down for a recorded condition and two choices")
    shadow = np.where(condition.shadow, *(c.shadow if isinstance(c, Recorded) else c for c in choices))
    kind = type_of(shadow.dtype)
    args = (_operand(condition, "b1", shadow.shape), *(_operand(c, kind, shadow.shape) for c in choices))
    return condition.recorder.append(shadow, Op("where", kind, args), "ufunc")


def _clip(array: Any, low: Any = None, high: Any = None, out: Any = None, **keywords: Any) -> Any:
    if out is not None or keywords or not isinstance(array, Recorded):
        raise declined("clip is written down for a recorded array and two bounds")
    if array.dtype.kind in "iu":  # numpy leaves out bounds that no element can be beyond
        info = np.iinfo(array.dtype)
        low = None if type(low) is int and low <= info.min else low
        high = None if type(high) is int and high >= info.max else high
    if low is None or high is None:
        if low is high:
            return np.positive(array)
        return np.maximum(array, low) if high is None else np.minimum(array, high)
    return apply(array.recorder, _CLIP, (array, low, high))


_CLIP: Any = sys.modules["numpy._core.umath" if "numpy._core.umath" in sys.modules else "numpy.core.umath"].clip


def _ascontiguous(array: Recorded, dtype: Any = None) -> Recorded:
    changed = array if dtype is None or np.dtype(dtype) == array.dtype else array.astype(dtype)
    return changed if changed.shadow.flags.c_contiguous else changed.copy()


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: Recorded.sum, np.mean: Recorded.mean, np.var: Recorded.var, np.std: Recorded.std, np.max: Recorded.max,
    np.min: Recorded.min, np.amax: Recorded.max, np.amin: Recorded.min, np.transpose: Recorded.transpose,
    np.reshape: Recorded.reshape, np.ravel: Recorded.ravel, np.clip: _clip, np.where: _where, np.einsum: _einsum,
    np.copy: lambda a, order="K": a.copy(order), np.ascontiguousarray: _ascontiguous,
    np.swapaxes: lambda a, i, j: a.transpose([j % a.ndim if k == i % a.ndim else i % a.ndim if k == j % a.ndim else k
                                              for k in range(a.ndim)]),
    np.moveaxis: lambda a, i, j: a.transpose(_moved(a.ndim, i % a.ndim, j % a.ndim)),
}  # fmt: skip
REDUCES: dict[Any, Callable[..., Any]] = {np.add: Recorded.sum, np.maximum: Recorded.max, np.minimum: Recorded.min}


def _moved(ndim: int, source: int, target: int) -> list[int]:
    rest = [k for k in range(ndim) if k != source]
    return [*rest[:target], source, *rest[target:]]
