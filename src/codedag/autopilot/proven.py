"""The plans of earlier runs: what was proven for a program is kept, and made from the start of its next run.

An entry holds for the program, the versions of Python, CodeDAG and the libraries, and the processor that it names; each
change in it for one version of one source file.  Whatever does not fit is left out, and the run says so.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from codedag._version import __version__
from codedag.autopilot.shares import Proven
from codedag.instrument.cache import rewriter_version
from codedag.instrument.launch import Target
from codedag.ir.errors import CannotWrite
from codedag.ir.fields import Natural
from codedag.ir.files import write_atomically
from codedag.ir.installed import version_of
from codedag.ir.places import cache_dir
from codedag.ir.plan import MOVES
from codedag.ir.sha256 import sha256
from codedag.tune.machine_key import machine_key

MOST_ENTRIES = 200
MOST_NBYTES = 4 << 20  # of one entry; a real one has some kilobytes
TRIES = 2  # runs that begin with the proofs which earlier ones ended before


class Wanted(msgspec.Struct, frozen=True):
    """A substitution that a run wanted and ended before it was proven, and how many runs asked for it first."""

    source: str
    into: str
    tries: Natural = 0


class Entry(msgspec.Struct, kw_only=True, frozen=True):
    """What was proven for one program."""

    format: Literal["codedag/proven"] = "codedag/proven"
    version: Literal[1] = 1
    program: str
    machine: str
    versions: dict[str, str]  # of Python, of CodeDAG, and of the libraries that the program had loaded
    moves: list[Proven]
    kernels: list[tuple[Natural, Natural]] = []
    wanted: list[Wanted] = []


@dataclass(slots=True)
class Store:
    """The entry of one program in the cache; a folder that cannot be used costs only time."""

    target: Target
    allow: Iterable[str] = ()
    why_not: str = ""
    wanted: list[Wanted] = field(default_factory=list)  # what earlier runs ended before
    _folder: Path = field(default_factory=lambda: cache_dir() / "plans")

    @property
    def path(self) -> Path:
        """The file of the entry."""
        facts = "\0".join([self.program, *sorted(self.allow)])
        return self._folder / f"{sha256(facts.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"

    @property
    def program(self) -> str:
        """What is run, as it is told apart from other programs."""
        return f"-m {self.target.name} in {os.getcwd()}" if self.target.module else self.target.path

    def load(self) -> Entry | None:
        """What an earlier run proved, if it holds here and now; else None, and `why_not` says why."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        try:
            entry = msgspec.json.decode(data[: MOST_NBYTES + 1], type=Entry)
        except msgspec.MsgspecError as error:
            self.why_not = f"the plan of an earlier run cannot be read ({error}): {self.path}"
            return None
        self.why_not = self._why_not(entry)
        if self.why_not:
            return None
        self.wanted = entry.wanted
        return entry

    def first(self) -> list[tuple[str, str]]:
        """What is to be proven as soon as the program begins, as source and library."""
        return [(each.source, each.into) for each in self.wanted if each.tries < TRIES]

    def _why_not(self, entry: Entry) -> str:
        if entry.program != self.program:
            return "the plan of an earlier run is for another program"
        if entry.machine != machine():
            return "the plan of an earlier run was made on another machine"
        now = versions(entry.versions)
        for name, was in entry.versions.items():
            if now.get(name) != was and name == "rewriter":
                return "the plan of an earlier run was made with other sources of CodeDAG"
            if now.get(name) != was:
                return f"the plan of an earlier run was made with {name} {was}, here is {now.get(name) or 'none'}"
        return ""

    def keep(
        self, moves: Iterable[Proven], libraries: Iterable[str], kernels: Iterable[tuple[int, int]],
        unproven: Iterable[tuple[str, str]] = (),
    ) -> None:  # fmt: skip
        """Replaces the entry by what is proven now, and what would have been; nothing of both takes it away."""
        kept = [move for move in moves if move.kind in MOVES]
        tries = {(each.source, each.into): each.tries + 1 for each in self.wanted}
        wanted = [Wanted(*each, tries.get(each, 0)) for each in sorted(set(unproven))]
        if not kept and not wanted:
            self.path.unlink(missing_ok=True)
            return
        found = versions({"python": "", "codedag": "", "rewriter": "", **dict.fromkeys(libraries, "")})
        entry = Entry(
            program=self.program, machine=machine(), versions=found, moves=kept, kernels=sorted(set(kernels)),
            wanted=wanted,
        )  # fmt: skip
        try:
            write_atomically(self.path, msgspec.json.encode(entry))
            self._bound()
        except (CannotWrite, OSError):
            return  # the next run proves again

    def _bound(self) -> None:
        """Drops the oldest entries beyond the most that are kept."""
        found = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in found[:-MOST_ENTRIES]:
            path.unlink(missing_ok=True)


def versions(of: Mapping[str, str]) -> dict[str, str]:
    """The versions here of Python, CodeDAG, its rewriter and these libraries; nothing is imported."""
    own = {"python": platform.python_version(), "codedag": __version__, "rewriter": rewriter_version()}
    found = {name: own[name] if name in own else version_of(name) for name in of}
    return {name: version for name, version in found.items() if version is not None}


def machine() -> str:
    """What stands for this machine in an entry."""
    return sha256(machine_key().encode()).hexdigest()
