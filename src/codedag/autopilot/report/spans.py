"""Spans of a run: where the seconds of its process went, from its start to its end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from codedag.ir.clock import perf_counter

PYTHON = 0.015  # seconds for which Python starts before anything of ours does, where the system does not say
LONGEST_START = 2.0  # seconds; a process that is older when we come has done something else before


class Spans(msgspec.Struct, frozen=True):
    """Where the seconds of the process went."""

    program: float  # from its first line to its last
    python: float = PYTHON  # before us
    starting: float = 0.0  # ours, before the program
    ending: float = 0.0  # ours, after it
    observing: float = 0.0  # ours, inside it
    beside: float = 0.0  # ours, in threads that take turns with the program

    @property
    def whole(self) -> float:
        """From the start of the process to its end."""
        return self.python + self.starting + self.program + self.ending


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
