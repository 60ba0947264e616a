"""Somebody's own test-suite under a plan: the same outcome, and what became of the calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cv2")
pytest.importorskip("scipy")

MEDIAN = "scipy.ndimage.median_filter"
SUITE = """
import cv2
import numpy as np
import pytest
from scipy.ndimage import median_filter

IMAGE = np.random.default_rng(0).integers(0, 255, (80, 90), np.uint8)
EXPECTED = np.median([IMAGE[i : i + 78, j : j + 88] for i in range(3) for j in range(3)], axis=0)

@pytest.mark.parametrize("number", range(30))
def test_inside(number):
    assert (median_filter(IMAGE, 3)[1:-1, 1:-1] == EXPECTED).all()

def test_raises():
    with pytest.raises(RuntimeError):
        median_filter(IMAGE)

def test_that_fails():
    assert median_filter(IMAGE, 3).sum() == 0
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "codedag.plugins.pytest_plan", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("mode", ["sample", pytest.param("strict", marks=pytest.mark.long)])
def test_a_suite_under_a_plan(tmp_path, mode):
    (tmp_path / "plan.json").write_text(json.dumps({"context_device_map": {MEDIAN: "cpu", "os.system": "cpu"}}))
    done = run(tmp_path, "--codedag-plan", "plan.json", "--codedag-mode", mode, "--codedag-stats", "stats.json")
    assert (done.returncode, "1 failed, 31 passed" in done.stdout) == (1, True), done.stdout
    stats = json.loads((tmp_path / "stats.json").read_text())
    median = stats["functions"][MEDIAN]
    assert (stats["verdict"]["verdict"], median["calls"], median["mismatches"]) == ("IDENTICAL", 32, 0)
    assert (median["fast"] > 15) if mode == "sample" else (median["checked"] > 25)
    assert "codedag: IDENTICAL" in done.stdout
    assert f"{MEDIAN}: 32 calls" in done.stdout
    assert "os.system: no calls (no substitution of this function is registered)" in done.stdout


def test_a_suite_of_which_nothing_was_compared_says_so(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps({"context_device_map": {MEDIAN: "cuda:0"}}))
    done = run(tmp_path, "--codedag-plan", "plan.json")
    assert "codedag: no result was compared" in done.stdout
    assert "IDENTICAL" not in done.stdout


@pytest.mark.slow
def test_workers_of_xdist_are_counted_together(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "plan.json").write_text(json.dumps({"context_device_map": {MEDIAN: "cpu"}}))
    done = run(tmp_path, "--codedag-plan", "plan.json", "-n", "2")
    assert "codedag: IDENTICAL" in done.stdout, done.stdout
    assert f"{MEDIAN}: 32 calls" in done.stdout


@pytest.mark.long
def test_without_a_plan_nothing_is_said(tmp_path):
    done = run(tmp_path)
    assert "1 failed, 31 passed" in done.stdout
    assert "codedag" not in done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("{}", (), "plan.json"),
        ('{"context_device_map": {}}', ("--codedag-mode", "sometimes"), "there is no mode 'sometimes'"),
        (None, (), "there is no such file"),
        ('{"context_device_map": {}}', ("--codedag-stats", "."), "cannot write .: "),
    ],
)
def test_bad_plans_are_usage_errors(tmp_path, content, options, words):
    if content is not None:
        (tmp_path / "plan.json").write_text(content)
    done = run(tmp_path, "--codedag-plan", "plan.json", *options)
    assert done.returncode == 4
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_pytest_does_not_mind_that_the_package_is_loaded_already(tmp_path):
    """As under `codedag run -m pytest`: the option's entry point makes pytest look at the whole package."""
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    code = "import codedag, pytest, sys; sys.exit(pytest.main(['-q', '-W', 'error', '-p', 'no:cacheprovider']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr
