"""Where to cut a chain into stages: the least bottleneck, exact by halving the bottleneck that is allowed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

ROUNDING = 1e-14  # relative: sums of other order differ by more


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a chain: the step at which each begins, and what the slowest stage or handover takes."""

    begins: list[int]
    bottleneck_seconds: float


def stages(seconds: Sequence[float], k: int, handovers: Sequence[float] | None = None) -> Stages:
    """At most k stages of a chain with the least bottleneck, and no more of them than that takes.

    `handovers[i]` is what it takes to hand on what step i leaves, beside the work; infinite where the chain must not
    be cut.  For a bottleneck that is allowed, the furthest cut is always the best one.
    """
    sums = [0.0, *accumulate(seconds)]
    between = list(handovers) if handovers is not None else [0.0] * max(len(seconds) - 1, 0)
    if not seconds:
        return Stages([], 0.0)
    low, high, best = max(seconds) * (1 - ROUNDING), sums[-1], [0]
    while k > 1 and high - low > ROUNDING * high:
        middle = (low + high) / 2
        found = _cuts(sums, between, k, middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return Stages(best, _bottleneck(sums, between, best))


def _cuts(sums: Sequence[float], between: Sequence[float], k: int, most: float) -> list[int] | None:
    """Where stages begin if none may take longer than this, or None if k are too few."""
    allowed = [step + 1 for step, handover in enumerate(between) if handover <= most]
    begins = [0]
    while sums[-1] > sums[begins[-1]] + most:
        reach = bisect_right(sums, sums[begins[-1]] + most) - 1
        at = bisect_right(allowed, reach) - 1
        if at < 0 or allowed[at] <= begins[-1] or len(begins) == k:
            return None
        begins.append(allowed[at])
    return begins


def _bottleneck(sums: Sequence[float], between: Sequence[float], begins: Sequence[int]) -> float:
    ends = [*begins[1:], len(sums) - 1]
    own = [sums[end] - sums[begin] for begin, end in zip(begins, ends, strict=True)]
    return max(*own, *(between[begin - 1] for begin in begins[1:]), 0.0)
