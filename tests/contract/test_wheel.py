"""A built wheel installs and works: with the C extension and schemas, and with the twin if there is no compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def _build(folder: Path, **environment: str) -> tuple[Path, str]:
    source = folder / "source"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        str(folder / "dist"),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel, done.stdout + done.stderr


def _run_installed(wheel: Path, folder: Path, code: str) -> str:
    target = folder / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.long
def test_wheel_has_the_extension_and_the_schemas(tmp_path):
    wheel, _ = _build(tmp_path)
    names = zipfile.ZipFile(wheel).namelist()
    assert [n for n in names if n.startswith("codedag/instrument/_site.") and n.endswith((".so", ".pyd"))]
    assert "codedag/ir/schemas/graph.schema.json" in names
    assert "codedag/py.typed" in names
    assert "codedag/experiment/templates/Dockerfile.pytorch" in names
    code = "import codedag, codedag.instrument.sites as s; print(codedag.__file__, repr(s.why_twin))"
    out = _run_installed(wheel, tmp_path, code)
    assert str(tmp_path) in out
    assert out.strip().endswith("''")


@pytest.mark.long
def test_wheel_without_a_compiler_says_so_and_works(tmp_path):
    wheel, said = _build(tmp_path, CC="/bin/false")
    assert "was NOT built" in said
    code = "import codedag.instrument.sites as s; print(s.native.__name__, s.why_twin)"
    out = _run_installed(wheel, tmp_path, code)
    assert "codedag.instrument._twin" in out
    assert "C extension is not there" in out
