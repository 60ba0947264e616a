"""Cases in threads of one process, as a program would run them side by side: the lock of the interpreter included."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import NamedTuple, Protocol

from codedag.trace.held_up import Turns


class Runnable(Protocol):
    """A case, or what stands for one in a test."""

    calls: int  # that are long against the clock

    def run(self, calls: int) -> None:
        """Makes so many calls."""


class Rate(NamedTuple):
    """What one call takes, and the share of the time that its thread waited for a processor."""

    seconds: float
    waited: float


def rates(cases: Sequence[Runnable], seconds: float) -> list[Rate]:
    """What one call of each case takes while all of them run for so many seconds.

    Calls count from a common start; a lane goes on until the slowest has counted enough, so that nobody is alone.
    """
    found: list[Rate | None] = [None] * len(cases)
    waiting = threading.Semaphore(0)
    over = threading.Event()
    start = threading.Barrier(len(cases))

    def lane(number: int, case: Runnable) -> None:
        start.wait()
        try:
            found[number] = _counted(case, seconds)
        finally:
            waiting.release()  # of one that raises, too: nobody waits for it
        while not over.is_set():
            case.run(case.calls)

    threads = _started([_bound(lane, number, case) for number, case in enumerate(cases)])
    for _ in repeat(None, len(cases)):
        waiting.acquire()
    over.set()
    _join(threads)
    counted = [each for each in found if each is not None]
    if len(counted) < len(found):
        raise RuntimeError("a call raised beside another one, and does not alone")
    return counted


def _counted(case: Runnable, seconds: float) -> Rate:
    waited = Turns.so_far().waited
    begun = now = time.perf_counter()
    calls = 0
    while now - begun < seconds:
        case.run(case.calls)
        calls += case.calls
        now = time.perf_counter()
    return Rate((now - begun) / calls, (Turns.so_far().waited - waited) / (now - begun))


def finish(cases: Sequence[Runnable], calls: Sequence[int], *, in_turn: bool) -> float:
    """The seconds until each case has made its calls: one thread for each, or one after the other."""
    work = [_bound(case.run, count) for case, count in zip(cases, calls, strict=True)]
    begun = time.perf_counter()
    if in_turn:
        for each in work:
            each()
    else:
        _join(_started(work))
    return time.perf_counter() - begun


def _bound(function: Callable[..., None], *args: object) -> Callable[[], None]:
    return lambda: function(*args)


def _started(work: Sequence[Callable[[], None]]) -> list[threading.Thread]:
    threads = [threading.Thread(target=each, daemon=True) for each in work]
    for thread in threads:
        thread.start()
    return threads


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join()
