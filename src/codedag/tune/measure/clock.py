"""Thread time of a function: the least of some samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SAMPLES_MIN, SAMPLES_MAX = 3, 200


def least_seconds(function: Callable[[], Any], seconds: float = 0.15) -> float:
    """The least thread time of a call, from as many calls as fit into some seconds."""
    clock = time.thread_time
    best, spent, samples = float("inf"), 0.0, 0
    while samples < SAMPLES_MIN or (spent < seconds and samples < SAMPLES_MAX):
        start = clock()
        function()
        took = clock() - start
        best, spent, samples = min(best, took), spent + took, samples + 1
    return best
