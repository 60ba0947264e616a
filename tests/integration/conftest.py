"""Running real programs in fresh interpreters, plain and under the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"

#: A package that adds the device `fakepu` to torch, which loads it by itself.
AUTOLOAD = """
kept = None


def autoload():
    global kept
    import second_device

    kept = second_device.start()
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
    """codedag("run", "x.py"): the command line with its own home, planning at once: no decision depends on time."""

    def run(*args: object, **settings: object) -> subprocess.CompletedProcess[str]:
        environment = {"CODEDAG_HOME": str(codedag_home), "CODEDAG_SYNCHRONOUS": "1", **settings.pop("env", {})}  # type: ignore[dict-item]
        told = ["-v"] if args[:1] == ("run",) else []  # everything, not the five lines
        return _run(
            [sys.executable, "-m", "codedag", *told, *map(str, args)], tmp_path, {"env": environment, **settings}
        )

    return run


@pytest.fixture
def with_device(tmp_path: Path) -> dict[str, str]:
    """An environment in which a package adds the device `fakepu` to torch."""
    folder = tmp_path / "packages"
    information = folder / "fakepu-1.0.dist-info"
    information.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "second_device.py", folder)
    (folder / "fakepu_backend.py").write_text(AUTOLOAD)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: fakepu\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[torch.backends]\nfakepu = fakepu_backend:autoload\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def _run(command: list[str], cwd: Path, settings: dict[str, object]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings.pop("env", {})}  # type: ignore[dict-item]
    return subprocess.run(
        command, cwd=settings.pop("cwd", cwd), env=environment, capture_output=True, text=True, timeout=600, **settings
    )
