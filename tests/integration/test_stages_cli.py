"""`codedag plan --stages` and `codedag profile --together` as a user runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from msgspec import UNSET

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "plan"))

from plan_instances import instance

from codedag.ir import load

PROGRAM = """
import numpy as np

def prepare(index):
    numbers = np.arange(4_000.0) * index
    return np.sqrt(np.sort(numbers)).sum()

print(sum(float(prepare(index)) for index in range(20)))
"""


def written(folder, *, beside=(), threads=2):
    """Files of a loop of ten rounds with two long operations."""
    made = instance([80, 80, 0], [(0, 1), (1, 2)], {"cpu": [30.0, 30.0, 1.0]}, cpu={"threads": threads})
    for op in made["graph"]["ops"]:
        op |= {"count": 10, "effects": "pure"}
    made["costs"]["beside"] = [{"op": a, "beside": b, "slowdown": s, "low": s, "high": s} for a, b, s in beside]
    for name in ("graph", "costs", "machine"):
        (folder / f"{name}.json").write_text(json.dumps(made[name]))
    return ["--graph", "graph.json", "--costs", "costs.json", "--machine", "machine.json", "-o", "plan.json"]


def test_stages_are_printed_with_their_gain(codedag, tmp_path):
    done = codedag("plan", *written(tmp_path), "--stages", "2", "--budget", "0")
    assert done.returncode == 0, done.stderr
    assert "stages: 2 for each of 10 rounds, at most 3.1 s a round; 34 s predicted, 1.79 times as fast" in done.stdout
    assert "stage 1: 3 s, 1 operations, most in op 0" in done.stdout
    assert "then a queue of 1" in done.stdout


def test_what_stages_cost_each_other_changes_the_verdict(codedag, tmp_path):
    free = json.loads(codedag("plan", *written(tmp_path), "--stages", "2", "--json").stdout)["stages"]
    assert free["ops"] == [[0], [1, 2]]
    assert free["speed_up"] == pytest.approx(61 / 34)
    slow = written(tmp_path, beside=[(0, 1, 2.2), (1, 0, 2.2)])
    told = json.loads(codedag("plan", *slow, "--stages", "2", "--json").stdout)["stages"]
    assert told["speed_up"] < 1 < free["speed_up"]
    assert told["undisturbed_seconds"] == pytest.approx(34)
    assert "no gain" in codedag("plan", *slow, "--stages", "2").stdout


def test_without_a_loop_there_are_no_stages(codedag, tmp_path):
    files = written(tmp_path)
    graph = json.loads((tmp_path / "graph.json").read_text())
    for op in graph["ops"]:
        op["count"] = 1
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    done = codedag("plan", *files, "--stages", "4")
    assert "stages: no loop of several rounds can be cut" in done.stdout
    assert json.loads(codedag("plan", *files, "--stages", "4", "--json").stdout)["stages"] is None


@pytest.mark.slow
def test_pairs_are_measured_kept_and_used(codedag, tmp_path):
    (tmp_path / "loop.py").write_text(PROGRAM)
    assert codedag("trace", "-o", "run", "loop.py").returncode == 0
    done = codedag("profile", "run", "--pus", "cpu", "--budget", "5", "--together")
    assert done.returncode == 0, done.stderr
    assert "side by side in two threads: times as long" in done.stdout
    assert "numpy.sort" in done.stdout
    rows = load(tmp_path / "run").costs.beside
    assert (rows is UNSET) == ("not kept for plans" in done.stdout)  # others may have the cores
    assert all(row.low <= row.slowdown <= row.high for row in rows or ())
    told = json.loads(codedag("profile", "run", "--pus", "cpu", "--budget", "5", "--json").stdout)
    assert told["together"] is None
    assert load(tmp_path / "run").costs.beside == rows  # measuring again does not throw them away
    assert codedag("plan", "run", "--stages", "2").returncode == 0
