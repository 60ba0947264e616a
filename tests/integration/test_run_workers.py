"""`codedag run` with worker processes: each proves and switches for itself, the next ones begin with what is proven."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codedag.ir import load

pytest.importorskip("torch")

PROGRAM = """
import argparse
import hashlib
import os
import signal
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, options):
        self.options = options
        self.base = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)

    def __len__(self):
        return self.options.count

    def __getitem__(self, index):
        if index == self.options.killed_at:
            time.sleep(1.5)
            os.kill(os.getpid(), signal.SIGKILL)
        if index == self.options.leaves_at:
            os._exit(7)
        if index == self.options.raises_at:
            raise ValueError(f"picture {index} is broken")
        return self.prepare(np.roll(self.base, index, 0)), index

    def prepare(self, image):
        # long enough that one kernel is faster on any machine
        image = np.clip(image.astype(np.float64) * 1.1 + 7.0, 0, 255)
        image = (image / 255.0 - np.array([0.4, 0.5, 0.6])) / np.array([0.2, 0.3, 0.4])
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=160)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--method")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--killed-at", type=int, default=-1)
    parser.add_argument("--leaves-at", type=int, default=-1)
    parser.add_argument("--raises-at", type=int, default=-1)
    options = parser.parse_args()
    loader = DataLoader(
        Pictures(options),
        batch_size=8,
        num_workers=options.workers,
        multiprocessing_context=options.method,
        persistent_workers=options.persistent,
    )
    digest = hashlib.sha256()
    for _ in range(options.epochs):
        for images, numbers in loader:
            digest.update(images.numpy().tobytes() + numbers.numpy().tobytes())
    print(digest.hexdigest())


if __name__ == "__main__":
    main()
"""
LONG = pytest.mark.long
CASES = [
    ("--method", "fork"),
    pytest.param(("--method", "spawn"), marks=LONG),
    pytest.param(("--method", "forkserver"), marks=LONG),
    pytest.param(("--method", "fork", "--persistent"), marks=LONG),
    pytest.param(("--method", "spawn", "--persistent"), marks=LONG),
]


@pytest.fixture
def both(plain, codedag, tmp_path):
    """both(args): the program plain and under `codedag run`, and the report."""
    (tmp_path / "train.py").write_text(PROGRAM)

    def run(*args: object) -> tuple[Any, Any, Any]:
        expected = plain("train.py", *args)
        got = codedag("run", "-o", tmp_path / "run", "train.py", *args)
        return expected, got, load(tmp_path / "run")

    return run


@pytest.mark.long
@pytest.mark.parametrize("args", CASES, ids=lambda args: "_".join(a.strip("-") for a in args))
def test_workers_prove_and_switch_for_themselves(both, tmp_path, args):
    expected, got, run = both(*args)
    assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
    (change,) = [change for change in run.report.changes if change.kind == "fuse"]
    assert change.where.startswith("train.py:")
    assert run.report.verdict.identical
    workers = 2 if "--persistent" in args else 4
    assert run.report.workers == workers
    assert "ran as written" not in got.stderr
    assert change.checked >= 8
    assert change.calls > change.checked
    names = {op.name for op in run.graph.ops}
    assert {"numpy.roll", "numpy.ascontiguousarray"} <= names, "what workers observed is in the graph"
    assert not (tmp_path / "run" / "workers").exists()


@pytest.mark.slow
def test_workers_have_lanes_and_memory_of_their_own(both):
    _, _, run = both("--persistent")
    events, ops = run.events, {op.id: op for op in run.graph.ops}
    processes = {lane.process for lane in events.lanes}
    assert len(processes) == 3, "the program and its two workers"
    assert {sample.process for sample in events.memory} == processes
    rolled = [call for call in events.calls if ops[call.op].name == "numpy.roll"]
    assert len({events.lanes[call.lane].process for call in rolled}) == 2
    assert all(0 <= call.start <= call.end <= events.seconds + 5 for call in events.calls)
    calls = [call for call in events.calls if ops[call.op].name == "numpy.ascontiguousarray"]
    assert calls, "numbers of a worker's calls are those of the joined graph"


@pytest.mark.slow
def test_an_exception_in_a_worker_is_the_programs_own(both):
    expected, got, run = both("--workers", 1, "--raises-at", 151)  # two may answer in another order
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout) == (1, "")
    own = [line for line in got.stderr.splitlines() if not line.startswith("codedag: ")]
    assert own == expected.stderr.splitlines()
    assert run.report.workers == 1


@pytest.mark.long
@pytest.mark.parametrize("how", ["--killed-at", "--leaves-at"])
def test_a_worker_that_dies_is_the_programs_own_affair(both, how):
    expected, got, run = both("--method", "fork", how, 151)
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout) == (1, "")
    assert "DataLoader worker" in got.stderr
    assert "ended from outside" in got.stderr
    assert run.run.status == "failed"


FORKS = """
import os
import sys

import numpy as np


def prepare(image):
    image = np.clip(image.astype(np.float64) * 1.1 + 7.0, 0, 255)
    return ((image / 255.0 - np.array([0.4, 0.5, 0.6])) / np.array([0.2, 0.3, 0.4])).sum()


image = np.arange(200 * 300 * 3, dtype=np.uint8).reshape(200, 300, 3)
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        total = sum(float(prepare(image)) for _ in range(100))
        sys.exit(0 if total else 1)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children], float(prepare(image)))
"""


@pytest.mark.long
def test_processes_that_the_program_forks_itself_are_counted(plain, codedag, tmp_path):
    (tmp_path / "forks.py").write_text(FORKS)
    expected = plain("forks.py")
    got = codedag("run", "-o", tmp_path / "run", "forks.py")
    assert (got.returncode, got.stdout) == (0, expected.stdout)
    report = load(tmp_path / "run").report
    assert report.workers == 3
    (chain,) = [change for change in report.changes if change.kind == "fuse"]
    assert chain.checked >= 3 * 6
    assert got.stderr.count("run directory") == 1


@pytest.mark.long
def test_an_earlier_runs_workers_in_the_same_directory_are_not_counted(both, tmp_path):
    both("--count", 16)
    stale = tmp_path / "run" / "workers"
    stale.mkdir()
    (stale / "1.json").write_text(json.dumps({"format": "codedag/worker", "version": 1}))
    _, got, run = both("--count", 16)
    assert run.report.workers == 4
    assert "cannot be read" not in got.stderr
