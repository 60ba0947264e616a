"""Running real programs in fresh interpreters, plain and under the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"

#: Says yes to every trial that found no difference, however long it has observed: the machine may be busy.
ALWAYS_FASTER = """
import codedag.autopilot.pilot as pilot
import codedag.migrate.trial as trial
trial.Trial.gain = lambda self: 2.0
pilot.GRACE = 1e9
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def programs() -> Path:
    return PROGRAMS


@pytest.fixture
def plain(tmp_path: Path) -> Run:
    """plain("x.py", "arg"): the program as Python runs it."""

    def run(*args: object, **settings: object) -> subprocess.CompletedProcess[str]:
        return _run([sys.executable, *map(str, args)], tmp_path, settings)

    return run


@pytest.fixture
def codedag(tmp_path: Path, codedag_home: Path) -> Run:
    """codedag("run", "x.py"): the command line with its own home, planning at once: no test depends on time."""

    def run(*args: object, **settings: object) -> subprocess.CompletedProcess[str]:
        environment = {"CODEDAG_HOME": str(codedag_home), "CODEDAG_SYNCHRONOUS": "1", **settings.pop("env", {})}  # type: ignore[dict-item]
        return _run([sys.executable, "-m", "codedag", *map(str, args)], tmp_path, {"env": environment, **settings})

    return run


@pytest.fixture(scope="session")
def faster(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which whatever gives the same is taken to be faster: then no test depends on a clock."""
    folder = tmp_path_factory.mktemp("faster")
    (folder / "sitecustomize.py").write_text(ALWAYS_FASTER)
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def _run(command: list[str], cwd: Path, settings: dict[str, object]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings.pop("env", {})}  # type: ignore[dict-item]
    return subprocess.run(
        command, cwd=settings.pop("cwd", cwd), env=environment, capture_output=True, text=True, timeout=600, **settings
    )
