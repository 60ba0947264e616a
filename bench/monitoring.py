"""What watching costs: CPU time of a batch with an ExperimentMonitor against the same batch without, interleaved."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import threading
import time
from pathlib import Path

from codedag.experiment import ExperimentMonitor
from codedag.experiment.resources import ResourceMonitor

RESULTS = Path(__file__).resolve().parent / "results"
BATCHES = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    work = _work_of(0.010)
    ratios = [_round(work) for _ in range(options.rounds)]
    calls, sample = _calls(), _sample()
    found = {
        "batch_cpu_ratio_median": statistics.median(ratios), "batch_cpu_ratios": ratios,
        "calls_seconds_per_batch": calls, "sample_cpu_seconds": sample,
        "versions": {"python": platform.python_version(), "load_average": os.getloadavg()[0]},
    }  # fmt: skip
    spread = f"[{min(ratios):.4f} .. {max(ratios):.4f}]"
    print(f"CPU time of a batch of 10 ms, watched over plain: median {statistics.median(ratios):.4f} {spread}")
    print(f"start_batch + end_batch + log_loss + log_accuracy: {1e6 * calls:.2f} us per batch")
    print(f"one sample of the machine: {1e6 * sample:.0f} us of CPU time, once a second")
    print(f"together {100 * (calls / 0.010 + sample):.3f} % of a batch of 10 ms")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "monitoring.json").write_text(json.dumps(found, indent=1) + "\n")


def _work_of(seconds: float) -> int:
    """How often to add for about this long."""
    started = time.perf_counter()
    _work(1_000_000)
    return int(1_000_000 * seconds / (time.perf_counter() - started))


def _work(count: int) -> int:
    total = 0
    for number in range(count):
        total += number
    return total


def _round(work: int) -> float:
    """Watched over plain CPU time of the process, threads and all; batches alternate, so that both see one machine."""
    with tempfile.TemporaryDirectory() as folder:
        monitor = ExperimentMonitor("x", folder)
        monitor.start_mode("baseline", resource_interval=1.0)
        spent = {True: 0.0, False: 0.0}
        for batch in range(2 * BATCHES):
            watched = bool(batch % 2)
            before = time.thread_time()
            if watched:
                monitor.start_batch()
            _work(work)
            if watched:
                monitor.end_batch()
                monitor.log_loss(0, batch, 0.5)
                monitor.log_accuracy(0, batch, 0.5)
            spent[watched] += time.thread_time() - before
        monitor.stop_mode()
    return spent[True] / spent[False]


def _calls(count: int = 20_000) -> float:
    with tempfile.TemporaryDirectory() as folder:
        monitor = ExperimentMonitor("x", folder)
        monitor.start_mode("baseline")
        before = time.thread_time()
        for batch in range(count):
            monitor.start_batch()
            monitor.end_batch()
            monitor.log_loss(0, batch, 0.5)
            monitor.log_accuracy(0, batch, 0.5)
        spent = time.thread_time() - before
        monitor.stop_mode()
    return spent / count


def _sample(count: int = 200) -> float:
    monitor = ResourceMonitor(3600)
    monitor.start()
    assert threading.active_count() > 1
    before = time.thread_time()
    for _ in range(count):
        monitor._sample()
    spent = time.thread_time() - before
    monitor.stop()
    return spent / count


if __name__ == "__main__":
    main()
