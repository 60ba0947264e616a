"""Programs with so many functions that planning them all would take longer than they do."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("numpy")

from codedag.ir import load

FUNCTION = """
def scaled_{0}(image):
    image = image.astype(np.float32) / {0}.5
    return image - {0}.25
"""
LOOP = """
image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
for turn in range(200):
    total = sum(float(each(image).sum()) for each in EVERY)
print(total)
"""
SHORT_OF_TIME = """
import codedag.autopilot.observing as observing
observing.MOST_PLANNING = observing.MAX_OVERHEAD = -1.0
"""


def test_functions_for_which_there_is_no_time_run_as_written(plain, codedag, tmp_path):
    script = tmp_path / "script.py"
    names = ", ".join(f"scaled_{number}" for number in range(1, 13))
    functions = "".join(FUNCTION.format(number) for number in range(1, 13))
    script.write_text(f"import numpy as np\n{functions}\nEVERY = [{names}]\n{LOOP}")
    (tmp_path / "sitecustomize.py").write_text(SHORT_OF_TIME)
    found = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    got = codedag("run", "-o", tmp_path / "run", script, env={"PYTHONPATH": found})
    assert (got.returncode, got.stdout) == (0, plain(script).stdout), got.stderr
    report = load(tmp_path / "run").report
    assert any("planning others" in each.reason for each in report.declined), report.declined
