"""Programs with a reduction, a softmax or a small product as their hot part: plain against the second `codedag run`.

    python bench/tune_run.py [--rounds N] [NAME ...]

Each program runs once under `codedag run` to be learned, then plain and under `codedag run` in turns.  Times are of
the whole process, its start and end included; what they print must be the same.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tune_page import write_page

ROOT = Path(__file__).resolve().parent
PROGRAMS = ROOT / "tune_programs"
RESULTS = ROOT / "results" / "tune_run.json"
LEAST, WORST = 1.4, 0.97


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float, str]:
    """Wall seconds, processor seconds of the process and its children, and what it printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def measured(program: Path, home: Path, rounds: int) -> dict[str, object]:
    environment = {**os.environ, "CODEDAG_HOME": str(home), "OPENBLAS_NUM_THREADS": "1"}
    plain, ran = [sys.executable, str(program)], [sys.executable, "-m", "codedag", "run", str(program)]
    first_wall, _, first = timed(ran, environment)
    walls, processor, printed = [], [], {first}
    for _ in range(rounds):
        a, b = timed(plain, environment), timed(ran, environment)
        walls.append(a[0] / b[0])
        processor.append(a[1] / b[1])
        printed |= {a[2], b[2]}
        print(f"  {program.stem}: {a[0]:.2f} s plain, {b[0]:.2f} s", file=sys.stderr, flush=True)
    return {
        "gain": statistics.median(walls), "gains": walls, "processor_gain": statistics.median(processor),
        "first_run_seconds": first_wall, "same_output": len(printed) == 1,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    every = sorted(PROGRAMS.glob("*.py"))
    chosen = [one for one in every if not arguments.names or one.stem in arguments.names]
    found = {}
    for program in chosen:
        with tempfile.TemporaryDirectory() as home:
            found[program.stem] = measured(program, Path(home), arguments.rounds)
            print(program.stem, json.dumps(found[program.stem]), flush=True)
    gains = [float(str(one["gain"])) for one in found.values()]
    mean = math.exp(sum(map(math.log, gains)) / len(gains))
    facts = {
        "programs": found, "geometric_mean": mean, "worst": min(gains), "met": mean >= LEAST and min(gains) >= WORST,
        "same_output": all(one["same_output"] for one in found.values()),
    }  # fmt: skip
    print(f"geometric mean {mean:.2f}x, worst {min(gains):.2f}x")
    if not arguments.names:
        RESULTS.write_text(json.dumps(facts, indent=1))
        write_page()


if __name__ == "__main__":
    main()
