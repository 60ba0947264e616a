"""The history of a search: every point that was measured, in order, and the one counter of measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from codedag.tune.declined import CannotTune
from codedag.tune.schedule.space import Point, point_text

Measure = Callable[[list[Point]], Sequence[float | None]]


@dataclass
class History:
    """Measured points and their seconds (None: failed); no point is in it twice."""

    budget: int
    entries: list[tuple[Point, float | None]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    @property
    def left(self) -> int:
        """Measurements that may still be made."""
        return self.budget - len(self.entries)

    def has(self, point: Point) -> bool:
        """Whether a point was measured."""
        return point_text(point) in self.known

    def measure(self, points: Sequence[Point], measure: Measure) -> None:
        """Measures points that are new, as many as the budget allows."""
        fresh: dict[str, Point] = {}
        for point in points:
            if not self.has(point):
                fresh.setdefault(point_text(point), point)
        chosen = list(fresh.items())[: self.left]
        if not chosen:
            return
        self.known |= {text for text, _ in chosen}
        seconds = _answers(measure([point for _, point in chosen]), [text for text, _ in chosen])
        self.entries += [(point, s) for (_, point), s in zip(chosen, seconds, strict=True)]

    @property
    def good(self) -> list[tuple[Point, float]]:
        """The points that ran, fastest first; of equals the one whose text comes first."""
        ran = [(point, s) for point, s in self.entries if s is not None]
        return sorted(ran, key=lambda one: (one[1], point_text(one[0])))

    @property
    def best(self) -> tuple[Point, float] | None:
        """The fastest point."""
        return self.good[0] if self.good else None


def _answers(seconds: Any, texts: list[str]) -> list[float | None]:
    """The seconds of points; CannotTune if these are no answers to them."""
    found = list(seconds) if isinstance(seconds, Iterable) else None
    if found is None or len(found) != len(texts):
        raise CannotTune(f"`measure` must give seconds for each of {len(texts)} points, it gave {seconds!r}")
    for text, one in zip(texts, found, strict=True):
        if one is not None and not float(one) >= 0:
            raise CannotTune(f"`measure` gave {one!r} for {text}: seconds are 0 or more, or None if it failed")
    return [None if one is None else float(one) for one in found]
