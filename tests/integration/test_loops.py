"""`codedag run` with plain loops: turns that ran ahead give the program's own results, exceptions and generators."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from codedag.ir import load

cv2 = pytest.importorskip("cv2")
np = pytest.importorskip("numpy")
_found = importlib.util.spec_from_file_location(
    "programs_loops", Path(__file__).resolve().parent.parent / "programs" / "loops.py"
)
assert _found is not None
assert _found.loader is not None
loops = importlib.util.module_from_spec(_found)
_found.loader.exec_module(loops)

#: Says yes to every trial that found no difference, and takes loops of any length: what is tested is sameness.
ALWAYS_FASTER = """
import codedag.autopilot.loops as loops
import codedag.migrate.trial as trial
trial.Trial.gain = lambda self: 2.0
loops.LEAST_SECONDS = 0.0
"""
SHORT = ("list_draws", "inline")


def before(folder):
    """The environment in which modules of a folder come before those that would have been found."""
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def run(plain, codedag, tmp_path, name):
    source, ahead = loops.PROGRAMS[name]
    script, data = tmp_path / "script.py", tmp_path / "data"
    script.write_text(loops.HEAD + source)
    (tmp_path / "sitecustomize.py").write_text(ALWAYS_FASTER)
    make_pictures(data)
    expected = plain(script, data)
    got = codedag("run", "-o", tmp_path / "run", script, data, env=before(tmp_path))
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    return load(tmp_path / "run").report, ahead


def make_pictures(folder):
    folder.mkdir()
    for number in range(48):
        small = np.random.default_rng(number).integers(0, 256, (9, 9, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{number:05d}.jpg"), cv2.resize(small, (260, 200)))
        os.utime(folder / f"{number:05d}.jpg", (1, 1))


@pytest.mark.parametrize("name", SHORT)
def test_turns_run_ahead_and_nobody_notices(plain, codedag, tmp_path, name):
    report, _ = run(plain, codedag, tmp_path, name)
    assert report.verdict.identical
    assert any(change.kind == "widen" for change in report.changes), report


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(loops.PROGRAMS) - set(SHORT)))
def test_loops_of_many_kinds(plain, codedag, tmp_path, name):
    report, ahead = run(plain, codedag, tmp_path, name)
    assert report.verdict.identical
    if ahead is not None:
        assert any(change.kind == "widen" for change in report.changes) is ahead, report


LATER = """
import hashlib, sys
from pathlib import Path
import cv2
import numpy as np

class Pictures:
    def __init__(self, paths): self.paths = paths
    def __len__(self): return len(self.paths)
    def __getitem__(self, i):
        image = self.paths[i]
        image = image / 255.0
        return (image - 0.5) * 2.0

found = [cv2.resize(cv2.imread(str(path)), (64, 64)) for path in sorted(Path(sys.argv[1]).iterdir()) * 3]
digest = hashlib.sha256()
pictures = Pictures(found)
for number in range(len(pictures)):
    digest.update(pictures[number].tobytes())
print(digest.hexdigest())
"""


def test_what_runs_after_a_loop_that_ran_ahead_is_observed_all_the_same(plain, codedag, tmp_path):
    script, data = tmp_path / "script.py", tmp_path / "data"
    script.write_text(LATER)
    (tmp_path / "sitecustomize.py").write_text(ALWAYS_FASTER)
    make_pictures(data)
    got = codedag("run", "-o", tmp_path / "run", script, data, env=before(tmp_path))
    assert (got.returncode, got.stdout) == (0, plain(script, data).stdout), got.stderr
    changes = load(tmp_path / "run").report.changes
    assert {"widen", "fuse"} <= {change.kind for change in changes}, changes
