"""The script that tests other interpreters finds real ones only, and says why one was left out."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "interpreters.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("interpreters", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _fake(folder: Path, name: str, body: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def _says(version: str, implementation: str = "cpython") -> str:
    major, minor = version.split(".")
    return f"""echo '[[{major}, {minor}], "{implementation}", "/x"]'"""


@pytest.fixture
def elsewhere(script, tmp_path, monkeypatch):
    """A machine on which only what a test puts there is found; we are Python 3.10 on it."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(script, "VERSIONS", ("9.1", "9.2"))
    return tmp_path


def test_a_shim_that_stands_for_nothing_is_passed_over(script, elsewhere):
    _fake(elsewhere / "bin", "python9.1", "echo not installed >&2; exit 127")
    kept = _fake(elsewhere / "pyenv" / "versions" / "9.1.10" / "bin", "python", _says("9.1"))
    _fake(elsewhere / "pyenv" / "versions" / "9.1.9" / "bin", "python", _says("9.1"))
    assert script.interpreters() == {"9.1": kept}


def test_only_the_version_and_the_implementation_asked_for_count(script, elsewhere):
    _fake(elsewhere / "bin", "python9.1", _says("9.2"))
    _fake(elsewhere / "bin", "python9.2", _says("9.2", "pypy"))
    assert script.interpreters() == {}


def test_none_found_is_said_and_no_failure(script, elsewhere, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["interpreters.py"])
    assert script.main() == 0
    assert "none of 9.1, 9.2 found" in capsys.readouterr().out


def test_an_environment_that_cannot_be_made_is_said_and_no_failure(script, elsewhere, monkeypatch, capsys):
    no_network = 'if [ "$1" = -c ]; then ' + _says("9.1") + "; else echo no network >&2; exit 1; fi"
    _fake(elsewhere / "bin", "python9.1", no_network)
    monkeypatch.setattr(script, "HERE", elsewhere)
    monkeypatch.setattr(sys, "argv", ["interpreters.py"])
    assert script.main() == 0
    assert "python 9.1: not tested: its environment could not be made (no network)" in capsys.readouterr().out


def test_a_failing_suite_fails_the_script(script, elsewhere, monkeypatch, capsys):
    _fake(elsewhere / "bin", "python9.1", _says("9.1"))
    monkeypatch.setattr(script, "_environment", lambda *told: Path(sys.executable))
    monkeypatch.setattr(script, "_run_tests", lambda *told: 1)
    monkeypatch.setattr(sys, "argv", ["interpreters.py"])
    assert script.main() == 1
    assert "python 9.1: FAILED with exit code 1" in capsys.readouterr().out


def test_this_interpreter_is_not_tested_again(script):
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" not in script.interpreters()


def test_it_has_a_help():
    assert subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True).returncode == 0


def test_a_short_run_takes_one_by_the_seed_and_names_the_others(script, capsys):
    found = {"3.12": "a", "3.13": "b"}
    assert [script.one_of(found, seed) for seed in (4, 5)] == [{"3.12": "a"}, {"3.13": "b"}]
    assert "3.12 by the seed; 3.13 only in the full run" in capsys.readouterr().out
    assert script.one_of({"3.13": "b"}, 4) == {"3.13": "b"}
    assert capsys.readouterr().out == ""
