from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from codedag.ir.verdict import No
from codedag.tune.compiler import find_compiler


@pytest.fixture
def compiler():
    """The compiler of this machine; tests that need one are skipped where there is none."""
    found = find_compiler()
    if isinstance(found, No):
        pytest.skip(found.reason)
    return found


@pytest.fixture
def script(tmp_path):
    """Writes an executable shell script and returns its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


@pytest.fixture
def child_environment(codedag_home):
    """The environment of a Python child that can import what is under test."""
    import codedag

    source = str(Path(codedag.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "CODEDAG_HOME": str(codedag_home)}
