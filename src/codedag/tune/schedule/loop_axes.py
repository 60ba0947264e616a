"""Loops of a stage and how arrays move along them; loops are joined where every array allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop; the rows of a piece have no fixed extent."""

    name: str
    extent: int | None
    factor: int = 1  # of the rows of a piece, if they were joined with loops inside

    @property
    def text(self) -> str:
        """The number of turns as C."""
        if self.extent is not None:
            return str(self.extent)
        return f"rows*{self.factor}L" if self.factor != 1 else "rows"


@dataclass(frozen=True, slots=True)
class Place:
    """An array as a stage sees it: a C pointer, and by how many elements each loop moves on."""

    base: str
    dtype: str
    factors: dict[str, int]
    offset: int

    def at(self, loops: list[Loop]) -> str:
        """The pointer for the current turn of some loops."""
        moves = [f"{loop.name}*{self.factors[loop.name]}L" for loop in loops if self.factors.get(loop.name)]
        return " + ".join([self.base, *moves, *([str(self.offset)] if self.offset else [])])


def merged(loops: list[Loop], places: list[Place]) -> tuple[list[Loop], list[Place]]:
    """The loops with neighbours joined, outermost first, and the arrays as they move along them."""
    done: list[Loop] = []
    for inner in reversed(loops):
        if done and inner.name != "" and _joins(inner, done[0], places):
            last = done[0]
            assert last.extent is not None
            if inner.extent is None:
                done[0] = Loop(last.name, None, inner.factor * last.extent)
            else:
                done[0] = Loop(last.name, inner.extent * last.extent)
        else:
            done.insert(0, inner)
    return done, places


def _joins(outer: Loop, inner: Loop, places: list[Place]) -> bool:
    extent = inner.extent
    if extent is None:
        return False
    return all(place.factors.get(outer.name, 0) == place.factors.get(inner.name, 0) * extent for place in places)


def expanded(places: list[Place], loops: list[Loop], expand: Callable[[Place, Loop, Loop], Place]) -> list[Place]:
    """The arrays with those that repeat along the last loop but one written out, if that joins the last two."""
    outer, inner = loops[-2:]
    if outer.extent is None or inner.extent is None:
        return places
    made = []
    for number, place in enumerate(places):
        if place.factors.get(outer.name, 0) == place.factors.get(inner.name, 0) * inner.extent or (
            number and not place.factors.get(outer.name, 0) and not _moves_elsewhere(place, outer, inner)
        ):
            made.append(place)
        else:
            return places
    return [
        place
        if place.factors.get(outer.name, 0) == place.factors.get(inner.name, 0) * inner.extent
        else expand(place, outer, inner)
        for place in made
    ]


def _moves_elsewhere(place: Place, outer: Loop, inner: Loop) -> bool:
    others = [f for name, f in place.factors.items() if name not in (outer.name, inner.name)]
    return any(others) or not place.base.startswith("((const")
