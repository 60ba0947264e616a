"""The folder of an experiment: its configuration, its two programs, and the results they wrote."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from codedag.ir.errors import BadFile, CannotWrite, CodedagError
from codedag.ir.files import write_atomically

Framework = Literal["pytorch", "tensorflow"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
MODES = ("baseline", "optimization")

# What pip is asked for, by framework; at the version that is installed here, if there is one.
_PACKAGES = {"pytorch": ("torch", "numpy", "matplotlib"), "tensorflow": ("tensorflow", "numpy", "matplotlib")}
_NAMES = {"tensorflow": ("tensorflow-cpu", "tensorflow")}

Positive = Annotated[int, msgspec.Meta(ge=1)]


class BadName(CodedagError):  # noqa: N818 - reads as what happened
    """A name that cannot be that of an experiment."""

    slug = "bad-name"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """experiment_config.json; programs may keep more in it."""

    name: str
    framework: Framework
    epochs: Positive = 2
    batch_size: Positive = 32
    seed: int = 42
    dataset: str = "data"


@dataclass(frozen=True, slots=True)
class Folder:
    """An experiment on disk."""

    path: Path
    config: Config

    @property
    def docker(self) -> Path:
        """Where the Dockerfiles of all experiments are."""
        return self.path.parent / "docker"

    def program(self, mode: str) -> Path:
        """The program of a mode; raises if it is not there."""
        place = self.path / f"{mode}.py"
        if not place.is_file():
            raise BadFile(f"{place}: there is no such program", hint="`codedag experiment new` makes one.")
        return place

    def newest(self, mode: str) -> tuple[Path, dict[str, Any]] | None:
        """The newest results file that has this mode, and what it says of it."""
        for place in sorted(self.path.glob("results/*.json"), key=lambda each: each.stat().st_mtime, reverse=True):
            modes = _modes(place)
            if mode in modes:
                return place, modes[mode]
        return None


def _modes(place: Path) -> dict[str, Any]:
    try:
        modes = json.loads(place.read_text())["modes"]
    except (OSError, ValueError, KeyError, TypeError):  # not a results file
        return {}
    return modes if isinstance(modes, dict) else {}


def find(path: Path) -> Folder:
    """The experiment in this folder, its configuration checked."""
    place = path / "experiment_config.json"
    try:
        return Folder(path.absolute(), msgspec.json.decode(place.read_bytes(), type=Config))
    except OSError as error:
        hint = "Go to the folder of an experiment, or name it; `codedag experiment new NAME` makes one."
        raise BadFile(f"cannot read {place}: {error.strerror}", hint=hint) from error
    except msgspec.DecodeError as error:
        raise BadFile(f"{place}: {error}", hint="Correct the field; docs/experiments.md lists them.") from error


def create(name: str, framework: Framework, where: Path) -> Folder:
    """A new experiment below this directory, and the Dockerfiles beside it if they are not there yet."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise BadName(f"{name!r} cannot be the name of an experiment", hint="Use letters, digits, '.', '-' and '_'.")
    path = where / (name if name.startswith("kaggle_") else f"kaggle_{name}")
    if path.exists():
        raise CannotWrite(f"{path} is already there", hint="Choose another name, or remove it.")
    made = Folder(path.absolute(), Config(name=name, framework=framework))
    try:
        for place, text in _files(made).items():
            if not place.exists():
                write_atomically(place, text.encode())
    except CannotWrite:
        shutil.rmtree(made.path, ignore_errors=True)  # half an experiment is in the way of the next try
        raise
    return made


def _files(made: Folder) -> dict[Path, str]:
    framework = made.config.framework
    config = json.dumps(msgspec.to_builtins(made.config), indent=2) + "\n"
    return {
        **{made.docker / f"Dockerfile.{each}": template(f"Dockerfile.{each}") for each in FRAMEWORKS},
        made.path / "baseline.py": template(f"baseline_{framework}.py.txt"),
        made.path / "optimization.py": template("optimization.py.txt"),
        made.path / "requirements.txt": _requirements(framework),
        made.path / "experiment_config.json": config,
    }


def template(name: str) -> str:
    """The text of a file that new experiments begin with."""
    return (importlib.resources.files("codedag.experiment") / "templates" / name).read_text()


def _requirements(framework: Framework) -> str:
    return "".join(f"{_pinned(package)}\n" for package in _PACKAGES[framework])


def _pinned(package: str) -> str:
    """The package at the version that is installed here; any version if it is not."""
    for name in _NAMES.get(package, (package,)):
        try:
            return f"{name}=={importlib.metadata.version(name).partition('+')[0]}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return package
