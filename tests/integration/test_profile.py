"""From a traced program to its cost table, through the command line."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest

from codedag.ir import load
from codedag.profile.table import OWN_CODE

PROGRAM = """
import numpy as np
from scipy import ndimage

class Scan:
    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        image = rng.integers(0, 256, (96, 96)).astype(np.uint8)
        small = ndimage.median_filter(image, size=3)
        return self.scaled(small)

    def scaled(self, image):
        return image / 255.0

print(sum(float(Scan()[i].sum()) for i in range(20)))
"""

WORKERS = """
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

class Photos(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        image = np.full((32, 32), index, np.float32)
        return torch.from_numpy(np.sqrt(image))

if __name__ == "__main__":
    loader = DataLoader(Photos(), batch_size=2, num_workers=1, multiprocessing_context={context!r})
    print(sum(float(batch.sum()) for batch in loader))
"""


@pytest.fixture
def traced(codedag, tmp_path) -> Path:
    pytest.importorskip("scipy")
    (tmp_path / "scan.py").write_text(PROGRAM)
    done = codedag("trace", "-o", "run", "scan.py")
    assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def names(folder: Path) -> set[str]:
    found = [json.loads(path.read_text()) for path in folder.glob("*.json") if path.name != "samples.json"]
    return {each["name"] for each in found if "left_out" not in each}


@pytest.mark.slow
def test_a_run_is_measured_and_measured_once(codedag, traced):
    done = codedag("profile", traced, "--budget", "300", "--cell", "0.1", "--pus", "cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"next: codedag plan {traced}"
    run = load(traced)
    ops = {op.name: op for op in run.graph.ops}
    row = run.costs.row(ops["scipy.ndimage.median_filter"].id, "cpu")
    assert (row.status, row.source) == ("ok", "measured")
    assert row.low <= row.seconds <= row.high
    tried = {row.variant, *(each.variant for each in row.alternatives)}
    assert {"original", "scipy.ndimage.median_filter -> cv2"} <= tried
    assert run.machine.pu("cpu").flop_per_second > 0
    kinds = {op.id: op.kind for op in run.graph.ops}
    rows = [row.op for row in run.costs.rows if row.pu == "cpu" and kinds[row.op] != "region"]
    assert sorted(rows) == sorted(op for op, kind in kinds.items() if kind not in ("region", "source"))
    again = json.loads(codedag("profile", traced, "--json", "--pus", "cpu").stdout)
    assert again["measured"] == 0
    assert again["costs"]["rows"] == json.loads((traced / "costs.json").read_text())["rows"]
    assert again["peak"]["nbytes"] >= 96 * 96 * 8


@pytest.mark.long
def test_samples_are_private_and_can_be_left_out(codedag, traced):
    assert stat.S_IMODE((traced / "samples").stat().st_mode) == 0o700
    assert {"scipy.ndimage.median_filter", "operator.truediv"} <= names(traced / "samples")
    assert not list((traced / "samples").glob("*.pkl"))
    assert codedag("trace", "-o", traced, "--no-samples", "scan.py").returncode == 0
    assert not (traced / "samples").exists()
    done = codedag("profile", traced, "--json", "--pus", "cpu")
    rows = json.loads(done.stdout)["costs"]["rows"]
    assert {row["source"] for row in rows} == {"traced"}
    own = [row for row in rows if row["reason"] != OWN_CODE]
    assert own
    assert all("no inputs were kept" in row["reason"] for row in own)


@pytest.mark.long
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_inputs_of_worker_processes_are_kept(codedag, tmp_path, context):
    pytest.importorskip("torch")
    (tmp_path / "photos.py").write_text(WORKERS.format(context=context))
    done = codedag("trace", "-o", "run", "photos.py")
    assert done.returncode == 0, done.stderr
    assert "numpy.sqrt" in names(tmp_path / "run" / "samples")


@pytest.mark.long
def test_what_cannot_be_profiled_is_said(codedag, traced, tmp_path):
    for arguments, word in (
        (["profile", tmp_path / "nothing"], "nothing"),
        (["profile", traced / "graph.json"], "is a file"),
        (["profile", traced, "--pus", "cuda:7"], "cuda:7"),
        (["profile", traced, "--allow", "magic"], "magic"),
    ):
        done = codedag(*arguments)
        assert (done.returncode, word in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr
    index = traced / "samples" / "samples.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), "expires": 1.0}))
    done = codedag("profile", traced)
    assert (done.returncode, "past their time" in done.stderr) == (2, True)


@pytest.mark.long
def test_damaged_samples_are_said_and_the_rest_is_measured(codedag, traced):
    damaged = list((traced / "samples").glob("*-0.npy"))
    for path in damaged:
        path.write_bytes(path.read_bytes()[:50])
    done = codedag("profile", traced, "--json", "--pus", "cpu")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["costs"]["rows"]
    assert any("damaged" in row["reason"] for row in rows)
    assert all(row["status"] == "ok" for row in rows if row["pu"] == "cpu")
    shutil.rmtree(traced / "samples")
    assert codedag("profile", traced, "--json", "--pus", "cpu").returncode == 0
