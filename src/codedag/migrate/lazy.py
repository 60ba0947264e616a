"""Lazy operations of a region: a graph that is written down as it comes, to be a kernel's or to run as it is."""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codedag.migrate.caller import Caller
from codedag.migrate.guard import Declined
from codedag.migrate.placeholder import Placeholder

if TYPE_CHECKING:
    from codedag.migrate.region import Region

TYPES = frozenset("fdBbhHi")  # characters of the types of arrays that kernels take
_bits = struct.Struct("d").pack


class Step:
    """One operation of a region's kernel; arguments are places of earlier steps, of arrays, or constants."""

    __slots__ = ("arguments", "function", "keywords", "method")

    def __init__(self, operation: Operation, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.function, self.method = operation.function, operation.method
        self.arguments, self.keywords = arguments, keywords

    def run(self, done: list[Any], arrays: Sequence[Any]) -> Any:
        """The value of the operation, given those of earlier steps and the arrays."""
        own = [one.of(done, arrays) if type(one) is Place else one for one in self.arguments]
        words = {k: v.of(done, arrays) if type(v) is Place else v for k, v in self.keywords.items()}
        return getattr(own[0], self.method)(*own[1:], **words) if self.method else self.function(*own, **words)


class Place:
    """Where an argument of a step comes from."""

    __slots__ = ("at", "is_array")

    def __init__(self, at: int, is_array: bool) -> None:
        self.at, self.is_array = at, is_array

    def of(self, done: list[Any], arrays: Sequence[Any]) -> Any:
        """The value there."""
        return (arrays if self.is_array else done)[self.at]


class RegionSpec:
    """What a kernel of a region is made from: its steps, and the types and shapes of its arrays; equal by key."""

    __slots__ = ("_hash", "facts", "key", "name", "steps")

    def __init__(self, key: tuple[Any, ...], steps: list[Step], facts: list[tuple[str, tuple[int, ...]]]) -> None:
        self.key, self.steps, self.facts = key, steps, facts
        self.name = "_".join(step.method or str(getattr(step.function, "__name__", "call")) for step in steps)[:60]
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return type(other) is RegionSpec and self.key == other.key

    def function(self, *arrays: Any) -> Any:
        """The region as a function of its arrays."""
        done: list[Any] = []
        for step in self.steps:
            done.append(step.run(done, arrays))
        return done[-1]

    def build(self) -> Any:
        """The kernel that the tuner's model picks first, compiled and proven, or why there is none."""
        from codedag.tune.first_kernel import first_kernel

        return first_kernel(self.function, self.facts, self.name)


class Operation:
    """What one site of a region does: a function or a method of its first operand, called as from its own line."""

    __slots__ = ("caller", "function", "method", "region", "site")

    def __init__(self, region: Region, site: int, caller: Caller, function: Any, method: str) -> None:
        self.region, self.site, self.caller, self.function, self.method = region, site, caller, function, method


class Node:
    """One operation that was written down and has not run."""

    __slots__ = ("__weakref__", "arguments", "done", "keywords", "operation", "order", "value")

    def __init__(self, operation: Operation, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.operation, self.arguments, self.keywords = operation, arguments, keywords
        self.order, self.done, self.value = 0, False, None

    @property
    def sample(self) -> Any:
        """An array, whose attributes are those of the value."""
        return self.value if self.done else _sample()

    def settle(self, space: dict[str, Any] | None = None) -> Any:
        """The value, computed as written with all that was written down before it."""
        if not self.done:
            self.operation.region.settle(self, space)
        return self.value

    def run(self, space: dict[str, Any] | None) -> None:
        """Runs the operation as from its own line; its operands are settled."""
        own = [_value(one) for one in self.arguments]
        words = {name: _value(one) for name, one in self.keywords.items()}
        method = self.operation.method
        function = getattr(own.pop(0), method) if method else self.operation.function
        call = self.operation.caller.in_module(space if space is not None else {})
        self.value = call(function, tuple(own), words)
        self.ended()

    def ended(self) -> None:
        """Holds nothing but its value from now on."""
        self.done, self.arguments, self.keywords = True, (), {}


@functools.cache
def _sample() -> Any:
    return sys.modules["numpy"].ones(1)


def _value(one: Any) -> Any:
    return one.deferred.value if type(one) is Placeholder else one


def lies_in_order(array: Any) -> bool:
    """Whether an array has a type and a layout that kernels take."""
    dtype, flags = array.dtype, array.flags
    return dtype.char in TYPES and dtype.isnative and flags.c_contiguous and flags.aligned


def needed(last: Node) -> list[Node]:
    """The operations that a value needs and that have not run, in the order in which they were written."""
    found, waiting = {id(last): last}, [last]
    while waiting:
        node = waiting.pop()
        for one in node.arguments if not node.keywords else (*node.arguments, *node.keywords.values()):
            if type(one) is Placeholder and not one.deferred.done and id(one.deferred) not in found:
                found[id(one.deferred)] = one.deferred
                waiting.append(one.deferred)
    return sorted(found.values(), key=_order_of)


def _order_of(node: Node) -> int:
    return node.order


def signature(nodes: list[Node]) -> tuple[tuple[Any, ...], list[Any]]:
    """The key of a kernel, and the arrays that it is called with."""
    array = sys.modules["numpy"].ndarray
    places = {id(node): k for k, node in enumerate(nodes)}
    arrays: list[Any] = []
    known: dict[int, int] = {}
    key: list[Any] = []
    for node in nodes:
        key.append(node.operation.site)
        for one in node.arguments:
            key.append(_code(one, places, known, arrays, array))
        for name, one in node.keywords.items():
            key.append((name, _code(one, places, known, arrays, array)))
    for one in arrays:
        key.append((one.dtype.char, one.shape))
    return tuple(key), arrays


def _code(one: Any, places: dict[int, int], known: dict[int, int], arrays: list[Any], array: type) -> Any:
    """An argument in a key: the place of an earlier step, the place of an array (below zero), or a constant."""
    kind = type(one)
    if kind is Placeholder:
        node = one.deferred
        if not node.done:
            return places[id(node)]
        one, kind = node.value, type(node.value)
    if kind is array:
        if not lies_in_order(one):
            raise Declined("an array that does not lie in order")
        at = known.get(id(one))
        if at is None:
            at = known[id(one)] = len(arrays)
            arrays.append(one)
        return -1 - at
    if kind is float:
        return (float, _bits(one))
    if kind is slice:
        return (slice, one.start, one.stop, one.step)
    if kind is tuple:
        return (tuple, *[(slice, v.start, v.stop, v.step) if type(v) is slice else (type(v), v) for v in one])
    if isinstance(one, sys.modules["numpy"].generic):
        return (kind, one.tobytes())
    return (kind, one)


def spec_of(key: tuple[Any, ...], nodes: list[Node], arrays: list[Any]) -> RegionSpec:
    """What the kernel of these operations is made from."""
    places = {id(node): k for k, node in enumerate(nodes)}
    known = {id(one): k for k, one in enumerate(arrays)}

    def place(one: Any) -> Any:
        if type(one) is Placeholder:
            if not one.deferred.done:
                return Place(places[id(one.deferred)], False)
            one = one.deferred.value
        return Place(known[id(one)], True) if id(one) in known else one

    steps = [
        Step(node.operation, tuple(map(place, node.arguments)), {k: place(v) for k, v in node.keywords.items()})
        for node in nodes
    ]
    return RegionSpec(key, steps, [(one.dtype.str[1:], one.shape) for one in arrays])
