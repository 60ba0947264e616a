"""Programs that use what could be kept in many ways: plain, in a first and in a second run they print the same."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BANK = runpy.run_path(str(Path(__file__).resolve().parent.parent / "programs" / "kept_values.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", BANK["PROGRAMS"])
def test_the_output_of_both_runs_is_that_of_the_plain_program(plain, codedag, tmp_path, name):
    script = tmp_path / "script.py"
    script.write_text(BANK["HEAD"] + BANK["PROGRAMS"][name] + BANK["LOOP"])
    expected = _ran(plain, tmp_path, script)
    assert expected.returncode == 0, expected.stderr
    for number in ("first", "second"):
        got = _ran(codedag, tmp_path, "run", script)
        assert (got.returncode, got.stdout) == (0, expected.stdout), f"{number} run: {got.stderr}"


def _ran(run, tmp_path, *args, **settings):
    """What a run prints that has a folder of files of its own, always at the same place."""
    folder = tmp_path / "files"
    folder.mkdir()
    done = run(*args, folder, **settings)
    folder.rename(tmp_path / f"files {len(list(tmp_path.iterdir()))}")
    return done
