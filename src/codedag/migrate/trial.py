"""A change on trial: how often it is checked against the original, and when it is taken back."""

from __future__ import annotations

import random
import statistics
import threading
from collections import Counter
from dataclasses import dataclass, field

from codedag.ir.verdict import Verdict

FIRST = 8  # calls that are all checked
SLOWER = 1.05  # a gain below this is not worth a change


@dataclass(slots=True)
class Trial:
    """Counts, timings and verdict of one change while the program runs."""

    what: str
    every: int = 50
    calls: int = 0
    checked: int = 0
    mismatches: int = 0
    active: bool = True
    reason: str = ""
    declined: Counter[str] = field(default_factory=Counter)
    pairs: list[tuple[float, float]] = field(default_factory=list)  # seconds of original and of variant, same call
    _due: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(0))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def due(self) -> bool:
        """Whether this call is checked: the first ones all, later ones at random distances (never in step with data)."""
        with self._lock:
            self.calls += 1
            if self.calls <= FIRST:
                return True
            if self._due == 0:
                self._due = self.calls + self._random.randrange(1, 2 * self.every)
            if self.calls >= self._due:
                self._due = 0
                return True
            return False

    def decline(self, reason: str) -> None:
        """Counts a call that ran as written, and why."""
        self.declined[reason] += 1

    def record(self, original_seconds: float, variant_seconds: float, verdict: Verdict) -> None:
        """Takes in one checked call; a difference or a lasting lack of gain ends the trial."""
        with self._lock:
            self.checked += 1
            if not verdict:
                self.mismatches += 1
                self.stop(f"its result differed from the original's ({verdict.reason}); the original's was used")
                return
            self.pairs.append((original_seconds, variant_seconds))
            if len(self.pairs) >= FIRST - 2 and self.gain() < SLOWER:
                self.stop(f"not faster here: {self.gain():.2f}x over {len(self.pairs)} interleaved calls")

    def stop(self, reason: str) -> None:
        """Takes the change back for the rest of the program."""
        self.active = False
        self.reason = self.reason or reason

    def gain(self) -> float:
        """Median of original time over variant time; the first call, which pays for warming up, does not count."""
        ratios = [a / b for a, b in (self.pairs[1:] or self.pairs) if b > 0]
        return statistics.median(ratios) if ratios else 0.0

    def saved_seconds(self) -> tuple[float, float, float]:
        """Seconds saved per call: median, and the quarter points around it."""
        saved = sorted(a - b for a, b in (self.pairs[1:] or self.pairs))
        if not saved:
            return 0.0, 0.0, 0.0
        if len(saved) < 4:
            return statistics.median(saved), saved[0], saved[-1]
        low, middle, high = statistics.quantiles(saved, n=4)
        return middle, low, high
