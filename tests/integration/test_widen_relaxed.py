"""Functions that ran ahead for a while and do not any more run their own code again, and may be prepared once more."""

from __future__ import annotations

import os

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

#: What trials find, whatever the machine does meanwhile: nothing to gain, or only from the second trial on.
NEVER = "trial.Trial.gain = lambda self: 0.1"
LATER = """
made = []
trial.Trial.__init__, begin = lambda self, *a, **k: (begin(self, *a, **k), made.append(self))[0], trial.Trial.__init__
trial.Trial.gain = lambda self: 0.3 if sum(each.what == self.what for each in made[: made.index(self)]) == 0 else 2.0
"""
LOOP = """
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
LOADER = """
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset

def part(image, k):
    return np.sort(image + k)

class Data(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        return torch.from_numpy(part(np.arange(9_000.0) * i, np.random.rand())), i

np.random.seed(0); torch.manual_seed(0)
for epoch in range({epochs}):
    for x, i in DataLoader(Data(), batch_size=4, shuffle=True):
        print(float(x.sum()), i.tolist())
"""
#: Whether a site of the functions asks, and nothing else stands there.
END = """
def asks(function):
    variants = [getattr(each, "variant", None) for each in function.__code__.co_consts]
    return any(type(each).__name__ == "Check" and each.inner is None for each in variants)

print([asks(f) for f in ({functions})])
"""


def run(plain, codedag, tmp_path, source, gains):
    (tmp_path / "script.py").write_text(source)
    (tmp_path / "sitecustomize.py").write_text(f"import codedag.migrate.trial as trial\n{gains}\n")
    expected = plain("script.py")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    env = {"PYTHONPATH": path, "CODEDAG_SYNCHRONOUS": "1"}
    got = codedag("run", "-o", tmp_path / "run", "script.py", env=env)
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    return load(tmp_path / "run").report


def test_after_a_loop_that_was_not_faster(plain, codedag, tmp_path):
    report = run(plain, codedag, tmp_path, LOOP + END.format(functions="item, part"), NEVER)
    if (os.cpu_count() or 1) > 1:
        assert any("not faster here: 0.10x over 2" in each.reason for each in report.declined), report.declined


def test_after_a_loader_that_was_not_faster(plain, codedag, tmp_path):
    source = LOADER.format(epochs=4) + END.format(functions="Data.__getitem__, part")
    report = run(plain, codedag, tmp_path, source, NEVER)
    if (os.cpu_count() or 1) > 1:
        assert any("not faster here: 0.10x over 2" in each.reason for each in report.declined), report.declined


@pytest.mark.slow
def test_a_loader_that_is_tried_again_gives_the_same(plain, codedag, tmp_path):
    report = run(plain, codedag, tmp_path, LOADER.format(epochs=16), LATER)
    if (os.cpu_count() or 1) > 1:
        assert [change.kind for change in report.changes if change.kind == "widen"] == ["widen"], report


def test_a_list_that_is_tried_again_asks_again_before_it_draws(plain, codedag, tmp_path):
    report = run(plain, codedag, tmp_path, DRAWS, LATER)
    if (os.cpu_count() or 1) > 1:
        assert [change.kind for change in report.changes if change.kind == "widen"] == ["widen"], report
