"""From a traced program over its costs to a plan that runs: other units get operations, the results are the same."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "plan"))

from plan_judge import judge

from codedag.ir import load

pytestmark = pytest.mark.long

PROGRAM = """
import numpy as np

MEAN = np.float32([0.5, 0.25, 0.125])

def centred(picture):
    values = np.multiply(picture.astype(np.float32), 0.5)
    return (values - MEAN) @ np.eye(3, dtype=np.float32)

total = np.zeros((64, 64, 3), np.float32)
for seed in range(40):
    total = np.add(total, centred(np.random.default_rng(seed).integers(0, 9, (64, 64, 3), np.uint8)))
print(total.tobytes().hex()[:400], total.sum())
"""


@pytest.fixture
def traced(codedag, tmp_path):
    (tmp_path / "pictures.py").write_text(PROGRAM)
    done = codedag("trace", "-o", "run", "pictures.py")
    assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def test_a_plan_of_a_real_run_is_what_a_replay_gives(codedag, traced):
    assert codedag("profile", traced, "--budget", "4", "--cell", "0.05", "--pus", "cpu").returncode == 0
    done = codedag("plan", traced, "--budget", "0.5")
    assert done.returncode == 0, done.stderr
    files = [json.loads((traced / f"{name}.json").read_text()) for name in ("graph", "costs", "machine", "plan")]
    found = judge(*files)
    assert found == pytest.approx(files[-1]["makespan_seconds"], rel=1e-9)


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")
def test_operations_that_a_plan_gives_to_numba_run_there(codedag, traced, tmp_path):
    """The costs are set, so that the plan depends on no clock; everything else is as users do it."""
    run = load(traced)
    wanted = {op.id: op.name for op in run.graph.ops if op.name in ("numpy.multiply", "operator.sub", "numpy.add")}
    assert len(wanted) == 3
    costs = json.loads((traced / "costs.json").read_text())
    costs["pus"].append("numba:cpu")
    costs["rows"] += [
        {"op": op, "pu": "numba:cpu", "variant": f"{name} -> numba:cpu", "seconds": 1e-9, "status": "ok"}
        for op, name in wanted.items()
    ]
    (traced / "costs.json").write_text(json.dumps(costs))
    links = [
        {"src": one, "dst": other, "latency_seconds": 0.0, "bytes_per_second": 1e12}
        for one, other in (("cpu", "numba:cpu"), ("numba:cpu", "cpu"))
    ]
    pus = [
        {"name": name, "resource": "host", "memory_nbytes": 1 << 34, "launch_seconds": 0.0, "simulated": False}
        for name in ("cpu", "numba:cpu")
    ]
    machine = {"format": "codedag/machine", "version": 1, "pus": pus, "links": links}
    (traced / "machine.json").write_text(json.dumps(machine))
    done = codedag("plan", traced, "--budget", "0.5")
    assert (done.returncode, "3 on numba:cpu" in done.stdout) == (0, True), done.stdout + done.stderr
    plan = load(traced / "plan.json", "plan")
    assert [move.chain for move in plan.moves] == [["operator.sub"]]  # the others are functions, found by their names
    plain = codedag("trace", "-o", "again", "pictures.py").stdout
    done = codedag("run", "--plan", traced / "plan.json", "pictures.py")
    assert (done.returncode, done.stdout) == (0, plain), done.stderr
    assert "differ" not in done.stderr
    for name in ("multiply", "sub", "add"):  # a busy machine may find them slower, after they ran
        assert f"{name} -> numba:cpu" in done.stderr or "not faster here" in done.stderr, done.stderr
