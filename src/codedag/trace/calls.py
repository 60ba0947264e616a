"""A call as it is meant: what was called with what, seen through `functools.partial`."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from codedag.instrument.sites import CALL
from codedag.trace import habits
from codedag.trace.dataflow import Leaf
from codedag.trace.names import bound_to, name_of


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
