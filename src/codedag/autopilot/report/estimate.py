"""How much faster a run was than the program alone would have been: an estimate, since it ran only once.

What the program alone would have taken is what it took, without our own work, and with what the changes saved.  Both
sides count from the start of the process to its end: that is what the user waited for.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from codedag.ir.clock import perf_counter

#: Seconds that the report page takes, and for each operation in it (40 operations: 0.1 s on a quiet machine).
PAGE, PAGE_PER_OPERATION = 0.02, 0.002
VOID = 1.3  # a baseline that is known less well than within this factor says nothing
PYTHON = 0.015  # seconds for which Python starts before anything of ours does, where the system does not say
LONGEST_START = 2.0  # seconds; a process that is older when we come has done something else before

Interval = tuple[float, float, float]  # middle, low, high


class Spans(msgspec.Struct, frozen=True):
    """Where the seconds of the process went."""

    program: float  # from its first line to its last
    switched: float = 0.0  # of these, since the changes were made
    python: float = PYTHON  # before us
    starting: float = 0.0  # ours, before the program
    ending: float = 0.0  # ours, after it
    observing: float = 0.0  # ours, inside it
    checking: float = 0.0  # ours: calls that ran both ways
    beside: float = 0.0  # ours, in threads that take turns with the program

    @property
    def whole(self) -> float:
        """From the start of the process to its end."""
        return self.python + self.starting + self.program + self.ending


class Estimate(msgspec.Struct, frozen=True):
    """The program alone over the program with us, over the whole process and since the changes were made."""

    baseline: float  # seconds that the program alone would have taken
    seconds: float
    whole: Interval
    steady: Interval | None
    void: str = ""


class Late(msgspec.Struct, frozen=True):
    """The last part of a run, in which hardly a change was made any more."""

    seconds: float
    checking: float
    saved: Interval


def estimate(spans: Spans, saved: Interval, late: Late | None = None) -> Estimate:
    """The estimate from where the time went and what the changes saved, over all and in the last part.

    Our threads hold up the program by none or all of their time: nobody can say, so the interval has both.
    """
    inside = spans.program - spans.observing - spans.checking
    beside = (spans.beside / 2, spans.beside, 0.0)
    alone = [max(spans.python + inside - held + more, 0.0) for held, more in zip(beside, saved, strict=True)]
    seconds = max(spans.whole, 1e-9)
    middle, low, high = (each / seconds for each in alone)
    whole = middle, min(low, middle), max(high, middle)
    late = Late(spans.switched, spans.checking, saved) if late is None else late
    return Estimate(alone[0], seconds, whole, _steady(late), _why_void(alone, seconds))


def _steady(late: Late) -> Interval | None:
    """What the changes bring while nothing is observed and hardly anything is checked, if there was such a time."""
    if late.seconds <= 0:
        return None
    busy = max(late.seconds - late.checking, late.seconds / 10)
    middle, low, high = ((busy + max(each, -busy)) / busy for each in late.saved)
    return middle, min(low, middle), max(high, middle)


def _why_void(alone: list[float], seconds: float) -> str:
    """Why no gain is claimed: the bounds are far apart, and nobody can say which of the two was faster."""
    low, high = min(alone), max(alone)
    if low <= 0 or (high / low > VOID and low <= seconds <= high):
        return f"the program alone may have taken from {low:.1f} to {high:.1f} s: calls took too different times"
    return ""


def age() -> float | None:
    """The seconds since this process was started, or None where the system does not say."""
    try:
        started = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError, IndexError):
        return None


def before_us(begun: float) -> float:
    """The seconds for which Python had been starting when our first module was loaded, at this time of the clock."""
    old = age()
    if old is None:
        return PYTHON
    before = old - (perf_counter() - begun)
    return before if 0 < before < LONGEST_START else PYTHON
