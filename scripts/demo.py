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


def main() -> int:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="codedag-demo-") as folder:
        work = Path(folder)
        options = [
            "--data",
            str(ROOT / "data" / "demo"),
            "--count",
            str(PICTURES),
            "--epochs",
            str(EPOCHS),
            "--threads",
            "1",
        ]
        print(f"1. making {PICTURES} pictures and running {SCRIPT.name} as it is ({EPOCHS} epochs, one thread)")
        plain = _run([sys.executable, str(SCRIPT), *options, "--digest", str(work / "plain")])
        print(f"\n2. the same script, unchanged, under `codedag run {SCRIPT.name}`")
        command = [sys.executable, "-m", "codedag", "run", "-o", str(work / "run"), str(SCRIPT)]
        changed = _run([*command, *options, "--digest", str(work / "codedag")])
        return _compare(work, plain, changed)


def _run(command: list[str]) -> list[float]:
    """Images per second of each epoch; the program's lines are shown as they come."""
    started = time.perf_counter()
    rates = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"   {line.rstrip()}", flush=True)
            found = re.search(r"([\d.]+) images/s", line)
            if found:
                rates.append(float(found.group(1)))
    if process.returncode != 0:
        sys.exit(f"demo: {command[1]} ended with exit code {process.returncode}")
    print(f"   ({time.perf_counter() - started:.1f} s in all, with imports)")
    return rates


def _compare(work: Path, plain: list[float], changed: list[float]) -> int:
    one, other = ((work / name).read_text().split() for name in ("plain", "codedag"))
    same = sum(a == b for a, b in zip(one, other, strict=False))
    report = json.loads((work / "run" / "report.json").read_text())
    print(f"\n3. batches bit-equal: {same} of {len(one)}")
    before, after = max(plain), max(changed)
    print(f"   best epoch: {before:.0f} images/s plain, {after:.0f} images/s under codedag: {after / before:.2f}x")
    print("   (one run each on a machine that may be busy; `make bench` interleaves the two and shows the spread)")
    if same != len(one) or len(one) != len(other):
        print("demo: FAILED: a batch differs")
        return 1
    if not report["changes"]:
        print("demo: FAILED: no change was applied")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
