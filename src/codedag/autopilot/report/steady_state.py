"""From when on a program ran with its changes: what they bring is told of the time in which hardly any was added."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from codedag.autopilot.applied import Applied
from codedag.ir.clock import perf_counter
from codedag.migrate.trial import Trial

LAST = 0.25  # share of the run that must be left, so that one slow call does not make up the figure
MOST = 256  # times that are kept


@dataclass(frozen=True, slots=True)
class Reached:
    """What had become of a change at some time."""

    calls: int  # that were its own, unchecked
    pairs: int  # calls that ran both ways

    @classmethod
    def of(cls, trial: Trial) -> Reached:
        """What has become of it by now."""
        return cls(trial.served() + trial.in_part, len(trial.pairs))


_NONE = Reached(0, 0)
Mark = tuple[float, dict[int, Reached]]


class Settled:
    """When changes were made, and what had become of the earlier ones by then."""

    def __init__(self) -> None:
        self.first: float | None = None
        self._marks: list[Mark] = []

    def mark(self, applied: Iterable[Applied]) -> None:
        """Notes that a change is made now."""
        now = perf_counter()
        self.first = now if self.first is None else self.first
        if len(self._marks) < MOST:
            self._marks.append((now, {id(each.trial): Reached.of(each.trial) for each in applied}))

    def last(self, started: float, ended: float) -> Mark | None:
        """The last time at which a change was made while a good part of the run was still to come."""
        enough = [mark for mark in self._marks if ended - mark[0] >= LAST * (ended - started)]
        return enough[-1] if enough else None


def since(mark: Mark, trial: Trial) -> tuple[tuple[float, float, float], float]:
    """The seconds that a change has saved since then (middle, low, high), and those that checking it took."""
    before, now = mark[1].get(id(trial), _NONE), Reached.of(trial)
    checking = 0.0 if trial.in_part else sum(b for _, b in trial.pairs[before.pairs :])
    return trial.saved(now.calls - before.calls), checking
