"""Extras that are too large to be installed everywhere: their tests, with the packages in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mlflow-skinny", "sqlalchemy", "alembic", "pyarrow")
TESTS = (
    "tests/unit/view/test_exports.py::test_parquet_holds_the_same_table",
    "tests/integration/test_experiment.py::test_an_experiment_goes_to_a_real_mlflow_store",
)


@pytest.mark.long
def test_mlflow_and_parquet_are_written_by_the_real_packages(tmp_path):
    packages = tmp_path / "packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-warn-conflicts"]
    command = [*pip, "--target", str(packages), "-c", str(ROOT / "constraints.txt"), *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"the packages cannot be had here: {done.stderr.strip().splitlines()[-1]}")
    own = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT / "src")])}
    tests = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={tmp_path / 'cache'}", *TESTS]
    done = subprocess.run(tests, cwd=ROOT, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(TESTS)} passed" in done.stdout
    assert "skipped" not in done.stdout
