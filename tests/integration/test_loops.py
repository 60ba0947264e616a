"""`codedag run` with plain loops: results, exceptions and generators are the program's own."""

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

SORTS = """
import numpy as np

def part(image, k):
    return np.sort(image + k)

def item(i):
    image = np.arange(30_000.0) * i
    return float(part(image, 1)[i] + part(image, 2)[0] * part(image, 3)[i])

for epoch in range(30):
    print(epoch, sum([item(i) for i in range(20)]))
"""
DRAWS = """
import hashlib
import numpy as np

def load(k, rng):
    image = np.sort(np.arange(6_000.0) * k % 97)
    if rng.random() < 0.5:
        image = image[::-1]
    return image * rng.random()

digest, rng = hashlib.sha256(), np.random.default_rng(1)
for turn in range(24):
    for first in range(0, 48, 8):
        digest.update(np.stack([load(k, rng) for k in range(first, first + 8)]).tobytes())
print(digest.hexdigest(), rng.random())
"""
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
PROGRAMS = {name: loops.HEAD + source for name, source in loops.PROGRAMS.items()}
PROGRAMS |= {"sorts": SORTS, "draws of a generator": DRAWS, "items after a list": LATER}
SHORT = ("list_draws", "inline")


def make_pictures(folder):
    folder.mkdir()
    for number in range(48):
        small = np.random.default_rng(number).integers(0, 256, (9, 9, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{number:05d}.jpg"), cv2.resize(small, (260, 200)))
        os.utime(folder / f"{number:05d}.jpg", (1, 1))


@pytest.mark.parametrize("name", SHORT)
def test_a_loop_gives_what_it_gives(plain, codedag, tmp_path, name):
    same(plain, codedag, tmp_path, name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - set(SHORT)))
def test_loops_of_many_kinds(plain, codedag, tmp_path, name):
    same(plain, codedag, tmp_path, name)


def same(plain, codedag, tmp_path, name):
    script, data = tmp_path / "script.py", tmp_path / "data"
    script.write_text(PROGRAMS[name])
    make_pictures(data)
    expected = plain(script, data)
    got = codedag("run", "-o", tmp_path / "run", script, data)
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    assert load(tmp_path / "run").report.verdict.identical
