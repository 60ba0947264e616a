"""By which clock two ways to compute the same are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from codedag.ir.clock import perf_counter, thread_time

Clock = Callable[[], float]

#: Units whose work the calling thread does itself: numpy, cv2, our own C, code compiled by numba, the original.
OWN_THREAD = frozenset({"cpu", "loopback", "numba:cpu"})
READS = 100  # of a clock in a row, among which one that is fine enough for calls of microseconds moves on


def clock_for(pus: Iterable[str]) -> Clock:
    """The clock for substitutes on these units: the calling thread's own time if that is all that they take.

    A busy machine interrupts calls, and the wall goes on: by it one that needs half the work looks twenty times
    slower.  Where the calling thread waits for others (a device, a runtime with threads), only the wall sees the work.
    """
    return thread_time if frozenset(pus) <= OWN_THREAD and is_fine(thread_time) else perf_counter


@cache
def is_fine(clock: Clock) -> bool:
    """Whether a clock moves on within a few microseconds; on some systems a thread's own time goes by in ticks."""
    first = clock()
    return any(clock() > first for _ in range(READS))
