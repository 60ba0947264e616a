"""`codedag run` with a DataLoader in the program's own process: its batches, exceptions, draws and output."""

from __future__ import annotations

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

pytest.importorskip("torch")

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


SHUFFLES = """
class Data(Dataset):
    def __init__(self, n=240):
        self.images = [np.full((48, 40, 3), i % 251, np.uint8) for i in range(n)]
        self.order = list(range(50))
        self.noise = torch.zeros(4)
    def __len__(self): return len(self.images)
    def __getitem__(self, i):
        image = self.images[i].astype(np.float32) / 255.0 - self.order[0]
        DRAW
        return torch.from_numpy(image.transpose(2, 0, 1).copy()), self.order[3], float(self.noise[1])
"""


SORTED = """
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset

def part(image, k):
    return np.sort(image + k)

class Data(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        return torch.from_numpy(part(np.arange(9_000.0) * i, np.random.rand())), i

np.random.seed(0); torch.manual_seed(0)
for epoch in range(6):
    for x, i in DataLoader(Data(), batch_size=4, shuffle=True):
        print(float(x.sum()), i.tolist())
"""
PROGRAMS = {
    "whole": DATA + LOOP,
    "subset": DATA + SUBSET,
    "no grad": DATA + NO_GRAD,
    "raises and goes on": RAISES + CATCHING,
    "raises and ends": RAISES + LOOP,
    "items write state": COUNTS + LOOP,
    "threads of cv2": "import cv2; cv2.setNumThreads(2)\n"
    + DATA
    + LOOP.replace("rest()", "rest(); print(cv2.getNumThreads())"),
    "results by the number of threads": "import cv2; cv2.setNumThreads(2)\n"
    + DATA.replace("image = self.images[i]", "image = cv2.stackBlur(self.images[i], (3, 3))")
    + LOOP,
    "a list is shuffled": SHUFFLES.replace("DRAW", "random.shuffle(self.order)") + LOOP,
    "a tensor is filled anew": SHUFFLES.replace("DRAW", "self.noise.normal_()") + LOOP,
    "sorted": SORTED,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_exceptions_and_generators_are_the_programs_own(plain, codedag, tmp_path, name):
    if "cv2" in PROGRAMS[name]:
        pytest.importorskip("cv2")
    script = tmp_path / "script.py"
    script.write_text(HEAD + PROGRAMS[name])
    expected = plain(script)
    got = codedag("run", "-o", tmp_path / "run", script)
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    assert got.stderr.startswith(expected.stderr)
    assert load(tmp_path / "run").report.verdict.identical
