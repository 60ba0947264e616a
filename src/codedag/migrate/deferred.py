"""An array on its way through a chain: its elements are not computed yet, only what will be done to them.

Each operation of a chain, when it is reached, is written down instead of run, and hands on a stand-in; the last one
computes everything at once.  At any moment the steps can be run as the program wrote them (`settle`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from codedag.backends.elementwise import MAP, PACK, PERMUTE, Role
from codedag.ir.verdict import No
from codedag.migrate.guard import Declined
from codedag.migrate.layout import Layout
from codedag.migrate.parameters import axes_key, parameter_key, slices_of
from codedag.migrate.standin import StandIn
from codedag.migrate.table import Known, Tower, as_array, table_of

Array = Any
_TAG = (2, 3, 5, 7, 11)  # extents that cannot be confused: the shape of a permuted tag is the permutation
OTHER = Role("other", ())  # a call of another function than the one that was traced
_LONG = 16  # an axis longer than this is not one of channels


class Step:
    """One operation, ready to be run on a value."""

    __slots__ = ("args", "at", "function", "keywords", "name", "role")

    def __init__(
        self, role: Role, name: str, function: Any, at: int, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        self.role, self.name, self.function, self.at = role, name, function, at
        self.args, self.keywords = args, keywords

    def run(self, value: Any) -> Any:
        """The result of the operation on this value (at -1 the operation is a method of it)."""
        at, args = self.at, self.args
        if at < 0:
            return getattr(value, self.name)(*args, **self.keywords)
        return self.function(*args[:at], value, *args[at + 1 :], **self.keywords)

    def parameters(self) -> tuple[Any, ...]:
        """The positional arguments without the array."""
        at = self.at
        return self.args if at < 0 else self.args[:at] + self.args[at + 1 :]


class Deferred:
    """The source array, the steps so far, and what they did to its axes, memory and values."""

    __slots__ = (
        "__weakref__",
        "_value",
        "axes",
        "done",
        "is_tensor",
        "layout",
        "size",
        "source",
        "spent",
        "steps",
        "tower",
        "view",
    )

    def __init__(self, source: Any, view: Array, is_tensor: bool, known: list[Known]) -> None:
        shape = view.shape
        self.source, self.view, self.is_tensor = source, view, is_tensor
        self.size = view.size
        self.axes: tuple[int, ...] = tuple(range(len(shape)))  # current axis -> axis of the source
        self.layout = Layout(source)
        self.tower = Tower(known, len(shape), _value_axis(shape), is_tensor)
        self.steps: list[Step] = []
        self.spent = 0.0  # seconds
        self.done = False  # the steps have been run as written; `_value` is the real value
        self._value: Any = None

    @property
    def sample(self) -> Any:
        """A value of the type that this one has."""
        return self.tower.last.value

    def settle(self) -> Any:
        """The value that the steps give when each runs as the program wrote it; computed once."""
        if not self.done:
            self._value = self.replay()
            self.done = True
            self.source = self.view = None
        return self._value

    def replay(self) -> Any:
        """The value that the steps give when each runs as the program wrote it."""
        value = self.source
        for step in self.steps:
            value = step.run(value)
        return value

    def add(self, step: Step) -> None:
        """Writes one step down; raises (Declined, or what the operation raises) if it cannot be deferred."""
        role = step.role
        if role is OTHER:
            raise Declined("another function than the traced one is called")
        if role.takes and (role.takes == "torch") is not self.is_tensor:
            raise Declined(f"a {'tensor' if self.is_tensor else 'numpy array'} in a {role.takes} operation")
        parameters = step.parameters()
        if len(parameters) > role.parameters:
            raise Declined("more arguments than are understood")
        if step.keywords:
            unknown = step.keywords.keys() - role.keywords
            if unknown:
                raise Declined(f"keyword {sorted(unknown)[0]}")
            parameters = (*parameters, *step.keywords.values())
        _ADD[role.kind](self, step, parameters)
        self.steps.append(step)

    def _map(self, step: Step, parameters: tuple[Any, ...]) -> None:
        role = step.role
        key: list[Any] = [step.at, *step.keywords] if step.keywords else [step.at]
        grow = None
        for parameter in parameters:
            one = parameter_key(parameter, self.is_tensor)
            key.append(one)
            if len(one) == 4 and one[2]:  # the shape of an array
                grow = self._broadcasts(one[2]) or grow
        known = self.tower.step(tuple(key), role, step.run, grow, parameters)
        if not self.steps:
            if known.aliases or role.in_place:
                raise Declined("the first operation gives its input itself")
            self.layout.allocated()
        elif not role.in_place and not known.aliases:
            self.layout.mapped()

    def _broadcasts(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """The axis along which an array parameter varies, with its extent; at most one in a chain."""
        axes, value_axis = self.axes, self.tower.value_axis
        first = len(axes) - len(shape)
        if first < 0:
            raise Declined("a parameter with more axes than the array")
        varies = [first + i for i, extent in enumerate(shape) if extent != 1]
        if not varies:
            return None
        axis, extent = varies[0], shape[varies[0] - first]
        if len(varies) > 1 or axes[axis] == value_axis or extent != self.view.shape[axis]:
            raise Declined("a parameter that does not vary along one short axis alone")
        for other, grown in enumerate(self.tower.last.value.shape):
            if grown != 1 and other != axis and axes[other] != value_axis:
                raise Declined("parameters that vary along two axes")
        if extent * 512 > self.size:
            raise Declined("a table that would not be smaller than the array")
        return axis, extent

    def _permute(self, step: Step, parameters: tuple[Any, ...]) -> None:
        key = axes_key(parameters)
        places = _places(step.name if step.at < 0 else step.function, step.at, key, len(self.axes), self.is_tensor)
        self.tower.step((step.at, *key), step.role, step.run, None, ())
        self.layout.viewed(step.run)
        self.view = self.view.transpose(places)
        self.axes = tuple([self.axes[p] for p in places])

    def _slice(self, step: Step, parameters: tuple[Any, ...]) -> None:
        index = slices_of(parameters[0], len(self.axes))
        view = step.run(self.view)
        if min(view.shape) < 2:
            raise Declined("an axis of extent 1")
        whole = slice(None)
        rows = tuple(
            s if self.axes[axis] != self.tower.value_axis and self.tower.extent(axis) != 1 else whole
            for axis, s in enumerate(index)
        )
        key = tuple((s.start, s.stop, s.step) for s in rows if s is not whole)
        self.tower.step(key, step.role, lambda probe: probe[rows], None, ())
        self.layout.viewed(step.run)
        self.view = view

    def _pack(self, step: Step, parameters: tuple[Any, ...]) -> None:
        role = step.role
        # the dtype of torch.tensor and torch.as_tensor is torch's, the rest of their arguments numpy's
        tensors = self.is_tensor or role.makes_tensor
        key = (step.at, *step.keywords, *[parameter_key(p, tensors) for p in parameters])
        was = self.tower.last.dtype
        known = self.tower.step(key, role, step.run, None, ())
        is_tensor = self.is_tensor or role.makes_tensor
        now = known.dtype if is_tensor is self.is_tensor else as_array(known.value).dtype
        self.layout.packed(role, step.run, was != now)
        self.is_tensor = is_tensor

    # -- the end of the chain

    def table(self) -> Array:
        """The table of all steps."""
        return table_of(self.tower.last, self.axes, self.tower.value_axis)

    def rows(self) -> tuple[int, ...]:
        """For each axis of the result, how many rows of the table one step along it moves."""
        value_axis, extents = self.tower.value_axis, self.tower.last.value.shape
        return tuple([1 if extents[i] != 1 and axis != value_axis else 0 for i, axis in enumerate(self.axes)])


_ADD: dict[str, Callable[[Deferred, Step, tuple[Any, ...]], None]] = {
    MAP: Deferred._map,
    PERMUTE: Deferred._permute,
    PACK: Deferred._pack,
    "slice": Deferred._slice,
}


def _value_axis(shape: tuple[int, ...]) -> int:
    """The axis along which the probe holds its 256 values: a long one, since parameters vary along short ones."""
    long = [axis for axis, extent in enumerate(shape) if extent > _LONG]
    return long[-1] if long else shape.index(max(shape))


@lru_cache(maxsize=256)
def _places(function: Any, at: int, key: tuple[Any, ...], ndim: int, is_tensor: bool) -> tuple[int, ...]:
    """Which axis of its input each axis of a permuting operation's result is; asks the operation itself."""
    tag: Any = sys.modules["numpy"].empty(_TAG[:ndim], "u1")
    tag = sys.modules["torch"].from_numpy(tag) if is_tensor else tag
    moved = getattr(tag, function)(*key) if at < 0 else function(tag, *key)
    places = tuple(_TAG.index(extent) for extent in moved.shape)
    if sorted(places) != list(range(ndim)):
        raise Declined("it changes the number of axes")
    return places


def opening(source: Any, smallest: int, known: list[Known]) -> StandIn | No:
    """A stand-in for the result of the first operation on a value that enters a chain, or why there is none."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and type(source) is numpy.ndarray:
        dtype = source.dtype
        if dtype != numpy.uint8 or dtype.metadata is not None:
            return No(f"input is {dtype}, not uint8")
        view, is_tensor = source, False
    elif torch is not None and type(source) is torch.Tensor:
        if source.dtype != torch.uint8 or source.device.type != "cpu" or source.layout != torch.strided:
            return No(f"input is a {source.dtype} tensor on {source.device.type}, not uint8 on cpu")
        view, is_tensor = source.numpy(), True
    else:
        return No(f"input is {type(source).__name__}, not a uint8 array")
    shape = view.shape
    if not 1 <= len(shape) <= 5 or min(shape) < 2:
        return No(f"input has shape {shape}: an axis of extent 1 or none")
    if view.size < smallest:
        return No(f"input has only {view.size} elements")
    if not view.flags.c_contiguous and not _has_an_order(view.strides):
        return No(f"input has strides {view.strides}: the order of its axes in memory is open")
    return StandIn(Deferred(source, view, is_tensor, known))


def _has_an_order(strides: tuple[int, ...]) -> bool:
    """Whether all axes have different steps in memory, so that every library sorts them the same way."""
    return len({abs(stride) for stride in strides} - {0}) == len(strides)
