"""`codedag run` with workers that use cv2: one thread each where nobody can tell, and the program's own batches."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("cv2")

PROGRAM = """
import hashlib
import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __init__(self): self.image = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    def __len__(self): return 48
    def __getitem__(self, i):
        image = cv2.resize(np.roll(self.image, i, 0), (160, 120))
        image = OPERATION
        return torch.from_numpy(np.ascontiguousarray(image)), i

def main():
    for epoch in range(2):
        for batch, numbers in DataLoader(Data(), batch_size=8, num_workers=2):
            print(hashlib.sha256(batch.numpy().tobytes()).hexdigest()[:12], numbers.tolist())
    print("done")
main()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("cv2.GaussianBlur(image, (5, 5), 0)", True),
        ("cv2.Canny(image, 50, 100)", False),
        ("image + cv2.getNumThreads()", False),
    ],
)
def test_batches_are_the_same_and_the_run_says_so(plain, codedag, tmp_path, operation, said):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.replace("OPERATION", operation))
    (tmp_path / "sitecustomize.py").write_text(
        "import codedag.autopilot.settings.cv2_threads as capped\ncapped._cores = lambda: 2\n"
        "__import__('cv2').setNumThreads(2)\n"  # as on a machine with two cores
    )
    expected = plain(script, env={"PYTHONPATH": str(tmp_path)})
    got = codedag("run", "-o", tmp_path / "run", script, env={"PYTHONPATH": str(tmp_path)})
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    assert ("cv2 had one thread in" in got.stderr) is said, got.stderr
