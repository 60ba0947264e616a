"""A plan that places calls on a second device: a Python torch device with real copies and refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cv2")
pytest.importorskip("torch")

HERE = Path(__file__).resolve().parent
SCRIPT = """
import json, sys
import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
import second_device
kept = second_device.start()

from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import No, Yes

def register(device):
    @substitutes("cv2.flip", into="torch", gives=EXACT, needs="torch>=2", pu=device)
    def flip(src, flipCode, dst=None):
        tensor = torch.from_numpy(src).to(device)
        dims = {0: [0], 1: [1], -1: [0, 1]}[flipCode]
        return torch.flip(tensor, dims).cpu().numpy().copy()

    flip.guard(lambda call: Yes if call.dst is None and call.src.ndim == 3 else No("not a picture"))
    @flip.calls
    def call(rng):
        image = np.random.default_rng(rng.getrandbits(32)).integers(0, 255, (8, 9, 3), np.uint8)
        return Call.of(image, rng.choice([0, 1, -1]))

register("fakepu")

class Photos(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        image = np.random.default_rng(index).integers(0, 255, (60, 80, 3), np.uint8)
        return self.prepare(image)

    def prepare(self, image):
        flipped = cv2.flip(image, 1)
        assert type(flipped) is np.ndarray and flipped.flags.c_contiguous and flipped.flags.writeable
        return flipped

data = Photos()
expected = [data[n] for n in range(8)]
original = cv2.flip
import codedag

def outcome(device, workers=0):
    second_device.LOG.clear()
    plan = {"context_device_map": {"Photos.__getitem__/Photos.prepare/cv2.flip": device}}
    with codedag.apply(plan, mode="shadow") as migrator:
        if workers:
            found = [item.numpy() for batch in DataLoader(data, num_workers=workers) for item in batch]
        else:
            found = [data[n] for n in range(8)]
        stats = migrator.get_stats()["cv2.flip"]
    assert cv2.flip is original
    same = all(np.array_equal(a, b) for a, b in zip(expected, found))
    return {"same": same, "log": list(second_device.LOG), "stats": stats}

print(json.dumps([outcome("fakepu:0"), outcome("fakepu", workers=1), outcome("fakepu:1"), outcome("cuda:0")]))
"""


def test_calls_are_placed_on_a_second_device(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "ignore", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    here, worker, second, absent = json.loads(done.stdout)
    assert [one["same"] for one in (here, worker, second, absent)] == [True] * 4
    assert here["log"][-3:] == ["to device", "aten.flip.default", "to host"]
    assert here["log"].count("to device") >= 1
    assert (here["stats"]["calls"], here["stats"]["mismatches"]) == (8, 0)
    assert here["stats"]["checked"] >= 1
    assert (worker["stats"]["calls"], worker["stats"]["mismatches"]) == (8, 0)
    assert second["stats"]["reason"] == "fakepu:1 is not on this machine: it has 1 of its kind"
    assert absent["stats"]["reason"] == "cuda:0 is not on this machine"
    assert second["log"] == absent["log"] == []
