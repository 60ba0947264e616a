"""`codedag run --plan` with plans that place calls on a device: the guides' format, plan.json, and what a run wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

pytest.importorskip("cv2")
pytest.importorskip("torch")

PROGRAM = str(Path(__file__).resolve().parent / "placed_program.py")
NAMES = ("cv2.resize", "cv2.flip", "cv2.copyMakeBorder")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("placed")


def run(folder, *arguments, before=("-m", "codedag", "run"), code=0):
    environment = {**os.environ, "CODEDAG_HOME": str(folder / "home")}
    command = [sys.executable, "-W", "ignore", *before, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def expected(folder):
    return run(folder, PROGRAM, before=()).stdout


def written(folder, name, content):
    (folder / name).write_text(json.dumps(content))
    return name


@pytest.fixture(scope="module")
def migrated(folder):
    """A run with a plan in the guides' format."""
    devices = {f"Photos.__getitem__/prepare/{name}": "fakepu:0" for name in NAMES}
    plan = {"context_device_map": {**devices, "cv2.medianBlur": "cuda:0", "cv2.GaussianBlur": "cuda:0"}}
    name = written(folder, "migration_plan.json", plan)
    return run(folder, "--plan", name, "-o", "first", PROGRAM, "--keep")


def moves(folder, name):
    return json.loads((folder / name / "plan.json").read_text())["moves"]


def test_a_plan_of_the_guides_keeps_values_on_their_device(folder, migrated, expected):
    assert migrated.stdout == expected
    assert "moved 1 1" in migrated.stderr
    report = json.loads((folder / "first" / "report.json").read_text())
    assert report["verdict"]["identical"]
    assert [(one["kind"], one["variant"], one["calls"]) for one in report["changes"]] == [("place", "fakepu:0", 20)]
    assert [move["chain"] for move in moves(folder, "first")] == [list(NAMES)]


def test_a_device_that_is_absent_is_a_stated_decline(folder, migrated):
    declined = json.loads((folder / "first" / "report.json").read_text())["declined"]
    absent = {one["what"]: one["reason"] for one in declined if "cuda" in one["what"]}
    assert absent == {f"cv2.{n} on cuda:0": "cuda:0 is not on this machine" for n in ("medianBlur", "GaussianBlur")}


@pytest.mark.long
def test_what_a_run_wrote_can_be_replayed(folder, migrated, expected):
    again = run(folder, "--plan", "first/plan.json", "-o", "second", PROGRAM, "--keep")
    assert again.stdout == expected
    assert "moved 1 1" in again.stderr
    assert [move["chain"] for move in moves(folder, "second")] == [list(NAMES)]


@pytest.mark.long
def test_placements_of_a_plan_are_applied(folder, migrated, expected):
    seconds = {"makespan_seconds": 0.0, "lower_bound_seconds": 0.0, "baseline_seconds": 0.0}
    facts = {"context": "", "file": PROGRAM, "line": 25, "pu": "fakepu:0", "variant": "torch"}
    placed = [{**facts, "op": n, "name": name, "context": f"prepare/{name}"} for n, name in enumerate(NAMES)]
    plan = {"format": "codedag/plan", "version": 1, "sources": [], "placement": placed, "moves": [], **seconds}
    found = run(folder, "--plan", written(folder, "plan.json", plan), "-o", "third", PROGRAM, "--keep")
    assert found.stdout == expected
    assert "moved 1 1" in found.stderr


@pytest.mark.long
def test_workers_use_the_device_and_hand_on_arrays(folder, migrated, expected):
    found = run(folder, "--plan", "migration_plan.json", "-o", "workers", PROGRAM, "--keep", "--workers")
    assert found.stdout == expected
    assert "moved 1 1" in found.stderr
    assert [move["chain"] for move in moves(folder, "workers")] == [list(NAMES)]


@pytest.mark.long
def test_what_is_not_faster_is_taken_back(folder, migrated, expected):
    found = run(folder, "--plan", "migration_plan.json", "-o", "slow", PROGRAM)
    assert found.stdout == expected
    assert moves(folder, "slow") == []
    reasons = [each.reason for each in load(folder / "slow").report.declined]
    assert any("not faster here" in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"context_device_map": 5}, "context_device_map"),
        ({"context_device_map": {"cv2.flip": 5}}, "context_device_map[cv2.flip]"),
        ({"context_device_map": {}, "version": 7}, "version"),
        ({"context_device_map": {}, "variants": []}, "variants"),
    ],
)
def test_a_plan_that_cannot_be_used_is_refused_before_the_program_starts(folder, content, field):
    found = run(folder, "--plan", written(folder, "bad.json", content), PROGRAM, code=2)
    assert found.stdout == ""
    assert field in found.stderr
    assert "bad.json" in found.stderr
