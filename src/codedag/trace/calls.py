"""A call as it is meant: what was called with what, seen through `functools.partial`."""

from __future__ import annotations

import functools
import io
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from codedag.instrument.sites import CALL, GETITEM, SETITEM
from codedag.trace import habits
from codedag.trace.dataflow import (
    ARRAY,
    FLAT,
    IGNORED,
    LIBRARY,
    MAPPING,
    OBJECT,
    SEQUENCE,
    TENSOR,
    USER,
    Dataflow,
    Leaf,
    Leaves,
    array_behind,
)  # fmt: skip
from codedag.trace.names import bound_to, name_of

MOST_FILES = 64
HOLDERS = (IGNORED, SEQUENCE, MAPPING, USER, LIBRARY)
_DATA = (ARRAY, TENSOR, OBJECT)


@dataclass(slots=True)
class Call:
    """What was called, with what, and what is known of such functions."""

    site: Any
    function: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    result: Any
    own: Any  # what a method is bound to
    habits: int


def seen(site: Any, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> Call:
    """A call as it is meant: of the function behind a `functools.partial`, with its arguments too."""
    if site.kind != CALL:
        return Call(site, function, args, keywords, result, None, 0)
    while type(function) is functools.partial:
        args, keywords = (*function.args, *args), {**function.keywords, **keywords}
        function = function.func
    own = bound_to(function)
    if isinstance(own, types.ModuleType):
        own = None
    return Call(site, function, args, keywords, result, own, habits.habits_of(name_of(function)))


def files_in(call: Call) -> list[Any]:
    """The files in memory that a call was given."""
    if call.site.kind != CALL:
        return []
    return [value for value in (*call.args, *call.keywords.values()) if type(value) is io.BytesIO]


class Files:
    """The operations that last wrote data to each of the files in memory, of which few are used at a time."""

    def __init__(self) -> None:
        self._writers: dict[int, tuple[Callable[[], Any], int]] = {}

    def wrote(self, file: Any, operation: int) -> None:
        """Notes that `operation` wrote to the file."""
        self._writers.pop(id(file), None)
        if len(self._writers) >= MOST_FILES:
            del self._writers[next(iter(self._writers))]
        self._writers[id(file)] = (weakref.ref(file), operation)

    def writer(self, file: Any) -> int:
        """The operation that last wrote to the file, or -1."""
        reference, operation = self._writers.get(id(file), (None, -1))
        return operation if reference is not None and reference() is file else -1


def unfolded(function: Any) -> Any:
    """The function behind a `functools.partial`."""
    while type(function) is functools.partial:
        function = function.func
    return function


def distinct(leaves: list[Leaf]) -> list[Leaf]:
    """The leaves without those that are there twice."""
    return list({id(leaf[0]): leaf for leaf in leaves}.values())


def same_as(value: Any) -> Callable[[Any], bool]:
    """A question whether something is this value, which is not kept alive.

    An iterator in C has no weak references: of one type at one address only one is alive, and a new one is noted anew.
    """
    try:
        reference = weakref.ref(value)
    except TypeError:
        of = type(value)
        return lambda other: type(other) is of
    return lambda other: reference() is other


def only_stores(flow: Dataflow, call: Call) -> bool:
    """Whether a call puts values into a container, takes them out or keeps them: that moves no data."""
    if call.site.kind in (GETITEM, SETITEM):
        return flow.kind(call.args[call.site.kind == SETITEM]) in (SEQUENCE, MAPPING)
    if call.habits & habits.LOOKS and call.own is None:
        return True
    if call.habits & habits.PUTS and call.own is not None:
        return flow.kind(call.own) in HOLDERS
    if call.habits & habits.PLACES and call.args:
        return flow.kind(call.args[0]) in HOLDERS
    takes = call.function is list or call.function is tuple
    if takes and call.args and flow.kind(call.args[0]) in (ARRAY, TENSOR, FLAT):
        return False  # it takes the rows or the numbers out
    return isinstance(call.function, type) and flow.kind(call.result) in HOLDERS


def written_by(flow: Dataflow, call: Call, inputs: list[Leaf], held: list[Leaf]) -> list[Leaf]:
    """What this call wrote: out=, dst=, an item set, what it fills, or what a call wrote that returned nothing.

    A method writes its own object or what that holds, a function its first argument if it is known to do so.
    """
    written = Leaves()
    for name in ("out", "dst"):
        if call.keywords.get(name) is not None:
            flow.leaves(call.keywords[name], written, 1)
    if call.habits & habits.FILLS:
        for value in call.args if not written else ():
            flow.leaves(value, written, 1)
            if written:
                break
    elif call.result is None and inputs:
        target = _target(flow, call)
        if flow.kind(target) in _DATA:
            written.append((target, flow.kind(target)))
        elif held and not call.habits & habits.KEEPS:
            written.extend(held)
    return written


def _target(flow: Dataflow, call: Call) -> Any:
    if call.site.kind == SETITEM:
        target = call.args[1]  # a site passes value, object, index
        return array_behind(target) if flow.kind(target) == FLAT else target
    if flow.kind(call.own) in _DATA:
        return None if call.habits & habits.KEEPS else call.own
    return call.args[0] if call.habits & habits.WRITES and call.args else None
