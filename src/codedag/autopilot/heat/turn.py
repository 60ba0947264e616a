"""Choice of the program's turn among its loops: the outermost repeated work of a fitting length."""

from __future__ import annotations

from collections.abc import Sequence

from codedag.autopilot.heat.report import HotLoop

PERIOD_SECONDS_MAX = 2.0  # longer loops (epochs) give too few turns to compare blocks of
TURNS_MIN = 3
SHARE_MIN = 0.2  # of the recent CPU time: loops of the start-up are over
STALE_SECONDS_MIN = 10.0  # a loop that has not come back for this long and for STALE_PERIODS is over
STALE_PERIODS = 20.0
RIVAL_FACTOR = 2.0  # a turn in another thread needs so much more CPU time than one in the main thread
IMPORTS = "<frozen importlib"  # loops of the import system are the program's start, whatever they repeat
DISPATCHERS = ("asyncio/base_events.py", "asyncio/runners.py", "concurrent/futures/thread.py", "threading.py")


def choose_turn(loops: Sequence[HotLoop], recent_cpu_seconds: float, main_thread: int) -> HotLoop | None:
    """The turn of the program, or None where no loop fits."""
    fitting = [loop for loop in loops if _fits(loop, recent_cpu_seconds)]
    outermost = [_outermost([each for each in fitting if each.thread == thread]) for thread in _threads(fitting)]
    return max(outermost, key=lambda loop: _weight(loop, main_thread), default=None)


def _threads(loops: Sequence[HotLoop]) -> list[int]:
    return sorted({loop.thread for loop in loops})


def _fits(loop: HotLoop, recent_cpu_seconds: float) -> bool:
    if loop.file.startswith(IMPORTS):
        return False
    is_known = loop.turns_at_least >= TURNS_MIN and 0.0 < loop.period_seconds <= PERIOD_SECONDS_MAX
    is_hot = loop.recent_seconds >= SHARE_MIN * recent_cpu_seconds
    return is_known and is_hot and loop.last_seen_seconds_ago <= _patience_seconds(loop)


def _patience_seconds(loop: HotLoop) -> float:
    return max(STALE_SECONDS_MIN, STALE_PERIODS * loop.period_seconds)


def _outermost(loops: Sequence[HotLoop]) -> HotLoop:
    """The loop furthest out; one that only hands out work (an event loop) gives way to the work."""
    work = [loop for loop in loops if not loop.file.replace("\\", "/").endswith(DISPATCHERS)]
    return min(work or loops, key=lambda loop: (loop.depth, loop.start_offset - loop.end_offset))


def _weight(loop: HotLoop, main_thread: int) -> float:
    return loop.recent_seconds * (RIVAL_FACTOR if loop.thread == main_thread else 1.0)
