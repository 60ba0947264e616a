"""`codedag run` on data sets of many kinds, with every change forced: the output is that of the plain program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from codedag.ir import load

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
from datasets import HEAD, PROGRAMS

#: What must have been tried where nothing stands in the way.
EXPECTED = {
    "transforms_classes": {"remember", "fuse"},
    "collate_sampler": {"remember"},
    "mixup": {"remember"},
    "generator_loop": {"remember", "fuse"},
    "workers2": {"fuse"},
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    cv2 = pytest.importorskip("cv2")
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(1)
    for i in range(96):
        size = (int(rng.integers(90, 130)), int(rng.integers(90, 140)))
        small = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        path = folder / f"{i:03d}.jpg"
        cv2.imwrite(str(path), cv2.resize(small, size))
        os.utime(path, (1e9, 1e9))
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_output_is_that_of_the_plain_program(plain, codedag, tmp_path, pictures, name):
    pytest.importorskip("torch")
    script = tmp_path / f"{name}.py"
    script.write_text(HEAD + PROGRAMS[name])
    expected = plain(script, pictures)
    got = codedag(
        "run",
        "-o",
        tmp_path / "run",
        script,
        pictures,
        env={"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    report = load(tmp_path / "run").report
    assert report.verdict.identical
    made = {change.kind for change in report.changes}
    assert EXPECTED.get(name, set()) <= made, report
