"""`codedag run` with a DataLoader: items in threads give the program's own batches, exceptions and output."""

from __future__ import annotations

import os

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

#: Says yes to every trial that found no difference: what is tested is sameness, and the machine may be busy.
ALWAYS_FASTER = """
import codedag.migrate.trial as trial
trial.Trial.gain = lambda self: 2.0
"""
HEAD = """
import hashlib, random, sys
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Subset

random.seed(1); np.random.seed(2); torch.manual_seed(3)

def shown(batch):
    if torch.is_tensor(batch): return hashlib.sha256(batch.numpy().tobytes()).hexdigest()[:12]
    if isinstance(batch, (list, tuple)): return [shown(each) for each in batch]
    return batch

def rest():
    print(random.random(), np.random.rand(), torch.rand(1).item())
"""
DATA = """
class Data(Dataset):
    def __init__(self, n=240): self.images = [np.full((48, 40, 3), i % 251, np.uint8) for i in range(n)]
    def __len__(self): return len(self.images)
    def __getitem__(self, i):
        image = self.images[i]
        image = np.ascontiguousarray(image[::-1])
        if random.random() < 0.5:
            image = image[:, ::-1]
        image = image.astype(np.float32) / 255.0 - np.random.uniform(0.4, 0.6)
        return torch.from_numpy(image.transpose(2, 0, 1).copy()) + torch.rand(1), i
"""
LOOP = """
def main():
    for epoch in range(3):
        for batch in DataLoader(Data(), batch_size=8, shuffle=True):
            print(shown(batch))
        rest()
main()
"""
RAISES = DATA.replace(
    "image = self.images[i]", "image = self.images[i]\n        if i == 77 and random.random() < 2: raise ValueError(i)"
)
CATCHING = """
for epoch in range(3):
    loader = iter(DataLoader(Data(), batch_size=8, shuffle=True))
    while True:
        try:
            print(shown(next(loader)))
        except StopIteration:
            break
        except ValueError as error:
            print("raised", error)
    rest()
"""
COUNTS = DATA.replace(
    "image = self.images[i]", "image = self.images[i]\n        self.count = getattr(self, 'count', 0) + 1"
)
SUBSET = LOOP.replace("DataLoader(Data(),", "DataLoader(Subset(Data(), range(10, 200)),")
NO_GRAD = (
    LOOP.replace("print(shown(batch))", "print(shown(batch), batch[0].requires_grad)")
    .replace("main()\n", "", 1)
    .replace("def ", "@torch.no_grad()\ndef ", 1)
    + "main()\n"
)


def before(folder):
    """The environment in which modules of a folder come before those that would have been found."""
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def run(plain, codedag, tmp_path, source):
    script = tmp_path / "script.py"
    script.write_text(HEAD + source)
    (tmp_path / "sitecustomize.py").write_text(ALWAYS_FASTER)
    expected = plain(script)
    got = codedag("run", "-o", tmp_path / "run", script, env=before(tmp_path))
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    return expected, got, load(tmp_path / "run").report


@pytest.mark.long
@pytest.mark.parametrize("loop", [LOOP, SUBSET, NO_GRAD], ids=["whole", "subset", "no grad"])
def test_batches_and_generators_are_the_programs_own(plain, codedag, tmp_path, loop):
    _, _, report = run(plain, codedag, tmp_path, DATA + loop)
    assert report.verdict.identical
    assert [change.variant for change in report.changes if change.kind == "widen"] == ["2 threads"], report


def test_an_exception_comes_where_it_came_and_the_rest_goes_on(plain, codedag, tmp_path):
    _, _, report = run(plain, codedag, tmp_path, RAISES + CATCHING)
    assert report.verdict.identical
    assert any(change.kind == "widen" for change in report.changes), report


@pytest.mark.long
def test_an_exception_that_ends_the_program_has_the_same_traceback(plain, codedag, tmp_path):
    expected, got, _ = run(plain, codedag, tmp_path, RAISES + LOOP)
    assert "ValueError: 77" in expected.stderr
    assert got.stderr.startswith(expected.stderr)


@pytest.mark.long
def test_state_that_items_write_is_a_reason_not_to(plain, codedag, tmp_path):
    _, _, report = run(plain, codedag, tmp_path, COUNTS + LOOP)
    assert not any(change.kind == "widen" for change in report.changes)
    assert any("self.count" in declined.reason for declined in report.declined), report.declined


def test_the_threads_of_a_library_are_the_programs_own_outside_of_a_batch(plain, codedag, tmp_path):
    loop = LOOP.replace("rest()", "rest(); print(cv2.getNumThreads())")
    _, got, report = run(plain, codedag, tmp_path, "import cv2; cv2.setNumThreads(2)\n" + DATA + loop)
    assert got.stdout.splitlines()[-1] == "2"
    assert any(change.kind == "widen" for change in report.changes), report


def test_what_depends_on_the_number_of_threads_does_not_run_with_fewer(plain, codedag, tmp_path):
    data = DATA.replace("image = self.images[i]", "image = cv2.stackBlur(self.images[i], (3, 3))")
    _, _, report = run(plain, codedag, tmp_path, "import cv2; cv2.setNumThreads(2)\n" + data + LOOP)
    assert not any(change.kind == "widen" for change in report.changes)
    assert any("number of threads" in declined.reason for declined in report.declined), report.declined
