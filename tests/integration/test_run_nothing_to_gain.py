"""A program in which a run has found nothing to gain is left as written by its next few runs."""

from __future__ import annotations

import os

import pytest

#: However short the program is, it counts as long enough to show that nothing is to be gained.
ANY_LENGTH = """
import codedag.autopilot.knowledge_store as store
import codedag.autopilot.sampled_run as run, codedag.autopilot.report.unchanged as end
store.NOTHING_SECONDS_MIN, store.NOTHING_SECONDS_MAX = 0.0, 1e9
run.SILENT_SECONDS = end.NOTHING_SECONDS_MIN = 0.0
"""
PROGRAM = """
import sys
import time
import part

time.sleep(0.5)
print("slept", part.NAME, sys.argv[1:])
"""
AS_WRITTEN = "so the program ran as written"


@pytest.fixture
def run(codedag, tmp_path):
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "sitecustomize.py").write_text(ANY_LENGTH)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "part.py").write_text("NAME = 'one'\n")
    path = os.pathsep.join([str(tmp_path / "early"), os.environ.get("PYTHONPATH", "")])

    def rests(*args):
        done = codedag("-v", "run", *args, env={"PYTHONPATH": path, "CODEDAG_SYNCHRONOUS": ""})
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("slept ")
        return AS_WRITTEN in done.stderr

    return rests


def test_a_program_without_a_gain_runs_as_written_for_four_runs(run, codedag_home):
    assert [run("program.py") for _ in range(6)] == [False, True, True, True, True, False]
    runs = sorted((codedag_home / "data" / "runs").iterdir())
    assert [(folder / "report.json").exists() for folder in runs] == [True] * 6


def test_it_is_tried_again_if_that_was_asked_for(run):
    assert not run("program.py")
    assert run("program.py")
    assert run("program.py", "other")
    assert not run("--fresh", "program.py")
    assert not run("-o", "somewhere", "program.py")
