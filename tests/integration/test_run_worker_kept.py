"""`codedag run` with worker processes that read the same files epoch after epoch: what one has decoded, all have."""

from __future__ import annotations

import os

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

cv2 = pytest.importorskip("cv2")
np = pytest.importorskip("numpy")
pytest.importorskip("torch")

PROGRAM = """
import glob, hashlib, os, random, sys, time
import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(3)
paths = sorted(glob.glob(os.path.join(sys.argv[1], "*.jpg")))
kind = sys.argv[2]

class Data(Dataset):
    def __len__(self): return len(paths)
    def __getitem__(self, i):
        image = cv2.cvtColor(cv2.imread(paths[i]), cv2.COLOR_BGR2RGB)
        image[0, 0] = image[0, 0] + 1  # nobody else may see this
        if random.random() < 0.5:
            image = image[:, ::-1]
        return torch.from_numpy(image.astype(np.float32)), i

def main():
    loader = DataLoader(Data(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=kind == "persistent")
    for epoch in range(5):
        if kind == "rewritten" and epoch in (3, 4):
            for number in range(0, len(paths), 3):
                cv2.imwrite(paths[number], np.full((40, 50, 3), 10 * epoch + number % 7, np.uint8))
        if kind == "broken" and epoch == 4:
            open(paths[5], "wb").close()
        for images, numbers in loader:
            print(hashlib.sha256(images.numpy().tobytes()).hexdigest()[:12], numbers.tolist())

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def pictures(tmp_path):
    """Writes the pictures anew."""
    folder = tmp_path / "data"
    folder.mkdir()

    def write():
        for number in range(128):
            small = np.random.default_rng(number).integers(0, 256, (9, 9, 3), dtype=np.uint8)
            cv2.imwrite(str(folder / f"{number:05d}.jpg"), cv2.resize(small, (50, 40)))
            os.utime(folder / f"{number:05d}.jpg", (1e9, 1e9))
        return folder

    return write


#: The same with pictures of Pillow.
PILLOW = PROGRAM.replace("import cv2\n", "import cv2\nfrom PIL import Image\n").replace(
    """        image = cv2.cvtColor(cv2.imread(paths[i]), cv2.COLOR_BGR2RGB)
        image[0, 0] = image[0, 0] + 1  # nobody else may see this
        if random.random() < 0.5:
            image = image[:, ::-1]
""",
    """        image = Image.open(paths[i]).convert("RGB")
        left = random.randint(0, 9)
        image.putpixel((0, 0), (left, 1, 2))  # nobody else may see this
        image.info["seen"] = image.info.get("seen", 0) + 1
        assert image.info["seen"] == 1
        image = np.array(image.crop((left, left, left + 20, left + 20)))
""",
)


@pytest.mark.parametrize("source", [PROGRAM, PILLOW], ids=["arrays", "pictures"])
@pytest.mark.parametrize("kind", ["persistent", "anew", "rewritten", "broken"])
def test_workers_keep_for_each_other(plain, codedag, tmp_path, pictures, kind, source):
    (tmp_path / "train.py").write_text(source)
    expected = plain("train.py", pictures(), kind)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    got = codedag("run", "-o", tmp_path / "run", "train.py", pictures(), kind, env={"PYTHONPATH": path})
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    assert (expected.returncode != 0) is (kind == "broken")
    assert load(tmp_path / "run").report.verdict.identical
    if hasattr(os, "memfd_create"):
        made = load(tmp_path / "run").report.changes
        assert [change.checked > 0 for change in made if change.kind == "remember"] == [True], made
