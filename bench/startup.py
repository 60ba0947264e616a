"""What `codedag run` costs short programs, and what it brings them: CPU and wall of the whole process, interleaved.

    python bench/startup.py                   every kind, of 1, 2 and 5 s, written to bench/results/startup.json
    python bench/startup.py --only python --seconds 1 2      some of them; nothing is written
    python bench/startup.py --table           the table of docs/benchmarks.md again, from the last results

A round is the program as it is, the first run of it under `codedag run` (nothing is known of it: a folder of its own)
and the second, which begins with what the first has proven.  CPU is that of the process and all that it waited for.
What the program prints, a digest of everything that it computed, must be the same all three times.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from startup_programs import PROGRAMS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "startup.json"
PAGE = ROOT / "docs" / "benchmarks.md"
MARKS = ("<!-- startup: begin -->", "<!-- startup: end -->")
SECONDS, ROUNDS = (1.0, 2.0, 5.0), 3
WAYS = ("plain", "first", "second")
FEW = 2  # turns of a program from which the seconds of one are told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, nargs="*", default=SECONDS)
    parser.add_argument("--only", nargs="*", choices=sorted(PROGRAMS), default=None)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        with tempfile.TemporaryDirectory(prefix="codedag-startup-") as folder:
            found = [row for name in options.only or PROGRAMS for row in measured(name, Path(folder), options)]
        if options.only or tuple(options.seconds) != SECONDS or options.rounds < ROUNDS:
            return
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(f"written to {RESULTS.relative_to(ROOT)}")
    write_table(json.loads(RESULTS.read_text()))


def measured(name: str, folder: Path, options: argparse.Namespace) -> list[dict[str, object]]:
    """A row for each length of one program."""
    script = folder / f"{name}.py"
    script.write_text(PROGRAMS[name])
    turns = turns_for(script, options.seconds)
    return [row_of(name, script, wanted, count, options.rounds) for wanted, count in turns.items()]


def turns_for(script: Path, seconds: list[float]) -> dict[float, int]:
    """How often the loop of a program must turn for it to take so many seconds, imports included."""
    run(script, 0)  # which makes its data, and warms the files
    fixed = min(run(script, 0)[1] for _ in range(2))
    count, each = FEW, 0.0
    while each * count < 0.4:
        count *= 2
        each = max(run(script, count)[1] - fixed, 1e-4) / count
    return {wanted: max(1, round((wanted - fixed) / each)) for wanted in seconds}


def row_of(name: str, script: Path, wanted: float, turns: int, rounds: int) -> dict[str, object]:
    """What the rounds of one length gave; the benchmark ends if a result differs."""
    runs: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        home = script.parent / "home"
        shutil.rmtree(home, ignore_errors=True)
        said = set()
        for way in WAYS:
            printed, *times = run(script, turns, None if way == "plain" else home)
            said.add(printed)
            runs[way].append((times[1], times[0]))
        if len(said) > 1:
            sys.exit(f"startup: {name} printed other results under codedag run")
    row: dict[str, object] = {"program": name, "seconds": wanted, "turns": turns}
    for way in WAYS[1:]:
        for at, what in enumerate(("cpu", "wall")):
            row[f"{way}_{what}"] = compared([r[at] for r in runs["plain"]], [r[at] for r in runs[way]])
    print(f"{name:7} {wanted:4.0f} s: {words(row)} (load {os.getloadavg()[0]:.1f})", flush=True)
    return row


def compared(plain: list[float], ours: list[float]) -> dict[str, object]:
    """Medians of both, of what is added and of the ratio, over the rounds."""
    pairs = list(zip(plain, ours, strict=True))
    return {
        "plain": plain, "codedag": ours, "added": round(statistics.median(b - a for a, b in pairs), 3),
        "ratio": round(statistics.median(a / b for a, b in pairs), 3),
    }  # fmt: skip


def words(row: dict[str, object]) -> str:
    """A row in one line."""
    cells = []
    for way in WAYS[1:]:
        cpu, wall = row[f"{way}_cpu"], row[f"{way}_wall"]
        cells.append(
            f"{way} run {wall['ratio']:.2f}x ({wall['added']:+.2f} s), CPU {cpu['ratio']:.2f}x ({cpu['added']:+.2f} s)"  # type: ignore[index]
        )
    return "; ".join(cells)


def run(script: Path, turns: int, home: Path | None = None) -> tuple[str, float, float]:
    """What a run printed, its wall and its CPU seconds; the benchmark ends if it fails."""
    ours = ["-m", "codedag", "-q", "run"] if home else []
    environment = {**os.environ, "CODEDAG_HOME": str(home)} if home else dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # who installs a package has its compiled files
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        command = [sys.executable, *ours, str(script), str(turns)]
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=subprocess.DEVNULL, cwd=script.parent)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"startup: {' '.join(command)} ended with exit code {process.returncode}")
        said.seek(0)
        return said.read(), wall, usage.ru_utime + usage.ru_stime


def write_table(rows: list[dict[str, object]]) -> None:
    """Puts the table of the results between the marks of docs/benchmarks.md."""
    text = PAGE.read_text()
    before, after = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    head = "| program | takes | first run | CPU | second run | CPU |\n|---|---|---|---|---|---|\n"
    lines = [f"| {row['program']} | {row['seconds']:.0f} s | {' | '.join(_cells(row))} |" for row in rows]
    PAGE.write_text(f"{text[:before]}\n{head}" + "\n".join(lines) + f"\n{text[after:]}")
    print(f"written to {PAGE.relative_to(ROOT)}")


def _cells(row: dict[str, object]) -> list[str]:
    names = [f"{way}_{what}" for way in WAYS[1:] for what in ("wall", "cpu")]
    return [f"{row[name]['ratio']:.2f}x ({row[name]['added']:+.2f} s)" for name in names]  # type: ignore[index]


if __name__ == "__main__":
    main()
