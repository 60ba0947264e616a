"""`codedag run` with pipelines of albumentations in threads: batches and what is left are the program's own."""

from __future__ import annotations

import os

import pytest

from codedag.ir import load

pytest.importorskip("albumentations")
pytestmark = pytest.mark.long

#: Every trial without a difference goes on (the machine may be busy), and the run says how many pipelines were taken.
FORCED = """
import atexit, os, sys
import codedag.migrate.trial as trial
trial.Trial.gain = lambda self: 2.0
import codedag.autopilot.pipelines as pipelines
taken, run = [], pipelines.Pipelines.run
def counted(self, check, item, pipeline, /, **data):
    taken.append(item)
    return run(self, check, item, pipeline, **data)
pipelines.Pipelines.run = counted
atexit.register(lambda: print(f"taken apart: {len(taken)}", file=sys.stderr))
"""
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


def run(plain, codedag, tmp_path, source):
    script = tmp_path / "script.py"
    script.write_text(source)
    (tmp_path / "sitecustomize.py").write_text(FORCED)
    expected = plain(script)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    got = codedag("run", "-o", tmp_path / "run", script, env={"PYTHONPATH": paths})
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    report = load(tmp_path / "run").report
    assert report.verdict.identical
    return got, report


def test_a_program_that_looks_at_kept_parameters_runs_in_order(plain, codedag, tmp_path):
    got, report = run(plain, codedag, tmp_path, LOOKS)
    assert "taken apart: 0" in got.stderr
    assert any("parameters that a transform keeps" in declined.reason for declined in report.declined), report.declined


def test_batches_generators_and_kept_parameters_are_the_programs_own(plain, codedag, tmp_path):
    got, report = run(plain, codedag, tmp_path, SOURCE)
    assert any(change.kind == "widen" for change in report.changes), report.declined
    assert "taken apart: 0" not in got.stderr
    assert "taken apart" in got.stderr
