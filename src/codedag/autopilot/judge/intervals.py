"""Confidence intervals for the centre of paired log ratios, by the Wilcoxon signed-rank test.

The test asks only that a value is as likely to lie above the centre as below.  The judge draws the order of its blocks
at random, so this holds for any program: drifts, spikes and periodic turns included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

EXACT_MAX = 30  # values up to which the distribution of the rank sum is counted; beyond, it is normal
_STEPS = 20  # of bisection: a millionth of the range
Bounds = tuple[float, float, float]  # low, middle, high


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


@lru_cache(maxsize=64)
def _counts(n: int) -> list[int]:
    """In how many of the 2^n sign patterns the ranks with a plus add up to each sum."""
    counts = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for at in range(len(counts) - 1, rank - 1, -1):
            counts[at] += counts[at - rank]
    return counts


@lru_cache(maxsize=4096)
def critical(n: int, error: float) -> float:
    """The largest rank sum that is as rare as half of `error`, at either end; -1 if none is."""
    if n > EXACT_MAX:
        sigma = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return n * (n + 1) / 4 + NormalDist().inv_cdf(error / 2) * sigma - 0.5
    allowed, total = error / 2 * 2**n, 0.0
    for at, count in enumerate(_counts(n)):
        total += count
        if total > allowed:
            return at - 1
    return -1


def rank_sum(values: Sequence[float], centre: float) -> float:
    """The sum of the ranks, by distance from the centre, of the values above it; ties share their ranks."""
    distances = sorted((abs(value - centre), value > centre) for value in values)
    total, at = 0.0, 0
    while at < len(distances):
        end = at
        while end < len(distances) and distances[end][0] == distances[at][0]:
            end += 1
        above = sum(1 for _, is_above in distances[at:end] if is_above)
        total += above * (at + 1 + end) / 2
        at = end
    return total


def _crossing(values: Sequence[float], wanted: float) -> float:
    """The centre at which the rank sum falls to `wanted`."""
    low, high = min(values), max(values)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if rank_sum(values, middle) > wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def bounds(values: Sequence[float], error: float) -> Bounds | None:
    """The Hodges-Lehmann estimate of the centre between its bounds; None if there are too few values for this error."""
    n = len(values)
    limit = critical(n, error)
    if limit < 0:
        return None
    top = n * (n + 1) / 2
    return _crossing(values, top - limit - 0.5), _crossing(values, top / 2), _crossing(values, limit + 0.5)


#: Quantiles of Student's t that leave out 1 in 20, for 4 and 5 values: a rank test needs 6.
_STUDENT_95 = {4: 3.182, 5: 2.776}


def few_bounds(values: Sequence[float]) -> Bounds | None:
    """The mean of 4 or 5 values between its bounds by Student's t, which leave out 1 in 20; None for other counts."""
    factor, n = _STUDENT_95.get(len(values)), len(values)
    if factor is None:
        return None
    mean = sum(values) / n
    half = factor * math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)
    return mean - half, mean, mean + half


def sign(values: Sequence[float], error: float) -> int:
    """1 if the centre is above 0, -1 if below, 0 if the values do not show it with this error."""
    n = len(values)
    limit, above = critical(n, error), rank_sum(values, 0.0)
    if limit < 0 or limit < above < n * (n + 1) / 2 - limit:
        return 0
    return 1 if above > limit else -1
