"""What an item was made from: names, attributes, elements and small arrays as read, and whether they still are so.

Reads that most items share (globals, attributes of the dataset, functions) are stored once for all of them.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from codedag.backends.known_operators import static

ARRAY_NBYTES_MAX = 1 << 20  # of an array that is compared byte by byte
ELEMENTS_MAX = 4096  # of a list, tuple or dict that is compared element by element
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()
NAME, KIND, CODE, CELL, INSIDE, AGAIN, TYPE, FIELD, INDEXED = range(9)
Read = tuple[int, Any, Any, Any]
_SINGLE = (AGAIN, INDEXED)


class Frozen:
    """The dtype, layout and bytes of an array or tensor."""

    __slots__ = ("content", "facts")

    def __init__(self, value: Any) -> None:
        self.facts, self.content = facts_of(value), array_of(value).tobytes()

    def is_same(self, value: Any) -> bool:
        """Whether an array has the same dtype, layout and bytes."""
        return (
            type(value) is self.facts[0] and facts_of(value) == self.facts and self.content == array_of(value).tobytes()
        )


def array_of(value: Any) -> Any:
    """An array, or the memory of a tensor as one."""
    return value if hasattr(value, "flags") else value.numpy()


def facts_of(value: Any) -> tuple[Any, ...]:
    """What tells two arrays or tensors with the same bytes apart."""
    if hasattr(value, "flags"):
        return (type(value), value.dtype, value.shape, value.strides, value.flags.writeable)
    return (type(value), value.dtype, value.shape, value.stride(), value.requires_grad)


def is_array(value: Any) -> bool:
    """Whether a value is exactly an array or tensor that can be compared byte by byte."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and type(value) is numpy.ndarray:
        return not value.dtype.hasobject
    if torch is None or type(value) is not torch.Tensor or value.requires_grad or value.device.type != "cpu":
        return False
    return value.layout is torch.strided and value.dtype is not torch.bfloat16


def frozen(value: Any) -> Any:
    """A value such that `is_unchanged` can compare a later one with it."""
    return Frozen(value) if is_array(value) else value


def is_unchanged(now: Any, before: Any) -> bool:
    """Whether what is read now is what was read before."""
    if type(before) is Frozen:
        return before.is_same(now)
    if now is before:
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, tuple) and not hasattr(now, "__dict__"):  # the shape of a tensor is one
        return len(now) == len(before) and all(map(is_unchanged, now, before))
    if type(now) in (int, str, bytes, bool):
        return bool(now == before)
    if type(now) is float:
        return repr(now) == repr(before)
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(now, numpy.generic) and now.tobytes() == before.tobytes()


def _content(value: Any) -> tuple[Any, ...]:
    """The elements of a container; of a dictionary, its keys and values."""
    return tuple(each for pair in value.items() for each in pair) if isinstance(value, dict) else tuple(value)


def weakly(value: Any) -> Callable[[], Any]:
    """Gives an object as long as somebody else holds it; one that cannot be held so is held."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


class Reads:
    """Collects what one item reads; each thing once."""

    def __init__(self, plain: Callable[[CodeType], CodeType] = lambda code: code) -> None:
        self._plain = plain
        self._every: dict[tuple[Any, ...], Read] = {}
        self._shared: dict[tuple[Any, ...], Read] = {}  # of all items, so that equal ones are one object
        self._sets: dict[tuple[int, ...], tuple[Read, ...]] = {}

    def begin(self) -> None:
        """Forgets what the last item has read."""
        self._every = {}

    def name(self, space: dict[str, Any], name: str) -> Any:
        """What a namespace holds under a name, or ABSENT."""
        return self._note(NAME, space, name, space.get(name, ABSENT))

    def attribute(self, holder: Any, name: str) -> Any:
        """What the class of an object or one that it derives from defines under a name, or None."""
        self._note(TYPE, holder, "", type(holder))
        return self.defined(type(holder), name)

    def field(self, holder: Any, name: str) -> Any:
        """What an object itself holds under a name, or ABSENT."""
        return self._note(FIELD, holder, name, vars(holder).get(name, ABSENT))

    def defined(self, kind: type, name: str) -> Any:
        """What a class or one that it derives from defines under a name, or None."""
        return self._note(KIND, kind, name, static(kind, name))

    def function(self, function: FunctionType) -> None:
        """The code and defaults that a function has."""
        self._note(CODE, function, "", (self._plain(function.__code__), function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            self._note(CELL, cell, "", cell.cell_contents)

    def inside(self, value: Any) -> None:
        """The elements of a container, each by identity."""
        self._note(INSIDE, value, "", _content(value))

    def again(self, function: Callable[..., Any], args: tuple[Any, ...], value: Any) -> None:
        """What a cheap function without effects gives for these arguments."""
        self._every[AGAIN, len(self._every)] = (AGAIN, function, args, frozen(value))

    def indexed(self, holder: Any, index: int, value: Any) -> None:
        """The element of a container that has the item's own number."""
        self._every[INDEXED, len(self._every)] = (INDEXED, holder, index, frozen(value))

    def _note(self, kind: int, holder: Any, name: str, value: Any) -> Any:
        key = (kind, id(holder), name)
        if key not in self._every:
            parts = tuple(map(id, value)) if kind in (CODE, INSIDE) else id(value)
            holder = weakly(holder) if kind in (TYPE, FIELD) else holder  # a dataset must not live on by being kept
            self._every[key] = self._shared.setdefault((*key, parts), (kind, holder, name, value))
        return value

    def freeze(self) -> tuple[tuple[Read, ...], tuple[Read, ...]]:
        """What was read: what other items read as well, and what only this one did."""
        shared = tuple(read for read in self._every.values() if read[0] not in _SINGLE)
        shared = self._sets.setdefault(tuple(map(id, shared)), shared)
        return shared, tuple(read for read in self._every.values() if read[0] in _SINGLE)

    def hold(self, reads: tuple[Read, ...]) -> bool:
        """Whether everything would be read as it was."""
        for kind, holder, name, value in reads:
            if kind == NAME:
                if holder.get(name, ABSENT) is not value:
                    return False
            elif kind == FIELD:
                if vars(holder()).get(name, ABSENT) is not value:
                    return False
            elif kind == KIND:
                if static(holder, name) is not value:
                    return False
            elif not self._holds(kind, holder, name, value):
                return False
        return True

    def _holds(self, kind: int, holder: Any, name: Any, value: Any) -> bool:
        if kind == AGAIN:
            return is_unchanged(holder(*name), value)
        if kind == INDEXED:
            return is_unchanged(holder[name], value)
        if kind == CODE:
            now = (self._plain(holder.__code__), holder.__defaults__, holder.__kwdefaults__)
        elif kind == CELL:
            return holder.cell_contents is value
        elif kind == TYPE:
            return type(holder()) is value
        else:
            now = _content(holder)
        return len(now) == len(value) and all(map(operator.is_, now, value))


def for_index(read: Read, index: int) -> Read | None:
    """The same read of another item of the same dataset; None if what it reads is of another kind."""
    kind, holder, _, value = read
    if kind != INDEXED:
        return read
    now = holder[index]
    if type(value) is Frozen:
        if not is_array(now) or facts_of(now) != value.facts:
            return None
        return (INDEXED, holder, index, Frozen(now))
    return (INDEXED, holder, index, now) if type(now) is type(value) and type(now) in _ATOMS else None


def arrays_read(reads: tuple[Read, ...]) -> list[Any]:
    """The arrays and tensors that were read, or of which elements were."""
    found = []
    for kind, holder, name, value in reads:
        if kind == INDEXED:
            found.append(holder if is_array(holder) else holder[name])
        elif kind == AGAIN:
            found += name
        elif kind in (CELL, NAME, FIELD):
            found.append(value)
    return [each for each in found if is_array(each)]


_ATOMS = frozenset({int, float, bool, str, bytes, type(None)})
