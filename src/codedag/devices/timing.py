"""Measuring a machine: how fast arrays get from one PU to another, and the peaks of compute and memory."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Sequence
from typing import Any

from codedag.devices.energy import watts_of
from codedag.devices.families import Found

SIZES = (64, 4 << 10, 64 << 10, 1 << 20, 16 << 20)
LARGEST = 256 << 20  # bytes of a tensor between stages of a model; copies alone are measured at this size
LEAST_SECONDS = 0.02  # spent on one figure
SAME = 8.0  # what is copied takes far more than so many times as long for so many more bytes
MATRICES = (64, 512)  # one that libraries do on one thread, which a busy machine hardly slows, and one for all threads
LEVELS = (16 << 10, 128 << 10, 1 << 20, 8 << 20, 128 << 20)  # the last is beyond the caches of most processors

FRESH = 4 << 20  # bytes of new memory


def best_of(function: Callable[[], Any], least_seconds: float = LEAST_SECONDS, most: int = 2_000) -> float:
    """The least seconds of one call, over as many as fit into the time; at least three."""
    function()
    best, spent, calls = float("inf"), 0.0, 0
    while calls < 3 or (spent < least_seconds and calls < most):
        begun = time.perf_counter()
        function()
        took = time.perf_counter() - begun
        best, spent, calls = min(best, took), spent + took, calls + 1
    return best


def copies(
    move: Callable[[Any], Any], make: Callable[[int], Any], sizes: Sequence[int] = SIZES
) -> list[dict[str, float]]:
    """Seconds by size of moving what `make` makes."""
    found = []
    for nbytes in sizes:
        value = make(nbytes)
        found.append({"nbytes": nbytes, "seconds": best_of(lambda value=value: move(value))})  # type: ignore[misc]
    return found


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Latency and bytes per second of a link, from sizes and seconds: the line of least relative error, never falling.

    Where time does not grow with size, the rate is the largest that was seen.
    """
    latency = min(seconds for _, seconds in points)
    weights = [(nbytes / seconds, 1 / seconds) for nbytes, seconds in points]
    # least squares of a/t + b*n/t against 1, for a and b not negative
    saa, sab = sum(w * w for _, w in weights), sum(v * w for v, w in weights)
    sbb, sa, sb = sum(v * v for v, _ in weights), sum(w for _, w in weights), sum(v for v, _ in weights)
    determinant = saa * sbb - sab * sab
    slope = (saa * sb - sab * sa) / determinant if determinant > 0 else 0.0
    start = (sa * sbb - sb * sab) / determinant if determinant > 0 else latency
    if start < 0:
        start, slope = 0.0, sb / sbb
    fastest = max(nbytes / seconds for nbytes, seconds in points)
    if slope <= 1 / (4 * fastest) or start > 4 * latency:
        return latency, fastest
    return start, 1 / slope


def link_of(found: Found) -> list[dict[str, Any]]:
    """The two links of a PU with the program's own arrays, as measured."""
    import numpy as np

    if found.bring is None or found.fetch is None:
        return []
    bring, fetch = found.bring, found.fetch
    sizes = (*SIZES, LARGEST) if found.memory_nbytes > 8 * LARGEST else SIZES
    there = copies(bring, lambda nbytes: np.ones(nbytes // 4, np.float32), sizes)
    back = copies(fetch, lambda nbytes: bring(np.ones(nbytes // 4, np.float32)), sizes)
    changed = copies(
        lambda array: bring(array.astype(np.float32)), lambda nbytes: np.ones(max(nbytes // 4, 1), np.float64)
    )
    return [_link("cpu", found, there, changed), _link(found.name, found, back, None)]


def _link(src: str, found: Found, measured: list[dict[str, float]], changed: Any) -> dict[str, Any]:
    latency, rate = line([(each["nbytes"], each["seconds"]) for each in measured])
    shared = measured[-1]["seconds"] < SAME * measured[0]["seconds"]
    made: dict[str, Any] = {
        "src": src, "dst": found.name if src == "cpu" else "cpu", "latency_seconds": latency, "bytes_per_second": rate,
        "how": "the same memory" if shared else "a copy", "measured": measured,
    }  # fmt: skip
    if changed is not None:
        made["converted"] = changed
    return made


def _use_fresh() -> None:
    """Uses each page of some new memory once, as a result does that the allocator has no place for."""
    with mmap.mmap(-1, FRESH) as pages:
        pages[:: mmap.PAGESIZE] = bytes(FRESH // mmap.PAGESIZE)


def peaks_of(found: Found) -> dict[str, Any]:
    """The most operations and the most bytes per second that this PU was seen to reach, in memory and in its caches."""
    peaks: dict[str, Any] = {}
    if found.multiply is not None:
        peaks["flop_per_second"] = max(2.0 * side**3 / best_of(found.multiply(side), 0.2) for side in MATRICES)
        watts = watts_of(found.multiply(MATRICES[-1])) if found.resource == "host" else None
        peaks |= {} if watts is None else {"watts": watts}
    if found.copy is not None:
        levels = [{"nbytes": size, "seconds": best_of(found.copy(size // 2), 0.05)} for size in LEVELS]
        peaks["stream_levels"] = levels
        peaks["fresh_bytes_per_second"] = FRESH / best_of(_use_fresh)
        peaks["stream_bytes_per_second"] = levels[-1]["nbytes"] / levels[-1]["seconds"]
    return peaks
