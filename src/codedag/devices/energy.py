"""What the processor has drawn, where the system lets its counters be read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COUNTERS = Path("/sys/class/powercap")
LEAST_SECONDS = 0.2  # counters move in steps of about a millisecond


def joules_so_far(counters: Path = COUNTERS) -> float | None:
    """What all processors have drawn since some moment, or None where nobody says, or not to us."""
    packages = [path for path in counters.glob("intel-rapl:*") if path.name.count(":") == 1]
    try:
        return sum(int((path / "energy_uj").read_bytes()) for path in packages) / 1e6 if packages else None
    except (OSError, ValueError):
        return None


def watts_of(work: Callable[[], Any], least_seconds: float = LEAST_SECONDS, counters: Path = COUNTERS) -> float | None:
    """What the processors draw while this is done again and again; None if that cannot be told."""
    before, begun = joules_so_far(counters), time.perf_counter()
    while before is not None and time.perf_counter() - begun < least_seconds:
        work()
    after, took = joules_so_far(counters), time.perf_counter() - begun
    return (after - before) / took if before is not None and after is not None and after >= before else None
