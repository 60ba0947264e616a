"""Memory that the program gives back and asks for again: kept in the process where the system would clear it each time.

The C library returns large blocks to the system as they are freed.  The next array of the same size gets fresh pages,
each of which is cleared at its first touch (about 2.5 microseconds on a virtual machine): a third of the time of a
small convolutional network that trains.  Where so much memory comes and goes, blocks are kept up to the limits that
the C library can reach by itself.  No value changes: what an allocation holds before it is written is nobody's promise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from codedag.ir import clock as time

CHURN = 10_000  # pages that come and go in one second of the processor: about 2.5 % of it
SHORTEST = 0.1  # seconds of the processor that say something
TRIM, BLOCK = 256 << 20, 32 << 20  # free bytes that are kept at the end of a heap; the largest block that is kept
_TRIM_OPTION, _BLOCK_OPTION = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


class Reading(NamedTuple):
    """What the process has used so far: seconds of the processor, pages touched anew, pages that it holds."""

    seconds: float
    faults: int
    held: int


@dataclass(slots=True)
class FreedMemory:
    """Looks now and then whether memory comes and goes, and then has it kept."""

    most_nbytes: int | None = None  # that may be kept
    read: Callable[[], Reading | None] = lambda: reading()
    keep: Callable[[int], bool] = lambda nbytes: keep_freed(nbytes)
    came: float = 0.0  # pages a second that came and went when it was decided
    least: float | None = None  # and the fewest since
    _asked: bool = False
    _last: Reading | None = None

    def look(self) -> None:
        """Counts the pages that came and went since the last look; freed memory is kept if they are many."""
        if self._asked and not self.came:
            return  # it cannot be kept here
        now, last = self.read(), self._last
        if now is None or last is None or now.seconds < last.seconds:  # the first look, also that of a forked process
            self._last = now
        elif now.seconds - last.seconds >= SHORTEST:
            self._last = now
            self._judge(churn(last, now))

    def begin(self) -> bool:
        """Has freed memory kept from the start, as an earlier run found it worth it; whether it is."""
        self._asked = True
        return self.keep(TRIM if self.most_nbytes is None else min(TRIM, self.most_nbytes // 4))

    def _judge(self, rate: float) -> None:
        if self.came:
            self.least = rate if self.least is None else min(self.least, rate)
        elif rate >= CHURN:
            self.came = rate if self.begin() else 0.0

    def notes(self) -> list[str]:
        """What to say about it at the end: nothing if most of the pages came and went all the same."""
        if not self.came or (self.least is not None and self.least > self.came / 2):
            return []
        words = f"{self.came:,.0f} page faults in a second of the processor"
        words += (
            f" became {self.least:,.0f}" if self.least is not None else ", and it ended before they were counted again"
        )
        return [f"freed memory is kept for the next arrays: {words}"]


def churn(before: Reading, now: Reading) -> float:
    """Pages a second that were touched anew and are not held: what the process has more of is no churn."""
    grown = max(now.held - before.held, 0)
    return max(now.faults - before.faults - grown, 0) / (now.seconds - before.seconds)


def reading() -> Reading | None:
    """What this process has used so far, where the system tells."""
    if not sys.platform.startswith("linux") or "numpy" not in sys.modules:
        return None  # without arrays there is nothing large that comes and goes
    import resource

    held = int(Path("/proc/self/statm").read_bytes().split()[1])
    return Reading(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt, held)


def keep_freed(nbytes: int) -> bool:
    """Has the C library keep so much freed memory; whether it does.  Who has set it in the environment knows better."""
    if nbytes < BLOCK or any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    library = _library()
    if library is None:
        return False
    return bool(library.mallopt(_BLOCK_OPTION, BLOCK) == 1 and library.mallopt(_TRIM_OPTION, nbytes) == 1)


def give_back() -> None:
    """Has the C library keep no more than it may reach by itself (twice the largest block), and returns the rest now.

    What the limits were before cannot be asked, and the smallest ones would make the program slower than it was.
    """
    library = _library()
    if library is not None:
        library.mallopt(_TRIM_OPTION, 2 * BLOCK)
        library.malloc_trim(0)


def _library() -> Any:
    """The C library, if it is one whose limits can be set."""
    import ctypes

    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    known = ("gnu_get_libc_version", "mallopt", "malloc_trim")
    return library if all(hasattr(library, name) for name in known) else None


@dataclass(slots=True)
class Holding:
    """Freed memory that is kept as long as some plan is in force."""

    keep: Callable[[int], bool] = lambda nbytes: keep_freed(nbytes)
    give: Callable[[], None] = lambda: give_back()
    _holders: int = 0
    _kept: bool = False

    def begin(self) -> None:
        """One more plan is in force."""
        self._holders += 1
        if not self._kept and "numpy" in sys.modules:  # without arrays there is nothing large that comes and goes
            self._kept = self.keep(TRIM)

    def end(self) -> None:
        """One plan less is; with the last one everything is given back."""
        self._holders -= 1
        if not self._holders and self._kept:
            self._kept = False
            self.give()


holding = Holding()
