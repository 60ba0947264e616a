"""A torch device that is written in Python, which torch loads by itself, is a PU of staged models with real copies."""

from __future__ import annotations

import json

import pytest

CASES = {"config": {"feature_dim": 8, "num_warmup": 0, "num_iterations": 2}, "test_cases": [{"nodes": 12, "edges": 30}]}


@pytest.mark.slow
def test_a_device_of_torch_is_profiled_planned_and_run(codedag, tmp_path, with_device):
    (tmp_path / "cases.json").write_text(json.dumps(CASES))
    words = ("-o", "prof", "--cases", "cases.json", "--pus", "ort:cpu,fakepu:0", "--blocks", "whole")
    done = codedag("stages", "profile", *words, env=with_device)
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "prof" / "lookup_table.json").read_text())
    assert {f"12,30,fakepu:0,{stage}" for stage in range(1, 8)} <= set(table)
    raw = json.loads((tmp_path / "prof" / "raw_measurements.json").read_text())
    assert {cell["ran_on"].partition(":")[0] for cell in raw if cell["pu"] == "fakepu:0"} == {"fakepu"}
    links = json.loads((tmp_path / "prof" / "bandwidth_table.json").read_text())["transfers"]
    assert links["cpu->fakepu:0"]["measured"][-1]["seconds"] > links["cpu->ort:cpu"]["measured"][-1]["seconds"]
    block = {"stages": [1, 2, 3], "pus": ["fakepu:0"], "ratios": [1.0], "seconds": 0.0}
    rest = {"stages": [4, 5, 6, 7], "pus": ["ort:cpu"], "ratios": [1.0], "seconds": 0.0}
    pep = {"format": "codedag/pep", "version": 1, "goal": "latency", "blocks": [block, rest], "seconds": 0.0}
    (tmp_path / "mixed.json").write_text(json.dumps(pep))
    ran = codedag("stages", "run", "prof", "--pep", "mixed.json", "--json", env=with_device)
    assert ran.returncode == 0, ran.stderr
    facts = json.loads(ran.stdout)
    assert facts["pus"] == ["fakepu:0", "ort:cpu"]
    assert facts["outputs"]["out"]["equal"]
    assert facts["left"] == []
    pep["blocks"] = [{"stages": [1, 2, 3, 4, 5, 6, 7], "pus": ["ort:cpu", "fakepu:0"], "ratios": [0.6, 0.4]}]
    (tmp_path / "split.json").write_text(json.dumps(pep))
    split = json.loads(codedag("stages", "run", "prof", "--pep", "split.json", "--json", env=with_device).stdout)
    assert split["pus"] == ["ort:cpu", "fakepu:0"]
    assert split["outputs"]["out"]["equal"]
    assert split["notes"] == split["left"] == []


def test_a_device_that_is_not_there_any_more_is_told(codedag, tmp_path):
    done = codedag("stages", "profile", "-o", "prof", "--pus", "fakepu:0")
    assert done.returncode == 2
    assert "there is no PU `fakepu:0` here" in done.stderr
    assert not (tmp_path / "prof" / "stages.json").exists()
