"""The demo: one ordinary script, plain and under `codedag run`, every batch compared bit for bit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "examples" / "images_cv2.py"
EPOCHS, PICTURES = 5, 320
RUN = ROOT / "build" / "demo"  # stays, so that its report can be looked at


def main() -> int:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="codedag-demo-") as folder:
        work = Path(folder)
        program = [
            str(SCRIPT),
            *f"--count {PICTURES} --epochs {EPOCHS} --threads 1 --data".split(),
            str(ROOT / "data" / "demo"),
        ]
        codedag = ["-m", "codedag", "run", "-o"]
        print(f"1. making {PICTURES} pictures and running {SCRIPT.name} as it is ({EPOCHS} epochs, one thread)")
        plain = _run(program)
        print(f"\n2. the same script, unchanged, under `codedag run {SCRIPT.name}`")
        changed = _run([*codedag, str(RUN), *program])
        print("\n3. both again, with a digest of every batch (hashing takes time, so these are not timed)")
        for name, command in (("plain", program), ("codedag", [*codedag, str(work / "run"), *program])):
            _run([*command, "--digest", str(work / name)], quiet=True)
        return _compare(work, plain, changed)


def _run(command: list[str], quiet: bool = False) -> list[float]:
    """Images per second of each epoch; the program's lines are shown as they come."""
    started = time.perf_counter()
    rates = []
    errors = subprocess.DEVNULL if quiet else None
    with subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not quiet:
                print(f"   {line.rstrip()}", flush=True)
            found = re.search(r"([\d.]+) images/s", line)
            if found:
                rates.append(float(found.group(1)))
    if process.returncode != 0:
        sys.exit(f"demo: {' '.join(command)} ended with exit code {process.returncode}")
    print(f"   ({time.perf_counter() - started:.1f} s in all, with imports)")
    return rates


def _compare(work: Path, plain: list[float], changed: list[float]) -> int:
    one, other = ((work / name).read_text().split() for name in ("plain", "codedag"))
    same = sum(a == b for a, b in zip(one, other, strict=False))
    if not (work / "run" / "report.json").exists():
        print("demo: FAILED: the run under codedag left no report; its last lines above say why")
        return 1
    report = json.loads((work / "run" / "report.json").read_text())
    print(f"\n4. batches bit-equal: {same} of {len(one)}")
    before, after = max(plain), max(changed)
    print(f"   best epoch: {before:.0f} images/s plain, {after:.0f} images/s under codedag: {after / before:.2f}x")
    print("   (one run each on a machine that may be busy; `make bench` interleaves the two and shows the spread)")
    print(f"   what was changed and why: open {RUN / 'report.html'} in a browser")
    if same != len(one) or len(one) != len(other):
        print("demo: FAILED: a batch differs")
        return 1
    if not report["changes"]:
        print("demo: FAILED: no change was applied")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
