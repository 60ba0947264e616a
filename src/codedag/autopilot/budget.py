"""The price list of everything CodeDAG does beside the program, and the budget that allows or refuses it.

All processes and threads of CodeDAG together may take 2 % of the time that has passed and a fifth of what was saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from codedag.autopilot.intervals import median

# Prices in CPU seconds.
SWAP_SECONDS = 0.001  # one function gets other code
HEAP_WALK_SECONDS = 0.03  # all objects are looked through once (210,000 of them: 20 to 30 ms)
OPEN_FUNCTION_SECONDS = 0.02  # a file is parsed, rewritten and bound (12 to 18 ms; 255 ms for one of 4,039 lines)
COMPILER_PROCESS_SECONDS = 0.3  # another Python starts and imports what it proves with
PROOF_SECONDS = 0.5  # one substitution is proven on its generated calls (0.1 to 2 s)
SAMPLE_SECONDS = 25e-6  # one look at the frames of all threads

WORTH_FACTOR = 3.0  # a candidate must promise this many times its price: most are not kept, and their price is lost
CHANCE = 0.4  # that a candidate is kept, if nothing else is known; of fused chains 3 of 14 were
MEMORY_NBYTES_MIN = 30_000_000
MEMORY_SHARE = 0.03  # of the program's own memory


class Budget:
    """Says what CodeDAG may still spend, in CPU seconds and bytes; the clocks are passed in."""

    def __init__(
        self,
        clock: Callable[[], float],
        cpu_clock: Callable[[], float] = lambda: 0.0,  # CPU seconds of our threads in this process
        share: float = 0.02,
        saved_share: float = 0.2,
        run_seconds: Sequence[float] = (),  # how long earlier runs of the program took
        advance_seconds: float = 0.0,  # allowed before any time has passed
    ) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._share, self._saved_share, self._advance = share, saved_share, advance_seconds
        self._run_seconds = tuple(run_seconds)
        self._began, self._cpu_began = clock(), cpu_clock()
        self.saved_seconds = 0.0
        self.spent_by: Counter[str] = Counter()  # seconds of other processes and of the program's own threads
        self.held_by: Counter[str] = Counter()  # bytes

    # -- seconds

    def elapsed(self) -> float:
        """Seconds since the run began; a clock that went back counts as one that stood."""
        return max(self._clock() - self._began, 0.0)

    def spent(self) -> float:
        """CPU seconds of all our threads and processes so far."""
        return sum(self.spent_by.values()) + max(self._cpu_clock() - self._cpu_began, 0.0)

    def allowed(self) -> float:
        """CPU seconds that may have been spent by now."""
        return self._advance + self._share * self.elapsed() + self._saved_share * self.saved_seconds

    def spend(self, seconds: float, what: str) -> None:
        """Notes CPU seconds that the clock of our own threads does not see."""
        self.spent_by[what] += seconds  # type: ignore[assignment]

    def saved(self, seconds: float) -> None:
        """Notes seconds that changes have saved; what they lost is no credit."""
        self.saved_seconds += max(seconds, 0.0)

    def may(self, price_seconds: float, potential_share: float | None = None, chance: float = CHANCE) -> bool:
        """Whether something of this price may be done now; with a potential, also whether it is worth it."""
        if self.spent() + price_seconds > self.allowed():
            return False
        return potential_share is None or self.is_worth(price_seconds, potential_share, chance)

    def is_worth(self, price_seconds: float, potential_share: float, chance: float = CHANCE) -> bool:
        """Whether a candidate that could save this share of the time promises three times its price."""
        return potential_share * self.remaining_expected() * chance > WORTH_FACTOR * price_seconds

    def remaining_expected(self) -> float:
        """Seconds that the run will take from now on: by earlier runs, otherwise as long as it took so far."""
        elapsed = self.elapsed()
        longer = [seconds for seconds in self._run_seconds if seconds > elapsed]
        return median(longer) - elapsed if longer else elapsed

    # -- bytes

    def may_hold(self, nbytes: int, program_nbytes: int) -> bool:
        """Whether so many bytes more may be held, beside a program that holds so many itself."""
        return sum(self.held_by.values()) + nbytes <= max(MEMORY_NBYTES_MIN, MEMORY_SHARE * program_nbytes)

    def hold(self, nbytes: int, what: str) -> None:
        """Notes bytes that are held from now on; less than 0: that are not held any more."""
        self.held_by[what] += nbytes
