"""An array of any plain numbers on its way through a chain: the steps are written down, and one kernel computes them.

The counterpart of `deferred` for arrays that have more values than a table could hold.  numpy itself says, on one
element, which type each step gives; which bits, IEEE 754 says.  What is open is declined, here or by the kernel.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

from codedag.backends.elementwise import MAP, PACK, PERMUTE, SLICE
from codedag.ir.verdict import No
from codedag.migrate.fuse.deferred import OTHER, Step, permutation, replayed
from codedag.migrate.fuse.layout import Layout
from codedag.migrate.fuse.parameters import axes_key, slices_of
from codedag.migrate.guard import Declined
from codedag.migrate.placeholder import Placeholder
from codedag.tune.flow_source import NONE, RANGES, SCALAR, TYPES, FlowSpec, FlowStep

Flows = Callable[[FlowSpec], Any]
SMALLEST = 16384  # elements; a step costs about 5 us in Python
SMALL = 4096  # elements of a parameter that is copied at once; larger ones are read at the end
EXACT_INT = 2**53  # integers below this are the same in a double
SINGLE = 3.4028234663852886e38  # the largest float32
FLOATS = ("f4", "f8")
_CASTS = frozenset({"astype", "float32", "float64", "uint8", "int16"})
OPS = {
    "add": "add", "iadd": "add", "sub": "sub", "isub": "sub", "subtract": "sub", "mul": "mul", "imul": "mul",
    "multiply": "mul", "truediv": "div", "itruediv": "div", "divide": "div", "true_divide": "div", "neg": "neg",
    "negative": "neg", "pos": "pos", "sqrt": "sqrt", "square": "square", "absolute": "abs", "minimum": "min",
    "maximum": "max", "clip": "clip", **dict.fromkeys(_CASTS, "cast"),
}  # fmt: skip
_TWO = frozenset({"add", "sub", "mul", "div", "min", "max"})
_BOUNDS = {"min": 0, "a_min": 0, "max": 1, "a_max": 1}
_PLAIN = (float, int, bool)


class Unsure(No, frozen=True):
    """A call whose result could differ from numpy's, so that it ran as written."""


class Never(No, frozen=True):
    """A value of a kind that no such chain takes: the operations were seen on something else than arrays of numpy."""


class Flow:
    """The source array, the steps so far, and what they did to its axes, memory and type."""

    __slots__ = (
        "__weakref__", "_value", "done", "dtype", "inputs", "layout", "plan", "scalars", "shape", "source", "spent",
        "start", "steps",
    )  # fmt: skip

    def __init__(self, source: Any) -> None:
        self.source, self.shape = source, source.shape
        self.start = self.dtype = source.dtype.str[1:]
        self.inputs: list[tuple[Any, tuple[int, ...], int]] = [(source, source.strides, 0)]
        self.scalars: list[float] = []
        self.plan: list[FlowStep] = []
        self.layout = Layout(source)
        self.steps: list[Step] = []
        self.spent = 0.0  # seconds
        self.done = False  # the steps have been run as written; `_value` is the real value
        self._value: Any = None

    @property
    def sample(self) -> Any:
        """A value of the type that this one has."""
        return self._value if self.done else self.source

    def settle(self, space: dict[str, Any] | None = None) -> Any:
        """The value that the steps give when each runs as written, in a module with these globals; computed once."""
        if not self.done:
            self._value = replayed(self.source, self.steps, space)
            self.done = True
            self.source, self.inputs = None, []
        return self._value

    def add(self, step: Step) -> None:
        """Writes one step down; raises (Declined, or what the operation raises) if it cannot be deferred."""
        role = step.role
        if role is OTHER:
            raise Declined("another function than the traced one is called")
        if role.takes == "torch" or role.makes_tensor:
            raise Declined("a tensor in a chain of numpy arrays")
        if len(step.parameters) > role.parameters:
            raise Declined("more arguments than are understood")
        if step.keywords and (unknown := step.keywords.keys() - role.keywords):
            raise Declined(f"keyword {sorted(unknown)[0]}")
        if not self.steps and (role.kind != MAP or role.in_place):
            raise Declined("the first operation does not compute")
        {MAP: self._map, PACK: self._pack, PERMUTE: self._permute, SLICE: self._slice}[role.kind](step)
        self.steps.append(step)

    # -- steps that compute

    def _map(self, step: Step) -> None:
        name = step.function if step.at < 0 else getattr(step.function, "__name__", "")
        op = OPS.get(name, "")
        if not op:
            raise Declined(f"{name} is not fixed to the last bit")
        if op == "cast":
            self._cast(step)
        else:
            own = _values(op, step)
            dtype = _type_of(op, step, self.dtype, own)
            swapped = step.at == 1
            inputs: list[Any] = []
            scalars: list[float] = []
            kinds = [self._parameter(value, dtype, inputs, scalars) for value in own]
            self.inputs += inputs
            self.scalars += scalars
            self.plan.append(FlowStep(op, dtype, tuple(kinds), swapped))
            self.dtype = dtype
        if self.layout.views and not step.role.in_place:
            self.layout.allocated()

    def _parameter(self, value: Any, dtype: str, inputs: list[Any], scalars: list[float]) -> str:
        """Adds one parameter to the inputs or the numbers of a step; how the kernel sees it."""
        if value is None:
            return NONE
        if type(value) not in _PLAIN and value.ndim > len(self.shape):
            raise Declined("a parameter with more axes than the array")
        if type(value) in _PLAIN or value.size == 1:
            scalars.append(_number(value, dtype))
            return SCALAR
        kind = str(value.dtype.str[1:])
        if kind not in TYPES or not value.dtype.isnative:
            raise Declined(f"a parameter of type {value.dtype}")
        if value.size <= SMALL:
            value = value.copy()
        inputs.append((value, self._aligned(value), 0))
        return kind

    def _aligned(self, value: Any) -> tuple[int, ...]:
        """The strides of a parameter along the axes of the array."""
        shape, ahead = self.shape, len(self.shape) - value.ndim
        strides = [0] * ahead
        for extent, own, stride in zip(shape[ahead:], value.shape, value.strides, strict=True):
            if own not in (1, extent):
                raise Declined("a parameter that does not fit the array")
            strides.append(0 if own == 1 else stride)
        if len([one for one in strides if one]) > 1 and not (
            value.flags.c_contiguous and self.layout.ghost.flags.c_contiguous
        ):
            raise Declined("a parameter whose axes lie in another order")
        return tuple(strides)

    def _cast(self, step: Step) -> None:
        numpy = sys.modules["numpy"]
        probe = numpy.ones((1,) * len(self.shape), self.dtype)
        after = step.run(probe)
        if type(after) is not numpy.ndarray or after is probe:
            raise Declined("a cast that gives its input itself")
        self._convert(after.dtype)

    def _convert(self, dtype: Any) -> None:
        to = str(dtype.str[1:])
        if not dtype.isnative or to not in TYPES:
            raise Declined(f"elements of type {dtype}")
        if to not in FLOATS and (to not in RANGES or self.dtype not in FLOATS):
            raise Declined(f"a cast from {self.dtype} to {dtype}")
        self.plan.append(FlowStep("cast", to))
        self.dtype = to

    # -- steps that move

    def _pack(self, step: Step) -> None:
        numpy = sys.modules["numpy"]
        after = step.run(numpy.ones((1,) * len(self.shape), self.dtype))
        if type(after) is not numpy.ndarray:
            raise Declined(f"an operation that gives a {type(after).__name__}")
        converts = bool(after.dtype.str[1:] != self.dtype or not after.dtype.isnative)
        if converts:
            self._convert(after.dtype)
        self.layout.packed(step.role, step.run, converts)

    def _permute(self, step: Step) -> None:
        places = permutation(step.function, step.at, axes_key(step.parameters), len(self.shape), False)
        self.layout.viewed(step.run)
        self.shape = tuple([self.shape[place] for place in places])
        self.inputs = [(a, tuple([strides[p] for p in places]), first) for a, strides, first in self.inputs]

    def _slice(self, step: Step) -> None:
        index = slices_of(step.parameters[0], len(self.shape))
        ranges = [range(*one.indices(extent)) for one, extent in zip(index, self.shape, strict=True)]
        if min(map(len, ranges)) < 2:
            raise Declined("an axis of extent 1")
        self.layout.viewed(step.run)
        self.shape = tuple(map(len, ranges))
        self.inputs = [
            (
                array,
                tuple([stride * one.step for stride, one in zip(strides, ranges, strict=True)]),
                first + sum(stride * one.start for stride, one in zip(strides, ranges, strict=True)),
            )
            for array, strides, first in self.inputs
        ]

    # -- the end of the chain

    def computed(self, flows: Flows) -> Any:
        """The result of all steps by one kernel, or why there is none."""
        kernel = flows(FlowSpec(self.start, tuple(self.plan)))
        if isinstance(kernel, No):
            return kernel
        result = self.layout.make(sys.modules["numpy"].dtype(self.dtype))
        if result.shape != self.shape:
            return No("the chain changes the shape of its input")
        said = kernel.apply(self.inputs, self.scalars, result)
        return result if said is None else Unsure(said.reason)


def _values(op: str, step: Step) -> list[Any]:
    """The parameters of a step, in order: numbers, plain arrays, None for a bound that is not there."""
    own: list[Any] = list(step.parameters)
    if op == "clip":
        own += [None] * (2 - len(own))
        for name, value in step.keywords.items():
            own[_BOUNDS[name]] = value
        if own == [None, None]:
            raise Declined("a clip without bounds")
    elif len(own) != (op in _TWO):
        raise Declined("fewer arguments than are understood")
    return [_plain(value, op) for value in own]


def _plain(value: Any, op: str) -> Any:
    numpy = sys.modules["numpy"]
    if type(value) in _PLAIN or type(value) is numpy.ndarray or (value is None and op == "clip"):
        return value
    if isinstance(value, numpy.generic) and type(value).__module__ == "numpy":
        return value
    if type(value) in (list, tuple) and value and all(type(one) is float for one in value):
        return numpy.asarray(value)
    raise Declined(f"a parameter of type {type(value).__name__}")


def _number(value: Any, dtype: str) -> float:
    """A parameter that is one number, as the step's own type has it."""
    found = value if type(value) in _PLAIN else value.item()
    if type(found) not in _PLAIN or (type(found) is int and abs(found) >= EXACT_INT):
        raise Declined("a parameter that is no plain number")
    if not abs(found) <= (SINGLE if dtype == "f4" else sys.float_info.max):
        raise Declined("a parameter that is not finite")
    return float(found)


_types: dict[tuple[Any, ...], str] = {}


def _type_of(op: str, step: Step, before: str, own: list[Any]) -> str:
    """The type that a step gives, as numpy says on one element; in numpy 2 it depends on types alone."""
    kinds = [type(v) if v is None or type(v) in _PLAIN else (type(v), v.dtype.str, v.ndim) for v in own]
    key = (op, step.function, step.at, len(step.parameters), *step.keywords, before, *kinds)
    if key not in _types:
        _types[key] = _asked(op, step, before)
    if not _types[key]:
        raise Declined("a step that is not computed in the type of its result")
    return _types[key]


def _asked(op: str, step: Step, before: str) -> str:
    """What numpy answers; raises what the operation raises for such arguments."""
    probe = sys.modules["numpy"].ones(1, before)
    own = tuple([_one(_plain(value, op)) for value in step.parameters])
    words = {name: _one(_plain(value, op)) for name, value in step.keywords.items()}
    found = str(Step(step.role, step.function, step.at, own, words).run(probe).dtype.str[1:])
    if step.role.in_place:  # computed in one type, and cast to that of the array
        found = (
            found if getattr(operator, op if op != "div" else "truediv")(probe, *own).dtype.str[1:] == before else ""
        )
    return found if found in FLOATS else ""


def _one(value: Any) -> Any:
    """A parameter of the same type with the value 1."""
    numpy = sys.modules["numpy"]
    if value is None:
        return None
    if type(value) is numpy.ndarray:
        return numpy.ones((1,) * min(value.ndim, 1), value.dtype)
    return type(value)(1)


def opening(source: Any) -> Placeholder | No:
    """A placeholder for the result of the first operation on an array of plain numbers, or why there is none."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(source) is not numpy.ndarray:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(source, torch.Tensor):
            return Never("input is a tensor of torch that is not uint8")
        return No(f"input is {type(source).__name__}, not a numpy array")
    if int(numpy.__version__.partition(".")[0]) < 2:
        return No("before numpy 2, types depend on values")
    dtype, shape = source.dtype, source.shape
    if dtype.str[1:] not in TYPES or not dtype.isnative or dtype.metadata is not None:
        return No(f"input is {dtype}")
    if not 1 <= len(shape) <= 5 or min(shape) < 2 or source.size < SMALLEST:
        return No(f"input has shape {shape}: too few elements, or an axis of extent 1")
    strides = source.strides
    if not source.flags.c_contiguous and len({abs(one) for one in strides} - {0}) != len(strides):
        return No(f"input has strides {strides}: the order of its axes in memory is open")
    if numpy.geterr()["under"] != "ignore":
        return No("numpy is asked to tell of numbers that become too small")
    return Placeholder(Flow(source))
