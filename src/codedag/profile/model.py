"""Seconds of sizes that were not measured: a line in bytes and work that never falls, one per regime of sizes.

All errors count by their share of the time, so that small sizes weigh as much as large ones.  A size far beyond what
was measured is refused: what is true within the caches is not true beyond them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

from codedag.ir.verdict import No

Key = TypeVar("Key")
FARTHEST = 2.0  # times the largest that was measured, or a half of the smallest
FEWEST = 3  # points of one regime
LEAST_ERROR = 0.05  # no interval is narrower
BETTER = 0.8  # a second regime must leave so little of the error


@dataclass(frozen=True, slots=True)
class Point:
    """One measured size: bytes that are moved, operations, and the seconds of a call."""

    nbytes: float
    work: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of a call with the interval that the model's own errors suggest."""

    seconds: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """start + per_byte * bytes + per_operation * operations; none of the three is negative."""

    start: float
    per_byte: float
    per_operation: float

    def at(self, nbytes: float, work: float) -> float:
        """The seconds of a size."""
        return self.start + self.per_byte * nbytes + self.per_operation * work


class CostModel:
    """The regimes of one operation on one PU, fitted to the sizes that were measured."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = sorted(points, key=lambda point: (point.nbytes, point.work))
        if not self.points:
            raise ValueError("a cost model needs at least one measured size")
        self.split = _best_split(self.points)
        self._lines = [fit(part) for part in _parts(self.points, self.split)]
        self.error = max(LEAST_ERROR, 2 * _left_out_error(self.points, self.split))

    def at(self, nbytes: float, work: float) -> Prediction | No:
        """The seconds of a size, or why none can be told."""
        for point in self.points:
            if point.nbytes == nbytes and point.work == work:
                return _around(point.seconds, LEAST_ERROR)
        for what, value, values in (
            ("bytes", nbytes, [point.nbytes for point in self.points]),
            ("operations", work, [point.work for point in self.points]),
        ):
            if value > FARTHEST * max(values) or value * FARTHEST < min(values):
                return No(
                    f"{value:.3g} {what} are too far from what was measured ({min(values):.3g} to {max(values):.3g})"
                )
        return _around(self._line(nbytes).at(nbytes, work), self.error)

    def _line(self, nbytes: float) -> Line:
        return self._lines[0] if self.split is None or nbytes <= self.split else self._lines[1]


def ranked(models: Mapping[Key, CostModel], nbytes: float, work: float) -> list[tuple[Key, Prediction]]:
    """The candidates for a size with what their models predict, the fastest first; without those that cannot tell."""
    told = [(key, model.at(nbytes, work)) for key, model in models.items()]
    found = [(key, prediction) for key, prediction in told if not isinstance(prediction, No)]
    return sorted(found, key=lambda one: one[1].seconds)


def _around(seconds: float, error: float) -> Prediction:
    return Prediction(seconds, seconds / (1 + error), seconds * (1 + error))


def fit(points: Sequence[Point]) -> Line:
    """The line of least relative error among those whose parts are not negative."""
    import numpy as np

    rows = np.array([[1.0, point.nbytes, point.work] for point in points])
    rows /= np.array([point.seconds for point in points])[:, None]
    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    best = min(_candidates(np, rows / scale), key=lambda found: found[0])[1]
    return Line(*(float(part) for part in best / scale))


def _candidates(np: Any, rows: Any) -> Iterator[tuple[float, Any]]:
    """Error and factors of each choice of columns whose best factors are not negative; three columns are few."""
    target = np.ones(len(rows))
    for size in (1, 2, 3):
        for columns in combinations(range(3), size):
            chosen = list(columns)
            factors = np.linalg.lstsq(rows[:, chosen], target, rcond=None)[0]
            if (factors >= 0).all():
                whole = np.zeros(3)
                whole[chosen] = factors
                yield float(((rows @ whole - target) ** 2).sum()), whole
    # one column of numbers that are not negative always has a factor that is not


def _parts(points: Sequence[Point], split: float | None) -> list[list[Point]]:
    if split is None:
        return [list(points)]
    return [[p for p in points if p.nbytes <= split], [p for p in points if p.nbytes > split]]


def _best_split(points: Sequence[Point]) -> float | None:
    """The number of bytes at which a second regime begins, where that explains clearly more; else None."""
    sizes = sorted({point.nbytes for point in points})
    whole = _left_out_error(points, None)
    found: list[tuple[float, float]] = []
    for size in sizes[FEWEST - 1 : -FEWEST]:
        if all(len({p.nbytes for p in part}) >= FEWEST for part in _parts(points, size)):
            found.append((_left_out_error(points, size), size))
    best = min(found, default=None)
    return best[1] if best is not None and best[0] < BETTER * whole else None


def _left_out_error(points: Sequence[Point], split: float | None) -> float:
    """The root of the mean squared share by which each point is missed by a line through the others of its regime."""
    total = 0.0
    for part in _parts(points, split):
        for at, point in enumerate(part):
            others = [*part[:at], *part[at + 1 :]]
            missed = fit(others).at(point.nbytes, point.work) / point.seconds - 1 if others else 0.0
            total += missed * missed
    return float((total / max(len(points), 1)) ** 0.5)
