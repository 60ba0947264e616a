"""What the report page costs: time to write it, its size, and time until it can be used in Chromium.

Printed and written to bench/results/report.json.  Times are the best and the median of several rounds, in seconds, with
the processor time beside the time on the clock: on a busy machine only the first says something.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
sys.path.insert(0, str(ROOT / "tests" / "integration"))

import report_runs  # noqa: E402
from browser import CHROMIUM, Browser  # noqa: E402

from codedag.ir import RunDirectory  # noqa: E402
from codedag.view.html.page import write_page  # noqa: E402

SIZES = (50, 2_000, 100_000)
ROUNDS = 5


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


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="codedag-bench-") as folder:
        rows = [measured(Path(folder), count) for count in SIZES]
    for row in rows:
        print(json.dumps(row))
    RESULTS.mkdir(exist_ok=True)
    made = {"python": platform.python_version(), "platform": platform.platform(), "rounds": ROUNDS, "rows": rows}
    (RESULTS / "report.json").write_text(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main()
