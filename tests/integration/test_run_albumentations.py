"""`codedag run` with pipelines of albumentations: batches, generators and kept parameters are its own."""

from __future__ import annotations

import pytest

from codedag.ir import load

pytest.importorskip("albumentations")
pytestmark = pytest.mark.long

SOURCE = """
import hashlib, os
os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
import albumentations as A
import numpy as np
import torch
from albumentations.pytorch import ToTensorV2
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __init__(self, transform):
        numbers = np.random.default_rng(3)
        self.images = [numbers.integers(0, 256, (60 + i % 5, 70 - i % 3, 3), dtype=np.uint8) for i in range(160)]
        self.transform = transform
    def __len__(self): return len(self.images)
    def __getitem__(self, i):
        image = np.ascontiguousarray(self.images[i][::-1])
        sample = self.transform(image=image, mask=np.ascontiguousarray(image[:, :, 0]))
        return sample["image"], sample["mask"], i

transform = A.Compose([
    A.RandomResizedCrop(size=(48, 48)), A.HorizontalFlip(p=0.5), A.OneOf([A.GaussianBlur(), A.GaussNoise()], p=0.5),
    A.RandomBrightnessContrast(p=0.5), A.CoarseDropout(p=0.4), A.Normalize(), ToTensorV2(),
], seed=1)
torch.manual_seed(1)
for epoch in range(4):
    for images, masks, numbers in DataLoader(Data(transform), batch_size=8, shuffle=True):
        print(hashlib.sha256(images.numpy().tobytes() + masks.numpy().tobytes()).hexdigest(), numbers.tolist())
    print(transform.py_random.random(), transform.random_generator.random(), images.stride(), images.is_contiguous())
    kept = [vars(t).get("par" + "ams", {}) for t in transform]
    print([sorted((k, str(v)) for k, v in params.items() if k != "noise_map") for params in kept])
"""
#: An item looks at what a transform keeps of the last call: that must be its own.
LOOKS = SOURCE.replace(
    'return sample["image"], sample["mask"], i',
    """
        crop = self.transform.transforms[0].params["crop_coords"]
        return sample["image"], sample["mask"], i + 1000 * sum(map(int, crop))
""",
).replace("numbers.tolist())", "numbers.tolist(), flush=True)")


@pytest.mark.parametrize("source", [SOURCE, LOOKS], ids=["whole", "looks at parameters"])
def test_batches_generators_and_kept_parameters_are_the_programs_own(plain, codedag, tmp_path, source):
    script = tmp_path / "script.py"
    script.write_text(source)
    expected = plain(script)
    got = codedag("run", "-o", tmp_path / "run", script)
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    assert load(tmp_path / "run").report.verdict.identical
