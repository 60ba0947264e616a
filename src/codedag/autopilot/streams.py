"""Generators of random numbers: their states, and whether one moved that nobody asked for.

Every draw of what runs ahead is asked for first.  That is proven from the program's code, and here it is looked at all
the same: the generators that everybody draws from, those that a batch is given and those that it has drawn from before
must be where they were, unless a draw from them was let through.  Else the batch is taken back.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

MOST = 16  # generators that are looked at
_WORDS = 624  # of a Mersenne Twister
_NBYTES = 4 * _WORDS + 4  # with its place in them
_HEAD = object.__basicsize__
_FEW = 8  # values in a list or dict that are looked at
_PLAIN = ("PCG64", "PCG64DXSM", "MT19937")
_kept: dict[int, tuple[Any, Any, Any]] = {}  # a generator, its mark and its state then


class Streams:
    """Some generators, where they were when this was made."""

    def __init__(self, generators: Iterable[Any]) -> None:
        every = {id(each): each for each in generators if _is_plain(each)}
        self._before = {key: _now(each) for key, each in list(every.items())[:MOST]}

    def state_of(self, generator: Any) -> Any:
        """The state that a generator had; that of now if it was not looked at."""
        found = self._before.get(id(generator))
        return found[2] if found is not None else state_of(generator)

    def moved(self, asked: Collection[int]) -> list[Any]:
        """Those that are elsewhere now, without those that were asked for."""
        kept = [(each, mark) for key, (each, mark, _) in self._before.items() if key not in asked]
        return [each for each, mark in kept if _mark(each) != mark]

    def put_back(self, asked: Collection[int]) -> None:
        """Gives those that moved unasked their states again."""
        for each in self.moved(asked):
            give_state(each, self._before[id(each)][2])


def of_everybody() -> list[Any]:
    """The generators that any code can draw from."""
    places = (("random", "_inst"), ("numpy.random.mtrand", "_rand"), ("torch", "default_generator"))
    found = [getattr(sys.modules.get(module), name, None) for module, name in places]
    return [each for each in found if each is not None]


def among(values: Iterable[Any]) -> list[Any]:
    """The generators among some values, and directly in these."""
    first = list(values)
    inside = [each for value in first for each in _inside(value)]
    return [each for each in (*first, *inside) if _is_plain(each)]


def unwatched(values: Iterable[Any]) -> str:
    """What is directly in some values and may change, or differ between threads, where no site stands; "" if nothing.

    `x in rows` and `a, b = rows` move an iterator on.
    """
    for each in (each for value in values for each in (value, *_inside(value))):
        if isinstance(each, threading.local) or hasattr(type(each), "__next__"):
            return type(each).__qualname__
    return ""


def _inside(value: Any) -> list[Any]:
    if type(value) in (list, tuple):
        return list(value[:_FEW])
    held = value if type(value) is dict else getattr(value, "__dict__", None)
    return list(held.values())[: 4 * _FEW] if type(held) is dict else []


def _is_plain(value: Any) -> bool:
    """Whether this is a generator of a known kind: looking at it runs no code of the program."""
    kind = type(value)
    place = (kind.__module__, kind.__name__)
    if place in (("random", "Random"), ("torch._C", "Generator")):
        return True
    if place == ("numpy.random.mtrand", "RandomState"):
        return type(value._bit_generator).__name__ == "MT19937"
    return place == ("numpy.random._generator", "Generator") and type(value.bit_generator).__name__ in _PLAIN


def _now(generator: Any) -> tuple[Any, Any, Any]:
    """A generator, its mark and its state; to ask for that of a Mersenne Twister takes as long as a small item."""
    mark, known = _mark(generator), _kept.get(id(generator))
    if known is not None and known[0] is generator and known[1] == mark:
        return known
    if len(_kept) >= 2 * MOST:
        _kept.clear()
    found = _kept[id(generator)] = (generator, mark, state_of(generator))
    return found


def _mark(generator: Any) -> Any:
    """What differs if a generator has moved, and is cheap to ask for."""
    kind = type(generator).__name__
    if kind == "Random":
        here = _words(id(generator) + _HEAD) if _lies_as_known() else generator.getstate()
        return here, generator.gauss_next
    bits = generator._bit_generator if kind == "RandomState" else getattr(generator, "bit_generator", None)
    if bits is None:
        return bytes(generator.get_state().numpy())
    return _words(bits.ctypes.state_address) if type(bits).__name__ == "MT19937" else bits.state


def _words(address: int) -> bytes:
    return ctypes.string_at(address, _NBYTES)


@cache
def _lies_as_known() -> bool:
    """Whether the numbers of Python's own generator lie in memory as they have since Python 3.2."""
    one = sys.modules["random"].Random(1)
    if type(one).__basicsize__ < _HEAD + _NBYTES:
        return False
    *words, place = one.getstate()[1]
    return struct.unpack(f"i{_WORDS}I", _words(id(one) + _HEAD)) == (place, *words)


# -- states


def state_of(generator: Any) -> Any:
    """The state of a generator, or None if it has none that can be given back."""
    parts = parts_of(generator)
    if parts:
        states = [(part, state_of(part)) for part in parts]
        return None if any(state is None for _, state in states) else states
    for method in ("getstate", "get_state"):
        found = getattr(generator, method, None)
        if found is not None:
            return found()
    bits = getattr(generator, "bit_generator", None)
    return None if bits is None else bits.state


def give_state(generator: Any, state: Any) -> None:
    """Gives a generator a state that it had."""
    if parts_of(generator):
        for part, before in state:
            give_state(part, before)
        return
    for method in ("setstate", "set_state"):
        found = getattr(generator, method, None)
        if found is not None:
            found(state)
            return
    generator.bit_generator.state = state


def parts_of(transform: Any) -> list[Any]:
    """The generators that a transform of albumentations draws from: its own, and those of the transforms inside it."""
    if not type(transform).__module__.startswith("albumentations."):
        return []
    waiting, found = [transform], dict[int, Any]()
    while waiting:
        one = waiting.pop()
        own = (getattr(one, "random_generator", None), getattr(one, "py_random", None))
        found |= {id(each): each for each in own if each is not None}
        waiting += list(getattr(one, "transforms", None) or ())
    return list(found.values())
