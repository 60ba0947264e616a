"""What looking into a whole package costs: import with a warm cache, and run time; bench/results/packages.json.

Every round starts fresh processes, plain and drilled in turn.  The drilled ones record as
`codedag trace --drill` does, which writes its records now and then and lets code rest that moves no data.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PROGRAMS = ROOT / "tests" / "programs"
#: What is imported, and how many rounds of the workload one process runs.
PACKAGES = {
    "networkx": ("networkx", 9),
    "skimage": ("skimage.filters, skimage.transform, skimage.feature, skimage.measure, skimage.segmentation", 9),
    "librosa": (
        "librosa.core.audio, librosa.core.spectrum, librosa.core.constantq, librosa.feature.spectral, librosa.effects, "
        "librosa.onset, librosa.beat, librosa.decompose, librosa.segment, librosa.sequence, librosa.filters",
        2,
    ),
    "albumentations": ("albumentations", 2),
}
DISTRIBUTIONS = {"skimage": "scikit-image"}
KINDS = ("plain", "drilled")
TARGETS = {"import": 1.2, "run": 1.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", choices=sorted(PACKAGES), default=sorted(PACKAGES))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # what a fresh process does: kind, package, what
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_one(*options.one)))
        return
    found: dict[str, Any] = {"python": sys.version.split()[0], "rounds": options.rounds, "clock": "cpu"}
    with tempfile.TemporaryDirectory(prefix="codedag-packages-") as home:
        for package in options.only:
            version = importlib.metadata.version(DISTRIBUTIONS.get(package, package))
            rows = {what: measured(package, what, options.rounds, home) for what in ("import", "run")}
            found[package] = {"version": version, **rows}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "packages.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {(RESULTS / 'packages.json').relative_to(ROOT)}")


def measured(package: str, what: str, rounds: int, home: str) -> dict[str, Any]:
    """Seconds of each round, plain and drilled, and their ratios; the first round fills the cache and is left out."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    hashes = set()
    for number in range(rounds + 1):
        for kind in random.Random(number).sample(KINDS, len(KINDS)):
            told = _fresh(kind, package, what, home)
            hashes.add(told["output"])
            if number:
                seconds[kind].append(told["seconds"])
    if len(hashes) != 1:
        raise RuntimeError(f"{package}: the results differ: {sorted(hashes)}")
    return _told(package, what, seconds)


def _fresh(kind: str, package: str, what: str, home: str) -> dict[str, Any]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    settings = {"CODEDAG_HOME": home, "NUMBA_CACHE_DIR": f"{home}/numba", "PYTHONHASHSEED": "0", **threads}
    if (what, package) == ("import", "skimage"):
        settings["EAGER_IMPORT"] = "1"  # it loads its parts on first use, unless told otherwise
    command = [sys.executable, __file__, "--one", kind, package, what]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _told(package: str, what: str, seconds: dict[str, list[float]]) -> dict[str, Any]:
    best = min(seconds["drilled"]) / min(seconds["plain"])
    median = statistics.median(seconds["drilled"]) / statistics.median(seconds["plain"])
    each = [d / p for d, p in zip(seconds["drilled"], seconds["plain"], strict=True)]
    spread = max(seconds["plain"]) / min(seconds["plain"])
    print(
        f"{package} {what}: {best:.3f}x (best/best), {median:.3f}x (medians), rounds {min(each):.3f}..{max(each):.3f}; "
        f"plain {min(seconds['plain']) * 1e3:.1f} ms, which moved by {spread:.2f}x; target {TARGETS[what]}x",
        flush=True,
    )
    return {"best": best, "median": median, "ratios": each, "plain_moved": spread, "seconds": seconds}


# -- in the fresh process


def _one(kind: str, package: str, what: str) -> dict[str, Any]:
    from codedag.instrument import sites
    from codedag.instrument.hook import importing
    from codedag.instrument.program import Program
    from codedag.trace.processes import Family
    from codedag.trace.recorder import Recorder

    measure = _import if what == "import" else _run
    if kind == "plain":  # has loaded the same of ours: that is not what is measured
        output, seconds = measure(package)
        return {"seconds": seconds, "output": output}
    program = Program([], drill=[package])
    with tempfile.TemporaryDirectory(prefix="codedag-records-") as folder, importing(program):
        family = Family(program, Recorder(program.names), Path(folder))
        family.start()
        output, seconds = measure(package)
        family.stop()
    failure = sites.native.failure()
    if failure:
        raise RuntimeError(failure)
    return {"seconds": seconds, "output": output}


def _import(package: str) -> tuple[str, float]:
    import time

    started = time.process_time()
    exec(f"import {PACKAGES[package][0]}")  # noqa: S102
    return "", time.process_time() - started


def _run(package: str) -> tuple[str, float]:
    """One round to warm up (imports, compilers, caches of the package), then the rounds that count."""
    import contextlib
    import io
    import runpy
    import time

    path = str(PROGRAMS / f"package_{package}.py")
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
        sys.argv = [path, "1"]
        runpy.run_path(path, run_name="__main__")
        sys.argv = [path, str(PACKAGES[package][1])]
        started = time.process_time()
        runpy.run_path(path, run_name="__main__")
        taken = time.process_time() - started
    return text.getvalue(), taken


if __name__ == "__main__":
    main()
