"""The time of batches, and of the whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import fmean, pstdev

from codedag.ir.errors import CodedagError


class OutOfTurn(CodedagError):  # noqa: N818 - reads as what happened
    """A call of a monitor that does not follow from the calls before it."""

    slug = "out-of-turn"


class Timer:
    """Times batches one after another (`batch_times`) and the stretch around them (`total_time`)."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.batch_times: list[tuple[int, float]] = []
        self._clock = clock
        self._total = 0.0
        self._began: float | None = None
        self._batch_began: float | None = None

    @property
    def total_time(self) -> float:
        """The seconds between starts and stops; while it runs, those until now."""
        return self._total + (self._clock() - self._began if self._began is not None else 0.0)

    def start(self) -> None:
        """Begins the whole."""
        if self._began is not None:
            raise OutOfTurn("the timer is already running", hint="Call stop() before the next start().")
        self._began = self._clock()

    def stop(self) -> float:
        """The seconds in all; a batch that was begun and not ended is not counted."""
        if self._began is None:
            raise OutOfTurn("the timer is not running", hint="Call start() first.")
        self._total, self._began, self._batch_began = self.total_time, None, None
        return self._total

    def start_batch(self) -> None:
        """Begins a batch; one that was begun and not ended (a `continue`, an exception) is forgotten."""
        self._batch_began = self._clock()

    def end_batch(self) -> float:
        """The seconds of the batch, also kept in `batch_times` under its number."""
        if self._batch_began is None:
            raise OutOfTurn("end_batch() without start_batch()", hint="Call start_batch() where the batch begins.")
        seconds = self._clock() - self._batch_began
        self._batch_began = None
        self.batch_times.append((len(self.batch_times), seconds))
        return seconds

    def summary(self) -> dict[str, float] | None:
        """Mean, standard deviation, least and most seconds of a batch; None if there was none."""
        seconds = [each for _, each in self.batch_times]
        if not seconds:
            return None
        return {"mean": fmean(seconds), "std": pstdev(seconds), "min": min(seconds), "max": max(seconds)}
