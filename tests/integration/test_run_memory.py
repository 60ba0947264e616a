"""The memory that `codedag run` takes beside the program's own: what is kept stays within the budget."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("cv2")

MEGA = 1 << 20
OURS = 70 * MEGA  # our own code, its tables and what it observes; 20 to 45 were seen, and 120 would be all pictures
PROGRAM = """
import os, sys
import cv2
import numpy as np

paths = [f"{i}.png" for i in range(40)]
for number, path in enumerate(paths):
    if not os.path.exists(path):
        cv2.imwrite(path, np.full((1000, 1000, 3), number, np.uint8))

def load(path):
    return cv2.imread(path)

total = 0
for epoch in range(4):
    for path in paths:
        total += int(load(path)[0, 0, 0])
print(total)
"""
#: A small process in between: the peak of a child begins with that of its parent.
PEAK = """
import os, sys
pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, *sys.argv[1:]])
_, status, usage = os.wait4(pid, 0)
print(status, usage.ru_maxrss * 1024)
"""


def _peak(tmp_path, settings: dict[str, str], *args: str) -> tuple[str, int]:
    environment = {**os.environ, **settings, "CODEDAG_SYNCHRONOUS": "1"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", PEAK, *args], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    *said, last = done.stdout.splitlines()
    assert last.split()[0] == "0", done.stderr
    return "\n".join(said), int(last.split()[1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted in other units elsewhere")
def test_what_is_kept_stays_within_the_budget(tmp_path):
    (tmp_path / "s.py").write_text(PROGRAM)
    run = ["-m", "codedag", "-q", "run", "--fresh"]
    said, plain = _peak(tmp_path, {}, "s.py")
    kept, much = _peak(tmp_path, *run, "--budget-ram", "400M", "s.py")
    few, little = _peak(tmp_path, *run, "--budget-ram", "12M", "s.py")
    assert said == kept == few
    assert much > plain + 80 * MEGA  # 40 pictures of 3 MB are worth being kept
    assert little < plain + 12 * MEGA + OURS


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted in other units elsewhere")
def test_what_memory_has_no_room_for_is_kept_on_disk(tmp_path):
    (tmp_path / "s.py").write_text(PROGRAM)
    run = ["-m", "codedag", "run", "--fresh", "--budget-ram", "12M", "--budget-disk", "60M", "s.py"]
    plain = subprocess.run([sys.executable, "s.py"], cwd=tmp_path, capture_output=True, text=True)
    environment = {**os.environ, "CODEDAG_SYNCHRONOUS": "1"}
    done = subprocess.run([sys.executable, *run], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == plain.stdout, done.stderr
    kept = float(re.search(r"kept on disk: ([\d.]+) MB", done.stderr)[1])
    assert 3 <= kept <= 63  # twenty pictures of 3 MB, fewer if this machine's disk is not worth reading
