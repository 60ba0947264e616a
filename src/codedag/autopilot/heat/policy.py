"""Rates of the sampling profiler over the life of a process."""

from __future__ import annotations

from typing import NamedTuple


class RatePolicy(NamedTuple):
    """Looks a second by the age of the process: often while everything is new, rarely in a run of hours.

    The rates come from the cost of one look (bench/heat.py) and the budget: 1 % of a core in the first minute,
    0.2 % later.
    """

    first_hz: float = 100.0
    first_seconds: float = 60.0
    later_hz: float = 20.0
    later_seconds: float = 600.0
    long_hz: float = 5.0
    own_cpu_share_max: float = 0.01  # of the program's CPU time; looks become rarer rather than cost more

    def hz_at(self, seconds: float) -> float:
        """The rate at this age of the process."""
        if seconds < self.first_seconds:
            return self.first_hz
        return self.later_hz if seconds < self.later_seconds else self.long_hz
