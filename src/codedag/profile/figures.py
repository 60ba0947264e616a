"""What a number of batches say: best, median, an interval; and whether two of them can be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

ENOUGH = 6  # clean batches, from which on the others are not looked at
PATIENCE = 40  # batches after which it is clear that there will be no clean ones: the machine is too busy
TIGHT = 0.05  # half of the interval by the median
NEAR = 1.05  # a gain below this cannot be told from none: other code moved by as much between two runs here


@dataclass(slots=True)
class Batches:
    """The batches of one cell: seconds per call in the order in which they were taken, and which were undisturbed."""

    seconds: list[float] = field(default_factory=list)
    clean: list[bool] = field(default_factory=list)
    page_faults: list[float] = field(default_factory=list)

    def add(self, seconds: float, clean: bool, page_faults: float) -> None:
        """One more batch."""
        self.seconds.append(seconds)
        self.clean.append(clean)
        self.page_faults.append(page_faults)

    @property
    def used(self) -> list[float]:
        """The batches that count: the undisturbed ones, or the fastest quarter where they are few."""
        clean = [each for each, good in zip(self.seconds, self.clean, strict=True) if good]
        if len(clean) >= ENOUGH or not self.seconds:
            return sorted(clean)
        return sorted(self.seconds)[: max(1, math.ceil(len(self.seconds) / 4))]

    def figures(self) -> Figures:
        """What they say."""
        used = self.used
        low, high = interval(used)
        return Figures(used[0], median(used), low, high, len(self.seconds), sum(self.clean), _mean(self.page_faults))


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds per call: the best, the median, and the interval that holds the median in 95 of 100 cases."""

    best: float
    median: float
    low: float
    high: float
    rounds: int
    clean: int
    page_faults: float

    @property
    def tight(self) -> bool:
        """Whether the interval is narrow enough to stop."""
        return (self.clean >= ENOUGH or self.rounds >= PATIENCE) and (self.high - self.low) / 2 <= TIGHT * self.median


def interval(ordered: Sequence[float]) -> tuple[float, float]:
    """The interval around the median of ordered figures that order statistics give; of few, all of them."""
    count = len(ordered)
    skip = max(0, math.floor((count - 1.96 * math.sqrt(count)) / 2))
    return ordered[skip], ordered[count - 1 - skip]


def are_tied(one: Batches, other: Batches) -> bool:
    """Whether neither is clearly faster: taken in turn, the faster one is not so by enough nearly every time."""
    ratios = sorted(b / a for a, b in _pairs(one, other))
    if not ratios:
        return True
    low, high = interval(ratios)
    apart = one.figures().high * NEAR < other.figures().low or other.figures().high * NEAR < one.figures().low
    return not (apart or low > NEAR or high < 1 / NEAR)


def _pairs(one: Batches, other: Batches) -> list[tuple[float, float]]:
    """The batches that were taken one after the other, undisturbed ones if there are enough."""
    pairs = list(zip(one.seconds, other.seconds, one.clean, other.clean, strict=False))
    clean = [(a, b) for a, b, good, fine in pairs if good and fine]
    return clean if len(clean) >= ENOUGH else [(a, b) for a, b, _, _ in pairs]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
