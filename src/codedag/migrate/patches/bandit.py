"""Which variant the next call gets: the original or one of its substitutes, by what they cost on calls like it.

An upper confidence bound over speeds relative to the fastest, so that it makes no difference whether calls take
microseconds or minutes.  With the times themselves as reward the constant would have to fit their unit.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable

from codedag.migrate.trial import SLOWER, median

ORIGINAL = 0
CURIOSITY = 0.2  # 1.4, the usual constant, loses 15 % of the time on trials; this one 1.6 % (row 110 of the seed)
ENOUGH = 6  # timings of each side before a verdict on speed
KEPT = 32  # timings that are remembered per variant: old ones say nothing about a machine that has changed
MOST = 64  # classes of calls that are told apart
MIXED = 24  # timings over classes of calls that each had too few, after which they are judged together
PATIENCE = 4  # a choice holds for a quarter of the calls that it already had


class Timings:
    """The latest times of one variant on one class of calls, or of ratios of times."""

    __slots__ = ("count", "latest", "middle")

    def __init__(self) -> None:
        self.count = 0
        self.latest: deque[float] = deque(maxlen=KEPT)
        self.middle = 0.0

    def add(self, value: float) -> None:
        """Takes in one value; the first one, which pays for warming up, is dropped once there are others."""
        self.count += 1
        if self.count == 2:
            self.latest.clear()
        self.latest.append(value)
        self.middle = median(self.latest)


class Ballot:
    """The variants for one class of calls: 0 is the original, the others are its substitutes."""

    __slots__ = ("_current", "_fresh", "_until", "calls", "closed", "pairs", "refusals", "served", "timings")

    def __init__(self, substitutes: int) -> None:
        self.timings = [Timings() for _ in range(substitutes + 1)]
        self.pairs = [Timings() for _ in range(substitutes + 1)]  # original time over the substitute's, same call
        self.closed: dict[int, float] = {}  # substitutes that turned out slower, with their gain
        self.calls = 0
        self.refusals = 0  # calls that no guard took, since one did
        self.served = [0] * (substitutes + 1)  # calls that each answered alone
        self._current, self._until = ORIGINAL, 0
        self._fresh: list[float] = []

    @property
    def open(self) -> list[int]:
        """The substitutes that have not turned out slower."""
        return [at for at in range(1, len(self.timings)) if at not in self.closed]

    def is_young(self, at: int) -> bool:
        """Whether too little is known of a substitute for a verdict."""
        return min(self.timings[at].count, self.timings[ORIGINAL].count) <= ENOUGH

    def pick(self) -> int:
        """The variant for the next call."""
        self.calls += 1
        if self.calls >= self._until:
            self._current = self._best()
            self._until = self.calls + max(1, self.timings[self._current].count // PATIENCE)
        return self._current

    def _best(self) -> int:
        wanted = [ORIGINAL, *self.open]
        young = min(wanted, key=lambda at: self.timings[at].count)
        if len(wanted) == 1 or self.timings[young].count <= ENOUGH:
            return young
        return max(wanted, key=self._bound)

    def _bound(self, at: int) -> float:
        """The speed of a variant as a share of the fastest, and what could be hidden by few trials."""
        fastest = min(self.timings[one].middle for one in (ORIGINAL, *self.open))
        total = sum(timings.count for timings in self.timings)
        share = fastest / self.timings[at].middle if self.timings[at].middle > 0 else 1.0
        return share + CURIOSITY * math.sqrt(2 * math.log(total) / self.timings[at].count)

    def add(self, at: int, seconds: float) -> None:
        """Takes in the time of one call."""
        self.timings[at].add(seconds)
        if at == ORIGINAL:
            self._doubt(seconds)
        elif self.pairs[at].count > ENOUGH and self.pairs[at].middle < SLOWER:
            self._close(at, self.pairs[at].middle)
        elif self._seems_slower(at):
            self._until = 0  # the original is asked at once

    def add_pair(self, at: int, original_seconds: float, seconds: float) -> None:
        """Takes in the times of both on the same call."""
        if seconds > 0:
            self.pairs[at].add(original_seconds / seconds)
        self.add(ORIGINAL, original_seconds)
        self.add(at, seconds)

    def _seems_slower(self, at: int) -> bool:
        middle = self.timings[at].middle
        return not self.is_young(at) and middle > 0 and self.timings[ORIGINAL].middle / middle < SLOWER

    def _doubt(self, seconds: float) -> None:
        """Closes a substitute that was faster and no longer is, by times of the original that are as recent."""
        doubted = [at for at in self.open if self._seems_slower(at)]
        self._fresh = [*self._fresh, seconds] if doubted else []
        if len(self._fresh) < ENOUGH:
            return
        middle = median(self._fresh)
        for at in doubted:
            if middle / self.timings[at].middle < SLOWER:
                self._close(at, middle / self.timings[at].middle)
        self.timings[ORIGINAL].latest.clear()
        for each in self._fresh:
            self.timings[ORIGINAL].add(each)
        self._fresh = []

    def _close(self, at: int, gain: float) -> None:
        self.closed[at] = gain
        self._until = 0

    def gain(self, at: int) -> float:
        """Original time over the substitute's: on the same calls if there are enough, else of the middle ones."""
        if at in self.closed:
            return self.closed[at]
        if self.pairs[at].count > ENOUGH:
            return self.pairs[at].middle
        middle = self.timings[at].middle
        return self.timings[ORIGINAL].middle / middle if middle > 0 else 0.0


class Bandit:
    """The ballots of one function, one for each class of calls."""

    def __init__(self, substitutes: int) -> None:
        self._substitutes = substitutes
        self.ballots: dict[Hashable, Ballot] = {}

    def ballot(self, kind: Hashable) -> Ballot:
        """The ballot for a class of calls; beyond the most that are told apart, one for all others."""
        found = self.ballots.get(kind)
        if found is None:
            kind = kind if len(self.ballots) < MOST else "other"
            found = self.ballots.setdefault(kind, Ballot(self._substitutes))
        return found

    def saved_seconds(self) -> float:
        """What the substitutes have saved, by their middle times."""
        return sum(
            count * (one.timings[ORIGINAL].middle - one.timings[at].middle)
            for one in list(self.ballots.values())
            for at, count in enumerate(one.served)
            if count
        )

    def lost(self, at: int) -> str:
        """Why a substitute has no class of calls left, or empty while it has or may get one."""
        mine = list(self.ballots.values())
        if any(at not in one.closed and not one.is_young(at) for one in mine):
            return ""
        closed = [one.closed[at] for one in mine if at in one.closed]
        young = [one.pairs[at] for one in mine if at not in one.closed and one.pairs[at].count]
        ratios = [ratio for one in young for ratio in one.latest]
        hopeful = len(ratios) < MIXED and any(one.middle >= SLOWER for one in young)
        if hopeful or len(ratios) + ENOUGH * len(closed) < ENOUGH:
            return ""
        gain = median([*closed, *ratios])
        calls = sum(one.timings[at].count for one in mine)
        lost = len(closed) == len(mine) or gain < SLOWER
        return f"not faster here: {gain:.2f}x over {calls} interleaved calls" if lost else ""

    def gain(self, at: int) -> float:
        """The gain over the calls for which a substitute is used, or was; 0 if unknown.

        Each class of calls counts by the time that its calls take: one that came twice says nothing beside thousands.
        """
        known = [one for one in tuple(self.ballots.values()) if one.timings[at].count and one.timings[ORIGINAL].count]
        used = [one for one in known if at not in one.closed] or known
        taken = [(one.served[at] + one.timings[at].count) * one.timings[at].middle for one in used]
        total = sum(taken)
        return sum(seconds * one.gain(at) for seconds, one in zip(taken, used, strict=True)) / total if total else 0.0
