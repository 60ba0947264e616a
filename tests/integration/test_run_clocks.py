"""Programs that put clocks of their own into `time`, or ask it in their loops."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

from codedag.ir import load

REPLACED = """
import time
asked = []
for name in ("time", "perf_counter", "monotonic", "thread_time", "process_time", "time_ns", "perf_counter_ns"):
    setattr(time, name, lambda name=name: asked.append(name) or len(asked))
time.sleep = lambda seconds: asked.append("sleep")
import numpy as np

def scaled(image):
    return ((image / 255.0 - 0.5) / 0.25).astype(np.float32)

images = [np.random.default_rng(n).integers(0, 256, (64, 64, 3), dtype=np.uint8) for n in range(20)]
for epoch in range(30):
    started = time.perf_counter()
    found = [scaled(image) for image in images]
    sorts = [np.sort(np.repeat(image, 40)) for image in images]
    print(time.perf_counter() - started, float(sum(each.sum() for each in found)), len(sorts))
print(asked)
"""
STAMPED = """
import time
import numpy as np

def stamped(image):
    return np.sort(np.repeat(image, 40)), time.perf_counter()

images = [np.random.default_rng(n).integers(0, 256, (64, 64, 3), dtype=np.uint8) for n in range(40)]
last, in_order = 0.0, True
for epoch in range(20):
    for image in images:
        value, at = stamped(image)
        in_order, last = in_order and at >= last, time.perf_counter()
    stamps = [stamped(image)[1] for image in images]
    in_order = in_order and stamps == sorted(stamps)
print(in_order)
"""


@pytest.mark.slow
def test_nobody_but_the_program_asks_its_clocks(plain, codedag, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(REPLACED)
    got = codedag("run", script)
    assert (got.returncode, got.stdout) == (0, plain(script).stdout), got.stderr


@pytest.mark.long
def test_what_asks_the_clock_is_asked_in_order(codedag, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(STAMPED)
    got = codedag("run", "-o", tmp_path / "run", script)
    assert (got.returncode, got.stdout) == (0, "True\n"), got.stderr
    assert load(tmp_path / "run").report.verdict.identical
