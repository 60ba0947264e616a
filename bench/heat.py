"""What the sampling profiler costs and how true it is: CPU of programs with and without it, shares against py-spy.

    python bench/heat.py -o bench/results/heat.json [--rounds 5] [--seconds 8] [--py-spy PATH] [--only torch]

Each round runs every program plain and sampled at each rate, in turn; the figures are ratios within one round.
py-spy looks at a plain run of the same program; functions are compared below the turn that the sampler found.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parent / "heat_programs"
RATES_HZ = (100.0, 20.0)
TOP = 10

#: Runs a program to its end under the sampler, looks twice a second as `codedag run` would, and writes the last report.
SAMPLED = """
import json, runpy, sys, threading, time
from codedag.autopilot.heat import Heat, RatePolicy
out, rate, program = sys.argv[1], float(sys.argv[2]), sys.argv[3]
sys.argv = sys.argv[3:]
heat = Heat(RatePolicy(first_hz=rate, later_hz=rate, long_hz=rate))
done = threading.Event()
def looks():
    heat.exclude_this_thread()
    while not done.wait(0.5):
        heat.look()
heat.start()
thread = threading.Thread(target=looks, daemon=True)
thread.start()
try:
    runpy.run_path(program, run_name="__main__")
finally:
    done.set()
    thread.join()
    report = heat.look()
    heat.stop()
    turn = report.turn
    json.dump({
        "cpu": report.cpu_seconds, "wall": report.wall_seconds, "own": report.own_cpu_seconds,
        "samples": report.samples, "rejected": report.rejected_samples, "is_biased": report.is_biased,
        "turn_seconds": report.turn_seconds,
        "turn": turn and [turn.file, turn.qualname, turn.loop_first_line, turn.period_seconds, turn.turns_at_least],
        "functions": [[*function[:3], function.cumulative_seconds, function.below_turn_seconds]
                      for function in report.functions],
    }, open(out, "w"))
"""

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="CPU seconds of each program")
    parser.add_argument("--py-spy", default=shutil.which("py-spy"))
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    programs = [path for path in sorted(PROGRAMS.glob("*.py")) if not options.only or path.stem in options.only]
    found: Figures = {"versions": versions(options.py_spy), "seconds": options.seconds, "programs": {}}
    print(" ".join(f"{name} {version}" for name, version in found["versions"].items()))
    for program in programs:
        found["programs"][program.stem] = measured(program, options)
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n")


def versions(py_spy: str | None) -> dict[str, str]:
    found = {"python": platform.python_version(), "load": f"{os.getloadavg()[0]:.1f}", "cpus": str(os.cpu_count())}
    for name in ("torch", "pandas", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    if py_spy:
        found["py-spy"] = subprocess.run([py_spy, "--version"], capture_output=True, text=True).stdout.split()[-1]
    return found


def measured(program: Path, options: argparse.Namespace) -> Figures:
    """Costs and truth of one program, printed on the way."""
    costs: dict[float, list[float]] = {rate: [] for rate in RATES_HZ}
    owns: dict[float, list[float]] = {rate: [] for rate in RATES_HZ}
    report: Figures = {}
    for number in range(options.rounds):
        plain = cpu_of([sys.executable, str(program), str(options.seconds)])
        for rate in RATES_HZ if number % 2 else RATES_HZ[::-1]:
            seconds, seen = sampled(program, rate, options.seconds)
            costs[rate].append(seconds / plain)
            owns[rate].append(seen["own"] / seen["cpu"])
            report = seen if rate == max(RATES_HZ) else report
    figures: Figures = {"turn": report["turn"], "rejected": report["rejected"], "samples": report["samples"]}
    for rate in RATES_HZ:
        figures[f"cpu_ratio_{rate:.0f}_hz"] = spread(costs[rate])
        figures[f"own_cpu_share_{rate:.0f}_hz"] = spread(owns[rate])
    print_costs(program.stem, figures)
    if options.py_spy:
        figures["py_spy"] = compared(report, py_spy_shares(program, report, options))
        print_truth(figures["py_spy"])
    return figures


def spread(values: list[float]) -> dict[str, float]:
    return {"best": min(values), "median": statistics.median(values), "worst": max(values)}


def cpu_of(command: list[str]) -> float:
    """CPU seconds of a process and its children."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment())
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}  # spinning OpenMP threads would hide one per cent


def sampled(program: Path, rate: float, seconds: float) -> tuple[float, Figures]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        cpu = cpu_of([sys.executable, "-c", SAMPLED, str(out), str(rate), str(program), str(seconds)])
        report: Figures = json.loads(out.read_text())
        return cpu, report


# -- py-spy


def py_spy_shares(program: Path, report: Figures, options: argparse.Namespace) -> dict[str, float]:
    """Share of each function below the turn, from py-spy's raw stacks of a plain run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "stacks.txt"
        command = [options.py_spy, "record", "-r", "100", "-f", "raw", "-F", "--full-filenames", "-o", str(out), "--"]
        command += [sys.executable, str(program), str(options.seconds)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        return shares_below(out.read_text(), report["turn"])


def shares_below(stacks: str, turn: list[Any] | None) -> dict[str, float]:
    """Shares of functions by `name file`, of the samples in which the turn's function is on the stack."""
    counts: dict[str, int] = {}
    total = 0
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        names = [key_of_py_spy(frame) for frame in stack.split(";") if "(" in frame]
        if turn is not None:
            top = key(turn[0], turn[1])
            if top not in names:
                continue
            names = names[names.index(top) :]
        total += int(count)
        for name in set(names):
            counts[name] = counts.get(name, 0) + int(count)
    return {name: count / total for name, count in counts.items()} if total else {}


def key(file: str, qualname: str) -> str:
    """File and plain name: py-spy does not know qualified ones on every version."""
    return f"{qualname.rpartition('.')[2]} {Path(file).name}"


def key_of_py_spy(frame: str) -> str:
    name, _, place = frame.strip().rpartition(" (")
    return key(place.rstrip(")").rpartition(":")[0] or place.rstrip(")"), name)


def compared(report: Figures, theirs: dict[str, float]) -> Figures:
    """How many of the ten hottest functions below the turn agree, and by how much their shares differ."""
    has_turn = report["turn"] is not None
    whole = report["turn_seconds"] if has_turn else report["cpu"]
    ours: dict[str, float] = {}
    for file, qualname, _, cumulative, below in report["functions"]:
        name = key(file, qualname)
        ours[name] = max(ours.get(name, 0.0), (below if has_turn else cumulative) / whole if whole else 0.0)
    our_top, their_top = top_of(ours), top_of(theirs)
    least = theirs[their_top[-1]] if their_top else 0.0
    # A function that ties with the tenth is as good as the tenth.
    agreed = [name for name in our_top if name in their_top or theirs.get(name, 0.0) >= least - 0.01]
    names = dict.fromkeys(our_top + their_top)
    differences = {name: ours.get(name, 0.0) - theirs.get(name, 0.0) for name in names}
    worst = max(differences.values(), key=abs, default=0.0)
    table = {name: [ours.get(name, 0.0), theirs.get(name, 0.0)] for name in names}
    return {"overlap": len(agreed), "of": len(our_top), "worst_difference": worst, "shares_ours_theirs": table}


def top_of(shares: dict[str, float]) -> list[str]:
    return sorted((name for name in shares if shares[name] > 0.0), key=lambda name: -shares[name])[:TOP]


def print_costs(name: str, figures: Figures) -> None:
    turn = figures["turn"]
    where = f"{turn[1]}:{turn[2]} every {1000 * turn[3]:.0f} ms, {turn[4]} seen" if turn else "none"
    print(f"\n{name}: turn {where}; {figures['samples']} samples, {figures['rejected']} rejected")
    for label in [each for each in figures if each.startswith(("cpu_ratio", "own_cpu"))]:
        row = figures[label]
        print(f"  {label}: best {row['best']:.4f} median {row['median']:.4f} worst {row['worst']:.4f}")


def print_truth(figures: Figures) -> None:
    worst = 100 * figures["worst_difference"]
    print(f"  py-spy: {figures['overlap']} of {figures['of']} agree, worst difference {worst:.1f} points")
    for name, (ours, theirs) in sorted(figures["shares_ours_theirs"].items(), key=lambda item: -item[1][0]):
        print(f"    {100 * ours:5.1f} % {100 * theirs:5.1f} % {name}")


if __name__ == "__main__":
    main()
