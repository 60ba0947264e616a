"""The price list of everything CodeDAG does beside the program, and the budget that allows or refuses it.

All processes and threads of CodeDAG together may take 2 % of the time that has passed and a fifth of what was saved,
and for a candidate up to 6 % of the seconds that it could save.  What a run leaves unspent, later runs may spend.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from codedag.autopilot.judge.intervals import median
from codedag.ir.clock import perf_counter

# Prices in CPU seconds.
LOAD_SECONDS = 0.15  # the pilot is loaded
SWAP_SECONDS = 0.001  # one function gets other code
OPEN_FUNCTION_SECONDS = 0.02  # a file is parsed, rewritten and bound (12 to 18 ms; 255 ms for one of 4,039 lines)
#: All answers about a source: 25 ms for 1.4 kB, 60 ms for 5 kB, 250 ms for 21 kB; much larger ones are mostly tables.
OPEN_SOURCE_SECONDS_PER_BYTE = 12e-6
OPEN_SOURCE_NBYTES_MAX = 100_000
COMPILER_PROCESS_SECONDS = 0.3  # another Python starts and imports what it rewrites with
PROVER_SECONDS = 0.12  # another Python starts to prove substitutions
PROOF_SECONDS = 0.1  # one substitution is proven on its generated calls (0.03 to 0.5 s)
#: And it imports their libraries.
IMPORT_SECONDS = {"scipy": 0.4, "pandas": 0.4, "skimage": 0.6, "sklearn": 0.8, "librosa": 1.5, "torch": 1.5, "cv2": 0.1}
KERNEL_SECONDS = 1.2  # one kernel is compiled and proven (0.5 to 1.3 s); one that is on the disk costs nothing

WORTH_FACTOR = 3.0  # a candidate must promise this many times its price: most are not kept, and their price is lost
CHANCE = 0.4  # that a candidate is kept, if nothing else is known; of fused chains 3 of 14 were
SHARE = 0.02  # of the time that has passed
SAVED_SHARE = 0.2  # of the seconds that changes have saved
CANDIDATE_SHARE = 0.06  # of the seconds that a candidate could have saved so far
ADVANCE_SECONDS = 0.25  # allowed before any time has passed: a first run may take 0.3 s more
CREDIT_SECONDS_MAX = 5.0  # that runs leave to later ones
LATER_RUNS_MAX = 3  # that are expected after this one
LATER_PRICE_SHARE_MAX = 0.03  # of a run: what may be paid in it for later ones


class Budget:
    """Says what CodeDAG may still spend, in CPU seconds; the clocks are passed in."""

    def __init__(
        self,
        clock: Callable[[], float],
        cpu_clock: Callable[[], float] = lambda: 0.0,  # CPU seconds of our threads in this process
        run_seconds: Sequence[float] = (),  # how long runs of the program take as written
        runs: int = 0,  # that there were before
        advance_seconds: float = 0.0,  # allowed before any time has passed; infinite: nothing is refused
    ) -> None:
        self._clock, self.cpu_clock, self._advance = clock, cpu_clock, advance_seconds
        self._run_seconds, self._runs = tuple(run_seconds), runs
        self._began = clock()
        self.saved_seconds = 0.0
        self.spent_by: Counter[str] = Counter()  # seconds of other processes and of the program's own threads

    def elapsed(self) -> float:
        """Seconds since the run began; a clock that went back counts as one that stood."""
        return max(self._clock() - self._began, 0.0)

    def spent(self) -> float:
        """CPU seconds of all our threads and processes so far."""
        return sum(self.spent_by.values()) + max(self.cpu_clock(), 0.0)

    def allowed(self, potential_share: float = 0.0) -> float:
        """CPU seconds that may have been spent by now; more for a candidate that could save a share of the time."""
        share = SHARE + CANDIDATE_SHARE * min(potential_share, 1.0)
        return self._advance + share * self.elapsed() + SAVED_SHARE * self.saved_seconds

    def credit(self) -> float:
        """CPU seconds that this run leaves to later ones."""
        return min(max(self.allowed() - self.spent(), 0.0), CREDIT_SECONDS_MAX)

    def spend(self, seconds: float, what: str) -> None:
        """Notes CPU seconds that the clock of our own threads does not see."""
        self.spent_by[what] += seconds  # type: ignore[assignment]

    def may(
        self, price_seconds: float, potential_share: float | None = None, *, chance: float = CHANCE,
        factor: float = WORTH_FACTOR,
    ) -> bool:  # fmt: skip
        """Whether something of this price may be done now; with a potential, also whether it is worth it."""
        if self.is_unlimited:
            return True
        if self.spent() + price_seconds > self.allowed(potential_share or 0.0):
            return False
        return potential_share is None or self.is_worth(price_seconds, potential_share, chance, factor)

    def is_worth(
        self, price_seconds: float, potential_share: float, chance: float = CHANCE, factor: float = WORTH_FACTOR
    ) -> bool:
        """Whether a candidate that could save this share of the time promises so many times its price."""
        seconds = self.remaining_expected() + self.later_expected(price_seconds)
        return potential_share * seconds * chance > factor * price_seconds

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is refused: what is done must be the same in every run."""
        return self._advance == math.inf

    def remaining_expected(self) -> float:
        """Seconds that the run will take from now on: by earlier runs, otherwise as long as it took so far."""
        elapsed = self.elapsed()
        longer = [seconds for seconds in self._run_seconds if seconds > elapsed]
        return median(longer) - elapsed if longer else elapsed

    def later_expected(self, price_seconds: float) -> float:
        """Seconds of later runs, which begin with what this one finds: as many runs as there were, but few.

        None where the price is a large part of this run, which must not be slower for the sake of others.
        """
        if not self._run_seconds or price_seconds > LATER_PRICE_SHARE_MAX * median(self._run_seconds):
            return 0.0
        return min(self._runs, LATER_RUNS_MAX) * median(self._run_seconds)


def proof_price(source: str, into: str, is_prover_running: bool) -> float:
    """CPU seconds of the proof of a substitution, by the names of its function and of the library it goes into."""
    if is_prover_running:
        return PROOF_SECONDS
    names = {source.partition(".")[0], into.partition(".")[0]}
    return PROVER_SECONDS + PROOF_SECONDS + sum(IMPORT_SECONDS.get(name, 0.0) for name in names)


def unlimited() -> Budget:
    """A budget that refuses nothing: for runs that must do the same every time."""
    return Budget(perf_counter, advance_seconds=math.inf)
