"""The directory of one run: made before the program starts, finished after it ended, never half-written."""

from __future__ import annotations

import datetime
import os
import platform
import re
import sys
import uuid
from os import stat  # by name: a program may leave a mock on the module
from pathlib import Path

from msgspec.structs import replace

from codedag._version import __version__
from codedag.instrument.guard import Failed, after
from codedag.instrument.launch import Target
from codedag.ir import BadFile, CannotWrite, CodedagError, Events, Graph, RunInfo, data_dir, load, save
from codedag.ir.costs import CostTable
from codedag.ir.installed import version_of
from codedag.ir.machine import Machine
from codedag.ir.plan import Plan
from codedag.ir.report import Report
from codedag.ir.store import FILE_NAMES

_ANOTHER = "Name a new or an empty directory, or that of an earlier run, which is then replaced."

_REPORTED = (
    "numpy",
    "torch",
    "opencv-python-headless",
    "opencv-python",
    "pillow",
    "scipy",
    "numba",
    "pandas",
    "librosa",
)


class Keeper:
    """Writes the files of one run; what cannot be written becomes a note and never disturbs the program."""

    def __init__(self, command: str, target: Target, directory: str | None, started: str = "") -> None:
        if directory == "":
            raise CannotWrite("the name of the run directory is empty", hint=_ANOTHER)
        self.asked = directory is not None
        self.has_workers = False  # whether processes that were forked may have written what they did
        self.has_page = True  # whether the report page is written too
        self.path = Path(directory).absolute() if directory is not None else _new_directory(target)
        self.notes: list[str] = []
        self.broken = ""
        self.held_up = 0.0
        self._begun = False
        self._under = _root()
        self._info = RunInfo(
            command=command,
            argv=[*(["-m"] if target.module else []), target.name, *target.args],
            cwd=os.getcwd(),
            versions=loaded_versions(),
            status="running",
            started=started or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            script=target.name,
        )

    @property
    def home(self) -> str:
        """The directory in which the program was started."""
        return self._info.cwd

    def begin(self) -> None:
        """Makes the directory; raises only if the user named it, since then it was asked for.

        Files of an earlier run that is there are taken away: what this run does not write must not look like its own.
        """
        try:
            if self.asked:
                _refuse_foreign(self.path)
            save(self._info, self.path / "run.json")
            self._begun = True
            _clear(self.path)
        except CodedagError as error:
            if self.asked:
                raise
            self.broken = error.message

    def left(self, what: str, done: object) -> None:
        """Notes that something which is done once the program has ended did not work."""
        if isinstance(done, Failed):
            self.notes.append(f"{what}: {done.reason}")

    def keep(self, *things: Graph | CostTable | Machine | Plan | Report | Events) -> None:
        """Writes some of graph.json, costs.json, machine.json, plan.json, report.json and events."""
        for thing in things:
            kind = "costs" if isinstance(thing, CostTable) else type(thing).__name__.lower()
            self._save(thing, FILE_NAMES[kind])

    def end(self, status: str, exit_code: int, recorder_seconds: float = 0.0) -> None:
        """Writes how the run ended, also if another file could not be written."""
        versions = after(loaded_versions)
        notes = [*self.notes, f"the run could not be written: {self.broken}"] if self.broken else self.notes
        done = replace(
            self._info, status=status, exit_code=exit_code, notes=notes, recorder_seconds=recorder_seconds,
            held_up=self.held_up, versions=self._info.versions if isinstance(versions, Failed) else versions,
        )  # fmt: skip
        self._save(done, "run.json")

    def drop(self) -> None:
        """Removes the run directory, unless the user named it: nobody will look at this run."""
        if self._begun and not self.asked:
            from shutil import rmtree

            rmtree(self.path, ignore_errors=True)

    def _save(self, thing: Graph | CostTable | Machine | Plan | Report | Events | RunInfo, name: str) -> None:
        if not self._begun:
            return
        done = after(self._write, thing, name)
        if isinstance(done, Failed):
            self.broken = self.broken or done.reason

    def _write(self, thing: Graph | CostTable | Machine | Plan | Report | Events | RunInfo, name: str) -> None:
        if _root() != self._under:
            raise CannotWrite("the program has changed its root directory")
        save(thing, self.path / name)


def _refuse_foreign(path: Path) -> None:
    """Raises if something is there that is not a run: its files are not ours to replace."""
    try:
        if not path.exists():
            return
        if not path.is_dir():
            raise CannotWrite(f"{path} is a file, and a run is a directory", hint=_ANOTHER)
        if any(path.iterdir()):
            load(path / "run.json", "run")
    except BadFile as error:
        raise CannotWrite(f"{path} holds other files and is not a run ({error.message})", hint=_ANOTHER) from error
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}", hint=_ANOTHER) from error


def _clear(path: Path) -> None:
    """Removes what an earlier run left; files that no run writes stay."""
    try:
        for name in {*FILE_NAMES.values(), "report.html"} - {"run.json"}:
            (path / name).unlink(missing_ok=True)
        for record in (path / "records").glob("*.json"):
            record.unlink(missing_ok=True)
    except OSError as error:
        raise CannotWrite(f"cannot replace the run {path}: {error.strerror or error}", hint=_ANOTHER) from error


def _root() -> tuple[int, int]:
    """What tells the root directory of this process from others."""
    found = stat("/")  # noqa: PTH116
    return found.st_dev, found.st_ino


def _new_directory(target: Target) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(target.name).stem) or "run"
    return data_dir() / "runs" / f"{stamp}-{name}-{uuid.uuid4().hex[:6]}"


def _system() -> str:
    """What Python calls the platform; on Linux without the process that it starts to be told of the processor."""
    if not sys.platform.startswith("linux"):
        return platform.platform()
    system, libc = os.uname(), os.confstr("CS_GNU_LIBC_VERSION")
    words = [system.sysname, system.release, system.machine]
    return "-".join([*words, "with", libc.replace(" ", "")] if libc else words)


def loaded_versions() -> dict[str, str]:
    """Versions of Python, of CodeDAG and of the libraries that the program has loaded."""
    found = {"python": platform.python_version(), "codedag": __version__, "platform": _system()}
    loaded = {name.partition(".")[0] for name in sys.modules}
    for package in _REPORTED:
        module = {"pillow": "PIL", "opencv-python-headless": "cv2", "opencv-python": "cv2"}.get(package, package)
        version = version_of(package) if module in loaded else None
        if version is not None:
            found[package] = version
    return found
