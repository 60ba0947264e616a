"""A program that is killed in the middle of its batches goes on from its own checkpoint as if nothing had happened."""

from __future__ import annotations

import signal
import sys

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

pytest.importorskip("numpy")
pytest.importorskip("torch")

#: Keeps its generators and its place after each batch, and goes on from there; SIGKILL comes at a batch of its own.
SCRIPT = """
import hashlib, os, pickle, random, signal, sys
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Subset

FILE, DIE_AT = sys.argv[1], int(sys.argv[2])

class Data(Dataset):
    def __init__(self): self.images = [np.full((48, 40, 3), i, np.uint8) for i in range(64)]
    def __len__(self): return 640
    def __getitem__(self, i):
        image = np.sort(self.images[i % 64].astype(np.float32).ravel())
        if random.random() < 0.5:
            image = image[::-1].copy()
        return torch.from_numpy(image * np.float32(np.random.uniform(0.8, 1.2)) + np.float32(i))

def kept(done):
    state = (done, random.getstate(), np.random.get_state())
    with open(FILE + ".new", "wb") as file:
        pickle.dump(state, file)
    os.replace(FILE + ".new", FILE)
    return hashlib.sha256(repr(state).encode()).hexdigest()[:12]

def main():
    random.seed(1); np.random.seed(2); torch.manual_seed(3)
    done = 0
    if os.path.exists(FILE):
        with open(FILE, "rb") as file:
            done, python, numbers = pickle.load(file)
        random.setstate(python); np.random.set_state(numbers)
    order = [(7 * k) % 640 for k in range(640)]
    rest = Subset(Data(), order[8 * done:])
    for batch in DataLoader(rest, batch_size=8):
        done += 1
        shown = hashlib.sha256(batch.numpy().tobytes()).hexdigest()[:12]
        print(done, shown, kept(done), flush=True)
        if done == DIE_AT:
            os.kill(os.getpid(), signal.SIGKILL)
main()
"""


@pytest.mark.parametrize("die_at", [13, 41])
def test_what_was_killed_goes_on_with_the_same_batches_and_draws(plain, codedag, tmp_path, die_at):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    whole = plain(script, tmp_path / "plain.state", 0).stdout
    assert len(whole.splitlines()) == 80
    first = codedag("run", "-o", tmp_path / "first", script, tmp_path / "state", die_at)
    assert first.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    second = codedag("run", "-o", tmp_path / "second", script, tmp_path / "state", 0)
    assert second.returncode == 0, second.stderr
    assert first.stdout + second.stdout == whole  # no batch lost, none twice, and the generators the same at each
    assert load(tmp_path / "second").report.verdict.identical


PEAK = """
import resource, sys
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self): return 240
    def __getitem__(self, i):
        return torch.from_numpy(np.sort(np.random.rand(500_000)))

def main():
    np.random.seed(2)
    print(sum(float(batch.sum()) for batch in DataLoader(Data(), batch_size=8)))
    with open(sys.argv[1], "w") as file: file.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak has another unit elsewhere")
def test_the_memory_is_bounded(plain, codedag, tmp_path):
    (tmp_path / "script.py").write_text(PEAK)
    expected = plain("script.py", "plain.peak").stdout
    ran = codedag("run", "--budget-ram", "50M", "-o", tmp_path / "run", "script.py", "run.peak")
    assert ran.stdout == expected
    before, after = (int((tmp_path / f"{name}.peak").read_text()) * 1024 for name in ("plain", "run"))
    batch = 8 * 500_000 * 8  # bytes; all items together have 1 GB
    assert after - before < batch + 50_000_000 + 300_000_000  # this batch once more, what is kept, and CodeDAG
