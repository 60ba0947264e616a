"""A change on trial: how often it is checked against the original, and when it is taken back."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from codedag.ir.verdict import No, Unknown, Verdict
from codedag.migrate.guard import Failed

FIRST = 8  # calls that are all checked
SLOWER = 1.05  # a gain below this is not worth a change
FUTILE = 100  # declined calls per accepted one at which a change costs more than it can bring
KEPT = 400  # timings that are remembered
EVERY, RAREST = 50, 400  # calls per check at first, and after many checks without a difference
HOPELESS = 0.5  # a gain below this is no matter of noise
NOISY = 3 * FIRST  # timings after which a gain that does not show has not been there
#: Seconds of checking after which a few calls are enough: eight calls that take seconds cost more than they can win.
COSTLY, ENOUGH = 3.0, 3
EXCUSED = 64  # calls that made what later ones only copy, and whose times say nothing about those
FAILURES = 3  # exceptions of its own after which a change is taken back


def median(values: Iterable[float]) -> float:
    """The middle one of some values, or the mean of the two in the middle; `statistics` takes long to load."""
    found = sorted(values)
    return (found[(len(found) - 1) // 2] + found[len(found) // 2]) / 2


def made() -> int:
    """How many arrays the substitutes have made in this thread that are kept for later calls."""
    # another thread may be loading it: then it is there, and its functions are not
    asked = getattr(sys.modules.get("codedag.backends.remembered"), "made_here", None)
    return 0 if asked is None else int(asked())


@dataclass(slots=True)
class Trial:
    """Counts, timings and verdict of one change while the program runs."""

    what: str
    every: int = EVERY
    first: int = FIRST
    ignores_speed: bool = False  # no time decides: somebody else judges the speed, or the run must be repeatable
    calls: int = 0
    checked: int = 0
    in_part: int = 0  # of these, compared on a part of the call only: their result was the change's own
    mismatches: int = 0
    failures: int = 0
    unverified: int = 0  # results that were used unchecked before the first difference was found
    evidence: str = ""  # the call whose result differed, in words
    active: bool = True
    reason: str = ""
    declined: Counter[str] = field(default_factory=Counter)
    pairs: list[tuple[float, float]] = field(default_factory=list)  # seconds of original and of variant, same call
    anew: int = 0  # calls that made something that is kept for later ones
    cost: float = 0.0  # seconds of the change itself where it did not help: keys, copies, misses
    spent: float = 0.0  # seconds of checking: calls that ran as the variant beside the original
    on_stop: Callable[[], None] | None = None  # told once, when the change is taken back
    _due: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(0))
    _futile: int = 0

    # No locks: a fork could copy one that is held.  Threads that race lose at most a count.

    def due(self) -> bool:
        """Whether this call is checked: the first ones all, later ones at random distances, never in step with data."""
        self.calls += 1
        if (self.calls <= self.first and not self._is_costly()) or self._is_open(self.calls):
            return True
        if self._due == 0:
            # the distance grows with every check that found nothing, so that checking costs less and less
            distance = min(self.every * (1 + self.checked // FIRST), max(self.every, RAREST))
            self._due = self.calls + self._random.randrange(1, 2 * distance)
        if self.calls < self._due:
            return False
        self._due = 0
        return True

    def is_next(self) -> bool:
        """Whether `due` will say so of the next call; nothing is counted."""
        number = self.calls + 1
        early = (number <= self.first and not self._is_costly()) or self._is_open(number)
        return early or 0 < self._due <= number

    def _is_open(self, number: int) -> bool:
        """Whether there is no gain yet and no decision: then every call is checked, and soon there is one."""
        excused = min(self.anew, EXCUSED)
        is_timed = bool(self.pairs) or excused > 0
        return number - excused <= NOISY and not self.ignores_speed and is_timed and self.gain() < SLOWER

    def _is_costly(self) -> bool:
        """Whether checking has taken so long that the few calls that were checked must be enough for now."""
        return not self.ignores_speed and self.checked >= ENOUGH and self.spent > COSTLY

    def decline(self, reason: str, lasting: bool = True) -> None:
        """Counts a call that ran as written, and why; a change that almost never gets its call is taken back."""
        self.declined[reason] += 1
        if not lasting:
            return
        self._futile += 1
        if self._futile >= FUTILE and self._futile > FUTILE * self.calls:
            self.stop(f"it could take none of {self._futile} calls ({self.declined.most_common(1)[0][0]})")

    def failed(self, reason: str) -> None:
        """Counts a call in which the change itself failed, so that it ran as written; too many end the trial."""
        self.decline(reason)
        self.failures += 1
        if self.failures >= FAILURES:
            self.stop(f"it failed {FAILURES} times ({reason})")

    def served(self) -> int:
        """The calls whose result was the change's own and was not compared."""
        return max(self.calls - self.checked - self.failures, 0)

    def excuses(self, made_before: int) -> bool:
        """Whether the time of the call that just ran does not count: it made what later calls will only copy."""
        if made() == made_before:
            return False
        self.anew += 1
        return self.anew <= EXCUSED

    def record(
        self, original_seconds: float, variant_seconds: float, verdict: Verdict | Failed, *, in_part: bool = False,
        excused: bool = False,
    ) -> None:  # fmt: skip
        """Takes in one checked call; a difference or a lasting lack of gain ends the trial.

        So does a comparison that failed, for want of memory perhaps, or can show nothing; but that is no difference.
        """
        if isinstance(verdict, Failed | Unknown):
            self.failures += 1
            self.decline("its result could not be compared")
            self.stop(f"its result could not be compared with the original's, which was used ({verdict.reason})")
            return
        self.checked += 1
        self.in_part += in_part
        if isinstance(verdict, No):
            self.mismatches += 1
            self.unverified = self.unverified or self.served()
            self.stop(f"its result differed from the original's ({verdict.reason}); the original's was used")
            return
        if excused:
            return
        self.spent += variant_seconds if self.pairs else 0.0  # the first one pays for warming up
        self.pairs.append((original_seconds, variant_seconds))
        if len(self.pairs) > KEPT:
            del self.pairs[1 : KEPT // 2]
        if not self.ignores_speed and self._is_slow():
            self.stop(f"not faster here: {self.gain():.2f}x over {len(self.pairs)} interleaved calls")

    def _is_slow(self) -> bool:
        """Whether there was no gain; a busy machine interrupts calls at random, so their fastest ones must agree.

        If they do not for long, there was none either.
        """
        least = ENOUGH if self._is_costly() else FIRST - 2
        if len(self.pairs) < least or self.gain() >= SLOWER:
            return False
        return (
            self.gain() < HOPELESS
            or len(self.pairs) >= NOISY
            or min(a for a, _ in self.pairs) < SLOWER * min(b for _, b in self.pairs)
        )

    def stop(self, reason: str) -> None:
        """Takes the change back for the rest of the program."""
        self.reason = self.reason or reason
        if self.active:
            self.active = False
            if self.on_stop is not None:
                self.on_stop()

    def renew(self) -> None:
        """Counts from 0 again, in a forked process: its own first calls are all checked."""
        self.in_part = self.anew = 0
        self.calls = self.checked = self.mismatches = self.failures = self.unverified = self._due = self._futile = 0
        self.declined, self.pairs, self.spent, self.cost = Counter(), [], 0.0, 0.0

    def gain(self) -> float:
        """Median of original time over variant time; the first call, which pays for warming up, does not count."""
        ratios = [a / b for a, b in (self.pairs[1:] or self.pairs) if b > 0]
        return median(ratios) if ratios else 0.0

    def middle(self) -> tuple[float, float]:
        """What a call takes as the original and as the variant: the median of each, which no single outlier moves."""
        pairs = self.pairs[1:] or self.pairs or [(0.0, 0.0)]
        return median(a for a, _ in pairs), median(b for _, b in pairs)

    def told(self) -> str:
        """The gain in words; the call that pays for warming up says nothing of it."""
        if len(self.pairs) == 1:
            return "only its first call was timed, which pays for warming up"
        return f"{self.gain():.1f}x on the same calls"

    def saved(self, calls: float) -> float:
        """Seconds saved in so many unchecked calls, by the mean of the middle half of those that ran both ways."""
        found = sorted(a - b for a, b in self.pairs[1:] or self.pairs)
        half = found[len(found) // 4 : len(found) - len(found) // 4]
        return calls * sum(half) / len(half) if half else 0.0


class StopIfRaised:
    """A block in which a call runs whose result was kept: if it raises now, nothing that was kept is used any more."""

    __slots__ = ("_trial",)

    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._trial.stop("it fails where it gave a result before")
