"""Whole packages looked into: the same results to the last bit, and their own tests end as they do without us."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs"
#: Where unpacked source archives stay: beside the packages that they are of.
SOURCES = Path(sys.prefix) / "share" / "codedag-test-sources"


@dataclass(frozen=True)
class Package:
    """A package, and the slice of its own tests that runs without a network in reasonable time."""

    name: str
    distribution: str
    tests: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    installed_tests: bool = False


PACKAGES = [
    Package(
        "networkx",
        "networkx",
        tests=(
            "networkx.algorithms.shortest_paths", "networkx.algorithms.centrality", "networkx.classes",
            "networkx.utils", "networkx.linalg", "networkx.readwrite",
        ),
        installed_tests=True,
    ),
    Package("albumentations", "albumentations"),
    Package(
        "librosa",
        "librosa",
        tests=tuple(f"tests/test_{part}.py" for part in ("notation", "intervals", "sequence", "dtw", "filters")),
    ),
    Package(
        "skimage",
        "scikit-image",
        # its conftest draws the report, with a package of its own; the data for rank are not in the archive
        options=("--noconftest", "--ignore-glob=/*/test_rank.py"),
        tests=("tests/skimage/filters", "tests/skimage/color", "tests/skimage/exposure", "tests/skimage/util"),
    ),
]  # fmt: skip
by_name = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)


def _needs(package: Package) -> None:
    if importlib.util.find_spec(package.name) is None:
        pytest.skip(f"{package.distribution} is not installed")


def _environment(tmp_path: Path, home: Path) -> dict[str, str]:
    settings = {"CODEDAG_HOME": str(home), "NUMBA_CACHE_DIR": str(SOURCES / "numba"), "MPLCONFIGDIR": str(tmp_path)}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    return {**os.environ, **settings, **threads, "PYTHONHASHSEED": "0", "NO_ALBUMENTATIONS_UPDATE": "1"}


# -- results


@pytest.mark.long
@by_name
def test_results_are_the_same_to_the_last_bit(package: Package, tmp_path: Path, codedag_home: Path):
    _needs(package)
    runs = [_script(package, drill, tmp_path, codedag_home) for drill in ("", package.name, package.name)]
    assert len({stdout for stdout, _ in runs}) == 1
    for _, seen in runs[1:]:  # the second of them takes its code from the cache
        assert seen["failure"] is None
        assert seen["left_plain"] == {}
        assert seen["files"] > 20
        assert seen["operations"] > 100


def _script(package: Package, drill: str, tmp_path: Path, home: Path) -> tuple[str, dict[str, Any]]:
    script = PROGRAMS / f"package_{package.name}.py"
    command = [sys.executable, str(HERE / "drilling.py"), drill, str(script)]
    done = subprocess.run(
        command, cwd=tmp_path, env=_environment(tmp_path, home), capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(done.stderr.splitlines()[-1])


# -- the packages' own tests


@pytest.mark.long
@by_name
def test_its_own_tests_end_as_they_do_without_us(package: Package, tmp_path: Path, codedag_home: Path):
    _needs(package)
    tests = package.tests if package.installed_tests else _tests_of(package)
    plain, _ = _outcomes(package, "", tests, tmp_path, codedag_home)
    drilled, seen = _outcomes(package, package.name, tests, tmp_path, codedag_home)
    assert seen["failure"] is None
    assert seen["files"] > 20
    assert sum(outcome == "passed" for (_, when), outcome in plain.items() if when == "call") > 100
    assert {
        key: (plain.get(key), drilled.get(key)) for key in plain | drilled if plain.get(key) != drilled.get(key)
    } == {}


def _outcomes(
    package: Package, drill: str, tests: tuple[str, ...], tmp_path: Path, home: Path
) -> tuple[dict[tuple[str, str], str], dict[str, Any]]:
    folder = tmp_path / (drill or "plain")
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    outcomes = folder / "outcomes"
    settings = {"DRILL": drill, "OUTCOMES": str(outcomes), "PYTHONPATH": _path(str(HERE))}
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "drilling", "-p", "no:cacheprovider",
        "-p", "no:xdist", "-c", str(folder / "pytest.ini"), *package.options,
        *(("--pyargs",) if package.installed_tests else ()), *tests,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, env=_environment(tmp_path, home) | settings, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-3000:]  # some tests may fail: in both runs
    *lines, seen = [json.loads(line) for line in outcomes.read_text().splitlines()]
    return {(name, when): outcome for name, when, outcome in lines}, seen


def _path(first: str) -> str:
    return os.pathsep.join([first, *filter(None, [os.environ.get("PYTHONPATH")])])


def _tests_of(package: Package) -> tuple[str, ...]:
    source = _source_of(package.distribution)
    if source is None:
        pytest.skip(f"the source archive of {package.distribution} cannot be had from the package index")
    if not package.tests:
        assert not list(source.rglob("test_*.py")), "this archive does hold tests: name a slice of them"
        pytest.skip(f"the source archive of {package.distribution} holds no tests")
    return tuple(str(source / test) for test in package.tests)


@functools.cache
def _source_of(distribution: str) -> Path | None:
    """The unpacked source archive of exactly the installed version, or None.

    pip unpacks an archive to ask its build system about it.  Not to have that build system is what is wanted here: pip
    gives up before it builds anything, and leaves what it unpacked.
    """
    version = importlib.metadata.version(distribution)
    target = SOURCES / f"{distribution}-{version}"
    if not target.exists():
        SOURCES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=SOURCES) as folder:
            options = ("--quiet", "--no-clean", "--no-deps", "--no-build-isolation", "--no-binary", ":all:")
            command = [sys.executable, "-m", "pip", "download", *options, "-d", folder, f"{distribution}=={version}"]
            subprocess.run(command, env={**os.environ, "TMPDIR": folder}, capture_output=True, timeout=600, check=False)
            found = [path.parent for path in Path(folder).glob("pip-*/*/PKG-INFO")]
            if found:
                shutil.move(str(found[0]), target)
    return target if target.exists() else None
