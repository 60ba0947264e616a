"""An accelerator of torch is measured like any other PU, planned for, and used: values stay there along a chain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codedag.ir import load

pytest.importorskip("cv2")
pytest.importorskip("torch")

NAMES = ("cv2.resize", "cv2.flip", "cv2.copyMakeBorder")


@pytest.fixture
def program(tmp_path):
    """The program of the tests about placing, with a device that torch has loaded by itself."""
    text = (Path(__file__).parent / "placed_program.py").read_text()
    assert "kept = second_device.start()\n" in text
    found = text.replace("kept = second_device.start()\n", "")
    found = found.replace("import second_device\n", "import torch  # noqa: F401\nimport second_device\n")
    (tmp_path / "placed.py").write_text(found)
    return "placed.py"


@pytest.mark.slow
def test_a_chain_is_measured_there_planned_and_stays_there(codedag, plain, tmp_path, with_device, program):
    quiet = {**with_device, "PYTHONWARNINGS": "ignore"}
    expected = plain(program, env=quiet)
    assert expected.returncode == 0, expected.stderr
    assert codedag("trace", "-o", "run", program, env=quiet).stdout == expected.stdout
    done = codedag("profile", "run", "--pus", "fakepu:0", env=quiet)
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    ops = {op.name: op for op in run.graph.ops if op.name in NAMES}
    rows = {name: run.costs.row(op.id, "fakepu:0") for name, op in ops.items()}
    assert {name: (row.status, row.source) for name, row in rows.items()} == dict.fromkeys(NAMES, ("ok", "measured"))
    # measured with its input there: no copy of the picture in it, so the bytes are those of the call itself
    assert rows["cv2.flip"].roofline or rows["cv2.flip"].per_call.rounds > 0
    # the device of the tests is slow; as if it were fast
    costs = json.loads((tmp_path / "run" / "costs.json").read_text())
    for row in costs["rows"]:
        if row["pu"] == "fakepu:0" and row["status"] == "ok":
            row |= {"seconds": 1e-9, "low": 1e-9, "high": 1e-9}
    (tmp_path / "run" / "costs.json").write_text(json.dumps(costs))
    machine = json.loads((tmp_path / "run" / "machine.json").read_text())
    for link in machine["links"]:
        link |= {"latency_seconds": 1e-9, "bytes_per_second": 1e15}
    (tmp_path / "run" / "machine.json").write_text(json.dumps(machine))
    done = codedag("plan", "run", "--budget", "0.1", env=quiet)
    assert done.returncode == 0, done.stderr
    plan = load(tmp_path / "run" / "plan.json", "plan")
    assert {one.name for one in plan.placement if one.pu == "fakepu:0"} >= set(NAMES)
    assert plan.simulated == []
    got = codedag("run", "--plan", "run/plan.json", "-o", "placed", program, "--keep", env=quiet)
    assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
    assert "moved 1 1" in got.stderr
    assert load(tmp_path / "placed").report.verdict.identical
