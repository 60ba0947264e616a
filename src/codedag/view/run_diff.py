"""Difference of two recorded runs: seconds as a whole and of functions or operations, changes, versions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from pathlib import PurePath
from typing import Literal

import msgspec

from codedag.ir import Graph, Heat, Report, RunDirectory
from codedag.view.speed import valid

Status = Literal["slower", "faster", "same", "new", "gone"]
SAME_SHARE = 0.02  # of the base run: parts that differ by less are not named
SAME_SECONDS = 0.01  # nor are those that differ by less than what a clock and a scheduler make of it
BLOCKS_MIN = 4  # of turns in each run: fewer have no spread


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of both runs; `ratio` is other over base, above 1 = slower, with an interval where there is one."""

    name: Literal["turn", "cpu", "wall", "recorded"]
    words: str
    base_seconds: float
    other_seconds: float
    ratio: float
    low: float | None = None
    high: float | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A function (of a sampled run) or an operation (of a trace) in both runs; None = it is not in that one."""

    name: str
    where: str
    base_seconds: float | None
    other_seconds: float | None
    base_calls: int | None = None
    other_calls: int | None = None
    status: Status = "same"

    @property
    def delta_seconds(self) -> float:
        """Seconds that the other run took more."""
        return (self.other_seconds or 0.0) - (self.base_seconds or 0.0)


class RunDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that two runs differ in, the most important first."""

    base: str
    other: str
    base_argv: list[str]
    other_argv: list[str]
    same_program: bool
    measures: list[Measure]
    parts: list[Part]
    changes_gone: list[str]
    changes_new: list[str]
    versions: dict[str, tuple[str, str]]
    notes: list[str]

    @property
    def measure(self) -> Measure | None:
        """The figure that judges: the first that both runs have."""
        return self.measures[0] if self.measures else None


def difference(base: RunDirectory, other: RunDirectory) -> RunDiff:
    """The difference of two runs; raises BadFile if one cannot be read."""
    first, second = _Facts(base), _Facts(other)
    measures = list(
        filter(None, (_turns(first, second), _cpu(first, second), _wall(first, second), _ops(first, second)))
    )
    whole = max((m.base_seconds for m in measures if m.name != "turn"), default=0.0)
    return RunDiff(
        base=str(base.path), other=str(other.path), base_argv=first.argv, other_argv=second.argv,
        same_program=first.program == second.program, measures=measures,
        parts=_parts(first, second, whole), changes_gone=sorted(first.changes - second.changes),
        changes_new=sorted(second.changes - first.changes), versions=_versions(first, second),
        notes=_notes(first, second),
    )  # fmt: skip


class _Facts:
    """What is compared of one run."""

    def __init__(self, run: RunDirectory) -> None:
        info = run.run
        self.argv, self.versions, self.status, self.command = info.argv, info.versions, info.status, info.command
        self.program = PurePath(info.script or (info.argv[0] if info.argv else "")).name
        self.report: Report | None = run.report if run.has("report") else None
        self.heat: Heat | None = self.report.heat if self.report is not None else None
        self.graph: Graph | None = run.graph if self.heat is None and run.has("graph") else None
        self.changes = {f"{c.where} {c.what}" for c in self.report.changes} if self.report is not None else set()

    def periods(self) -> list[float]:
        """Seconds of a turn in each block of the run, once its changes were made (all blocks if there were none)."""
        blocks = valid(self.report.speed.blocks) if self.report is not None and self.report.speed is not None else []
        made = [block for block in blocks if block.changed]
        return [block.seconds / block.turns for block in (made or blocks)]

    def unit(self) -> str:
        """What a turn is."""
        return self.report.speed.unit if self.report is not None and self.report.speed is not None else ""


def _measure(name: Literal["turn", "cpu", "wall", "recorded"], words: str, a: float, b: float) -> Measure | None:
    if a <= 0 or b <= 0:
        return None
    return Measure(name=name, words=words, base_seconds=a, other_seconds=b, ratio=b / a)


def _turns(first: _Facts, second: _Facts) -> Measure | None:
    """Seconds of a turn: the median block of each run, and an interval from the spread of the blocks in each."""
    a, b = first.periods(), second.periods()
    if len(a) < BLOCKS_MIN or len(b) < BLOCKS_MIN or first.unit() != second.unit():
        return None
    made = _measure("turn", f"seconds of a {first.unit()}", statistics.median(a), statistics.median(b))
    if made is None:
        return None
    half = 2 * math.hypot(_error(a), _error(b))
    return msgspec.structs.replace(made, low=made.ratio * math.exp(-half), high=made.ratio * math.exp(half))


def _error(periods: list[float]) -> float:
    """The standard error of the median of the logarithms, by their quartiles: single outliers do not count."""
    logs = sorted(map(math.log, periods))
    quarter = len(logs) // 4
    return 1.25 * (logs[-1 - quarter] - logs[quarter]) / 1.35 / math.sqrt(len(logs))


def _cpu(first: _Facts, second: _Facts) -> Measure | None:
    if first.heat is None or second.heat is None:
        return None
    return _measure("cpu", "CPU seconds of the process", first.heat.cpu_seconds, second.heat.cpu_seconds)


def _wall(first: _Facts, second: _Facts) -> Measure | None:
    a, b = ((f.report.optimised_seconds or 0.0) if f.report is not None else 0.0 for f in (first, second))
    return _measure("wall", "seconds on the clock", a, b)


def _ops(first: _Facts, second: _Facts) -> Measure | None:
    if first.graph is None or second.graph is None:
        return None
    a, b = (sum(f.graph.op_columns.self_seconds) for f in (first, second) if f.graph is not None)
    return _measure("recorded", "seconds in recorded operations", a, b)


Key = tuple[str, str]
Found = dict[Key, tuple[float, int | None]]


def _functions(heat: Heat) -> Found:
    found: Found = {}
    for each in heat.functions:
        key = (each.name, _file(each.file, each.package))
        found[key] = (found.get(key, (0.0, None))[0] + each.self_seconds, None)
    return found


def _operations(graph: Graph) -> Found:
    found: Found = {}
    for op in graph.ops:
        if op.kind not in ("region", "source"):
            seconds, calls = found.get((op.name, _file(op.file)), (0.0, 0))
            found[op.name, _file(op.file)] = (seconds + op.self_seconds, (calls or 0) + op.count)
    return found


def _file(file: str, package: str = "") -> str:
    return package or file.replace("\\", "/").rpartition("/")[2]


def _parts(first: _Facts, second: _Facts, whole: float) -> list[Part]:
    """Functions by their own time, or operations; the largest differences first, those within noise last."""
    if first.heat is not None and second.heat is not None:
        a, b = _functions(first.heat), _functions(second.heat)
    elif first.graph is not None and second.graph is not None:
        a, b = _operations(first.graph), _operations(second.graph)
    else:
        return []
    rows = [_part(key, a.get(key), b.get(key), whole) for key in dict.fromkeys([*a, *b])]
    return sorted(rows, key=lambda part: (part.status == "same", -abs(part.delta_seconds)))


def _part(key: Key, a: tuple[float, int | None] | None, b: tuple[float, int | None] | None, whole: float) -> Part:
    base, other = (None if one is None else one[0] for one in (a, b))
    delta = (other or 0.0) - (base or 0.0)
    status: Status = "same"
    if abs(delta) >= max(SAME_SHARE * whole, SAME_SECONDS):
        status = "new" if base is None else "gone" if other is None else "slower" if delta > 0 else "faster"
    return Part(
        name=key[0], where=key[1], base_seconds=base, other_seconds=other, base_calls=a[1] if a else None,
        other_calls=b[1] if b else None, status=status,
    )  # fmt: skip


def _versions(first: _Facts, second: _Facts) -> dict[str, tuple[str, str]]:
    names = sorted({*first.versions, *second.versions})
    both = {name: (first.versions.get(name, "-"), second.versions.get(name, "-")) for name in names}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def _notes(first: _Facts, second: _Facts) -> list[str]:
    notes: list[str] = []
    if first.program != second.program:
        notes.append(f"two different programs: {first.program} and {second.program}")
    elif first.argv[1:] != second.argv[1:]:
        notes.append("the program was run with other arguments: only the seconds of a turn can be compared")
    if first.command != second.command:
        notes.append(f"one is of `codedag {first.command}`, the other of `codedag {second.command}`")
    notes += [f"{which}: the program {_ended(f.status)}" for which, f in _both(first, second) if f.status != "ok"]
    return notes


def _both(first: _Facts, second: _Facts) -> Iterable[tuple[str, _Facts]]:
    return (("base", first), ("other", second))


def _ended(status: str) -> str:
    return "still runs or was killed" if status == "running" else f"ended as {status}"
