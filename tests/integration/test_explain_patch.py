"""`codedag explain RUN --patch`: code that was tried, that `git apply` takes and that gives the same without us."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from adopt_programs import PROGRAMS

from codedag.autopilot.adopt import FILE
from codedag.autopilot.adopt_check import Request, trial

GIT = pytest.mark.skipif(shutil.which("git") is None, reason="patches are applied with git")


@pytest.mark.long
@GIT
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_patch_applies_and_gives_the_same(plain, codedag, tmp_path, name):
    (tmp_path / "main.py").write_text(PROGRAMS[name])
    expected = plain("main.py")
    assert expected.returncode == 0, expected.stderr
    ran = codedag("run", "-o", "run", "main.py")
    assert ran.stdout == expected.stdout
    shown = codedag("explain", "run", "--patch", "-o", "my.patch")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[-1].startswith("next: ")
    for one in json.loads(codedag("explain", "run", "--patch", "--json").stdout):
        assert bool(one["diff"]) != one["note"].startswith("it cannot be written"), one
    if not (tmp_path / "my.patch").read_text():
        return  # nothing was changed, or nothing that has a code of its own: the lines above say why
    subprocess.run(["git", "apply", "--verbose", "my.patch"], check=True, cwd=tmp_path, capture_output=True)
    assert "codedag" not in (tmp_path / "main.py").read_text()
    again = plain("main.py")
    assert (again.stdout, again.returncode) == (expected.stdout, 0), again.stderr


CHANGED = PROGRAMS["table over statements"]


@pytest.mark.slow
def test_sources_that_have_changed_or_are_gone_are_said_to_be(codedag, tmp_path):
    (tmp_path / "main.py").write_text(CHANGED)
    codedag("run", "-o", "run", "main.py")
    (tmp_path / "main.py").write_text("# another\n" + CHANGED)
    found = json.loads(codedag("explain", "run", "--patch", "--json").stdout)
    assert {one["note"] for one in found} == {"it cannot be written as code: main.py has changed since the run"}
    (tmp_path / "main.py").unlink()
    found = json.loads(codedag("explain", "run", "--patch", "--json").stdout)
    assert all("main.py cannot be read any more" in one["note"] for one in found)


def test_an_operation_or_a_patch_must_be_asked_for(codedag, tmp_path):
    (tmp_path / "main.py").write_text("print()\n")
    codedag("run", "-o", "run", "main.py")
    got = codedag("explain", "run")
    assert got.returncode == 2
    assert "or ask for --patch" in got.stderr
    assert codedag("explain", "run", "--patch").stdout.startswith("nothing was changed in this run")


STEPS = """
def steps(path):
    a = np.load(path)
    return a + {more}
"""


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("1", ""),
        ("random.randrange(9)", "it draws random numbers, and a kept result would not"),
        ("np.uint8(np.random.randint(9))", "it draws random numbers, and a kept result would not"),
        ("size", "its lines use `size`, which another call may have another value of"),
        ("LIMIT", ""),
    ],
)
def test_what_is_kept_draws_nothing_and_has_no_other_input(tmp_path, more, why):
    """A patch kept `imread(path) + random.randrange(3)`: the trial gave both sides the same random numbers."""
    module = "import os, random\nimport numpy as np\nLIMIT = 3\n"
    code = "\n\n\n".join([FILE.imported, *FILE.functions.values()])
    assert trial(Request("file", code, "kept", STEPS.format(more=more), module), tmp_path).why == why
