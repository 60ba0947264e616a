"""Chains on bytes go through a table that was made in the floating-point mode of the thread that uses it."""

from __future__ import annotations

import pytest

from codedag.ir import load

pytest.importorskip("torch")


def test_a_table_belongs_to_a_floating_point_mode(plain, codedag, programs, tmp_path):
    expected = plain(programs / "float_modes.py")
    assert expected.returncode == 0, expected.stderr
    got = codedag("run", "-o", tmp_path / "run", programs / "float_modes.py")
    assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
    report = load(tmp_path / "run").report
    assert report.verdict.identical
    (change,) = [each for each in report.changes if each.kind == "fuse"]
    assert change.calls > 8 * 30 / 2, change  # most calls are made in threads that flush
