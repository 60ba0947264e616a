"""How much faster: the ratio of interleaved runs, with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

# Student's t for two-sided 95 % and 99 % by degrees of freedom (1 to 30; beyond that the last is used, which is wider).
_T = {
    0.95: (
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ),
    0.99: (
        63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
        2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
    ),
}  # fmt: skip

Verdict = Literal["faster", "slower", "no difference", "unclear"]

# Bounds further apart than this hold both a loss and a gain that somebody would notice.
WIDE = 1.2


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the other takes what the one takes, and between which bounds that is likely to lie."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.2f}x [{self.low:.2f} .. {self.high:.2f}]"

    @property
    def verdict(self) -> Verdict:
        """What the interval allows to say; one that holds both a loss and a gain worth having says nothing yet."""
        if self.low > 1 or self.high < 1:
            return "faster" if self.low > 1 else "slower"
        return "unclear" if self.low <= 0 or self.high / self.low > WIDE else "no difference"


def ratio(plain: Sequence[float], other: Sequence[float], confidence: float = 0.95) -> Ratio:
    """The geometric mean of the ratios of each round with Student's interval; one round has no interval.

    Rounds are pairs that ran one after the other, so that a machine that slows down slows both.
    """
    logs = [math.log(one / two) for one, two in zip(plain, other, strict=True)]
    middle = fmean(logs)
    if len(logs) < 2:
        return Ratio(math.exp(middle), 0.0, math.inf)
    half = _T[confidence][min(len(logs) - 1, 30) - 1] * stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def is_enough(plain: Sequence[float], other: Sequence[float], width: float = 0.05) -> bool:
    """Whether more rounds would tell little: the interval is narrow, or lies beside 1 by a wide margin.

    Looking again and again makes chance findings likelier, so to stop early takes 99 %.
    """
    found = ratio(plain, other, 0.99)
    return found.high / found.low < 1 + width or found.verdict in ("faster", "slower")
