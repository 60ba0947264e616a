"""Where an experiment runs: a virtual environment of its own, a container, or the Python that runs us."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import codedag
from codedag.experiment.folder import FRAMEWORKS, Folder, Framework
from codedag.ir.errors import CodedagError

PACKAGE = Path(codedag.__file__).resolve().parent


class NoEnvironment(CodedagError):  # noqa: N818 - reads as what happened
    """An environment that could not be made; names the command that failed."""

    slug = "no-environment"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that experiments can use: whether it is there, and what it is or how to get it."""

    what: str
    is_there: bool
    detail: str


def check() -> list[Finding]:
    """What is there to run experiments with, and what is missing."""
    pip = _answer([sys.executable, "-m", "pip", "--version"])
    has_venv = _answer([sys.executable, "-c", "import venv, ensurepip"]) is not None
    missing = "install Python's venv module (Debian: python3-venv)"
    findings = [
        Finding("python", True, f"{sys.version.split()[0]} ({sys.executable})"),
        Finding("venv", has_venv, "virtual environments can be made" if has_venv else missing),
        Finding("pip", pip is not None, (pip or "python -m ensurepip brings it").partition(" from ")[0]),
        _docker_finding(),
    ]
    for name, extra in (("matplotlib", "plots"), ("mlflow", "mlflow")):
        findings.append(_package_finding(name, extra))
    return findings


def _package_finding(name: str, extra: str) -> Finding:
    try:
        return Finding(name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, f"optional: pip install 'codedag[{extra}]'")


def _docker_finding() -> Finding:
    if shutil.which("docker") is None:
        return Finding("docker", False, "optional: there is no `docker` command; virtual environments are used")
    version = docker_version()
    if version is None:
        why = "the command is there, but no engine answers (start it, or ask for access to its socket)"
        return Finding("docker", False, f"optional: {why}; virtual environments are used")
    return Finding("docker", True, f"engine {version}")


def docker_version() -> str | None:
    """The version of the engine that answers; None if none does."""
    return _answer(["docker", "version", "--format", "{{.Server.Version}}"]) or None


def _answer(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


# -- virtual environments


def make_venv(folder: Folder, *, fresh: bool = False) -> Path:
    """The Python of the experiment's own environment, made if its requirements have changed since it was, or `fresh`.

    Packages come from where the user's pip is told to get them; this CodeDAG is linked into it.
    """
    place = folder.path / ".venv"
    stamp, wanted = place / ".codedag", _terms(folder)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not fresh and stamp.exists() and stamp.read_text() == wanted:
        return python
    _must([sys.executable, "-m", "venv", "--clear", str(place)], folder.path)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    asked = folder.path / "requirements.txt"
    _must([*install, *_own_requirements(), *(["-r", str(asked)] if asked.exists() else [])], folder.path)
    _link(python, folder.path)
    stamp.write_text(wanted)
    return python


def _terms(folder: Folder) -> str:
    """What the environment depends on."""
    asked = folder.path / "requirements.txt"
    found = hashlib.sha256(asked.read_bytes() if asked.exists() else b"")
    found.update(f"{sys.version} {PACKAGE} {_own_requirements()}".encode())
    return found.hexdigest()


def _own_requirements() -> list[str]:
    """What CodeDAG itself needs, without its extras."""
    return [each.replace(" ", "") for each in importlib.metadata.requires("codedag") or [] if "extra ==" not in each]


def _link(python: Path, cwd: Path) -> None:
    """Makes this very CodeDAG importable in the environment."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(_must([str(python), "-c", code], cwd).strip())
    (site / "codedag").symlink_to(PACKAGE, target_is_directory=True)


def _must(command: Sequence[str], cwd: Path) -> str:
    """What the command prints; raises with its last words if it fails."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    except OSError as error:
        raise NoEnvironment(f"cannot run {command[0]}: {error.strerror}", hint="`codedag experiment check`") from error
    if done.returncode != 0:
        words = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()] or ["it says nothing"]
        raise NoEnvironment(
            f"`{' '.join(command)}` failed: {words[-1].strip()}",
            hint="`codedag experiment check` says what is missing; --no-install runs in the current environment.",
        )
    return done.stdout


# -- containers


def image_of(framework: Framework) -> str:
    """The name of the image that all experiments with this framework begin with."""
    return f"codedag-experiment-{framework}"


def own_image(folder: Folder) -> str:
    """The name of the image of one experiment."""
    return f"codedag-experiment-{re.sub(r'[^a-z0-9_.-]', '-', folder.config.name.lower())}"


def build(docker: Path, frameworks: Sequence[Framework] = FRAMEWORKS) -> list[str]:
    """Builds the images of the Dockerfiles in this directory; returns their names."""
    if docker_version() is None:
        raise NoEnvironment("no Docker engine answers", hint="`codedag experiment check` says what is missing.")
    for framework in frameworks:
        file = docker / f"Dockerfile.{framework}"
        if not file.is_file():
            raise NoEnvironment(f"there is no {file}", hint="`codedag experiment new NAME` makes it.")
        with tempfile.TemporaryDirectory(prefix="codedag-image-") as context:
            shutil.copytree(PACKAGE, Path(context) / "codedag", ignore=shutil.ignore_patterns("__pycache__"))
            _must(["docker", "build", "-t", image_of(framework), "-f", str(file.absolute()), context], docker)
    return [image_of(framework) for framework in frameworks]


def make_image(folder: Folder) -> str:
    """The image of one experiment: that of its framework, with its requirements; built where it is missing."""
    base = image_of(folder.config.framework)
    if _answer(["docker", "image", "inspect", base]) is None:
        build(folder.docker, [folder.config.framework])
    with tempfile.TemporaryDirectory(prefix="codedag-image-") as context:
        asked = folder.path / "requirements.txt"
        (Path(context) / "requirements.txt").write_bytes(asked.read_bytes() if asked.exists() else b"")
        lines = (
            f"FROM {base}",
            "COPY requirements.txt /tmp/",
            "RUN pip install --no-cache-dir -r /tmp/requirements.txt",
        )
        (Path(context) / "Dockerfile").write_text("\n".join(lines) + "\n")
        _must(["docker", "build", "-t", own_image(folder), context], folder.path)
    return own_image(folder)


def in_container(folder: Folder, arguments: Sequence[str]) -> list[str]:
    """The command that runs Python with these arguments in the experiment's container, as this user."""
    user = ["--user", f"{os.getuid()}:{os.getgid()}"] if hasattr(os, "getuid") else []
    mounted = f"{folder.path}:/experiment"
    return ["docker", "run", "--rm", *user, "-v", mounted, own_image(folder), "python", *arguments]
