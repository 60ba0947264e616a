"""`codedag run` of a program whose torch threads rest while workers, or items in threads, have use for the cores."""

from __future__ import annotations

import os

import pytest

from codedag.autopilot.settings import openmp_wait as rest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.long

#: Decides after one pair of single batches that it is worth it: what is tested is sameness, not speed.
ALWAYS = """
import codedag.autopilot.settings.openmp_wait as rest
rest.BLOCK = 1
rest.WaitTrial._decide = lambda self: setattr(self, "decided", True)
rest.SAVES = rest.NOT_SLOWER = 0.0
"""
PROGRAM = """
import sys
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(1)

class Pictures(Dataset):
    def __init__(self): self.base = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    def __len__(self): return 160
    def __getitem__(self, index):
        image = np.roll(self.base, index, 0).astype(np.float64) * 1.1 / 255.0
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32)), index

def main():
    workers, last = int(sys.argv[1]), int(sys.argv[2])
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(2))
    optimiser = None
    for epoch in range(4):
        loader = DataLoader(Pictures(), batch_size=8, num_workers=workers, shuffle=True)
        for number, (images, labels) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(net(images), labels % 2)
            optimiser = optimiser or torch.optim.SGD(net.parameters(), lr=0.01)
            optimiser.zero_grad(); loss.backward(); optimiser.step()
            if number == last and epoch == 3: raise ValueError("the program's own")
        print(loss.item(), torch.get_num_threads(), torch.rand(1).item())

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("last", [99, 3])
@pytest.mark.parametrize("workers", [0, 2])
def test_threads_that_rest_change_nothing(plain, codedag, tmp_path, workers, last):
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "sitecustomize.py").write_text(ALWAYS)
    expected = plain("train.py", workers, last)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    got = codedag("run", "-o", tmp_path / "run", "train.py", workers, last, env={"PYTHONPATH": path})
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    assert got.stderr.startswith(expected.stderr)
    said = any(name in os.environ for name in rest.SAID)
    if workers and not said and torch.get_num_threads() > 1 and rest.library() is not None:
        assert "torch's threads slept while they waited" in got.stderr
