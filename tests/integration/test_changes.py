"""Changes under awkward circumstances: signals, parameters that change kind, draws into buffers, changes taken back."""

from __future__ import annotations

import pytest

from codedag.ir import load

HEAD = """
import hashlib
import numpy as np
rng = np.random.default_rng(0)
images = [rng.integers(0, 256, (120, 160, 3), dtype=np.uint8) for _ in range(4)]
digest = hashlib.sha256()
def note(value):
    digest.update(str((value.dtype, value.shape, value.strides)).encode() + value.tobytes())
"""

SIGNALS = """
import signal, time
class Timeout(Exception):
    pass
def handler(number, frame):
    raise Timeout
signal.signal(signal.SIGALRM, handler)
def f(image):
    x = image / 255.0
    x = x - 0.5
    return x.astype(np.float32)
for i in range(80):
    note(f(images[i % 4]))
caught = 0
for _ in range(15):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            f(images[0])
    except Timeout:
        caught += 1
print(caught, digest.hexdigest())
"""

KINDS = """
def f(image, low, high):
    x = np.sqrt(image)
    return np.clip(x, a_min=low, a_max=high)
def g(image, low):
    x = image * 0.5
    return np.clip(x, a_min=low, a_max=90)
for i in range(120):
    note(f(images[i % 4], 0, 1))
    note(g(images[i % 4], 0))
for low, high in [(np.float64(0), np.float64(1)), (0.0, 1.0), (False, True), (0, 1)]:
    note(f(images[0], low, high))
for low in (np.zeros(3), 0, 0.0, np.float32(0), 3):
    note(g(images[1], low))
print(digest.hexdigest())
"""

BUFFER = """
buffer = np.ones((120, 160, 3), np.float32)
small = np.ones(3, np.float32)
def f(image):
    x = image - small
    return x * rng.random(None, np.float32, small)
for i in range(150):
    note(f(images[i % 4]))
print(digest.hexdigest(), rng.random())
"""

TAKEN_BACK = """
def f(image):
    x = image[:70, :70, 0] / 255.0
    x = x - image.shape[0]
    return (x * 2.0).astype(np.float32)
def g(image, k):
    x = image / 255.0
    if k % 2:
        note(x)
    return x.astype(np.float64 if k % 3 else np.float32)
for i in range(400):
    note(f(images[i % 4]))
    note(g(images[i % 4], i))
print(digest.hexdigest())
"""


@pytest.mark.long
@pytest.mark.parametrize("body", [SIGNALS, KINDS, BUFFER, TAKEN_BACK], ids=["signals", "kinds", "buffer", "taken back"])
@pytest.mark.parametrize("at_once", ["1", "0"], ids=["at once", "in the background"])
def test_the_program_gives_the_same(plain, codedag, tmp_path, body, at_once):
    (tmp_path / "program.py").write_text(HEAD + body)
    expected = plain("program.py")
    got = codedag("run", "-o", "run", "program.py", env={"CODEDAG_SYNCHRONOUS": at_once})
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    assert load(tmp_path / "run").report.verdict.identical


def test_a_change_that_ends_badly_leaves_the_code():
    """After `retire` a function runs plain code, and a loop in a running frame leaves the sites at its next turn."""
    from codedag.instrument.program import Program, functions_of
    from codedag.instrument.sites import VARIANT

    source = b"def f(x):\n    return x + 1\nlog = []\nfor i in range(4):\n    log.append(step(f, i))\n"
    program = Program([])
    calls = []

    def step(function, number):
        if number == 0:
            program.settle("retired.py", "f")
            program.settle("retired.py", "")
            for owner, index in (("f", 0), ("", len(file.sites) - 2)):
                program.plan("retired.py", owner, {index: lambda *args: calls.append(args) or args[0](*args[1:])})
        if number == 2:
            program.retire("retired.py", "", [len(file.sites) - 2])
        return number

    code = program.load("retired.py", source, main=True)
    file = program.files["retired.py"]
    call = next(i.index for i in file.infos if i.owner == "" and i.line == 5 and i.kind == 0)
    assert call == len(file.sites) - 2
    exec(code, {"step": step})
    assert file.sites[call].mode == VARIANT
    assert len(calls) == 2  # the second and third turn; the fourth ran the plain body
    assert not any(switch.on for switch in file.switches)
    assert functions_of("nothing.py") == []


RAISES = """
import sys, traceback, warnings
def f(image, m):
    y = image.astype(np.float32)
    y = y * 2.0
    y = y - m
    return np.clip(y, 0, 100)
for i in range(90):
    note(f(images[0], 1.0 + i))
f(images[0], 3e39)
try:
    f(images[0], "text")
except Exception:
    print(traceback.format_exc())
f(images[0], np.zeros(4))
"""


def test_tracebacks_and_warnings_are_the_programs_own(plain, codedag, tmp_path):
    (tmp_path / "program.py").write_text(HEAD + RAISES)
    expected = plain("program.py")
    got = codedag("-q", "run", "program.py")
    assert (got.returncode, got.stdout, got.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    assert "RuntimeWarning" in got.stderr
