"""An array on its way through a chain: its elements are not computed yet, only what will be done to them.

Each operation of a chain, when it is reached, is written down instead of run, and hands on a placeholder; the last one
computes everything at once.  At any moment the steps can be run as the program wrote them (`settle`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from codedag.backends.elementwise import MAP, PACK, PERMUTE, SLICE, Role
from codedag.ir.verdict import No
from codedag.migrate.fuse.layout import Layout
from codedag.migrate.fuse.lookup_table import Known, as_array, finish, root
from codedag.migrate.fuse.parameters import axes_key, fact, is_still, parameter_key, slices_of, torch_is_watched
from codedag.migrate.guard import Declined
from codedag.migrate.placeholder import Placeholder

Array = Any
_TAG = (2, 3, 5, 7, 11)  # extents that cannot be confused: the shape of a permuted tag is the permutation
OTHER = Role("other", ())  # a call of another function than the one that was traced
ROOM = 512  # a table may have one row of 256 for this many elements
_LONG = 16  # an axis longer than this is not one of channels


class Step:
    """One operation, ready to be run on a value; it holds no placeholder, so that there are no cycles to collect."""

    __slots__ = ("at", "caller", "function", "keywords", "parameters", "role")

    def __init__(
        self, role: Role, function: Any, at: int, parameters: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        self.role, self.function, self.at = role, function, at  # at -1 the function is the name of a method
        self.parameters, self.keywords = parameters, keywords
        self.caller: Any = None  # from whose line it runs when it runs as written

    def on(self, value: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """What to call for this value: the function, its arguments and keywords."""
        at, parameters = self.at, self.parameters
        if at < 0:
            return getattr(value, self.function), parameters, self.keywords
        return self.function, (*parameters[:at], value, *parameters[at:]), self.keywords

    def run(self, value: Any) -> Any:
        """The result of the operation on this value."""
        at, parameters = self.at, self.parameters
        if at < 0:
            return getattr(value, self.function)(*parameters, **self.keywords)
        return self.function(*parameters[:at], value, *parameters[at:], **self.keywords)


def _itself(value: Any) -> Any:
    return value


class Deferred:
    """The source array, the steps so far, and what they did to its axes, memory and values."""

    __slots__ = (
        "__weakref__", "_value", "axes", "done", "is_tensor", "last", "layout", "root", "source", "spent", "steps",
        "value_axis", "view",
    )  # fmt: skip

    def __init__(self, source: Any, view: Array, is_tensor: bool, known: Known | None) -> None:
        shape = view.shape
        self.source, self.view, self.is_tensor = source, view, is_tensor
        self.axes: tuple[int, ...] = tuple(range(len(shape)))  # current axis -> axis of the source
        self.value_axis = _value_axis(shape)
        self.root = self.last = root(known, len(shape), self.value_axis, is_tensor)
        self.layout = Layout(source)
        self.steps: list[Step] = []
        self.spent = 0.0  # seconds
        self.done = False  # the steps have been run as written; `_value` is the real value
        self._value: Any = None

    @property
    def sample(self) -> Any:
        """A value of the type that this one has."""
        return self.last.value

    def settle(self, space: dict[str, Any] | None = None) -> Any:
        """The value that the steps give when each runs as written, in a module with these globals; computed once."""
        if not self.done:
            self._value = replayed(self.source, self.steps, space)
            self.done = True
            self.source = self.view = None
        return self._value

    def _follow(self, step: Step) -> bool:
        """Writes down a step that an earlier call had with the same parameters; the fast way."""
        known = self.last.next
        if (self.is_tensor or step.role.makes_tensor) and torch_is_watched():
            return False
        if known is None or known.facts is None or known.role is not step.role or step.keywords:
            return False
        parameters, facts = step.parameters, known.facts
        if len(parameters) != len(facts) or known.key[0] != step.at:
            return False
        for parameter, before in zip(parameters, facts, strict=True):
            if parameter is not before and not is_still(parameter, before):
                return False
        if known.varies is not None:
            axis, extent = known.varies
            if self.view.shape[axis] != extent or extent * ROOM > self.view.size:
                return False
        self._take(known, step)
        return True

    def _take(self, known: Known, step: Step) -> None:
        """Writes down a step that is known."""
        role, layout = step.role, self.layout
        if role.kind == MAP:
            if layout.views and not (role.in_place or known.aliases):
                layout.allocated()
        elif role.kind == PACK:
            layout.packed(role, step.run, known.converts)
            self.is_tensor = self.is_tensor or role.makes_tensor
        else:
            layout.viewed(step.run)
            if known.places:
                self.view = self.view.transpose(known.places)
                self.axes = tuple([self.axes[place] for place in known.places])
        self.steps.append(step)
        self.last = known

    def add(self, step: Step) -> None:
        """Writes one step down; raises (Declined, or what the operation raises) if it cannot be deferred."""
        if self._follow(step):
            return
        role = step.role
        if role is OTHER:
            raise Declined("another function than the traced one is called")
        if (self.is_tensor or role.makes_tensor) and torch_is_watched():
            raise Declined("a torch mode that sees every operation")
        if role.takes and (role.takes == "torch") is not self.is_tensor:
            raise Declined(f"a {'tensor' if self.is_tensor else 'numpy array'} in a {role.takes} operation")
        parameters = step.parameters
        if len(parameters) > role.parameters:
            raise Declined("more arguments than are understood")
        if step.keywords:
            unknown = step.keywords.keys() - role.keywords
            if unknown:
                raise Declined(f"keyword {sorted(unknown)[0]}")
            parameters = (*parameters, *step.keywords.values())
        ahead = self.last.next
        known = _STEPS[role.kind](self, step, parameters)
        self._take(known, step)
        if known is ahead and known.facts is None and not step.keywords and role.kind != SLICE:
            known.role, known.facts = role, tuple(map(fact, parameters))  # it comes again: follow it from now on

    def _map(self, step: Step, parameters: tuple[Any, ...]) -> Known:
        role = step.role
        key: list[Any] = [step.at, *step.keywords] if step.keywords else [step.at]
        varies = None
        for parameter in parameters:
            one = parameter_key(parameter, self.is_tensor)
            key.append(one)
            if len(one) == 4 and one[2]:  # the shape of an array
                varies = self._broadcasts(one[2]) or varies
        known = self.last.step(tuple(key), role, step.run, varies, parameters)
        if not self.steps and (known.aliases or role.in_place):
            raise Declined("the first operation gives its input itself")
        known.varies = varies
        return known

    def _broadcasts(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """The axis along which an array parameter varies, with its extent; at most one in a chain."""
        axes, value_axis = self.axes, self.value_axis
        first = len(axes) - len(shape)
        if first < 0:
            raise Declined("a parameter with more axes than the array")
        varies = [first + i for i, extent in enumerate(shape) if extent != 1]
        if not varies:
            return None
        axis, extent = varies[0], shape[varies[0] - first]
        if len(varies) > 1 or axes[axis] == value_axis or extent != self.view.shape[axis]:
            raise Declined("a parameter that does not vary along one short axis alone")
        for other, grown in enumerate(self.last.value.shape):
            if grown != 1 and other != axis and axes[other] != value_axis:
                raise Declined("parameters that vary along two axes")
        if extent * ROOM > self.view.size:
            raise Declined("a table that would not be smaller than the array")
        return axis, extent

    def _permute(self, step: Step, parameters: tuple[Any, ...]) -> Known:
        key = axes_key(parameters)
        places = permutation(step.function, step.at, key, len(self.axes), self.is_tensor)
        known = self.last.step((step.at, *key), step.role, step.run, None, ())
        known.places = places
        return known

    def _slice(self, step: Step, parameters: tuple[Any, ...]) -> Known:
        index, shape = slices_of(parameters[0], len(self.axes)), self.last.value.shape
        view = step.run(self.view)
        if min(view.shape) < 2:
            raise Declined("an axis of extent 1")
        # the probe has only the axis of the parameters whole: elsewhere a slice chooses elements and changes none
        whole = slice(None)
        grown = [axis for axis, extent in enumerate(shape) if extent != 1 and self.axes[axis] != self.value_axis]
        rows = tuple(s if axis in grown else whole for axis, s in enumerate(index))
        key = tuple((axis, index[axis].start, index[axis].stop, index[axis].step) for axis in grown)
        known = self.last.step(key, step.role, lambda probe: probe[rows], None, ())
        self.view = view
        return known

    def _pack(self, step: Step, parameters: tuple[Any, ...]) -> Known:
        tensors = self.is_tensor or step.role.makes_tensor
        key = (step.at, *step.keywords, *[parameter_key(p, tensors) for p in parameters])
        known = self.last.step(key, step.role, step.run, None, ())
        now = known.dtype if tensors is self.is_tensor else as_array(known.value).dtype
        known.converts = bool(self.last.dtype != now)
        return known

    # -- the end of the chain

    def finished(self) -> Known:
        """The last step, with the table of all steps."""
        if self.last.table is None:
            finish(self.last, self.axes, self.value_axis)
        return self.last


def replayed(value: Any, steps: list[Step], space: dict[str, Any] | None) -> Any:
    """The value after some steps as the program wrote them, each as from its own line."""
    for step in steps:
        if space is None or step.caller is None:
            value = step.run(value)
        else:
            value = step.caller.in_module(space)(*step.on(value))
    return value


_NOTHING = Step(OTHER, _itself, 0, (), {})  # a step that takes only what it takes to run one


def as_written_seconds(value: Any, steps: list[Step], clock: Callable[[], float]) -> float:
    """The seconds that some steps take in the program's own code, which neither looks them up nor replays them.

    They run once more: the first time was that of code which had not run for long.
    """
    started = clock()
    for step in steps:
        value = step.run(value)
    ran = clock()
    for _ in steps:
        value = _NOTHING.run(value)
    return max(ran - started - (clock() - ran), 0.0)


_STEPS: dict[str, Callable[[Deferred, Step, tuple[Any, ...]], Known]] = {
    MAP: Deferred._map,
    PERMUTE: Deferred._permute,
    SLICE: Deferred._slice,
    PACK: Deferred._pack,
}


def _value_axis(shape: tuple[int, ...]) -> int:
    """The axis along which the probe holds its 256 values: a long one, since parameters vary along short ones."""
    long = [axis for axis, extent in enumerate(shape) if extent > _LONG]
    return long[-1] if long else shape.index(max(shape))


@lru_cache(maxsize=256)
def permutation(function: Any, at: int, key: tuple[Any, ...], ndim: int, is_tensor: bool) -> tuple[int, ...]:
    """Which axis of its input each axis of a permuting operation's result is; asks the operation itself."""
    tag: Any = sys.modules["numpy"].empty(_TAG[:ndim], "u1")
    tag = sys.modules["torch"].from_numpy(tag) if is_tensor else tag
    moved = getattr(tag, function)(*key) if at < 0 else function(tag, *key)
    places = tuple(_TAG.index(extent) for extent in moved.shape)
    if sorted(places) != list(range(ndim)):
        raise Declined("it changes the number of axes")
    return places


def opening(source: Any, smallest: int, known: Known | None) -> Placeholder | No:
    """A placeholder for the result of the first operation on a value that enters a chain, or why there is none."""
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
    return Placeholder(Deferred(source, view, is_tensor, known))


def _has_an_order(strides: tuple[int, ...]) -> bool:
    """Whether all axes have different steps in memory, so that every library sorts them the same way."""
    return len({abs(stride) for stride in strides} - {0}) == len(strides)
