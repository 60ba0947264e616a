"""`--allow int8` as a user runs it: profile, plan and run with quantised stages, and options that do not fit."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

from command_line import called

CASES = {
    "config": {"feature_dim": 12, "num_warmup": 1, "num_iterations": 3},
    "test_cases": [{"nodes": 40, "edges": 90}],
}
INT8 = ("--allow", "int8", "--max-error", "0.1")


def measured(codedag, folder, *more):
    """A profile on the two runtimes that run int8 files."""
    (folder / "cases.json").write_text(json.dumps(CASES))
    rng = np.random.default_rng(0)
    np.savez(
        folder / "data.npz",
        x=rng.standard_normal((4000, 12), dtype=np.float32),
        edge_index=rng.integers(0, 4000, (2, 40000)),
    )
    options = ("-o", "prof", "--cases", "cases.json", "--pus", "ort:cpu,ov:cpu", "--blocks", "whole", "--json", *more)
    done = codedag("stages", "profile", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_int8_is_measured_planned_run_and_verified(codedag, tmp_path):
    folder = tmp_path / "prof"
    facts = measured(codedag, tmp_path, *INT8, "--calibration", "data.npz")
    table = json.loads((folder / "int8_table.json").read_text())
    assert {"40,90,CPU,6", "40,90,ort:cpu,6", "40,90,CPU,1-7", "40,90,ort:cpu,1-7"} == set(table)
    assert all(0 < row["error"] <= 0.1 for row in table.values())
    assert "40,90,ort:cpu,7" in json.loads((folder / "lookup_table.json").read_text())
    report = (folder / "profiling_report.txt").read_text()
    assert "whole        ort:cpu    error" in report
    assert "nothing to quantise" in report
    again = measured(codedag, tmp_path, *INT8, "--calibration", "data.npz")
    assert (again["measured"], again["known"]) == (0, facts["known"])

    for row in table.values():  # whether int8 pays here does not decide what is tested
        row |= dict.fromkeys(("compute_time_ms", "total_time_ms", "best_ms", "low_ms", "high_ms"), 1e-6)
    (folder / "int8_table.json").write_text(json.dumps(table))
    plain = json.loads(codedag("stages", "plan", "prof", "--json").stdout)
    assert all("variant" not in block for block in plain["blocks"])
    pep = json.loads(codedag("stages", "plan", "prof", *INT8, "--json").stdout)
    chosen = [block for block in pep["blocks"] if block.get("variant") == "int8"]
    assert chosen
    assert sum(block["error"] for block in chosen) == pytest.approx(pep["error"])
    assert 0 < pep["error"] <= pep["max_error"] == 0.1

    done = codedag("stages", "run", "prof", "--json")
    ran = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (ran["left"], ran["max_error"]) == ([], 0.1)
    assert ran["outputs"]["out"]["equal"]
    assert 1e-4 < ran["outputs"]["out"]["worst"] <= 0.1, "it is the quantised file that ran"

    tight = json.loads(codedag("stages", "plan", "prof", "--allow", "int8", "--max-error", "1e-6", "--json").stdout)
    assert all("variant" not in block for block in tight["blocks"])


@pytest.mark.slow
def test_a_cell_beyond_the_largest_error_fails_and_is_measured_once_it_is_allowed(codedag, tmp_path):
    data = ("--calibration", "data.npz", "--allow", "int8")
    measured(codedag, tmp_path, *data, "--max-error", "1e-6")
    table = tmp_path / "prof" / "int8_table.json"
    assert json.loads(table.read_text()) == {}
    assert "1e-06 is allowed" in (tmp_path / "prof" / "profiling_report.txt").read_text()
    measured(codedag, tmp_path, *data, "--max-error", "0.1")
    assert len(json.loads(table.read_text())) == 4


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--allow", "int8"), "--calibration and --max-error is missing"),
        (("--allow", "int8", "--max-error", "0.1"), "--calibration is missing"),
        (("--calibration", "data.npz"), "--allow int8 and --max-error is missing"),
        ((*INT8, "--calibration", "data.npz", "--max-error", "1"), "1 is not between 0 and 1"),
        ((*INT8, "--calibration", "data.npz", "--max-error", "nan"), "nan is not between 0 and 1"),
    ],
)
def test_options_that_do_not_fit_are_told(options, told, tmp_path):
    done = called("stages", "profile", "-o", "prof", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())
    assert not (tmp_path / "prof").exists()


def test_a_plan_needs_the_largest_error_too():
    done = called("stages", "plan", "prof", "--allow", "int8")
    assert done.returncode == 2
    assert "--max-error is missing" in done.stderr
