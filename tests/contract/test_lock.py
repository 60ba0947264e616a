"""The lock file holds everything that set-up installs, down to the last dependency, at the version that is there."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent.parent


def _lock() -> dict[str, str]:
    lines = [x for x in (ROOT / "constraints.txt").read_text().splitlines() if x and not x.startswith("#")]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def _asked() -> list[Requirement]:
    """What set-up asks for: the package's own dependencies, and those of its extras `all` and `dev`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for extra in extras.values() for text in extra)]
    return [Requirement(text) for text in texts if not text.startswith("codedag[")]


def _needed() -> dict[str, str]:
    """Every package that is needed, by why: the chain of packages that asks for it."""
    waiting = [(requirement, "codedag") for requirement in _asked()]
    found: dict[str, str] = {}
    while waiting:
        requirement, asker = waiting.pop()
        name = canonicalize_name(requirement.name)
        environments = [{"extra": extra} for extra in ("", *requirement.extras)]
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[name] = f"{asker} > {name}"
        try:
            texts = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # not installed here: what it needs cannot be known
        for each in map(Requirement, texts):
            if each.marker is None or any(each.marker.evaluate(environment) for environment in environments):
                waiting.append((Requirement(f"{each.name}[{','.join(each.extras)}]"), found[name]))
    return found


def test_the_lock_covers_every_dependency():
    lock = _lock()
    assert {why for name, why in _needed().items() if name not in lock} == set()


def test_what_is_installed_is_what_is_locked():
    lock = _lock()
    wrong = {}
    for name in _needed():
        try:
            installed = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue
        if installed != lock.get(name):
            wrong[name] = (installed, lock.get(name))
    assert wrong == {}
