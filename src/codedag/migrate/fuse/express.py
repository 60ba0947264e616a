"""The express lane of a chain: calls that are as the last ones were, but for the numbers in them.

The careful way (`deferred.py`) asks of every step whether it can be deferred and what it does to axes and memory.  Once
a call has gone that way, the answers hold for every call with the same operations, types, shapes and strides, and
only Python floats and the contents of array parameters vary.  Such a call is written down unseen and its table is made
at the end, in one go.  Anything that is not as before goes back to the careful way, with the steps so far.

One thing is given up for it: an operation that *warns* on some value is noticed at the end of the chain, not at its own
place.  Where a warning could become an exception the express lane is closed.
"""

from __future__ import annotations

import struct
import sys
import warnings
from typing import Any, NamedTuple

from codedag.backends.elementwise import PERMUTE, SLICE, Role
from codedag.migrate.fuse.deferred import Deferred, Step, replayed
from codedag.migrate.fuse.layout import Layout
from codedag.migrate.fuse.lookup_table import Array, Known, check_cast, check_zeros, finish, grown
from codedag.migrate.fuse.parameters import is_plain_tensor, torch_is_watched
from codedag.migrate.guard import Declined

MOST_LAYOUTS = 64  # shapes and strides of the input that are remembered; each holds an empty array of that size
_FLOAT = object()  # stands for any Python float
_IMMUTABLE = (int, bool, str, type(None), type)


class Spec:
    """One step as it must be: what its parameters are, and what running it needs."""

    __slots__ = ("at", "before", "facts", "grow", "keywords", "role", "sample", "to")

    def __init__(self, step: Step, before: Known, after: Known) -> None:
        self.role: Role = step.role
        self.at = step.at
        self.facts = tuple(_fact(parameter) for parameter in step.parameters)
        self.keywords = step.keywords
        self.before, self.to, self.sample = before.dtype, after.dtype, after.value
        self.grow = after.varies

    def takes(self, step: Step) -> bool:
        """Whether another call of this step does the same to the array, with parameters of the same kind."""
        parameters, keywords = step.parameters, step.keywords
        if step.role is not self.role or step.at != self.at or len(parameters) != len(self.facts):
            return False
        if (keywords or self.keywords) and not _same_keywords(keywords, self.keywords):
            return False
        for parameter, fact in zip(parameters, self.facts, strict=True):
            if fact is _FLOAT:
                if type(parameter) is not float:
                    return False
            elif type(fact) is ArrayFact or type(fact) is TensorFact:
                if not fact.holds(parameter):
                    return False
            elif not _same_plain(parameter, fact):
                return False
        return True


def is_any_float(fact: Any) -> bool:
    """Whether a parameter may be any Python float."""
    return fact is _FLOAT


def _fact(value: Any) -> Any:
    if type(value) is float:
        return _FLOAT
    if isinstance(value, sys.modules["numpy"].ndarray):
        return ArrayFact(type(value), value.shape, value.dtype)
    return TensorFact(value.shape, value.dtype) if is_plain_tensor(value) else value


class TensorFact(NamedTuple):
    """What must stay the same of a tensor parameter; its contents may change."""

    shape: tuple[int, ...]
    dtype: Any

    def holds(self, value: Any) -> bool:
        """Whether another parameter is such a tensor."""
        return is_plain_tensor(value) and value.shape == self.shape and value.dtype is self.dtype


class ArrayFact(NamedTuple):
    """What must stay the same of an array parameter; its contents may change."""

    kind: Any
    shape: tuple[int, ...]
    dtype: Any

    def holds(self, value: Any) -> bool:
        """Whether another parameter is such an array."""
        return type(value) is self.kind and value.shape == self.shape and bool(value.dtype == self.dtype)


def _same_plain(value: Any, known: Any) -> bool:
    """Whether two plain values are the same in type and worth; 0, 0.0 and False are not."""
    if value is known:
        return True
    if type(value) is not type(known):
        return False
    if type(value) is tuple:
        return len(value) == len(known) and all(map(_same_plain, value, known))
    return type(value) in (int, bool, str) and bool(value == known)


def _same_keywords(keywords: dict[str, Any], known: dict[str, Any]) -> bool:
    return keywords.keys() == known.keys() and all(_same_plain(value, known[name]) for name, value in keywords.items())


def _has_express(step: Step) -> bool:
    plain: tuple[type, ...] = (*_IMMUTABLE, sys.modules["numpy"].dtype)
    torch = sys.modules.get("torch")
    if torch is not None:
        plain = (*plain, torch.dtype)
    if step.role.kind == SLICE or not all(isinstance(value, plain) for value in step.keywords.values()):
        return False
    allowed = (*plain, float, sys.modules["numpy"].ndarray)
    parameters = [p for one in step.parameters for p in (one if type(one) is tuple else (one,))]
    return all(isinstance(parameter, allowed) or is_plain_tensor(parameter) for parameter in parameters)


class Express:
    """What all calls of a chain have had in common so far."""

    __slots__ = ("_axes", "_entry", "_kind", "_layouts", "_probe", "_value_axis", "fast", "latest", "specs")

    def __init__(self, deferred: Deferred, knowns: list[Known]) -> None:
        self.specs = tuple(Spec(s, a, b) for s, a, b in zip(deferred.steps, knowns, knowns[1:], strict=False))
        self._kind = type(deferred.source)
        self._entry = deferred.root.key
        self._value_axis, self._axes = deferred.value_axis, deferred.axes
        self._probe = _wide_probe(deferred.root.value, deferred.value_axis, _grown_axis(knowns))
        self._layouts: dict[tuple[Any, ...], Layout] = {}
        self.latest: tuple[Any, Known] = (None, knowns[-1])
        self.fast: tuple[Any, ...] | None = None  # what the fast lane was opened with

    @classmethod
    def of(cls, deferred: Deferred) -> Express | None:
        """The express lane that a call which went the careful way has opened, if it can have one."""
        if not all(map(_has_express, deferred.steps)):
            return None
        knowns = [deferred.root]
        while knowns[-1].next is not None and len(knowns) <= len(deferred.steps):
            knowns.append(knowns[-1].next)
        if knowns[-1] is not deferred.last:
            return None
        express = cls(deferred, knowns)
        express.learn(deferred)
        return express

    def learn(self, deferred: Deferred) -> bool:
        """Remembers how the result of such a source lies in memory; False if its steps are others."""
        if deferred.root.key != self._entry or not self._same_steps(deferred):
            return False
        if len(self._layouts) >= MOST_LAYOUTS:
            self._layouts.clear()
        self._layouts[_strides_key(deferred.source)] = deferred.layout
        return True

    def _same_steps(self, deferred: Deferred) -> bool:
        if len(deferred.steps) != len(self.specs):
            return False
        steps = zip(self.specs, deferred.steps, strict=True)
        return all(spec.takes(step) for spec, step in steps)

    def open(self, source: Any) -> ExpressRun | None:
        """A run on the express lane for this source, or None if it must go the careful way."""
        if type(source) is not self._kind:
            return None
        known = self._layouts.get(_strides_key(source))
        if known is None or not _is_uint8(source) or not nothing_raises():
            return None
        torch = sys.modules.get("torch")
        if torch is not None and (torch_is_watched() or torch.get_default_dtype() is not self._entry[3]):
            return None
        return ExpressRun(self, source, known)

    def known(self, parameters: list[tuple[Any, ...]], runs: list[Step]) -> Known:
        """The last step, with the table for these parameters: the latest one if they are the same."""
        key = _contents(parameters)
        latest, known = self.latest
        if latest != key:
            try:
                known = self._make(runs)
            except FloatingPointError as warning:  # this call warns on some value: it runs as written
                raise Declined(f"an operation that warns ({warning})") from None
            self.latest = (key, known)
        return known

    def _make(self, runs: list[Step]) -> Known:
        value = self._probe
        with sys.modules["numpy"].errstate(all="raise"):
            for spec, step in zip(self.specs, runs, strict=True):
                role = spec.role
                before = grown(value, spec.grow) if role.in_place else value
                if role.chooses:
                    check_zeros(before, step.parameters)
                value = step.run(before)
                if value.dtype != spec.to:
                    raise Declined("a number that changes the type of the result")
                if spec.to != spec.before and role.kind != PERMUTE:
                    check_cast(before, value)
        known = Known((), value, False)
        finish(known, self._axes, self._value_axis)
        return known

    @property
    def default_dtype(self) -> Any:
        """The default dtype of torch when this was learned."""
        return self._entry[3]

    @property
    def axes(self) -> tuple[int, ...]:
        """Axis of the result -> axis of the source."""
        return self._axes


class ExpressRun:
    """One call on the express lane: the source and the parameters so far; what `Deferred` is on the careful way."""

    __slots__ = ("__weakref__", "_value", "done", "express", "layout", "source", "spent", "steps")

    def __init__(self, express: Express, source: Any, layout: Layout) -> None:
        self.express, self.source, self.layout = express, source, layout
        self.steps: list[Step] = []
        self.spent = 0.0
        self.done = False
        self._value: Any = None

    @property
    def sample(self) -> Any:
        """A value of the type that this one has."""
        return self.express.specs[len(self.steps) - 1].sample

    @property
    def view(self) -> Array:
        """The uint8 elements, in the order of the result's axes."""
        source = self.source if type(self.source) is sys.modules["numpy"].ndarray else self.source.numpy()
        return source.transpose(self.express.axes)

    def add(self, step: Step) -> bool:
        """Writes one step down if it is as it must be."""
        spec = self.express.specs[len(self.steps)]
        if not spec.takes(step):
            return False
        self.steps.append(step)
        return True

    def finished(self) -> Known:
        """The last step, with the table of all steps."""
        return self.express.known([step.parameters for step in self.steps], self.steps)

    def settle(self, space: dict[str, Any] | None = None) -> Any:
        """The value that the steps give when each runs as written, in a module with these globals; computed once."""
        if not self.done:
            self._value = replayed(self.source, self.steps, space)
            self.done, self.source = True, None
        return self._value


def _grown_axis(knowns: list[Known]) -> tuple[int, int] | None:
    """The axis of the source along which parameters vary, with its extent."""
    axes: tuple[int, ...] = tuple(range(len(knowns[0].value.shape)))
    for known in knowns[1:]:
        if known.varies is not None:
            return axes[known.varies[0]], known.varies[1]
        axes = tuple(axes[place] for place in known.places) if known.places else axes
    return None


def _wide_probe(probe: Any, value_axis: int, grow: tuple[int, int] | None) -> Any:
    """The probe with room for the parameters from the start, its 256 values next to each other in memory.

    Operations on it then run over 256 neighbours three times, not over three neighbours 256 times.
    """
    if grow is None:
        return probe
    numpy = sys.modules["numpy"]
    axis, extent = grow
    shape = [1] * len(probe.shape)
    shape[value_axis], shape[axis] = 256, extent
    order = [axis, *(a for a in range(len(shape)) if a not in (axis, value_axis)), value_axis]
    memory = numpy.empty([shape[a] for a in order], numpy.uint8)
    memory[...] = numpy.arange(256, dtype=numpy.uint8)
    wide = memory.transpose([order.index(a) for a in range(len(shape))])
    return wide if type(probe) is numpy.ndarray else sys.modules["torch"].from_numpy(wide)


def _strides_key(source: Any) -> tuple[Any, ...]:
    if type(source) is sys.modules["numpy"].ndarray:
        return (source.shape, source.strides)
    return (tuple(source.shape), source.stride(), source.dtype, source.device)


def _is_uint8(source: Any) -> bool:
    numpy = sys.modules["numpy"]
    return type(source) is not numpy.ndarray or source.dtype is _uint8()


def _uint8() -> Any:
    return sys.modules["numpy"].dtype("u1")


def nothing_raises() -> bool:
    """Whether a floating-point warning stays a warning: neither numpy nor the filters make it an exception."""
    states = sys.modules["numpy"].geterr().values()
    if "raise" in states or "call" in states:
        return False
    for action, message, category, module, _ in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action == "error":
                return False
            if message is None and module is None:
                return True  # this one decides, whatever comes after it
    return True


def _contents(parameters: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The parameters as a key: floats by their bits, arrays by their bytes."""
    key: list[Any] = []
    for one in parameters:
        for value in one:
            if type(value) is float:
                key.append(_pack(value))
            elif type(value) in (tuple, *_IMMUTABLE):
                continue  # part of what makes the lane
            else:
                value = value.numpy() if is_plain_tensor(value) else value
                key.append(value.tobytes() if hasattr(value, "tobytes") else value)
    return tuple(key)


_pack = struct.Struct("d").pack
