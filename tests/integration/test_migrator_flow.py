"""From a trace over measured costs and a plan to a plan in force, each step by its own command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

pytest.importorskip("cv2")
pytest.importorskip("scipy")

SCRIPT = """
import cv2
import numpy as np
import scipy.ndimage as ndimage

def prepare(number):
    image = np.random.default_rng(number).integers(0, 255, (200, 300), np.uint8)
    return int(ndimage.median_filter(image, 7).astype(np.int64).sum())

def main():
    return [prepare(number) for number in range(12)]

if __name__ == "__main__":
    print(main())
"""
APPLY = """
import json, script, codedag
with codedag.apply("run/plan.json") as migrator:
    found = script.main()
    stats = migrator.get_stats()["scipy.ndimage.median_filter"]
assert found == script.main()
print(json.dumps(stats))
"""


def command(folder: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_trace_profile_plan_apply(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command(tmp_path, "-m", "codedag", "trace", "-o", "run", "script.py")
    command(tmp_path, "-m", "codedag", "profile", "run")
    command(tmp_path, "-m", "codedag", "plan", "run")
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    placed = {one["name"]: one["variant"] for one in plan["placement"]}
    assert placed["scipy.ndimage.median_filter"] == "scipy.ndimage.median_filter -> cv2"
    stats = json.loads(command(tmp_path, "-c", APPLY))
    assert (stats["calls"], stats["mismatches"]) == (12, 0)
    assert stats["fast"] >= 3
