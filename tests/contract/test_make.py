"""What `make test` relies on: a test that failed beside others is found again and run alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = "def test_red(): assert False\ndef test_green(): pass\n"


def _outcome(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-o", f"cache_dir={folder}/cache", *options, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def test_only_what_failed_is_run_alone(tmp_path):
    alone = re.search(r"^ALONE = (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "test_two.py").write_text(TESTS)
    assert "1 failed, 1 passed" in _outcome(tmp_path)
    again = _outcome(tmp_path, *alone)
    assert "1 failed" in again
    assert "passed" not in again
