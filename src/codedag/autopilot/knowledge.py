"""Knowledge of a program from its earlier runs: changes, run lengths, hot functions, "nothing to gain".

Arguments and data sizes are evidence, not part of what tells programs apart: a run with another `--seed` begins with
what is known.  What is known holds for one machine and one version of Python and CodeDAG; each change for one version
of its source file and of the libraries that it names.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from codedag._version import __version__
from codedag.ir.fields import Factor, Natural, NBytes, Seconds, Share
from codedag.ir.installed import version_of
from codedag.ir.report import HotFunction, HotTurn
from codedag.ir.sha256 import sha256
from codedag.ir.verdict import Code

DIFFERENT = 2.0  # times as much (share, bytes) from which on a change or a program is looked at again
BLOCKS_MIN, LOAD_MAX, NOISE_MAX = 4, 1.5, 0.05  # blocks, runnable threads per core, ratio: a verdict to rely on
NOTHING_RUNS = 4  # runs until the next look at a program in which nothing was to be gained

IN_USE, TAKEN_BACK = "in-use", "taken-back"  # states of a change
SLOWER, MISMATCH = "slower", "mismatch"  # reason codes
NOT_FASTER = frozenset({SLOWER, "no-gain", "loss", "never-hit"})


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """A change by its place in one version of one source file: enough to make it again in another process."""

    kind: str
    file: str  # absolute
    sha256: str
    function: str
    sites: list[Natural]
    chain: list[str]
    variant: str = ""
    equivalence: str = "exact"

    @property
    def key(self) -> tuple[str, str, tuple[int, ...]]:
        """What tells two changes apart."""
        return self.kind, self.file, tuple(self.sites)


class RunLength(msgspec.Struct, frozen=True, kw_only=True):
    """How long one run took, and with which arguments."""

    wall_seconds: Seconds
    cpu_seconds: Seconds = 0.0
    start_seconds: Seconds = 0.0  # until the first line of the program
    saved_seconds: Seconds = 0.0  # by changes: without them the run would have taken so much longer
    ended: float = 0.0  # seconds since the epoch
    arguments: list[str] = []


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the verdict on a change rests on."""

    share: Share = 0.0  # of the process's time that the change could save
    nbytes: NBytes = 0  # of the arguments of a call
    blocks: Natural = 0  # that were compared, or calls where there are no turns
    noise: Factor | None = None  # 0.05: blocks in the same state agree within 5 %
    load: Factor = 0.0  # runnable threads per core at the end of the run
    arguments: list[str] = []  # of the run

    @property
    def is_reliable(self) -> bool:
        """Whether a later run may rely on it: enough blocks, from an hour that was not busy."""
        calm = self.load <= LOAD_MAX if self.noise is None else self.noise <= NOISE_MAX
        return calm and self.blocks >= BLOCKS_MIN

    def differs(self, share: float, nbytes: int = 0) -> bool:
        """Whether a share or a size is another one by a factor of two; 0: not known."""
        pairs = ((self.share, share), (self.nbytes, nbytes))
        return any(min(pair) > 0 and max(pair) >= DIFFERENT * min(pair) for pair in pairs)


class KnownChange(Proven, frozen=True, kw_only=True):
    """A change that earlier runs made, with how it fared."""

    state: str = IN_USE
    reason_code: str = ""
    reason: str = ""
    account: dict[str, float] = {}  # seconds saved and spent, calls, served, checked, mismatches
    evidence: Evidence = Evidence()
    versions: dict[str, str] = {}  # of the libraries that it names


class KnownFile(msgspec.Struct, frozen=True):
    """A source file of the program as it was."""

    sha256: str
    nbytes: int = -1
    modified_ns: int = -1

    @classmethod
    def now(cls, path: str, digest: str) -> KnownFile:
        """The file with the stamps that tell without reading it whether it is the same."""
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return cls(digest)
        return cls(digest, status.st_size, status.st_mtime_ns)

    def is_same(self, path: str) -> bool:
        """Whether the file is still this one; its content decides if its stamps are other ones."""
        try:
            status = os.stat(path)  # noqa: PTH116
            if (status.st_size, status.st_mtime_ns) == (self.nbytes, self.modified_ns):
                return True
            return sha256(Path(path).read_bytes()).hexdigest() == self.sha256
        except OSError:
            return False


class Wanted(msgspec.Struct, frozen=True):
    """A substitution that a run wanted and ended before it was proven, and how many runs asked for it first."""

    source: str
    into: str
    tries: Natural = 0


class Barren(msgspec.Struct, frozen=True):
    """A function in which nothing could be changed, and for how many runs it is left alone."""

    file: str
    function: str
    left: Natural = NOTHING_RUNS
    runs: Natural = NOTHING_RUNS  # between two looks at it


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict that nothing in the program could be made faster; settings of the process do not count."""

    seconds: Seconds  # of the run that found nothing
    left: Natural = NOTHING_RUNS  # runs until the next look
    runs: Natural = NOTHING_RUNS  # runs between two looks
    versions: dict[str, str] = {}


class Knowledge(msgspec.Struct, kw_only=True):
    """All that is known of one program."""

    format: Literal["codedag/knowledge"] = "codedag/knowledge"
    version: Literal[1] = 1
    program: str
    machine: str
    versions: dict[str, str]  # of Python, CodeDAG and its rewriter
    allow: list[str] = []
    runs: list[RunLength] = []
    heat: list[HotFunction] = []
    turn: HotTurn | None = None
    files: dict[str, KnownFile] = {}
    changes: list[KnownChange] = []
    kernels: list[tuple[Natural, Natural]] = []
    wanted: list[Wanted] = []
    nothing: Nothing | None = None
    barren: list[Barren] = []
    credit_seconds: Seconds = 0.0  # of CPU time that runs have left to later ones

    def in_use(self) -> list[KnownChange]:
        """The changes with which a run begins."""
        return [change for change in self.changes if change.state == IN_USE]

    def left_alone(self) -> frozenset[tuple[str, str]]:
        """The functions that this run does not look at: an earlier one found nothing to change in them."""
        return frozenset((each.file, each.function) for each in self.barren if each.left)

    def expected_seconds(self, arguments: Iterable[str] = ()) -> float | None:
        """How long a run takes as written: the median of those with these arguments, else of all; None before any."""
        wanted = list(arguments)
        same = [run for run in self.runs if run.arguments == wanted]
        every = sorted(run.wall_seconds + run.saved_seconds for run in same or self.runs)
        return every[len(every) // 2] if every else None

    def not_worth_a_trial(
        self, kind: str, file: str, sites: Iterable[int], arguments: Iterable[str], share: float = 0.0, nbytes: int = 0
    ) -> str:
        """Why a change is not tried again: it was not faster, in a calm hour, with these arguments, share and size."""
        key, wanted = (kind, file, tuple(sites)), list(arguments)
        for change in self.changes:
            is_told = change.state == TAKEN_BACK and change.reason_code in NOT_FASTER
            # a memo without a hit does not depend on how busy the machine was
            told = is_told and (change.evidence.is_reliable or change.reason_code == Code.NEVER_HIT.value)
            same = change.evidence.arguments == wanted and not change.evidence.differs(share, nbytes)
            if change.key == key and told and same:
                return f"an earlier run found it not faster: {change.reason}"
        return ""

    def forget_edited(self) -> list[str]:
        """Forgets what belongs to files that were edited; changes stay, since the file's own digest guards them."""
        edited = [path for path, file in self.files.items() if not file.is_same(path)]
        self.files = {path: file for path, file in self.files.items() if path not in edited}
        self.heat = [each for each in self.heat if each.file not in edited]
        self.barren = [each for each in self.barren if each.file in self.files]
        self.turn = None if self.turn is not None and self.turn.file in edited else self.turn
        self.nothing = None if edited else self.nothing
        return edited

    def forget_other_versions(self) -> str:
        """Forgets changes for other versions of libraries; says of which, "" if there were none."""
        here = versions({name: "" for change in self.changes for name in change.versions})
        other = {
            (name, was)
            for change in self.changes
            for name, was in change.versions.items()
            if here.get(name) != was
        }  # fmt: skip
        self.changes = [change for change in self.changes if not other & set(change.versions.items())]
        if self.nothing is not None and versions(self.nothing.versions) != self.nothing.versions:
            self.nothing = None
        told = [f"made with {name} {was}, here is {here.get(name) or 'none'}" for name, was in sorted(other)]
        return f"changes known from an earlier run were {told[0]}" if told else ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not (self.runs or self.heat or self.changes or self.wanted or self.nothing)


def versions(of: Mapping[str, str]) -> dict[str, str]:
    """The versions here of Python, CodeDAG, its rewriter and these libraries; no library is imported."""
    from codedag.instrument.cache import rewriter_version  # a first run does not need it at its start

    own = {"python": platform.python_version(), "codedag": __version__, "rewriter": rewriter_version()}
    found = {name: own[name] if name in own else version_of(name) for name in of}
    return {name: version for name, version in found.items() if version is not None}


def machine() -> str:
    """What stands for this machine in a file."""
    from codedag.tune.machine_key import machine_key

    return sha256(machine_key().encode()).hexdigest()
