"""Prints how long plans take against how long they were said to take.

python bench/executed.py [--programs a,b,...] [--budget SECONDS] [--rounds N] [--threads N] [-o RESULTS.json]

Each program of bench/executed_programs (which the model of costs was made with) and of bench/executed_held_out (which
it was not) is traced, profiled and planned by the commands that users give; then it is run as written in a process of
its own, and with its plan in force (`codedag.apply`, results not compared) in another one: how memory was used before
decides how fast new results get theirs. A round calls `main()` once; the first of each does not count. The ratio of the
median round to the makespan of the plan should be near 1 (`best`: that of the least disturbed round); `as written` is
the same for the program as written against what its operations take by the profile.
Libraries have one thread each, and rounds are measured in seconds of the processor: what a profile says holds for a
quiet machine, and on a busy one a program is not let run all the time. `wall` shows the seconds of the clock.
The C library keeps memory that was freed, as `codedag run` has it do where much comes and goes: else the accidental
layout of the heap decides whether a program gets fresh pages for every array, which can double what it takes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from codedag.profile.process import WARM

HERE = Path(__file__).resolve().parent
SETS = ("executed_programs", "executed_held_out")
SETTINGS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENCV_FOR_THREADS_NUM",
)  # fmt: skip
CHILD = """
import importlib, json, os, sys, time
try:
    os.setpriority(os.PRIO_PROCESS, 0, -10)  # as the measuring processes do, where they may
except OSError:
    pass
folder, name, plan, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
sys.path.insert(0, folder)
program = importlib.import_module(name)

def timed():
    begun, used = time.perf_counter(), time.process_time()
    program.main()
    return time.perf_counter() - begun, time.process_time() - used

if plan:
    import codedag
    with codedag.apply(plan, mode="off", demote=False) as migrator:
        times = [timed() for _ in range(rounds + 1)]
        stats = migrator.get_stats()
else:
    times, stats = [timed() for _ in range(rounds + 1)], {}
fast = {name: one["fast"] for name, one in stats.items() if one["fast"]}
print(json.dumps({"times": times[1:], "fast": fast}))
"""


def codedag(folder: Path, *words: object) -> str:
    command = [sys.executable, "-m", "codedag", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def programs() -> dict[str, Path]:
    """All programs by name."""
    return {path.stem: path for one in SETS for path in sorted((HERE / one).glob("*.py"))}


def measured(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Predicted and executed seconds of one program."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        codedag(folder, "trace", "-o", "run", path)
        codedag(folder, "profile", "run", "--budget", options.budget, "--json")
        codedag(folder, "plan", "run")
        facts = predicted(folder / "run")
        written, planned = (executed(path, plan, options.rounds) for plan in ("", folder / "run" / "plan.json"))
    times = {"written": written["times"], "planned": planned["times"], "fast": planned["fast"]}
    return {"program": path.stem, "set": path.parent.name, **facts, **times}


def executed(path: Path, plan: str | Path, rounds: int) -> dict[str, Any]:
    """What rounds of a program take in a process of their own, with a plan in force or without CodeDAG."""
    words = [path.parent, path.stem, plan, rounds]
    command = [sys.executable, "-W", "ignore", "-c", CHILD, *map(str, words)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def predicted(run: Path) -> dict[str, Any]:
    """What the plan says of `main()` and of what it calls; all PUs are the same processor, so that times add up."""
    from codedag.ir import load
    from codedag.ir.costs import written_seconds

    found = load(run)
    inside = {op.id for op in found.graph.ops if "main" in op.context.split("/")[: None if op.kind == "region" else -1]}
    within = msgspec.structs.replace(found.costs, rows=[row for row in found.costs.rows if row.op in inside])
    seconds = sum(step.end - step.start for step in found.plan.schedule if step.op in inside)
    seconds += sum(copy.end - copy.start for copy in found.plan.transfers if copy.op in inside)
    counts = Counter(place.pu for place in found.plan.placement if place.op in inside)
    return {"makespan_seconds": seconds, "baseline_seconds": written_seconds(within), "ops_per_pu": dict(counts)}


def line(row: dict[str, Any]) -> dict[str, Any]:
    executed, written = median(one[1] for one in row["planned"]), median(one[1] for one in row["written"])
    wall, best = median(one[0] for one in row["planned"]), min(one[1] for one in row["planned"])
    predicted, before = row["makespan_seconds"], row["baseline_seconds"]
    found = {
        "program": row["program"], "set": row["set"], "predicted": predicted, "executed": executed,
        "best": best, "wall": wall, "best_ratio": best / row["makespan_seconds"],
        "ratio": executed / predicted, "written": written, "written_predicted": before,
        "written_ratio": written / before, "gain": written / executed, "gain_predicted": before / predicted,
        "ops_per_pu": row["ops_per_pu"], "fast": row["fast"],
    }  # fmt: skip
    print(
        f"{row['program']:<10} predicted {predicted * 1e3:8.1f} ms  executed {executed * 1e3:8.1f} ms "
        f"(wall {wall * 1e3:.1f})  ratio {found['ratio']:.2f}, best {found['best_ratio']:.2f}  "
        f"as written {found['written_ratio']:.2f}  gain {found['gain']:.2f} (predicted {found['gain_predicted']:.2f})  "
        f"{found['ops_per_pu']}",
        flush=True,
    )
    return found


def summed_up(name: str, rows: list[dict[str, Any]]) -> dict[str, float]:
    """How far the programs of one set are from what was predicted of them."""
    if not rows:
        return {}
    off, best = ([abs(row[key] - 1) for row in rows] for key in ("ratio", "best_ratio"))
    print(
        f"{name}: {len(rows)} programs, executed within {median(off):.0%} of predicted (median), at most "
        f"{max(off):.0%}; their best rounds within {median(best):.0%}"
    )
    return {"median_error": median(off), "largest_error": max(off), "median_error_best": median(best)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=",".join(programs()))
    parser.add_argument("--budget", type=float, default=60.0, help="seconds to profile one program")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "executed.json")
    options = parser.parse_args()
    os.environ.update({**WARM, **dict.fromkeys(SETTINGS, str(options.threads))})
    load = os.getloadavg()[0]
    rows: list[dict[str, Any]] = []
    results: dict[str, Any] = {"rows": rows, "load": [load, load], "threads": options.threads}
    options.output.parent.mkdir(exist_ok=True)
    for name in options.programs.split(","):
        rows.append(line(measured(programs()[name], options)))
        results["load"][1] = os.getloadavg()[0]
        options.output.write_text(json.dumps(results, indent=1) + "\n")  # what is known, should this be ended
    results |= {one: summed_up(one, [row for row in rows if row["set"] == one]) for one in SETS}
    print(f"load average {load:.1f} before, {os.getloadavg()[0]:.1f} after, Python {platform.python_version()}")
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
