"""A short program in which a run has found nothing to gain is not observed by its next few runs."""

from __future__ import annotations

import os

import pytest

#: However long the machine takes, the program counts as short.
ANY_LENGTH = """
import codedag.autopilot.knowledge_store as store
store.NOTHING_SECONDS_MIN, store.NOTHING_SECONDS_MAX = 0.0, 1e9
"""
PROGRAM = """
import sys
import part

def square(n):
    return n * n

print(sum(square(i) for i in range(200)), part.NAME, sys.argv[1:])
"""
AS_WRITTEN = "so this one ran as written"


@pytest.fixture
def run(codedag, tmp_path):
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "sitecustomize.py").write_text(ANY_LENGTH)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "part.py").write_text("NAME = 'one'\n")
    path = os.pathsep.join([str(tmp_path / "early"), os.environ.get("PYTHONPATH", "")])

    def rests(*args):
        done = codedag("run", *args, env={"PYTHONPATH": path})
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("2646700 ")
        return AS_WRITTEN in done.stderr

    return rests


def test_a_program_without_a_gain_runs_as_written_for_four_runs(run, codedag_home):
    assert [run("program.py") for _ in range(6)] == [False, True, True, True, True, False]
    runs = sorted((codedag_home / "data" / "runs").iterdir())
    assert [(folder / "report.json").exists() for folder in runs] == [True] * 6


def test_it_is_observed_again_if_anything_is_different(run, tmp_path):
    assert not run("program.py")
    assert run("program.py")
    assert not run("program.py", "other")
    assert not run("--fresh", "program.py")
    assert not run("-o", "somewhere", "program.py")
    assert run("program.py")
    (tmp_path / "part.py").write_text("NAME = 'other'\n")
    assert not run("program.py")
