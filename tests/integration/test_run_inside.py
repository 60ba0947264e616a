"""Calls that a library makes itself: substituted inside it, on trial, and put back."""

from __future__ import annotations

import os

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

CORE = """
import numpy as np

def smooth(a):
    total = np.zeros_like(a)
    for _ in range(60):
        total = total + a
    return total
"""
API = """
from slowlib import core

def prepare(a):
    return core.smooth(a) / 2.0
"""
PLUGIN = """
import numpy as np
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import No, Yes

@substitutes("slowlib.core.smooth", into="plain", gives=EXACT, needs="numpy")
def smooth(a):
    return a * FACTOR

@smooth.guard
def _(call):
    return Yes if call.a.dtype == np.int64 else No("not int64")

@smooth.calls
def _(rng):
    return Call.of(np.random.default_rng(rng.getrandbits(32)).integers(0, 9, 100))
"""
PROGRAM = """
import numpy as np
import slowlib
from slowlib import core

before = core.smooth

def work(a):
    return slowlib.prepare(a)

import time
data = np.arange(20_000)
total, end = 0.0, time.time() + 4
for n in range(10_000):
    total += float(work(data + n % 7).sum()) if n < 600 or time.time() < end else 0.0
    if n == 120:
        time.sleep(2.5)  # time to find and to prove, which happens beside the program
print(core.smooth is before, slowlib.prepare(np.ones(3)).tolist(), work(data).sum())
"""


@pytest.fixture(autouse=True)
def no_clock(faster, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", faster["PYTHONPATH"])


@pytest.fixture
def run(codedag, plain, tmp_path, tmp_path_factory):
    """run(factor): the program plain and under `codedag run`, with a substitute that multiplies by the factor."""
    places = tmp_path_factory.mktemp("installed")
    for name, text in (("slowlib/__init__.py", "from slowlib.api import prepare\n"), ("slowlib/core.py", CORE)):
        (places / name).parent.mkdir(exist_ok=True)
        (places / name).write_text(text)
    (places / "slowlib" / "api.py").write_text(API)
    (places / "plug-1.dist-info").mkdir()
    (places / "plug-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (places / "plug-1.dist-info" / "entry_points.txt").write_text("[codedag.backends]\nplug = plug\n")
    (tmp_path / "main.py").write_text(PROGRAM)
    env = {"PYTHONPATH": os.pathsep.join([str(places), os.environ.get("PYTHONPATH", "")])}

    def both(factor, *options):
        (places / "plug.py").write_text(PLUGIN.replace("FACTOR", factor))
        return plain("main.py", env=env), codedag("run", *options, "-o", tmp_path / "run", "main.py", env=env)

    return both


def test_a_librarys_own_calls_are_substituted_inside_it(run, tmp_path):
    expected, got = run("60")
    assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
    found = load(tmp_path / "run")
    (move,) = [m for m in found.plan.moves if m.kind == "inside"]
    assert (move.chain, move.variant) == (["slowlib.core.smooth"], "plain")
    assert found.report.verdict.identical
    assert "slowlib.core.smooth inside the call -> plain" in got.stderr


@pytest.mark.long
def test_one_that_is_wrong_here_is_never_used(run, tmp_path):
    expected, got = run("61")
    assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
    report = load(tmp_path / "run").report
    assert not report.changes
    (reason,) = [declined.reason for declined in report.declined if declined.what == "slowlib.core.smooth inside"]
    assert "elements differ" in reason
