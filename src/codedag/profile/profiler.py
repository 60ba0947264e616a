"""The profiler: takes every operation in turn, and for each the batches of all its variants and PUs in turn."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from codedag.profile.figures import ENOUGH
from codedag.profile.process import Ended, PuProcess
from codedag.profile.sample import Sample
from codedag.profile.store import Cell, Store
from codedag.profile.variants import Variant, fingerprint, variants_of

MOST_ROUNDS = 150
FEWEST_ROUNDS = 3  # for one that is hopeless, or slower than the time for a cell
HOPELESS = 3.0  # times the best one
ANSWER_SECONDS = 30.0

Told = Callable[[float, str], None]


@dataclass(slots=True)
class Contest:
    """The variants that can do the work of one captured call, as cells of the store."""

    sample: Sample
    cells: dict[Variant, Cell] = field(default_factory=dict)


class Prepared(NamedTuple):
    """A case that waits in a measuring process: its number, and which start of the process it belongs to."""

    number: int
    start: int


@dataclass(slots=True)
class Profiler:
    """Measures contests within a budget of seconds; what the store knows is not measured again."""

    store: Store
    pus: frozenset[str]
    budget_seconds: float = 120.0
    cell_seconds: float = 1.0
    answer_seconds: float = ANSWER_SECONDS
    fresh: bool = False
    directory: Path | None = None
    measured: int = 0  # cells that were measured by this run
    interrupted: bool = False
    clock: Callable[[], float] = time.monotonic
    _processes: dict[str, PuProcess] = field(default_factory=dict)
    _numbers: int = 0

    def contests(self, samples: Iterable[Sample]) -> dict[str, Contest]:
        """The contests over some calls, by the key of the call; equal calls share one."""
        found: dict[str, Contest] = {}
        for sample in samples:
            if sample.key not in found:
                found[sample.key] = self._contest(sample)
        return found

    def _contest(self, sample: Sample) -> Contest:
        made = Contest(sample)
        for variant in variants_of(sample.name, self.pus):
            key = hashlib.sha256(f"{sample.key} {fingerprint(sample.name, variant)}".encode()).hexdigest()
            cell = Cell(key, sample.name, sample.summary, variant.pu, variant.shown)
            if self.fresh:
                self.store.forget(key)
            made.cells[variant] = self.store.read(cell)
        return made

    def run(self, contests: Iterable[Contest], told: Told = lambda done, at: None) -> None:
        """Measures what is not yet known, the contests in the given order, until the budget ends."""
        begun = self.clock()
        waiting = list(contests)
        try:
            for number, contest in enumerate(waiting):
                left = self.budget_seconds - (self.clock() - begun)
                told(number / max(len(waiting), 1), contest.sample.name)
                if left <= 0:
                    break
                # Each one gets its share of what is left, so that the last is measured too.
                self._measure(contest, max(left / (len(waiting) - number), min(left, 0.2)))
        except KeyboardInterrupt:
            self.interrupted = True  # what is known so far is worth a table
        finally:
            self.close()

    def close(self) -> None:
        """Ends the measuring processes."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _measure(self, contest: Contest, most_seconds: float) -> None:
        """One contest: all variants are prepared, then their batches are taken in turn until they are known well."""
        numbers: dict[Variant, Prepared] = {}
        for variant, cell in contest.cells.items():
            prepared = None if cell.done else self._prepare(contest.sample, variant, cell)
            if prepared is not None:
                numbers[variant] = prepared
        self.measured += len(numbers)
        begun = self.clock()
        limit = min(most_seconds, self.cell_seconds * max(len(numbers), 1))
        for turn in range(MOST_ROUNDS):
            at_work = [variant for variant in numbers if not contest.cells[variant].done]
            if not at_work:
                break
            for variant in _rotated(at_work, turn):
                numbers[variant] = self._round(contest, variant, numbers[variant])
            self._settle(contest, at_work, late=self.clock() - begun > limit, last=turn == MOST_ROUNDS - 1)
        for variant, prepared in numbers.items():
            if prepared.start == self._process(variant.pu).starts:
                self._ask(variant.pu, {"do": "forget", "case": prepared.number}, contest.cells[variant])

    def _prepare(self, sample: Sample, variant: Variant, cell: Cell) -> Prepared | None:
        """The case in the process of its PU, or None: then the cell says why there is none."""
        self._numbers += 1
        request = {
            "do": "prepare", "case": self._numbers, "sample": str(sample.path), "variant": variant.name,
            "buffers": variant.buffers,
        }  # fmt: skip
        answer = self._ask(variant.pu, request, cell)
        if answer is None:
            return None
        cell.facts, cell.status = answer, "partial"
        self.store.write(cell)
        return Prepared(self._numbers, self._process(variant.pu).starts)

    def _round(self, contest: Contest, variant: Variant, prepared: Prepared) -> Prepared:
        """Takes one batch; a process that another variant has crashed is made ready again first."""
        cell = contest.cells[variant]
        if prepared.start != self._process(variant.pu).starts:
            prepared = self._prepare(contest.sample, variant, cell) or prepared
        answer = None if cell.done else self._ask(variant.pu, {"do": "round", "case": prepared.number}, cell)
        if answer is not None:
            cell.batches.add(float(answer["seconds"]), bool(answer["clean"]), float(answer["page_faults"]))
            self.store.write(cell)
        return prepared

    def _process(self, pu: str) -> PuProcess:
        return self._processes.setdefault(pu, PuProcess(pu, self.directory))

    def _ask(self, pu: str, request: dict[str, Any], cell: Cell) -> dict[str, Any] | None:
        """The answer, or None: then the cell says what happened."""
        process = self._process(pu)
        try:
            answer = process.ask(request, self.answer_seconds)
        except Ended as error:
            answer = {"status": "failed", "reason": str(error)}
        if answer.get("status") == "ok":
            return answer
        if not cell.done:
            cell.status = str(answer.get("status", "failed"))
            cell.facts = {**cell.facts, "reason": str(answer.get("reason", "no reason was given"))}
            self.store.write(cell)
        return None

    def _settle(self, contest: Contest, at_work: list[Variant], late: bool, last: bool) -> None:
        """Ends the cells that are known well enough, that cannot win any more, or whose time is over."""
        known = [cell for cell in contest.cells.values() if cell.batches.seconds]
        best = min((cell.batches.figures().high for cell in known), default=0.0)
        for variant in at_work:
            cell = contest.cells[variant]
            rounds = len(cell.batches.seconds)
            if cell.done or not rounds:
                continue
            figures = cell.batches.figures()
            hopeless = figures.low > HOPELESS * best and rounds >= ENOUGH
            if last or hopeless or (late and rounds >= FEWEST_ROUNDS):
                cell.status = "ok"
        self._end_together(contest, at_work)

    def _end_together(self, contest: Contest, at_work: list[Variant]) -> None:
        """Those that can still win end only together: what is compared must have been taken in turn."""
        open_cells = [contest.cells[v] for v in at_work if not contest.cells[v].done]
        if all(cell.batches.figures().tight for cell in open_cells if cell.batches.seconds):
            for cell in open_cells:
                cell.status = "ok"
        for variant in at_work:
            if contest.cells[variant].done:
                self.store.write(contest.cells[variant])


def _rotated(variants: list[Variant], turn: int) -> Iterator[Variant]:
    """The variants, each time beginning with another one: what comes first finds another cache than what follows."""
    start = turn % len(variants)
    yield from variants[start:]
    yield from variants[:start]
