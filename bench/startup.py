"""What `codedag run` adds to a script in which there is nothing to gain: CPU and wall of the process, interleaved.

    python bench/startup.py                 10 rounds, written to bench/results/startup.json
    python bench/startup.py --only numpy    one of the scripts; nothing is written

A first run of each fills the caches and is not counted.  CPU is that of the process and all that it waited for.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "startup.json"
WORK = """
def total(values):
    found = 0.0
    for value in values:
        found += float(value)
    return found

def main():
    print(total(range(200_000)))

main()
"""
ARRAYS = """
def step(a):
    return np.sort(a)[::-1].copy()

a = np.random.default_rng(0).random(100_000)
for _ in range(60):
    a = step(a)
print(a[:3])
"""
SCRIPTS = {
    "empty": WORK,
    "numpy": "import numpy as np\n" + WORK + ARRAYS,
    "cv2": "import cv2\nimport numpy as np\n" + WORK + ARRAYS,
    "torch": "import torch\nimport numpy as np\n" + WORK + ARRAYS,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=sorted(SCRIPTS), default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="codedag-startup-") as home:
        found = {name: measured(name, Path(home), options.rounds) for name in options.only or SCRIPTS}
    if not options.only:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(f"written to {RESULTS.relative_to(ROOT)}")


def measured(name: str, home: Path, rounds: int) -> dict[str, object]:
    """Medians and lists of CPU and wall seconds of both ways, and of what is added in each round."""
    script = home / f"with_{name}.py"
    script.write_text(SCRIPTS[name])
    commands = {
        "plain": [sys.executable, str(script)],
        "codedag": [sys.executable, "-m", "codedag", "-q", "run", str(script)],
    }
    environment = {**os.environ, "CODEDAG_HOME": str(home / "home"), "OMP_NUM_THREADS": "1"}
    for command in commands.values():
        run(command, environment)
    runs: dict[str, list[tuple[float, float]]] = {way: [] for way in commands}
    for number in range(rounds):
        for way in random.Random(f"{name}{number}").sample(sorted(commands), 2):
            runs[way].append(run(commands[way], environment))
    found: dict[str, object] = {}
    for at, what in enumerate(("cpu", "wall")):
        plain, ours = ([one[at] for one in runs[way]] for way in ("plain", "codedag"))
        added = [b - a for a, b in zip(plain, ours, strict=True)]
        found[what] = {"plain": plain, "codedag": ours, "added_median": statistics.median(added)}
        print(
            f"{name:6} {what:4}: plain {statistics.median(plain):.3f} s, codedag {statistics.median(ours):.3f} s, "
            f"added {statistics.median(added):.3f} s [{min(added):.3f} .. {max(added):.3f}]",
            flush=True,
        )
    return found


def run(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """CPU and wall seconds of one run; the benchmark ends if it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"startup: {' '.join(command)} ended with exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime, wall


if __name__ == "__main__":
    main()
