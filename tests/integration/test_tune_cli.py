"""`codedag tune`: from a name, a text or a function to a measured kernel, and what bad input says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from codedag.ir.verdict import No
from codedag.tune.compiler import find_compiler
from codedag.tune.measure import records
from codedag.tune.task import Task

FIELDS = {
    "task", "class", "space", "search", "seed", "measurements", "seconds", "best_seconds", "first_pick_seconds",
    "peak_gflops", "fraction_of_peak", "copy_seconds", "fraction_of_copy", "baselines", "history", "declined",
}  # fmt: skip
PROGRAM = """
import numpy as np

def rows(x, scale):
    return (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True) * scale

def odd(x):
    y = x * 2
    return np.sort(y)
"""


def _tune(*words: str, check: int = 0, cwd=None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "codedag", "tune", *words], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def needs_compiler():
    if isinstance(find_compiler(), No):
        pytest.skip("no C compiler")


def test_a_product_is_tuned_and_reported(codedag_home, needs_compiler):
    done = _tune("matmul", "--shape", "60,50,40", "--measurements", "6", "--json")
    facts = json.loads(done.stdout)
    assert set(facts) >= FIELDS
    assert facts["measurements"] == len(facts["history"]) == 6
    assert facts["best_seconds"] in facts["history"]
    assert 0 < facts["fraction_of_peak"] < 1.2
    assert facts["space"]["points"] > 1000
    assert facts["baselines"]["numpy"] > 0


def test_a_text_of_axes_and_its_c(codedag_home, needs_compiler):
    done = _tune("n i k, n k j -> n i j", "--size", "n=8,i=9,k=7,j=5", "--measurements", "3", "--show", "c")
    assert "codedag_kernel" in done.stdout
    assert "class " in done.stdout


def test_a_function_is_tuned_bit_for_bit(codedag_home, needs_compiler, tmp_path):
    (tmp_path / "own.py").write_text(PROGRAM)
    words = ("own.py:rows", "--like", "f4[40,200],f4[200]", "--measurements", "4", "--show", "steps")
    done = _tune(*words, cwd=tmp_path)
    assert "rows: class EXACT" in done.stdout
    assert "sum over r0<200" in done.stdout


def test_a_function_that_cannot_be_written_down_names_its_line(codedag_home, tmp_path):
    (tmp_path / "own.py").write_text(PROGRAM)
    done = _tune("own.py:odd", "--like", "f4[40]", check=2, cwd=tmp_path)
    assert "line 9 (return np.sort(y))" in done.stderr


def test_nothing_is_measured_with_a_budget_of_none(codedag_home):
    facts = json.loads(_tune("softmax", "--shape", "30,40", "--measurements", "0", "--json").stdout)
    assert facts["history"] == []
    assert facts["best"].startswith("rows ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "no operator 'nothing'"),
        (("matmul",), "needs a shape"),
        (("matmul", "--shape", "3,4"), "has 3 sizes"),
        (("matmul", "--shape", "3,4,x"), "no list of whole numbers"),
        (("matmul", "--shape", "3,4,0"), "no elements"),
        (("matmul", "--shape", "3,4,5", "--dtype", "c8"), "type c8"),
        (("matmul", "--shape", "90000,90000,90000"), "too large"),
        (("i k, k j -> i j", "--size", "i=3,k=4"), "axis j has no size"),
        (("i k, k j -> i j", "--size", "i=3,k=4,j"), "not AXIS=NUMBER"),
        (("i k, k j -> i z", "--size", "i=3"), "axis z"),
        (("missing.py:f", "--like", "f4[3]"), "no such file"),
        (("n i k, n k j", "--size", "n=3"), "has no ->"),
        (("i k, k j -> i j", "--size", "i=3,k=4,j=5,i=6"), "axis i has two sizes"),
        (("matmul", "--shape", "3,4,5", "--size", "i=3"), "--size does not fit"),
        (("softmax", "--shape", "3,4", "--like", "f4[3]"), "--like does not fit"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(codedag_home, words, said):
    assert said in _tune(*words, check=2).stderr


@pytest.mark.parametrize(
    ("function", "like", "said"),
    [
        ("rows", "f4[3,4]", "missing 1 required positional argument"),
        ("rows", "f4[3,4],f4[7]", "could not be broadcast"),
        ("fails", "f4[3]", "OSError: its own trouble"),
    ],
)
def test_a_function_that_fails_is_one_sentence(codedag_home, tmp_path, function, like, said):
    (tmp_path / "prepare.py").write_text(PROGRAM + "\ndef fails(x):\n    raise OSError('its own trouble')\n")
    assert said in _tune(f"prepare.py:{function}", "--like", like, check=2, cwd=tmp_path).stderr


def test_what_a_function_prints_is_not_in_the_report(codedag_home, tmp_path):
    (tmp_path / "loud.py").write_text("def loud(x):\n    print('here')\n    return x * 2 + 1\n")
    done = _tune("loud.py:loud", "--like", "f4[3,4]", "--measurements", "0", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["class"] == "EXACT"
    assert "here" in done.stderr


def test_a_compiler_that_hangs_is_asked_once(codedag_home, tmp_path, monkeypatch, needs_compiler):
    command = find_compiler().command[0]
    script = tmp_path / "slow"
    known = f'case "$*" in *--version*|*trial*) exec {command} "$@";; esac\n'
    script.write_text(f"#!/bin/sh\n{known}sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setattr("codedag.tune.measure.measurer.COMPILE_SECONDS", 1.0)
    with Task.of("softmax", shape=(30, 40)) as task:
        start = time.monotonic()
        found = task.search("random", measurements=12)
    assert (found.best, time.monotonic() - start < 30) == (None, True)
    assert all("did not finish within" in one.why for one in task.measured)


def test_a_compiler_that_fails_or_rounds_is_an_error(codedag_home, tmp_path, monkeypatch, needs_compiler):
    """A search in which no candidate ran is no success."""
    monkeypatch.setenv("CC", f"{find_compiler().command[0]} -ffast-math")
    assert "-ffast-math" in _tune("softmax", "--shape", "30,40", "--measurements", "2", check=2).stderr
    done = _tune("softmax", "--shape", "30,40", "--measurements", "2", "--json", check=2)
    assert json.loads(done.stdout)["best_seconds"] is None
    assert "no candidate ran" in done.stderr


def test_an_interrupt_keeps_the_best_so_far(codedag_home, needs_compiler):
    words = [sys.executable, "-m", "codedag", "tune", "matmul", "--shape", "70,80,90", "--measurements", "100000"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not list(records.read()) and time.monotonic() < until:
        time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "the best so far is" in said
    assert "Traceback" not in said


def test_no_compiler_is_said(codedag_home, monkeypatch):
    monkeypatch.setenv("CODEDAG_COMPILER", "none")
    assert "kernels cannot be built" in _tune("softmax", "--shape", "3,4", check=2).stderr


def test_the_cache_lists_what_was_measured(codedag_home, needs_compiler):
    _tune("softmax", "--shape", "30,40", "--measurements", "2")
    done = subprocess.run(
        [sys.executable, "-m", "codedag", "cache", "show", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["kinds"]["tuning"]["files"] == 1
