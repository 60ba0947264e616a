"""`codedag run` keeps whole items of datasets under torch's DataLoader: the same output, and the report says so."""

from __future__ import annotations

import pytest

from codedag.ir import load

SCRIPT = """
import hashlib, os, random, sys, time
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

folder = sys.argv[1]
for i in range(48):
    np.save(os.path.join(folder, f"{i}.npy"), np.random.default_rng(i).normal(size=(40, 40)).astype("float32"))
    os.utime(os.path.join(folder, f"{i}.npy"), (1e9, 1e9))

class Data(Dataset):
    def __init__(self):
        self.paths = [os.path.join(folder, f"{i}.npy") for i in range(48)]
        self.scale = 2.0
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, i):
        x = np.load(self.paths[i])
        return torch.from_numpy(x * self.scale).unsqueeze(0), i % 7

def main():
    torch.manual_seed(0)
    data, digest = Data(), hashlib.sha256()
    for epoch in range(10):
        for x, y in DataLoader(data, batch_size=8, shuffle=True):
            digest.update(x.numpy().tobytes() + y.numpy().tobytes())
            x += 1
        time.sleep(0.1)
        BETWEEN
        print(digest.hexdigest(), torch.rand(1).item())
    random.seed(3)
    print(random.random())
main()
"""
BETWEEN = {
    "nothing happens": "pass",
    "an attribute is set": "data.scale += epoch % 3",
    "files are written": "np.save(data.paths[epoch], np.full((40, 40), epoch, 'float32'))",
    "a method is replaced": "Data.__getitem__ = (lambda self, i: (torch.zeros(1), i)) if epoch == 6 else Data.__getitem__",  # noqa: E501
    "torch flushes small numbers": "torch.set_flush_denormal(epoch % 2 == 0)",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BETWEEN)
def test_items_are_the_same_whatever_happens_between_passes(plain, codedag, tmp_path, what):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("BETWEEN", BETWEEN[what]))
    expected = _ran(plain, tmp_path, script)
    for number in ("first", "second"):
        got = _ran(codedag, tmp_path, "run", script)
        assert (got.returncode, got.stdout) == (0, expected.stdout), f"{number} run: {got.stderr}"


def test_items_that_draw_nothing_are_kept(plain, codedag, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("BETWEEN", "pass"))
    expected = _ran(plain, tmp_path, script)
    got = _ran(codedag, tmp_path, "run", "-o", tmp_path / "out", script)
    assert got.stdout == expected.stdout
    report = load(tmp_path / "out" / "report.json")
    assert any(change.kind == "items" and "Data" in change.what for change in report.changes), got.stderr


def test_the_next_run_begins_with_kept_items(codedag, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("BETWEEN", "pass"))
    _ran(codedag, tmp_path, "run", script)
    got = _ran(codedag, tmp_path, "run", "-o", tmp_path / "out", script)
    assert "1 change known from an earlier run made from the start" in got.stderr
    (change,) = [each for each in load(tmp_path / "out" / "report.json").changes if each.kind == "items"]
    assert change.calls > 48 * 7, "torch is there when the first pass begins, or soon after"


def test_the_reason_says_which_line_draws(codedag, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("BETWEEN", "pass").replace("* self.scale", "* random.random()"))
    got = _ran(codedag, tmp_path, "run", "-o", tmp_path / "out", script)
    assert got.returncode == 0
    reasons = [each.reason for each in load(tmp_path / "out" / "report.json").declined]
    assert any("draws random numbers: random.Random.random at" in reason for reason in reasons), reasons


def _ran(run, tmp_path, *args, **settings):
    """What a run prints that has a folder of files of its own, always at the same place."""
    folder = tmp_path / "files"
    folder.mkdir()
    done = run(*args, folder, **settings)
    folder.rename(tmp_path / f"files {len(list(tmp_path.iterdir()))}")
    return done
