"""Whether items in threads are faster in use: blocks of batches as written and in threads are timed in turns.

Batches that are compared say little about that: both ways decode what is otherwise kept, so that work which threads
share well may be gone later.  Here nothing is done twice: some batches are fetched as written, and the time from one
batch to the next is what counts.  It is asked again in later epochs, as more is kept then.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

from codedag.ir import clock as time
from codedag.migrate.trial import Trial

BLOCK = 3  # batches in a row; the first is not counted: the one before it was fetched the other way
PAIRS, FEW = 4, 2  # pairs of blocks until it is decided, and if all of them say that it is slower
CLEAR, SLOWER = 1.25, 0.97  # time as written over time in threads: surely faster (or slower) after one pair, and slower
NEEDED = 1.03  # at least, after all pairs: threads take more of the processor
PAUSE = 4  # times as many batches as it took to decide, before it is asked again


@dataclass(slots=True)
class Use:
    """What has been timed in use for one lane."""

    trial: Trial = field(default_factory=lambda: Trial("from batch to batch", patient=True))
    decided: bool = False
    epochs: int = 0
    asked: int = 0  # batches for which it has been asked, this time
    since: int = 0  # batches since it was decided
    plain: bool = False  # how the batches of this block are fetched
    _batches: int = 0  # of this block
    _seconds: list[float] = field(default_factory=list)
    _before: tuple[bool, float] | None = None  # the block that waits for its pair
    _of: Any = None
    _number: int = -1
    _since: float = 0.0

    def batch(self, of: Any, number: int, timed: bool = True) -> None:
        """The program has got a batch of this number from a fetcher, one for each epoch."""
        now = time.perf_counter()
        if self._of is None or self._of() is not of:
            self._begin_epoch(of)
        elif not self.decided:
            self.asked += 1
            follows = timed and number == self._number + 1 and self._batches > 0
            self._count(now - self._since if follows else None)
        self.since += self.decided
        self._number, self._since = number, time.perf_counter()

    def is_in_vain(self) -> bool:
        """Whether items in threads are no faster than as written, as far as is known."""
        pairs, gain = self.trial.pairs, self.trial.gain()
        if len(pairs) >= PAIRS:
            return gain < NEEDED
        return (len(pairs) >= FEW and all(a < SLOWER * b for a, b in pairs)) or (bool(pairs) and gain < 1 / CLEAR)

    def told(self) -> str:
        """What was timed, in words."""
        return f"{self.trial.gain():.2f}x from batch to batch over {len(self.trial.pairs)} pairs of blocks of batches"

    def _begin_epoch(self, of: Any) -> None:
        self._of = weakref.ref(of)
        self.epochs += 1
        often = self.epochs & (self.epochs - 1) == 0  # the first, second, fourth, eighth ...
        if often and self.since >= PAUSE * self.asked:
            self.trial.pairs.clear()
            self.decided, self.asked, self.since = False, 0, 0
        self._end_block()
        self._before = None

    def _count(self, seconds: float | None) -> None:
        if seconds is not None:
            self._seconds.append(seconds)
        self._batches += 1
        if self._batches >= BLOCK:
            self._take()
            self._end_block(not self.plain)

    def _take(self) -> None:
        if not self._seconds:
            return
        each = sum(self._seconds) / len(self._seconds)
        if self._before is None or self._before[0] is self.plain:
            self._before = (self.plain, each)
            return
        other, self._before = self._before[1], None
        self.trial.pairs.append((each, other) if self.plain else (other, each))
        self.decided = self.trial.gain() >= CLEAR or len(self.trial.pairs) >= PAIRS or self.is_in_vain()

    def _end_block(self, plain: bool = False) -> None:
        self.plain, self._batches = plain and not self.decided, 0
        self._seconds.clear()
