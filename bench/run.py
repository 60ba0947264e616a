"""`make bench`: ratios of interleaved runs, with their spread, written to bench/results/."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
SCRIPT = ROOT / "examples" / "images_cv2.py"
EPOCHS, PICTURES = 5, 320
SIZES = (256, 224, 384)  # pixels; 256 is what the example has when nothing is said
WARM = 2  # epochs that are not counted: observing, building and proving happen there


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="codedag-bench-") as home:
        found: dict[str, object] = {f"images_cv2 {s} px": images(options.rounds, Path(home), s) for s in SIZES}
        found["import"] = importing(options.rounds * 3)
    found["versions"] = _versions()
    (RESULTS / "bench.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {(RESULTS / 'bench.json').relative_to(ROOT)}")


def images(rounds: int, home: Path, size: int) -> dict[str, object]:
    """images/s of the example plain and under `codedag run`, one thread, interleaved in random order.

    Batches are compared by digest in a first run of each, which is not timed: hashing costs as much as loading.
    """
    print(
        f"images_cv2.py at {size} px, one thread, {rounds} interleaved rounds, epochs {WARM + 1}..{EPOCHS}", flush=True
    )
    options = f"--count {PICTURES} --epochs {EPOCHS} --threads 1 --size {size} --data".split()
    program = [str(SCRIPT), *options, str(ROOT / "data" / "demo")]
    commands = {
        "plain": [sys.executable, *program],
        "codedag": [sys.executable, "-m", "codedag", "-q", "run", *program],
    }
    digests = set()
    for name, command in commands.items():
        _measure([*command, "--digest", str(home / name)], home)
        digests.add((home / name).read_text())
    rates: dict[str, list[float]] = {name: [] for name in commands}
    walls: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds):
        for name in random.Random(number).sample(sorted(commands), len(commands)):
            rate, wall = _measure(commands[name], home)
            rates[name].append(rate)
            walls[name].append(wall)
        print(f"  round {number + 1}: plain {rates['plain'][-1]:.0f}, codedag {rates['codedag'][-1]:.0f}", flush=True)
    return _summary(rates, walls, len(digests) == 1)


def _summary(rates: dict[str, list[float]], walls: dict[str, list[float]], equal: bool) -> dict[str, object]:
    ratios = [b / a for a, b in zip(rates["plain"], rates["codedag"], strict=True)]
    whole = [a / b for a, b in zip(walls["plain"], walls["codedag"], strict=True)]
    spread = max(rates["plain"]) / min(rates["plain"])
    for name, each in rates.items():
        print(f"  {name:8} best {max(each):.0f}, median {statistics.median(each):.0f} images/s")
    best = max(rates["codedag"]) / max(rates["plain"])
    interval = f"[{min(ratios):.2f} .. {max(ratios):.2f}]"
    print(f"  ratio    median {statistics.median(ratios):.2f}x {interval}, best/best {best:.2f}x")
    print(f"  the baseline moved by {spread:.2f}x" + ("" if spread < 1.3 else ": more than 1.3x, this run is void"))
    print(f"  whole process with imports and observing: median {statistics.median(whole):.2f}x")
    print(f"  every batch bit-equal: {equal}")
    return {
        "images_per_second": rates, "wall_seconds": walls, "ratio_median": statistics.median(ratios), "ratios": ratios,
        "wall_ratio_median": statistics.median(whole), "baseline_spread": spread, "bit_equal": equal,
    }  # fmt: skip


def _measure(command: list[str], home: Path) -> tuple[float, float]:
    started = time.perf_counter()
    environment = {**os.environ, "CODEDAG_HOME": str(home / "home")}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    wall = time.perf_counter() - started
    rates = [float(rate) for rate in re.findall(r"([\d.]+) images/s", done.stdout)][WARM:]
    return len(rates) / sum(1 / rate for rate in rates), wall


def importing(rounds: int) -> dict[str, object]:
    """Seconds of `import codedag` against `import dataclasses, json`, each in fresh interpreters, interleaved."""
    statements = {"codedag": "import codedag", "reference": "import dataclasses, json"}
    seconds: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(rounds):
        for name, statement in statements.items():
            code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
            done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
            seconds[name].append(float(done.stdout))
    ratio = statistics.median(seconds["codedag"]) / statistics.median(seconds["reference"])
    print(f"import codedag: {ratio:.2f}x of `import dataclasses, json` (median of {rounds})")
    return {"seconds": seconds, "ratio_median": ratio}


def _versions() -> dict[str, str]:
    names = ("codedag", "numpy", "torch", "opencv-python-headless", "msgspec")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    main()
