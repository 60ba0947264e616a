"""A program plain against optimised: interleaved runs in fresh processes, and whether they gave the same."""

from __future__ import annotations

import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from glob import glob
from pathlib import Path
from typing import Any

from codedag._version import __version__
from codedag.experiment import child, equality
from codedag.experiment.child import Ended, ProgramFailed
from codedag.experiment.digest import digest
from codedag.experiment.equality import Same, Streams
from codedag.experiment.nearness import Nearness, Numbers, tolerance
from codedag.experiment.ratio import Ratio, is_enough, ratio

# Watched runs of each: two plain ones tell what varies by itself; the optimised ones have cold, then warm caches.
WATCHED = 2
LEAST_ROUNDS, MOST_ROUNDS = 5, 20
# A baseline that moves by more than this from run to run makes small ratios worthless.
RESTLESS = 1.3
# Starting CodeDAG and observing take about a second; a program that runs for less has nothing to win.
SHORT_SECONDS = 2.0

_WATCHED = (
    "import sys; from codedag.experiment.watching import watch; "
    "watch(sys.argv.pop(1), sys.argv.pop(1).split(), sys.argv.pop(1).split()); "
    "from codedag.cli.main import main; main(sys.argv[1:])"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared: a program with its arguments (`-m` first for a module), where it runs, and a plan if given."""

    argv: tuple[str, ...]
    cwd: Path
    plan: Path | None = None
    files: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    timeout: float | None = None
    allow: tuple[str, ...] = ()  # classes of equivalence beside exact


@dataclass(slots=True)
class Comparison:
    """What came of it: the times of every round, the ratios, and one entry for each thing that was compared."""

    subject: Subject
    seed: int
    plain: list[Ended] = field(default_factory=list)
    optimised: list[Ended] = field(default_factory=list)
    same: list[Same] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    estimate: Ratio | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether nothing that could be compared differed by more than was allowed."""
        return all(each.equal is not False for each in self.same)

    @property
    def is_identical(self) -> bool:
        """Whether nothing that could be compared differed at all."""
        return self.is_same and not self.difference

    @property
    def difference(self) -> float:
        """The largest difference that was allowed, as a share of the largest value."""
        return max((each.difference for each in self.same), default=0.0)

    @property
    def wall(self) -> Ratio:
        """Plain over optimised, by the clock, from start to end of the process."""
        return ratio([each.seconds for each in self.plain], [each.seconds for each in self.optimised])

    @property
    def cpu(self) -> Ratio:
        """The same for CPU time."""
        return ratio([each.cpu_seconds for each in self.plain], [each.cpu_seconds for each in self.optimised])

    @property
    def spread(self) -> float:
        """By how much the plain runs differ among themselves."""
        seconds = [each.seconds for each in self.plain]
        return max(seconds) / min(seconds)

    @property
    def exit_code(self) -> int:
        """1 if something differs, 3 if the optimised program is slower beyond noise, else 0."""
        return 1 if not self.is_same else 3 if self.wall.verdict == "slower" else 0

    def facts(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        wall, cpu = asdict(self.wall), asdict(self.cpu)
        return {
            "argv": list(self.subject.argv),
            "cwd": str(self.subject.cwd),
            "plan": str(self.subject.plan) if self.subject.plan else None,
            "seed": self.seed,
            "rounds": len(self.plain),
            "identical": self.is_identical,
            "same": self.is_same,
            "allow": list(self.subject.allow),
            "difference": self.difference,
            "compared": [asdict(each) for each in self.same],
            "verdict": self.wall.verdict,
            "ratio": {**wall, "confidence": 0.95},
            "cpu_ratio": {**cpu, "confidence": 0.95},
            "baseline_spread": self.spread,
            "seconds": {name: [run.seconds for run in runs] for name, runs in self._runs()},
            "peak_nbytes": {name: max(run.peak_nbytes for run in runs) for name, runs in self._runs()},
            "cpu_seconds": {name: [run.cpu_seconds for run in runs] for name, runs in self._runs()},
            "changes": self.changes,
            "estimate": asdict(self.estimate) if self.estimate else None,
            "versions": {"codedag": __version__, "python": platform.python_version(), "platform": platform.platform()},
            "cpus": os.cpu_count(),
            "notes": self.notes,
            "exit_code": self.exit_code,
        }

    def _runs(self) -> Iterable[tuple[str, list[Ended]]]:
        return (("plain", self.plain), ("optimised", self.optimised))


class Bench:
    """Runs a subject plain and optimised, as often as asked."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject, self._folder = subject, folder
        self._count = 0
        self.numbers: dict[str, list[Numbers]] = {"plain": [], "optimised": []}
        self._environment = {"PYTHONHASHSEED": "0", **os.environ}
        self._environment.pop("CODEDAG_DISABLE", None)  # here both are wanted

    def timed(self, name: str) -> Ended:
        """One run as a user would start it."""
        if name == "plain":
            return self._run([sys.executable, *self.subject.argv])
        return self._run([sys.executable, "-m", "codedag", "-q", *self._optimised()])

    def watched(self, name: str) -> tuple[Ended, Streams]:
        """One run whose batches, losses, weights and named files are seen; it is not timed."""
        seen = self._folder / f"{name}-{self._count}.seen"
        options = [" ".join(self.subject.values), " ".join(self.subject.allow)]
        watching = [sys.executable, "-c", _WATCHED, str(seen), *options]
        disable = {"CODEDAG_DISABLE": "1"} if name == "plain" else {}
        ended = self._run([*watching, "-q", *self._optimised()], **disable)
        lines = seen.read_text(errors="backslashreplace").split("\n") if seen.exists() else []
        self.numbers[name].append(Numbers.read(lines, Path(f"{seen}.numbers")))
        return ended, {**equality.read_streams(lines), **self._files()}

    def last_run(self) -> Path:
        """The directory of the last optimised run."""
        return self._folder / "run"

    def _optimised(self) -> list[str]:
        plan = ["--plan", str(self.subject.plan)] if self.subject.plan else []
        allow = ["--allow", ",".join(self.subject.allow)] if self.subject.allow else []
        return ["run", "-o", str(self.last_run()), *plan, *allow, *self.subject.argv]

    def _run(self, command: list[str], **environment: str) -> Ended:
        self._count += 1
        return child.run(command, self.subject.cwd, {**self._environment, **environment}, self.subject.timeout)

    def _files(self) -> Streams:
        patterns = [str(self.subject.cwd / each) for each in self.subject.files]
        named = {place for each in patterns for place in glob(each, recursive=True)}  # noqa: PTH207 - may be absolute
        places = [Path(each) for each in sorted(named)]
        found = [(digest(place.read_bytes()), str(place)) for place in places if place.is_file()]
        return {"file": found} if self.subject.files else {}


def compare(
    subject: Subject,
    *,
    rounds: int | None = None,
    seed: int = 0,
    budget: float | None = None,
    step: Callable[[str, int], None] = lambda *_: None,
) -> Comparison:
    """Runs the program plain and optimised until the ratio is known; `step` hears of each run and of how many are left.

    Without `rounds` there are as many as the noise asks for, from 5 to 20; no round begins after `budget` seconds of
    timed runs, except the two that an interval needs.
    """
    found = Comparison(subject, seed)
    with tempfile.TemporaryDirectory(prefix="codedag-compare-") as folder:
        bench = Bench(subject, Path(folder))
        _look(bench, found, step, rounds or MOST_ROUNDS)
        _time(bench, found, step, _Rounds(rounds, budget), random.Random(seed))
        _ask(bench.last_run(), found)
    found.notes += _warnings(found)
    return found


def _warnings(found: Comparison) -> list[str]:
    """What makes the ratio say less than it seems to."""
    notes = []
    if found.spread > RESTLESS:
        notes.append(
            f"the plain runs differ by {found.spread:.2f}x among themselves: the machine was busy, "
            "so the ratio says little; repeat it when the machine is quiet"
        )
    longest = max(each.seconds for each in found.plain)
    if longest < SHORT_SECONDS and found.wall.verdict != "faster":
        notes.append(
            f"the program ends within {longest:.1f} s: starting, observing and proving take longer than what can be "
            "gained; compare it with more epochs or more data"
        )
    return notes


def _look(bench: Bench, found: Comparison, step: Callable[[str, int], None], rounds: int) -> None:
    """The watched runs: they warm up disks and caches, and tell whether results are equal."""
    seen: dict[str, list[tuple[Ended, Streams]]] = {"plain": [], "optimised": []}
    for number in range(WATCHED):
        for name, runs in seen.items():
            step(f"comparing results, {name}", 2 * (rounds + WATCHED - number))
            runs.append(bench.watched(name))
            if name == "plain":
                _refuse_failed(*runs[-1])
    _refuse_changing([ended for ended, _ in seen["plain"]])
    streams, others = ([streams for _, streams in seen[name]] for name in ("plain", "optimised"))
    allow, plain = bench.subject.allow, bench.numbers["plain"][0]
    nearness = Nearness(allow, plain, bench.numbers["optimised"]) if allow else None
    found.same += equality.passed_around(streams, others, nearness)
    asked = bench.subject.values
    if asked and not any(each.what == "named values" for each in found.same):
        found.same.append(Same("named values", None, 0, "the program was left before they could be looked at"))
    found.plain += [ended for ended, _ in seen["plain"]]
    found.optimised += [ended for ended, _ in seen["optimised"]]


class _Rounds:
    """How many rounds there are: as many as asked for, or until they tell little more, or until the time is up."""

    def __init__(self, asked: int | None, budget: float | None) -> None:
        self._asked, self.most = asked, asked or MOST_ROUNDS
        self._until = float("inf") if budget is None else time.monotonic() + budget

    def are_enough(self, plain: list[Ended], optimised: list[Ended]) -> bool:
        """Whether to stop after these."""
        count = len(plain)
        if count >= self.most or (count >= 2 and time.monotonic() > self._until):
            return True
        one, other = ([each.seconds for each in runs] for runs in (plain, optimised))
        return self._asked is None and count >= LEAST_ROUNDS and is_enough(one, other)


def _time(
    bench: Bench, found: Comparison, step: Callable[[str, int], None], rounds: _Rounds, order: random.Random
) -> None:
    """The timed runs, in pairs whose order is drawn; what they print is compared too."""
    watched = {"plain": found.plain[:], "optimised": found.optimised[:]}
    times: dict[str, list[Ended]] = {"plain": [], "optimised": []}
    while not rounds.are_enough(times["plain"], times["optimised"]):
        done = len(times["plain"])
        for name in order.sample(sorted(times), 2):
            step(f"round {done + 1}, {name}", 2 * (rounds.most - done))
            times[name].append(bench.timed(name))
    found.plain, found.optimised = times["plain"], times["optimised"]
    found.notes += _last_words(watched["optimised"] + found.optimised)
    plain, other = (watched[name] + times[name] for name in ("plain", "optimised"))
    found.same[:0] = [
        equality.exit_codes([each.code for each in plain], [each.code for each in other]),
        equality.printed([e.output for e in plain], [e.output for e in other], _share(found.subject.allow)),
    ]


def _share(allow: tuple[str, ...]) -> float:
    return tolerance(allow) if allow else 0.0


def _last_words(optimised: list[Ended]) -> list[str]:
    """What the first optimised run that failed said last; the plain ones did not fail."""
    for ended in optimised:
        if ended.code != 0:
            words = ended.last_words.strip().splitlines() or ["nothing"]
            return [f"an optimised run ended with exit code {ended.code}; the last it said was: {words[-1]}"]
    return []


def _refuse_failed(ended: Ended, streams: Streams) -> None:
    for _, name in streams.get("missing", ()):
        raise ProgramFailed(
            f"the program has no global variable {name} when it ends", hint="Name one that it has with --value."
        )
    if ended.code != 0:
        words = ended.last_words.strip().splitlines() or ["it says nothing on stderr"]
        raise ProgramFailed(
            f"the program itself ends with exit code {ended.code}: {words[-1]}",
            hint="It must run plain before it can be compared; run it with `python` to see all of what it says.",
        )


def _refuse_changing(plain: list[Ended]) -> None:
    if len({ended.code for ended in plain}) > 1:
        raise ProgramFailed("the program itself ends differently from run to run", hint="Make it repeatable first.")


def _ask(run: Path, found: Comparison) -> None:
    """What the last optimised run says of itself: its changes, its own estimate, and calls that differed."""
    import msgspec

    from codedag.ir import CodedagError, RunDirectory

    try:
        report = RunDirectory(run).report
    except CodedagError as error:
        found.notes.append(f"the optimised run left no report: {error.message}")
        return
    found.changes += msgspec.to_builtins(report.changes)
    if report.gain is not None and report.changes and not report.void:
        found.estimate = Ratio(report.gain, report.gain_low or 0.0, report.gain_high or report.gain)
    if report.verdict.mismatches:
        found.notes.append(f"the optimised run itself found {report.verdict.mismatches} calls that differed")
