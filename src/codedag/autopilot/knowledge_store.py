"""Store of what is known of programs: one file each in the cache, named by main file and allowed equivalences."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from codedag.autopilot.judge.change import State
from codedag.autopilot.knowledge import (
    MISMATCH,
    NOTHING_RUNS,
    SLOWER,
    TAKEN_BACK,
    Barren,
    Evidence,
    Knowledge,
    KnownChange,
    KnownFile,
    Nothing,
    Proven,
    RunLength,
    Wanted,
    machine,
    versions,
)
from codedag.instrument.guard import attempt
from codedag.ir import clock as time
from codedag.ir.files import write_atomically
from codedag.ir.places import cache_dir
from codedag.ir.report import HotFunction, HotTurn
from codedag.ir.sha256 import sha256
from codedag.ir.verdict import Code

if TYPE_CHECKING:
    from codedag.autopilot.applied import Applied
    from codedag.autopilot.judge.change import Change
    from codedag.autopilot.pilot import Pilot
    from codedag.instrument.launch import Target

PROGRAMS_MAX = 200  # files that are kept
NBYTES_MAX = 4 << 20  # of one file; a real one has some kilobytes
PROOF_TRIES_MAX = 2  # runs that begin with the proofs which earlier ones ended before
RUNS_KEPT, FUNCTIONS_KEPT = 8, 30
NOTHING_SECONDS_MIN, NOTHING_SECONDS_MAX = 1.0, 60.0  # a shorter run shows nothing, a longer one can pay for a look
NOTHING_RUNS_MAX = 32  # runs between two looks, if they find nothing again and again

#: The distributions that may have a module; of the others they have its name.
_DISTRIBUTIONS = {
    "cv2": ("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python"),
    "PIL": ("pillow",), "skimage": ("scikit-image",), "sklearn": ("scikit-learn",),
}  # fmt: skip


@dataclass(slots=True)
class RunFacts:
    """What one run has found out."""

    changes: Iterable[Proven] = ()
    libraries: Collection[str] = ()  # that the program had loaded
    kernels: Iterable[tuple[int, int]] = ()
    unproven: Iterable[tuple[str, str]] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # SHA-256 by path
    length: RunLength | None = None
    functions: Iterable[HotFunction] | None = None  # None: there was no sampler, the last ones stay
    turn: HotTurn | None = None
    found_nothing: bool = False  # no change is in use, and nothing was left open
    credit_seconds: float = 0.0  # of CPU time left to later runs
    barren: Collection[tuple[str, str]] = ()  # functions (file and name) in which nothing could be changed


@dataclass(slots=True)
class Store:
    """The file of one program in the cache; a folder that cannot be used costs only time."""

    target: Target
    allow: Iterable[str] = ()
    why_not: str = ""  # why the file, or a part of it, does not hold here
    known: Knowledge | None = None
    _folder: Path = field(default_factory=lambda: cache_dir() / "plans")
    _begun_ns: int = 0

    def __post_init__(self) -> None:
        self._begun_ns = self._written_ns()

    @property
    def path(self) -> Path:
        """The file."""
        facts = "\0".join([self.program, *sorted(self.allow)])
        return self._folder / f"{sha256(facts.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"

    @property
    def program(self) -> str:
        """What is run, as it is told apart from other programs."""
        return f"-m {self.target.name} in {os.getcwd()}" if self.target.module else self.target.path

    # -- reading

    def load(self) -> Knowledge | None:
        """What earlier runs found out, as far as it holds here and now; `why_not` says what does not."""
        found = self._read()
        if found is None:
            return None
        self.why_not = self._why_not(found)
        if self.why_not:
            return None
        found.forget_edited()
        self.why_not = found.forget_other_versions()
        self.known = found
        return found

    def first(self) -> list[tuple[str, str]]:
        """What is to be proven as soon as the program begins, as source and library."""
        wanted = self.known.wanted if self.known is not None else []
        return [(each.source, each.into) for each in wanted if each.tries < PROOF_TRIES_MAX]

    def nothing(self) -> Nothing | None:
        """The verdict "nothing to gain", if it holds for this run: it then leaves the program as written."""
        nothing = self.known.nothing if self.known is not None else None
        return nothing if self.known is not None and nothing and nothing.left and not self.known.in_use() else None

    def _read(self) -> Knowledge | None:
        try:
            return msgspec.json.decode(_beginning(self.path), type=Knowledge)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            self.why_not = f"the plan of an earlier run cannot be read ({error}): {self.path}"
            return None

    def _why_not(self, found: Knowledge) -> str:
        if found.program != self.program:
            return "the plan of an earlier run is for another program"
        if found.machine != machine():
            return "the plan of an earlier run was made on another machine"
        now = versions(found.versions)
        for name, was in found.versions.items():
            if now.get(name) != was and name == "rewriter":
                return "the plan of an earlier run was made with other sources of CodeDAG"
            if now.get(name) != was:
                return f"the plan of an earlier run was made with {name} {was}, here is {now.get(name) or 'none'}"
        return ""

    # -- writing

    def keep(self, facts: RunFacts) -> None:
        """Writes what is known after a run, or raises CannotWrite; nothing of all takes the file away."""
        before = self.known if self.known is not None else self._blank()
        tries = {(each.source, each.into): each.tries + 1 for each in before.wanted}
        known = self._blank()
        known.runs = [*before.runs, *([facts.length] if facts.length is not None else [])]
        known.heat = before.heat if facts.functions is None else _hottest(facts.functions)
        known.turn = before.turn if facts.functions is None else facts.turn
        known.files = {path: KnownFile.now(path, digest) for path, digest in facts.files.items()}
        known.changes = _changes(facts, before)
        known.barren = _barren(facts.barren, before)
        known.kernels = sorted(set(facts.kernels))
        known.wanted = [Wanted(*each, tries.get(each, 0)) for each in sorted(set(facts.unproven))]
        known.nothing, known.credit_seconds = self._nothing(facts), facts.credit_seconds
        self._merge(known)
        known.runs = sorted(known.runs, key=lambda run: run.ended)[-RUNS_KEPT:]
        self._write(known)

    def count_rest(self, length: RunLength | None = None) -> None:
        """Counts a run that does nothing because nothing is to be gained."""
        if self.known is not None and self.known.nothing is not None:
            nothing = self.known.nothing
            self.known.runs = [*self.known.runs, *([length] if length is not None else [])][-RUNS_KEPT:]
            self.known.nothing = replace(nothing, left=max(nothing.left - 1, 0))
            attempt(self._write, self.known)

    def _nothing(self, facts: RunFacts) -> Nothing | None:
        """The verdict "nothing to gain" of this run; it holds for twice as many runs if it was so before."""
        length = facts.length
        if not facts.found_nothing or length is None:
            return None
        if not NOTHING_SECONDS_MIN <= length.wall_seconds <= NOTHING_SECONDS_MAX:
            return None
        before = self.known.nothing if self.known is not None else None
        runs = NOTHING_RUNS
        if before is not None:
            runs = before.runs if before.left else min(2 * before.runs, NOTHING_RUNS_MAX)
        made_with = versions(dict.fromkeys(["python", "codedag", "rewriter", *facts.libraries], ""))
        return Nothing(seconds=length.wall_seconds, left=runs, runs=runs, versions=made_with)

    def _blank(self) -> Knowledge:
        own = versions({"python": "", "codedag": "", "rewriter": ""})
        return Knowledge(program=self.program, machine=machine(), versions=own, allow=sorted(self.allow))

    def _merge(self, known: Knowledge) -> None:
        """Takes in what another run has written since this one began; this one's own word on a change counts."""
        if self._written_ns() == self._begun_ns:
            return
        other = Store(self.target, self.allow, _folder=self._folder).load()
        if other is None:
            return
        ends = {run.ended for run in known.runs}
        own = {change.key for change in [*known.changes, *(self.known.changes if self.known is not None else [])]}
        known.runs += [run for run in other.runs if run.ended not in ends]
        known.changes += [change for change in other.changes if change.key not in own]
        known.kernels = sorted({*known.kernels, *other.kernels})
        known.nothing = None if known.in_use() else known.nothing

    def _write(self, known: Knowledge) -> None:
        """Replaces the file; raises CannotWrite or OSError, and the next run finds out again."""
        if known.is_empty:
            self.path.unlink(missing_ok=True)
            return
        write_atomically(self.path, msgspec.json.encode(known))
        self._begun_ns = self._written_ns()
        attempt(self._bound)

    def _bound(self) -> None:
        """Drops the oldest files beyond the most that are kept."""
        stamped = []
        for path in self._folder.glob("*.json"):
            try:
                stamped.append((path.stat().st_mtime_ns, path))
            except OSError:  # another run has dropped it
                continue
        for _, path in sorted(stamped)[:-PROGRAMS_MAX]:
            path.unlink(missing_ok=True)

    def _written_ns(self) -> int:
        try:
            return os.stat(self.path).st_mtime_ns  # noqa: PTH116
        except OSError:
            return 0


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(NBYTES_MAX + 1)


def _changes(facts: RunFacts, before: Knowledge) -> list[KnownChange]:
    """The changes of this run, and those that earlier ones took back from files that are still the same."""
    from codedag.ir.plan import MOVES

    old = [each for each in before.changes if each.state == TAKEN_BACK]
    same = [each for each in old if facts.files.get(each.file, each.sha256) == each.sha256]
    every: dict[Any, Proven] = {}
    for change in (*facts.changes, *same):
        every.setdefault(change.key, change)
    return [_with_versions(each, facts.libraries) for each in every.values() if each.kind in MOVES]


def _barren(found: Collection[tuple[str, str]], before: Knowledge) -> list[Barren]:
    """The functions to leave alone: those of this run, for longer if it was so before, and those of earlier ones."""
    known = {(each.file, each.function): each for each in before.barren}
    new = []
    for key in found:
        runs = NOTHING_RUNS if key not in known else min(2 * known[key].runs, NOTHING_RUNS_MAX)
        new.append(Barren(*key, runs, runs))
    return [*new, *(replace(each, left=max(each.left - 1, 0)) for key, each in known.items() if key not in found)]


def _hottest(functions: Iterable[HotFunction]) -> list[HotFunction]:
    return sorted(functions, key=lambda each: -each.share)[:FUNCTIONS_KEPT]


def _with_versions(change: Proven, libraries: Collection[str]) -> KnownChange:
    """The change with the versions of the libraries that it names; of all that were loaded if one has no version."""
    if isinstance(change, KnownChange) and change.versions:
        return change
    named = [*change.chain, *([change.variant] if change.kind == "substitute" else [])]
    tops = {name.partition(".")[0] for name in named} - set(sys.stdlib_module_names) - {"codedag", ""}
    found = versions(dict.fromkeys(["numpy", *(each for top in tops for each in _DISTRIBUTIONS.get(top, (top,)))], ""))
    missing = [top for top in tops if not any(each in found for each in _DISTRIBUTIONS.get(top, (top,)))]
    found |= versions(dict.fromkeys(libraries, "")) if missing else {}
    return KnownChange(**{**asdict(change), "versions": found})


def load_per_core() -> float:
    """Runnable threads per core in the last minute; 0 where the system does not say."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except (OSError, AttributeError):
        return 0.0


def length_of(seconds: float, target: Target, saved_seconds: float = 0.0) -> RunLength:
    """The length of a run of this process that ends now."""
    return RunLength(
        wall_seconds=max(seconds, 0.0), cpu_seconds=time.process_time(), saved_seconds=max(saved_seconds, 0.0),
        ended=time.time(), arguments=list(target.args),
    )  # fmt: skip


def taken_back(pilot: Pilot, target: Target) -> list[KnownChange]:
    """The changes that this run took back, with what that rests on."""
    from codedag.autopilot.processes.worker_report import move_of

    stopped = [applied for applied in pilot.applied if not applied.trial.active]
    load = load_per_core()
    made = () if pilot.judging is None else pilot.judging.made.values()
    judged = {id(applied): change for change, applied in made}
    return [
        KnownChange(
            **asdict(move_of(applied, pilot.program)), state=TAKEN_BACK, reason=applied.trial.reason,
            account={"calls": applied.trial.calls, "checked": applied.trial.checked},
            **_verdict_on(applied, judged.get(id(applied)), load, target),
        )
        for applied in stopped
    ]  # fmt: skip


def with_verdicts(moves: Iterable[Proven], pilot: Pilot, target: Target) -> list[Proven]:
    """The changes that a run leaves to later ones, with evidence where its turns have shown them to be faster."""
    made = () if pilot.judging is None else pilot.judging.made.values()
    kept = {
        (applied.kind, applied.path, tuple(applied.sites)): change.evidence
        for change, applied in made if change.state is State.IN_USE
    }  # fmt: skip
    before = {change.key: change for change in pilot.known if isinstance(change, KnownChange)}
    found: list[Proven] = []
    for move in moves:
        evidence, known = kept.get(move.key), before.get(move.key)
        if evidence is not None:
            shown = Evidence(blocks=evidence.blocks, noise=_known(evidence.noise), arguments=list(target.args))
            found.append(
                KnownChange(**{name: getattr(move, name) for name in Proven.__struct_fields__}, evidence=shown)
            )
        else:
            found.append(known if known is not None and move.key in kept else move)
    return found


def _verdict_on(applied: Applied, change: Change | None, load: float, target: Target) -> dict[str, Any]:
    """Why a change was taken back, as a code, and what that rests on: the judge's blocks, or the calls of its trial."""
    trial, blocks, noise = applied.trial, len(applied.trial.pairs), None
    code = SLOWER if trial.pairs and trial.gain() < 1 else ""
    if change is not None and change.reason is not None:
        code = change.reason.code.value
        if change.evidence is not None:
            blocks, noise = change.evidence.blocks, _known(change.evidence.noise)
    evidence = Evidence(blocks=blocks, noise=noise, load=load, arguments=list(target.args))
    return {"reason_code": MISMATCH if trial.mismatches else code, "evidence": evidence}


def _known(noise: float) -> float | None:
    return noise if noise >= 0 else None


def is_open(pilot: Pilot) -> bool:
    """Whether something was still being found out when the program ended."""
    active = [a for a in pilot.applied if a.trial.active and not (a.trial.checked and a.trial.pairs)]
    undecided = [a for a in active if a.kind != "recall" or a.trial.calls]  # no call came again
    return bool(undecided or pilot.observed.unplanned) or any(refused.code is Code.ENDED for refused in pilot.refused)
