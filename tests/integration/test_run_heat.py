"""`codedag run` as users run it: the program as it is, a sampler beside it, changes only where it is hot."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("numpy")

from codedag.ir import load

BACKGROUND = {"CODEDAG_SYNCHRONOUS": "0"}

HOT = """
import hashlib, sys, threading
import numpy as np
import cold

def hot(picture):
    x = picture / 255.0
    x = (x - 0.5) / 0.25
    return x.astype(np.float32)

rng = np.random.default_rng(1)
digest = hashlib.sha256()
for turn in range(int(sys.argv[1])):
    digest.update(hot(rng.integers(0, 256, (200, 300, 3), dtype=np.uint8)).tobytes())
print(digest.hexdigest(), threading.active_count(), cold.twice(3))
"""
COLD = "def twice(x):\n    return 2 * x\n"


@pytest.mark.slow
def test_results_are_those_of_the_program_and_the_heat_is_told(plain, codedag, tmp_path):
    (tmp_path / "hot.py").write_text(HOT)
    (tmp_path / "cold.py").write_text(COLD)
    expected = plain("hot.py", 1500)
    for number in range(2):
        got = codedag("run", "-o", f"run{number}", "hot.py", 1500, env=BACKGROUND)
        assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
        report = load(tmp_path / f"run{number}").report
        assert report.verdict.mismatches == 0
        own = [each for each in report.heat.functions if not each.package and each.name == "hot"]
        assert own, report.heat
        assert own[0].total_seconds <= report.heat.cpu_seconds * 1.01


def test_a_program_under_a_second_gets_no_word_and_no_run_directory(plain, codedag, tmp_path, codedag_home):
    (tmp_path / "short.py").write_text("print(sum(range(10)))\n")
    got = codedag("run", "short.py", env=BACKGROUND)
    assert (got.returncode, got.stdout) == (0, plain("short.py").stdout)
    assert got.stderr == ""
    assert not list(codedag_home.glob("data/runs/*"))


def test_a_failing_program_fails_the_same(plain, codedag, tmp_path):
    (tmp_path / "fails.py").write_text("import sys\ndef f():\n    raise ValueError('no')\nprint(1)\nf()\n")
    expected, got = plain("fails.py"), codedag("run", "fails.py", env=BACKGROUND)
    assert (got.returncode, got.stdout, got.stderr) == (expected.returncode, expected.stdout, expected.stderr)


THREADS = """
import threading, time
import numpy as np
found = []
def work(seed):
    rng = np.random.default_rng(seed)
    found.append(sum(float(np.sort(rng.random(2000))[3]) for _ in range(3000)))
for seed in range(2):
    threading.Thread(target=work, args=(seed,)).start()
while threading.active_count() > 1:
    time.sleep(0.01)
print(sorted(found), threading.enumerate() == [threading.main_thread()])
"""


def test_a_program_that_waits_for_its_last_thread_ends(plain, codedag, tmp_path):
    (tmp_path / "threads.py").write_text(THREADS)
    got = codedag("run", "threads.py", env=BACKGROUND)
    assert (got.returncode, got.stdout) == (0, plain("threads.py").stdout), got.stderr


FORKS = """
import os, sys
import numpy as np
total = 0.0
for turn in range(300):
    total += float(np.sort(np.random.default_rng(turn).random(30_000))[7])
    if turn % 100 == 50:
        pid = os.fork()
        if pid == 0:
            os._exit(int(total) % 7)
        total += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(total)
"""


def test_forks_in_the_middle_of_sampling(plain, codedag, tmp_path):
    (tmp_path / "forks.py").write_text(FORKS)
    got = codedag("run", "forks.py", env=BACKGROUND)
    assert (got.returncode, got.stdout) == (0, plain("forks.py").stdout), got.stderr


@pytest.mark.slow
def test_what_is_known_of_a_program_does_not_hang_on_its_arguments(codedag, tmp_path, codedag_home):
    (tmp_path / "hot.py").write_text(HOT)
    (tmp_path / "cold.py").write_text(COLD)
    for turns in (700, 800):
        assert codedag("run", "hot.py", turns, env=BACKGROUND).returncode == 0
    (path,) = codedag_home.glob("cache/plans/*.json")
    known = json.loads(path.read_text())
    assert [run["arguments"] for run in known["runs"]] == [["700"], ["800"]]
    assert known["heat"]
