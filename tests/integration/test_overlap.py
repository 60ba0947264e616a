"""`codedag run` with a DataLoader: the next batch begins while the program has this one, and nobody notices."""

from __future__ import annotations

import os

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

cv2 = pytest.importorskip("cv2")
np = pytest.importorskip("numpy")
pytest.importorskip("torch")

#: Says yes to every trial that found no difference: what is tested is sameness, and the machine may be busy.
ALWAYS_FASTER = """
import codedag.migrate.trial as trial
trial.Trial.gain = lambda self: 2.0
"""
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
#: What happens between two batches, and whether the next one can begin before it.
STEPS = {
    "draws": ("print(random.random(), np.random.rand(), torch.rand(2).sum().item())", True),
    "breaks": ("if epoch == 2 and number == 9: break", True),
    "sets": ("data.size = 40 + number % 3", False),
    "raises": ("if epoch == 3 and number == 5: raise ValueError(number)", True),
    "sets a global": ("globals()['BIAS'] = number % 3", False),
    "sets inside a global": ("GAIN[0] = 1.0 + number % 3", False),
    "sets a class": ("setattr(CFG, 'power', 1.0 + number % 3)", False),
    "appends": ("data.seen.append(number)", False),
    "another loader": ("print([shown(b) for b in DataLoader(data, batch_size=2)][0] if number == 3 else 0)", True),
    "forks": ("print(os.waitpid(os.fork() or os._exit(0), 0)[1] if number == 3 else 0)", True),
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


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(24):
        small = np.random.default_rng(number).integers(0, 256, (9, 9, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{number:05d}.jpg"), cv2.resize(small, (260, 200)))
    return folder


def run(plain, codedag, tmp_path, pictures, source):
    script = tmp_path / "script.py"
    script.write_text(HEAD + source)
    (tmp_path / "sitecustomize.py").write_text(ALWAYS_FASTER)
    expected = plain(script, pictures)
    for copy in pictures.glob("*.copy.jpg"):
        copy.unlink()
    found = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    got = codedag("run", "-o", tmp_path / "run", script, pictures, env={"PYTHONPATH": found})
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    assert got.stderr.startswith(expected.stderr)
    return load(tmp_path / "run").report


def check(report, early):
    assert report.verdict.identical
    made = [change for change in report.changes if change.kind == "overlap"]
    assert bool(made) is early, report
    if not early:
        assert any("next batch" in declined.what for declined in report.declined), report.declined


def test_draws_of_items_and_of_the_program_keep_their_order(plain, codedag, tmp_path, pictures):
    check(run(plain, codedag, tmp_path, pictures, LOOP.replace("STEP", STEPS["draws"][0])), True)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(STEPS) - {"draws"}))
def test_what_the_program_does_between_batches(plain, codedag, tmp_path, pictures, name):
    step, early = STEPS[name]
    check(run(plain, codedag, tmp_path, pictures, LOOP.replace("STEP", step)), early)


@pytest.mark.long
@pytest.mark.parametrize("what", sorted(PUT_BACK))
def test_what_the_program_changes_and_puts_back(plain, codedag, tmp_path, pictures, what):
    report = run(plain, codedag, tmp_path, pictures, LOOP.replace("STEP", PUT_BACK[what]))
    assert report.verdict.identical


@pytest.mark.long
def test_a_data_set_that_counts_how_often_it_is_asked_for_its_length(plain, codedag, tmp_path, pictures):
    counts = """
class Counts(Data):
    def __len__(self):
        self.seen.append(1)
        return 4 * len(self.paths)
"""
    source = LOOP.replace("Data(paths)", "Counts(paths)").replace("STEP", "print(len(data.seen))")
    run(plain, codedag, tmp_path, pictures, counts + source)


@pytest.mark.long
def test_files_that_the_program_rewrites(plain, codedag, tmp_path, pictures):
    report = run(plain, codedag, tmp_path, pictures, FILES + LOOP.replace("STEP", REWRITES))
    assert report.verdict.identical


@pytest.mark.long
def test_a_sampler_that_weighs(plain, codedag, tmp_path, pictures):
    sampler = "sampler=WeightedRandomSampler(torch.rand(len(data)), len(data))"
    source = LOOP.replace("shuffle=True", sampler).replace("STEP", "pass")
    check(run(plain, codedag, tmp_path, pictures, source), True)


@pytest.mark.long
@pytest.mark.parametrize(
    "read", ['float(os.getenv("GAIN", "1"))', "len(glob.glob(sys.argv[1] + '/*.txt'))", "len(os.listdir(sys.argv[1]))"]
)
def test_what_an_item_asks_of_the_process_is_asked_in_its_place(plain, codedag, tmp_path, pictures, read):
    source = """
with open(os.path.join(sys.argv[1], "0.txt"), "w"): pass
for path in glob.glob(sys.argv[1] + "/n*.txt"): os.remove(path)
class Data(Data):
    def __getitem__(self, i):
        image = cv2.imread(self.paths[i % len(self.paths)])
        image = cv2.GaussianBlur(cv2.resize(image, (self.size, self.size)), (0, 0), 3)
        return torch.from_numpy(image.astype(np.float32) * (READ)), i
""".replace("READ", read)
    step = 'os.environ["GAIN"] = str(number % 5); open(f"{sys.argv[1]}/n{number}.txt", "w").close()'
    report = run(plain, codedag, tmp_path, pictures, source + LOOP.replace("STEP", step))
    assert report.verdict.identical


def loaders(torch):
    """Loaders whose sampler draws from a generator of the program's, some of them while the batches come."""
    data = torch.utils.data
    for size in (4, 5):
        for dataset in (range(20), range(23)):
            for last in (False, True):
                for count in (None, 50):
                    g = torch.Generator()
                    sampler = data.RandomSampler(dataset, num_samples=count, generator=g)
                    yield data.DataLoader(dataset, size, sampler=sampler, drop_last=last), g
                g = torch.Generator()
                yield data.DataLoader(dataset, size, sampler=data.RandomSampler(dataset, True, generator=g)), g
                g = torch.Generator()
                weighs = data.WeightedRandomSampler(torch.ones(len(dataset)), 21, generator=g)
                yield data.DataLoader(dataset, size, sampler=weighs, drop_last=last), g
                g = torch.Generator()
                subset = data.SubsetRandomSampler(dataset, generator=g)
                yield data.DataLoader(dataset, size, sampler=subset, drop_last=last), g


def test_the_indices_of_the_next_batch_are_looked_up_without_a_draw_from_a_generator_of_the_program():
    import torch

    from codedag.autopilot.overlap import Overlap

    pulled = 0
    for loader, generator in loaders(torch):
        batches = iter(loader)
        for _ in batches:
            batches._num_yielded -= 1  # the next batch is begun while this one is being handed over
            before = generator.get_state()
            indices = Overlap(None)._pull(batches)
            assert torch.equal(generator.get_state(), before), (loader.sampler, loader.batch_size)
            batches._num_yielded += 1
            if indices is not None:
                pulled += 1
                batches._num_yielded += 1
    assert pulled > 20


def samplers(data, torch):
    """Everything that chooses indices for this data set, all of them or some."""
    every = [data.SequentialSampler, data.RandomSampler, lambda of: data.RandomSampler(of, True, 13)]
    every += [lambda of: data.RandomSampler(of, num_samples=30), lambda of: data.SubsetRandomSampler(list(range(9)))]
    return [*every, lambda of: data.WeightedRandomSampler(torch.ones(20), 17)]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("number", range(6))
def test_the_data_set_is_not_asked_for_its_length_where_it_would_not_be(number, last):
    torch = pytest.importorskip("torch")
    from torch.utils import data

    from codedag.autopilot.overlap import Overlap
    from codedag.autopilot.pulled import length_of_epoch

    class Counting(data.Dataset):
        asked = 0

        def __len__(self):
            self.asked += 1
            return 20

        def __getitem__(self, index):
            return index

    def asked(pulls):
        """How often it had been asked for its length at each batch, and how many were looked up early."""
        of, found, pulled = Counting(), [], 0
        make = samplers(data, torch)[number]
        loader = iter(data.DataLoader(of, 4, sampler=make(of), drop_last=last))
        while next(loader, None) is not None:
            found.append(of.asked)
            loader._num_yielded -= 1
            assert length_of_epoch(loader) == len(make(range(20)))
            ahead = Overlap(None)._pull(loader) if pulls else None
            assert of.asked == found[-1]
            loader._num_yielded += 1 + (ahead is not None)
            found += [of.asked] * (ahead is not None)
            pulled += ahead is not None
        return [*found, of.asked], pulled

    (plain, _), (early, pulled) = asked(False), asked(True)
    assert early == plain
    assert pulled >= 1


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_indices_that_the_program_changes_after_they_were_looked_up(kind):
    from torch.utils.data import DataLoader, SubsetRandomSampler

    from codedag.autopilot.overlap import Overlap

    def batches(pulls):
        torch.manual_seed(5)
        sampler, overlap, given, pulled = SubsetRandomSampler(kind(list(range(100, 130)))), Overlap(None), [], 0
        loader = iter(DataLoader(range(200), 4, sampler=sampler))
        while (batch := next(loader, None)) is not None:
            given.append(batch.tolist())
            loader._num_yielded -= 1
            ahead = overlap._pull(loader) if pulls else None
            pulled += ahead is not None
            loader._num_yielded += 1
            if len(given) % 2:
                sampler.indices = kind([index + 1 for index in sampler.indices])
            if ahead is not None:
                given.append(overlap.next_index(None, loader))
                loader._num_yielded += 1
                if len(given) % 2:
                    sampler.indices = kind([index + 1 for index in sampler.indices])
        return given, pulled

    torch = pytest.importorskip("torch")
    (plain, _), (early, pulled) = batches(False), batches(True)
    assert early == plain
    assert pulled > 2


def test_a_subset_whose_places_cannot_be_told_is_not_looked_into():
    from types import SimpleNamespace

    from codedag.autopilot.pulled import looked_up_in

    assert looked_up_in(SimpleNamespace(indices=[1, 2, 3])) == [1, 2, 3]
    for indices in ([1, 2, 2], [], iter([1, 2]), range(1_000_000), ["a", "b"]):
        assert looked_up_in(SimpleNamespace(indices=indices)) is None
