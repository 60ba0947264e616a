"""Small faces for scripts that measure themselves: the memory of this process, and named stretches of time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The resident memory of this process at one moment."""

    seconds: float
    rss_nbytes: int


class MemoryProfiler:
    """Reads the resident memory of this process when asked; nothing runs in between."""

    def __init__(self) -> None:
        self.snapshots: list[MemorySnapshot] = []

    def take_snapshot(self) -> MemorySnapshot:
        """The memory now, also kept in `snapshots`."""
        self.snapshots.append(MemorySnapshot(time.perf_counter(), self.get_memory_usage()))
        return self.snapshots[-1]

    def get_memory_usage(self) -> int:
        """The resident bytes of this process now."""
        import psutil

        return int(psutil.Process().memory_info().rss)

    def get_peak(self) -> int:
        """The most bytes of any snapshot so far, 0 before the first; what happened between snapshots is not known."""
        return max((snapshot.rss_nbytes for snapshot in self.snapshots), default=0)


@dataclass(slots=True)
class Metric:
    """The time of one named stretch: how often it ran, in all, and the shortest and longest time."""

    count: int = 0
    total_seconds: float = 0.0
    least_seconds: float = field(default=float("inf"))
    most_seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Counts one more time."""
        self.count += 1
        self.total_seconds += seconds
        self.least_seconds = min(self.least_seconds, seconds)
        self.most_seconds = max(self.most_seconds, seconds)


class PerformanceMonitor:
    """Times named stretches: `start` and `stop`, `with monitor.measure(name)`, or `with monitor` for "total"."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._running: dict[str, float] = {}

    def start(self, name: str = "total") -> None:
        """Begins a stretch; it must not be running."""
        if name in self._running:
            raise ValueError(f"{name!r} is already being timed; stop it first")
        self._running[name] = time.perf_counter()

    def stop(self, name: str = "total") -> float:
        """The seconds since the start of this stretch, which ends."""
        began = self._running.pop(name, None)
        if began is None:
            raise ValueError(f"{name!r} was not started")
        seconds = time.perf_counter() - began
        self._metrics.setdefault(name, Metric()).add(seconds)
        return seconds

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Times what is inside `with`."""
        self.start(name)
        try:
            yield
        finally:
            self.stop(name)

    def __enter__(self) -> PerformanceMonitor:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def get_metrics(self) -> dict[str, dict[str, float]]:
        """Count, total, average, least and most seconds by name, of the stretches that have ended."""
        return {
            name: {
                "count": metric.count,
                "total_time": metric.total_seconds,
                "average_time": metric.total_seconds / metric.count,
                "min_time": metric.least_seconds,
                "max_time": metric.most_seconds,
            }
            for name, metric in self._metrics.items()
        }
