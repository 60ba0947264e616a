"""What the report page costs: time to write it, its size, time until it can be used in Chromium, and a live page.

Printed and written to bench/results/report.json.  Times are the best and the median of several rounds, in seconds, with
the processor time beside the time on the clock: on a busy machine only the first says something.  What a live page
costs the run is the ratio of processor times of runs with a page that follows them and runs without, in turns, and the
share of the time that serving takes, at the lowest priority.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
sys.path.insert(0, str(ROOT / "tests" / "integration"))

import psutil  # noqa: E402
import report_runs  # noqa: E402
from browser import CHROMIUM, Browser  # noqa: E402

from codedag.ir import RunDirectory  # noqa: E402
from codedag.view.html.page import write_page  # noqa: E402

SIZES = (50, 2_000, 100_000)
ROUNDS = 5
LIVE_ROUNDS = 8
KINDS = ("cpu", "wall")
LIVE_PROGRAM = [str(ROOT / "tests" / "programs" / "numpy_loop.py"), "4000"]


def measured(folder: Path, count: int) -> dict[str, Any]:
    """What the page of so many operations costs."""
    run, page = folder / f"run-{count}", folder / f"{count}.html"
    report_runs.large(run, count)
    wall, cpu, size = [], [], 0
    for _ in range(ROUNDS):
        begun, worked = time.perf_counter(), time.process_time()
        size = write_page(RunDirectory(run), page)
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - worked)
    found = {"operations": count, "nbytes": size, "write_seconds": _both(wall), "write_cpu_seconds": _both(cpu)}
    return {**found, "ready_seconds": _both(_opened(page)) if CHROMIUM else None}


def _opened(page: Path) -> list[float]:
    with Browser() as browser:
        return [browser.open(f"file://{page}") for _ in range(ROUNDS)]


def _both(values: list[float]) -> dict[str, float]:
    return {"best": round(min(values), 3), "median": round(statistics.median(values), 3)}


class Follower:
    """A live page of a run and what an open browser does: it asks for newer data every second."""

    def __init__(self, run: Path) -> None:
        command = [sys.executable, "-u", "-m", "codedag", "view", str(run), "--serve"]
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        self._address = self._server.stdout.readline().removeprefix("report: ").strip()
        times = psutil.Process(self._server.pid).cpu_times()
        self._started = times.user + times.system
        self.answers, self._ended = 0, threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        version = ""
        while not self._ended.is_set():
            with urllib.request.urlopen(f"{self._address}data.json?version={version}") as answer:
                self.answers += answer.status == 200
                version = answer.headers.get("ETag") or version
                answer.read()
            self._ended.wait(1.0)

    def end(self) -> float:
        """The processor time that serving took, after the server had started."""
        self._ended.set()
        self._thread.join()
        self._server.send_signal(signal.SIGINT)
        usage = os.wait4(self._server.pid, 0)[2]
        self._server.returncode = 0
        assert self._server.stdout is not None
        self._server.stdout.close()
        return usage.ru_utime + usage.ru_stime - self._started


def _traced(run: Path, followed: bool) -> dict[str, float]:
    """Processor time and time on the clock of one traced program, with a live page or without, and that of the page."""
    shutil.rmtree(run, ignore_errors=True)
    begun = time.perf_counter()
    command = [sys.executable, "-m", "codedag", "-q", "trace", "--no-samples", "-o", str(run), *LIVE_PROGRAM]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not (run / "run.json").exists():
        time.sleep(0.02)
    follower = Follower(run) if followed else None
    usage = os.wait4(process.pid, 0)[2]
    process.returncode, seconds = 0, time.perf_counter() - begun
    found = {"cpu": usage.ru_utime + usage.ru_stime, "wall": seconds}
    return {**found, "served": follower.end(), "answers": follower.answers} if follower else found


def _spread(ratios: list[float]) -> dict[str, float]:
    found = {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
    return {name: round(value, 4) for name, value in found.items()}


def live(folder: Path) -> dict[str, Any]:
    """What a live page costs the run that it shows."""
    rounds = []
    for number in range(LIVE_ROUNDS):
        order = (True, False) if number % 2 else (False, True)
        rounds.append({followed: _traced(folder / "live", followed) for followed in order})
    return {
        **{f"live_{kind}_ratio": _spread([one[True][kind] / one[False][kind] for one in rounds]) for kind in KINDS},
        "live_run_cpu_seconds": statistics.median(one[True]["cpu"] for one in rounds),
        "live_server_cpu_seconds": statistics.median(one[True]["served"] for one in rounds),
        "live_server_share": round(statistics.median(one[True]["served"] / one[True]["wall"] for one in rounds), 4),
        "live_answers": statistics.median(one[True]["answers"] for one in rounds),
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="codedag-bench-") as folder:
        rows = [measured(Path(folder), count) for count in SIZES]
        for row in rows:
            print(json.dumps(row))
        followed = live(Path(folder))
        print(json.dumps(followed))
    RESULTS.mkdir(exist_ok=True)
    made = {"python": platform.python_version(), "platform": platform.platform(), "rounds": ROUNDS, "rows": rows}
    (RESULTS / "report.json").write_text(json.dumps({**made, **followed}, indent=2) + "\n")


if __name__ == "__main__":
    main()
