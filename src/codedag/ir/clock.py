"""Python's own clocks as they were when we were loaded: a program may put others into `time`, and see who asks them."""

from __future__ import annotations

from time import (
    monotonic,
    perf_counter,
    perf_counter_ns,
    process_time,
    sleep,
    strftime,
    thread_time,
    time,
    time_ns,
)

__all__ = [
    "monotonic",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "sleep",
    "strftime",
    "thread_time",
    "time",
    "time_ns",
]
