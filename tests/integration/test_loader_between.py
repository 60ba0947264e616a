"""`codedag run` with a DataLoader: what the program does between two batches is seen by the next one."""

from __future__ import annotations

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

cv2 = pytest.importorskip("cv2")
np = pytest.importorskip("numpy")
pytest.importorskip("torch")

HEAD = """
import glob, hashlib, os, random, sys, time
import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

random.seed(1); np.random.seed(2); torch.manual_seed(3)
paths = sorted(glob.glob(os.path.join(sys.argv[1], "*.jpg")))

def shown(batch):
    if torch.is_tensor(batch): return hashlib.sha256(batch.numpy().tobytes()).hexdigest()[:12]
    if isinstance(batch, (list, tuple)): return [shown(each) for each in batch]
    return batch

def rest():
    print(random.random(), np.random.rand(), torch.rand(1).item())

def change(row, to): row[0] = to

GAIN = [1.0]
BIAS = 0.0

class CFG:
    power = 1.0

OPTIONS, SIGMAS, GAINS = {"sigma": 3}, [3], np.ones(1)

class Data(Dataset):
    def __init__(self, paths): self.paths, self.size, self.seen = paths, 40, []
    def __len__(self): return 4 * len(self.paths)
    def __getitem__(self, i):
        image = cv2.imread(self.paths[i % len(self.paths)])
        image = cv2.GaussianBlur(cv2.resize(image, (self.size, self.size)), (0, 0), OPTIONS["sigma"], sigmaY=SIGMAS[0])
        if random.random() < 0.5:
            image = image[:, ::-1]
        image = image.astype(np.float32) / 255.0 * np.random.uniform(0.9, 1.1) * GAINS[0]
        image = image * np.float32(GAIN[0] * CFG.power + BIAS)
        return torch.from_numpy(image.transpose(2, 0, 1).copy()), i
"""
LOOP = """
def main():
    data = Data(paths)
    for epoch in range(4):
        for number, batch in enumerate(DataLoader(data, batch_size=8, shuffle=True)):
            print(shown(batch))
            STEP
        rest()
main()
"""
#: What happens between two batches.
STEPS = {
    "draws": "print(random.random(), np.random.rand(), torch.rand(2).sum().item())",
    "breaks": "if epoch == 2 and number == 9: break",
    "sets": "data.size = 40 + number % 3",
    "raises": "if epoch == 3 and number == 5: raise ValueError(number)",
    "sets a global": "globals()['BIAS'] = number % 3",
    "sets inside a global": "GAIN[0] = 1.0 + number % 3",
    "sets a class": "setattr(CFG, 'power', 1.0 + number % 3)",
    "appends": "data.seen.append(number)",
    "another loader": "print([shown(b) for b in DataLoader(data, batch_size=2)][0] if number == 3 else 0)",
    "forks": "print(os.waitpid(os.fork() or os._exit(0), 0)[1] if number == 3 else 0)",
}
#: What happens between two batches, and leaves everything as it was.
PUT_BACK = {
    "an item": 'OPTIONS["sigma"] = 9; time.sleep(0.02); OPTIONS["sigma"] = 3',
    "one of a list": "SIGMAS[0] = 9; time.sleep(0.02); SIGMAS[0] = 3",
    "one of an array": "GAINS[0] = 9; time.sleep(0.02); GAINS[0] = 1",
    "one of a list under another name": "other = SIGMAS; other[0] = 9; time.sleep(0.02); other[0] = 3",
    "one of a list elsewhere": "change(SIGMAS, 9); time.sleep(0.02); change(SIGMAS, 3)",
    "an attribute by name": 'setattr(data, "size", 9); time.sleep(0.02); setattr(data, "size", 40)',
}
FILES = """
import shutil
mine = [shutil.copy2(p, p + ".copy.jpg") for p in paths]
time.sleep(0.3)
paths = mine
"""
REWRITES = "cv2.imwrite(paths[(5 * number) % len(paths)], np.full((50, 50, 3), number, np.uint8))"


COUNTS = """
class Counts(Data):
    def __len__(self):
        self.seen.append(1)
        return 4 * len(self.paths)
"""
ASKS = """
with open(os.path.join(sys.argv[1], "0.txt"), "w"): pass
for path in glob.glob(sys.argv[1] + "/n*.txt"): os.remove(path)
class Data(Data):
    def __getitem__(self, i):
        image = cv2.imread(self.paths[i % len(self.paths)])
        image = cv2.GaussianBlur(cv2.resize(image, (self.size, self.size)), (0, 0), 3)
        return torch.from_numpy(image.astype(np.float32) * (READ)), i
"""
ASKED = 'os.environ["GAIN"] = str(number % 5); open(f"{sys.argv[1]}/n{number}.txt", "w").close()'
SAMPLER = "sampler=WeightedRandomSampler(torch.rand(len(data)), len(data))"
PROGRAMS = {
    **{name: LOOP.replace("STEP", step) for name, step in (STEPS | PUT_BACK).items()},
    "counts": COUNTS + LOOP.replace("Data(paths)", "Counts(paths)").replace("STEP", "print(len(data.seen))"),
    "rewrites files": FILES + LOOP.replace("STEP", REWRITES),
    "weighs": LOOP.replace("shuffle=True", SAMPLER).replace("STEP", "pass"),
    "the environment": ASKS.replace("READ", 'float(os.getenv("GAIN", "1"))') + LOOP.replace("STEP", ASKED),
    "names by pattern": ASKS.replace("READ", "len(glob.glob(sys.argv[1] + '/*.txt'))") + LOOP.replace("STEP", ASKED),
    "names in a folder": ASKS.replace("READ", "len(os.listdir(sys.argv[1]))") + LOOP.replace("STEP", ASKED),
}


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(24):
        small = np.random.default_rng(number).integers(0, 256, (9, 9, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{number:05d}.jpg"), cv2.resize(small, (260, 200)))
    return folder


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_program_does_between_batches(plain, codedag, tmp_path, pictures, name):
    script = tmp_path / "script.py"
    script.write_text(HEAD + PROGRAMS[name])
    expected = plain(script, pictures)
    for copy in pictures.glob("*.copy.jpg"):
        copy.unlink()
    got = codedag("run", "-o", tmp_path / "run", script, pictures)
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    assert got.stderr.startswith(expected.stderr)
    assert load(tmp_path / "run").report.verdict.identical
