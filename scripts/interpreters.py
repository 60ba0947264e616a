"""Tests the package on every other Python of 3.11 to 3.13 that is on this machine: one C source serves them all.

Each interpreter gets an environment of its own (.venv-3.12, ...) with the versions of constraints.txt.  What is not
there is named and left out: an interpreter, or a package that cannot be had without a network.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
BUILD = ["setuptools", "wheel"]
NEEDED = ["numpy", "msgspec", "click", "rich", "psutil", "platformdirs", "pytest", "pytest-xdist", "hypothesis"]
NEEDED += ["jsonschema"]
# Two gigabytes with what they bring: only for the full run, and only if they can be had.
FRAMEWORKS = ["torch", "opencv-python-headless", "pillow", "scipy"]

SHORT = [
    "tests/integration/test_semantics.py",
    "tests/integration/test_semantics_modules.py",
    "tests/integration/test_trace_truth.py",
    "tests/integration/test_gather.py",
    "tests/unit/instrument",
]
FULL = [*SHORT, "tests/integration/test_semantics_launch.py", "tests/integration/test_cli.py", "tests/unit/ir"]
FULL += ["tests/unit/view", "tests/integration/test_view.py"]

FACTS = "import json, sys; print(json.dumps([sys.version_info[:2], sys.implementation.name, sys.base_prefix]))"


def main() -> int:
    options = _options()
    found = interpreters()
    if not found:
        print(f"other interpreters: none of {', '.join(VERSIONS)} found beside {sys.version.split()[0]}; not tested")
        return 0
    if not options.full:
        found = one_of(found, int(options.seed))
    outcomes = {version: _tested(version, python, options) for version, python in found.items()}
    for version, outcome in outcomes.items():
        print(f"python {version}: {outcome}")
    return int(any(outcome.startswith("FAILED") for outcome in outcomes.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all suites, with the frameworks if they can be had")
    parser.add_argument("--seed", default="0", help="seed of the slice of the long suites")
    parser.add_argument("--workers", default="2", help="how many processes run the tests")
    return parser.parse_args()


def interpreters() -> dict[str, str]:
    """The interpreters other than this one, by version: those on the path, then those of pyenv, the newest first."""
    found: dict[str, str] = {}
    for version in VERSIONS:
        if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
            continue
        for python in _candidates(version):
            if _is_cpython(python, version):
                found[version] = python
                break
    return found


def one_of(found: dict[str, str], seed: int) -> dict[str, str]:
    """One of the interpreters, by the seed; the others are named."""
    chosen = sorted(found)[seed % len(found)]
    others = [version for version in found if version != chosen]
    if others:
        print(f"other interpreters: {chosen} by the seed; {', '.join(others)} only in the full run")
    return {chosen: found[chosen]}


def _candidates(version: str) -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    kept = sorted(root.glob(f"{version}.*"), key=lambda path: [int(n) for n in path.name.split(".") if n.isdigit()])
    on_path = shutil.which(f"python{version}")
    return ([on_path] if on_path else []) + [str(path / "bin" / "python") for path in reversed(kept)]


def _is_cpython(python: str, version: str) -> bool:
    """Whether it really starts as this version: a shim of pyenv may stand for nothing."""
    try:
        said = subprocess.run([python, "-c", FACTS], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    if said.returncode:
        return False
    (major, minor), implementation, _ = json.loads(said.stdout)
    return f"{major}.{minor}" == version and implementation == "cpython"


def _tested(version: str, python: str, options: argparse.Namespace) -> str:
    began = time.monotonic()
    try:
        ready = _environment(version, python, options.full)
    except subprocess.CalledProcessError as error:
        why = (error.stderr or error.stdout or "").strip().splitlines()
        return f"not tested: its environment could not be made ({why[-1] if why else error})"
    made = time.monotonic() - began
    code = _run_tests(ready, options)
    words = f"environment {made:.0f} s, tests {time.monotonic() - began - made:.0f} s"
    return f"passed ({words})" if code == 0 else f"FAILED with exit code {code} ({words})"


def _environment(version: str, python: str, full: bool) -> Path:
    """The interpreter of an environment with the pinned packages and this package built for it."""
    place = HERE / f".venv-{version}"
    ready = place / "bin" / "python"
    if not ready.exists():
        _call([python, "-m", "venv", str(place)])
    pip = [str(ready), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pins = ["-c", str(HERE / "constraints.txt")]
    stamp, lock = place / ".packages", (HERE / "constraints.txt").read_text()
    if not stamp.exists() or stamp.read_text() != lock:
        _call([*pip, *pins, *BUILD, *NEEDED])
        stamp.write_text(lock)
    if full:
        _add_frameworks([*pip, *pins, *FRAMEWORKS], version)
    _call([*pip, "--no-build-isolation", "--no-deps", "-e", str(HERE)])
    _call([str(ready), "-c", "import codedag.instrument._site, codedag.trace._gather"])
    return ready


def _add_frameworks(command: list[str], version: str) -> None:
    try:
        _call(command)
    except subprocess.CalledProcessError:
        print(f"python {version}: no {', '.join(FRAMEWORKS)} to be had; tests that need them are skipped")


def _call(command: list[str]) -> None:
    subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True)


def _run_tests(python: Path, options: argparse.Namespace) -> int:
    chosen = [path for path in (FULL if options.full else SHORT) if (HERE / path).exists()]
    command = [str(python), "-m", "pytest", "-q", "--seed", options.seed, *chosen]
    command += ["--full"] if options.full else []
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    run = functools.partial(subprocess.run, cwd=HERE, env=environment)
    failed = run([*command, "-n", options.workers]).returncode
    if failed:
        print("What failed above, alone in a process:")
        failed = run([*command, "--last-failed", "--last-failed-no-failures", "none"]).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
