"""What the twin's sites hold between reading and writing a place; _site.c has the same as `Held`.

`x[i] += v` evaluates x and i once.  Its three sites hand a Held from one to the next: get(x, i, False) reads, the
operator changes what was read, set(held) writes.  With True in place of False, i is the name of an attribute.
`x[i], y = ...` becomes an assignment to set(x, i).value.
"""

from __future__ import annotations

from typing import Any

_INPLACE, _GETITEM, _SETITEM = 3, 4, 5  # of sites.py


class Held:
    """A place, and what is to be in it."""

    __slots__ = ("attribute", "base", "index", "now", "set")

    def __init__(self, base: Any, index: Any, now: Any, attribute: bool, set_: Any) -> None:
        self.base, self.index, self.now, self.attribute, self.set = base, index, now, attribute, set_

    def _store(self, value: Any) -> None:
        self.set(value, self.base, self.index)

    value = property(None, _store)


def held(site: Any, args: tuple[Any, ...]) -> tuple[Any] | None:
    """What a call gives that hands on something held, or None if this is another call."""
    if site.kind == _GETITEM and len(args) == 3:
        base, index, attribute = args
        return (Held(base, index, getattr(base, index) if attribute else site(base, index), attribute, None),)
    if site.kind == _SETITEM and len(args) == 2:
        return (Held(*args, None, False, site),)
    place = args[0] if args else None
    if type(place) is not Held:
        return None
    if site.kind == _INPLACE:
        place.now = site(place.now, args[1])
        return (place,)
    if place.attribute:
        setattr(place.base, place.index, place.now)
        return (None,)
    return (site(place.now, place.base, place.index),)
