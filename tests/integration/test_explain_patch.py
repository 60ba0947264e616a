"""`codedag explain RUN --patch`: the change as code, which gives the same without CodeDAG."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import hashlib
import random

import cv2
import numpy as np
from scipy import ndimage

MEAN = np.array([0.485, 0.456, 0.406])


def normalise(picture):
    scaled = picture.astype(np.float32) * random.uniform(0.8, 1.2) + random.uniform(-9, 9)
    scaled = np.clip(scaled, 0, 255)
    scaled = (scaled / 255.0 - MEAN) / np.array([0.2, 0.3, 0.4])
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def clean(picture):
    return ndimage.median_filter(picture, size=5)


random.seed(3)
rng = np.random.default_rng(3)
digest = hashlib.sha256()
for _ in range(90):
    picture = rng.integers(0, 256, (200, 300, 3), dtype=np.uint8)
    digest.update(normalise(picture).tobytes())
    digest.update(clean(picture[:, :, 0].copy()).tobytes())
print(digest.hexdigest(), random.random())
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="diffs are applied with git")
def test_the_patched_program_gives_the_same_without_us(plain, codedag, tmp_path):
    (tmp_path / "main.py").write_text(PROGRAM)
    expected = plain("main.py")
    ran = codedag("run", "-o", "run", "main.py")
    assert ran.stdout == expected.stdout
    shown = codedag("explain", "run", "--patch")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[-1].startswith("next: ")
    found = json.loads(codedag("explain", "run", "--patch", "--json").stdout)
    assert found, ran.stderr
    helpers = []
    assert len(found) >= 2
    for one in found:
        assert one["diff"], one["note"]
        subprocess.run(["git", "apply", "-p1", "-"], input=one["diff"], text=True, check=True, cwd=tmp_path)
        helpers.append(one["helper"].replace("from __future__ import annotations\n", ""))
    (tmp_path / "main.py").write_text("\n".join([*helpers, (tmp_path / "main.py").read_text()]))
    assert "codedag" not in (tmp_path / "main.py").read_text()
    assert plain("main.py").stdout == expected.stdout


def test_what_cannot_be_written_says_why(codedag, tmp_path):
    (tmp_path / "main.py").write_text(PROGRAM)
    codedag("run", "-o", "run", "main.py")
    (tmp_path / "main.py").write_text("# another\n" + PROGRAM)
    found = json.loads(codedag("explain", "run", "--patch", "--json").stdout)
    assert {one["note"] for one in found} == {"it cannot be written as code: main.py has changed since the run"}


def test_an_operation_or_a_patch_must_be_asked_for(codedag, tmp_path):
    (tmp_path / "main.py").write_text("print()\n")
    codedag("run", "-o", "run", "main.py")
    got = codedag("explain", "run")
    assert got.returncode == 2
    assert "or ask for --patch" in got.stderr
    assert codedag("explain", "run", "--patch").stdout.startswith("nothing was changed in this run")
