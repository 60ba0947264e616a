"""Worker processes come up with the plan, whichever way they are started, and what they count comes back."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codedag.ir import load

pytest.importorskip("cv2")
pytest.importorskip("scipy")

METHODS = [name for name in ("fork", "spawn", "forkserver") if name in multiprocessing.get_all_start_methods()]
MEDIAN = "scipy.ndimage.median_filter"

POOL = """
import json, multiprocessing, sys
import cv2
import numpy as np
import scipy.ndimage as ndimage

def work(number):
    image = np.random.default_rng(number).integers(0, 255, (90, 120), np.uint8)
    return int(ndimage.median_filter(image, 5).astype(np.int64).sum())

def main():
    import codedag
    context = multiprocessing.get_context(sys.argv[1])
    expected = [work(number) for number in range(24)]
    with codedag.apply(json.loads(sys.argv[2])) as migrator:
        with context.Pool(2) as pool:
            found = pool.map(work, range(24), chunksize=4)
            pool.close()
            pool.join()
        here = migrator._migrator.own()["scipy.ndimage.median_filter"].calls
        stats = migrator.get_stats()["scipy.ndimage.median_filter"]
    print(json.dumps({"same": found == expected, "here": here, "stats": stats}))

if __name__ == "__main__":
    main()
"""

LOADER = """
import json, sys
import cv2
import numpy as np
import scipy.ndimage as ndimage
import torch
from torch.utils.data import DataLoader, Dataset

class Photos(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return self.preprocess(np.random.default_rng(index).integers(0, 255, (90, 120), np.uint8))

    def preprocess(self, image):
        return torch.from_numpy(ndimage.median_filter(image, size=5))

def main():
    import codedag
    expected = [Photos()[index] for index in range(24)]
    loader = DataLoader(Photos(), batch_size=4, num_workers=2, multiprocessing_context=sys.argv[1])
    with codedag.apply(json.loads(sys.argv[2])) as migrator:
        found = [item for batch in loader for item in batch]
        here = migrator._migrator.own()["scipy.ndimage.median_filter"].calls
        stats = migrator.get_stats()["scipy.ndimage.median_filter"]
    same = all(map(torch.equal, expected, found))
    print(json.dumps({"same": same, "here": here, "stats": stats}))

if __name__ == "__main__":
    main()
"""


def run(folder: Path, source: str, method: str, plan: Any) -> dict[str, Any]:
    (folder / "script.py").write_text(source)
    command = [sys.executable, "-W", "ignore", "script.py", method, json.dumps(plan)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.parametrize("method", METHODS)
def test_a_pool(tmp_path, method):
    found = run(tmp_path, POOL, method, {"context_device_map": {f"work/{MEDIAN}": "cpu"}})
    stats = found["stats"]
    assert found["same"]
    assert (found["here"], stats["calls"], stats["mismatches"]) == (0, 24, 0)
    assert stats["fast"] + stats["checked"] + sum(stats["declined"].values()) == 24
    assert stats["checked"] >= 2
    assert stats["gain"] > 0


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_a_loader(tmp_path, method):
    pytest.importorskip("torch")
    context = f"Photos.__getitem__/Photos.preprocess/{MEDIAN}"
    found = run(tmp_path, LOADER, method, {"context_device_map": {context: "cpu"}})
    assert found["same"]
    assert (found["here"], found["stats"]["calls"], found["stats"]["mismatches"]) == (0, 24, 0)
    assert found["stats"]["checked"] >= 2


@pytest.mark.long
@pytest.mark.parametrize("command", ["run", "trace"])
@pytest.mark.parametrize("method", METHODS)
def test_a_plan_is_followed_beside_a_run_or_a_trace(tmp_path, codedag, command, method):
    """Two followers of the same processes: each of them has its tickets, forks and reports."""
    (tmp_path / "script.py").write_text(POOL)
    plan = {"context_device_map": {f"work/{MEDIAN}": "cpu"}}
    done = codedag(command, "-o", tmp_path / "out", "script.py", method, json.dumps(plan))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["same"]
    assert (found["here"], found["stats"]["calls"]) == (0, 24)
    saw = load(tmp_path / "out")
    if command == "run":
        assert saw.report.workers >= 2
    else:  # by the program, and by its workers
        assert sum(op.count for op in saw.graph.ops if op.name == MEDIAN) == 48


LEAVING = """
import codedag, multiprocessing.spawn as spawn, multiprocessing.util, os, tempfile
before = spawn.get_preparation_data
first = codedag.apply({"context_device_map": {"scipy.ndimage.median_filter": "cpu"}})
second = codedag.apply({"context_device_map": {"scipy.ndimage.sobel": "cpu"}})
assert spawn.get_preparation_data is not before
first.restore()
assert "codedag" in spawn.get_preparation_data("x")
second.restore()
assert spawn.get_preparation_data is before
print(os.listdir(tempfile.gettempdir()))
"""


def test_nothing_is_left_behind(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, env=environment, timeout=600)
    assert done.stderr == ""
    assert "codedag-counts" in done.stdout
    assert list(tmp_path.iterdir()) == []


KILLED = """
import json, multiprocessing, os, signal, sys
import cv2
import numpy as np
import scipy.ndimage as ndimage

def work(die):
    ndimage.median_filter(np.zeros((90, 120), np.uint8), 5)
    if die:
        os.kill(os.getpid(), signal.SIGKILL)

def main():
    import codedag
    context = multiprocessing.get_context(sys.argv[1])
    with codedag.apply(json.loads(sys.argv[2])) as migrator:
        for die in (False, True):
            process = context.Process(target=work, args=(die,))
            process.start()
            process.join()
        calls = migrator.get_stats()["scipy.ndimage.median_filter"]["calls"]
    print(json.dumps({"calls": calls, "notes": migrator.notes}))

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_is_killed_is_said(tmp_path, method):
    found = run(tmp_path, KILLED, method, {"context_device_map": {MEDIAN: "cpu"}})
    assert found["calls"] == 1
    assert len(found["notes"]) == 1
    assert found["notes"][0].startswith("1 of 2 processes are at work or were ended from outside")
