"""What operations cost each other side by side: measured pairs, a table of slowdowns, and what follows from it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from statistics import median
from typing import Any

from codedag.ir import No, Op
from codedag.ir.costs import Beside
from codedag.profile.figures import NEAR, interval
from codedag.profile.process import Ended, PuProcess
from codedag.profile.sample import Sample, Samples
from codedag.profile.variants import FRESH, ORIGINAL

MOST_OPS = 4  # ten pairs
ROUNDS, FEWEST_ROUNDS = 7, 3
WINDOW_SECONDS = 0.06  # some turns of the interpreter's lock, which are 5 ms
WORK_SECONDS = 0.05  # that each of a pair has to do
BUSY = 0.1  # the share of waiting beyond which the table is that of a busy machine
STEPS = 300  # of the fit: after 30 a pair was still 13 % off in the worst of 3,000 tables that the model fits exactly


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some rounds, and the interval that holds it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        """What some figures say."""
        ordered = sorted(figures)
        return cls(median(ordered), *interval(ordered))


@dataclass(slots=True)
class Pair:
    """Two operations, each with its calls to make: slowdowns, and what both take in turn and side by side."""

    one: int  # places in the list of operations
    other: int
    calls: tuple[int, int] = (1, 1)
    slow: list[tuple[float, float]] = field(default_factory=list)  # by round
    alone: list[tuple[float, float]] = field(default_factory=list)  # a call
    in_turn: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    foretold_seconds: float | None = None  # from the other pairs, without this one

    @property
    def slowdowns(self) -> tuple[float, float]:
        """How many times as long a call of each takes beside the other."""
        return median(each[0] for each in self.slow), median(each[1] for each in self.slow)

    @property
    def work(self) -> tuple[float, float]:
        """What the calls of each take alone."""
        one, other = (median(each[at] for each in self.alone) for at in (0, 1))
        return one * self.calls[0], other * self.calls[1]

    @property
    def predicted_seconds(self) -> float:
        """What both take side by side, as the table has it."""
        return pair_seconds(*self.work, *self.slowdowns)

    @property
    def predicted_gain(self) -> bool:
        """Whether the table says that side by side is clearly better; without a table it always is."""
        return self.predicted_seconds * NEAR < sum(self.work)

    @property
    def ratio(self) -> Spread:
        """What side by side took by what in turn took, round by round."""
        return Spread.of([beside / turn for beside, turn in zip(self.beside, self.in_turn, strict=True)])

    @property
    def measured_gain(self) -> bool:
        """Whether side by side was clearly better."""
        return self.ratio.median * NEAR < 1

    @property
    def clear(self) -> bool:
        """Whether the rounds agree on that."""
        return self.ratio.high * NEAR < 1 or self.ratio.low * NEAR >= 1


@dataclass(slots=True)
class Together:
    """The pairs of the hottest operations of a run, and why others are not among them."""

    ops: list[Op]
    pairs: list[Pair]
    same: list[list[int]]  # for each operation all ops of the graph with equal calls
    notes: list[str] = field(default_factory=list)
    calm: bool = True  # whether the threads had a processor each, if there are so many
    interrupted: bool = False

    def rows(self) -> list[Beside]:
        """The table as costs.json has it."""
        found: dict[tuple[int, int], Beside] = {}
        for pair in self.pairs:
            for at, (one, other) in enumerate(((pair.one, pair.other), (pair.other, pair.one))):
                spread = Spread.of([each[at] for each in pair.slow])
                for op in self.same[one]:
                    for beside in self.same[other]:
                        found[op, beside] = Beside(
                            op=op, beside=beside, slowdown=spread.median, low=spread.low, high=spread.high
                        )
        return list(found.values())


def pair_seconds(one: float, other: float, slow_one: float, slow_other: float) -> float:
    """How long two pieces of work take side by side: each slowed while both run, then the rest of one alone."""
    if one * slow_one > other * slow_other:
        one, other, slow_one, slow_other = other, one, slow_other, slow_one
    both = one * slow_one
    return both + other - both / slow_other


def foretold(slow: Mapping[tuple[int, int], float], one: int, other: int) -> tuple[float, float]:
    """The slowdowns of a pair by a linear model of the others: how much one suffers times how much the other presses.

    Both are fitted in turn by least squares to what calls take more beside each other.
    """
    known = {cell: each - 1 for cell, each in slow.items() if cell not in ((one, other), (other, one))}
    suffers = {row: 1.0 for row, _ in known}
    presses = dict.fromkeys((column for _, column in known), 0.0)
    for _ in range(STEPS):
        for column in presses:
            presses[column] = _scale([(suffers[i], each) for (i, j), each in known.items() if j == column])
        for row in suffers:
            suffers[row] = _scale([(presses[j], each) for (i, j), each in known.items() if i == row])
    return tuple(1 + suffers.get(i, 0.0) * presses.get(j, 0.0) for i, j in ((one, other), (other, one)))  # type: ignore[return-value]


def _scale(points: Sequence[tuple[float, float]]) -> float:
    """The slope through the origin with the least squares."""
    square = sum(x * x for x, _ in points)
    return sum(x * y for x, y in points) / square if square else 0.0


class Meter:
    """Measures pairs of captured calls in threads of one measuring process."""

    def __init__(
        self, process: PuProcess, answer_seconds: float, *, rounds: int = ROUNDS,
        clock: Callable[[], float] = time.monotonic, cores: int | None = None,
    ) -> None:  # fmt: skip
        self.process, self.answer_seconds, self.rounds, self.clock = process, answer_seconds, rounds, clock
        self.cores = cores or _cores()
        self.interrupted = False
        self._numbers = 0
        self._waited: list[float] = []

    def measure(self, ops: Sequence[Op], samples: Samples, budget_seconds: float) -> Together:
        """The pairs of the first operations in the list that can run side by side."""
        found, cases, notes = self._prepared(ops, samples)
        same = [[op.id for op in ops if _key(samples, op) == _key(samples, each)] for each in found]
        pairs = [Pair(*pair) for pair in combinations_with_replacement(range(len(found)), 2)]
        begun = self.clock()
        try:
            for number in range(self.rounds):
                if number >= FEWEST_ROUNDS and self.clock() - begun > budget_seconds:
                    break
                for pair in pairs:
                    self._round(pair, (cases[pair.one][0], cases[pair.other][1]))
        except Ended as error:
            notes.append(f"not measured side by side to the end: {error}")
        except KeyboardInterrupt:
            self.interrupted = True  # what is known so far is worth a table
        pairs = [pair for pair in pairs if pair.beside]
        _foretell(pairs)
        waited = median(self._waited) if self._waited else 0.0
        if waited > BUSY and self.cores > 1:
            notes.append(
                f"side by side, threads waited for a processor {waited:.0%} of the time: others had the cores, so the "
                "table is not kept for plans"
            )
        return Together(found, pairs, same, notes, waited <= BUSY or self.cores == 1, self.interrupted)

    def _prepared(self, ops: Sequence[Op], samples: Samples) -> tuple[list[Op], list[tuple[int, int]], list[str]]:
        """The operations that are measured, their cases for the two lanes, and why hotter ones are not."""
        found: dict[str, tuple[Op, tuple[int, int]]] = {}
        left_out: dict[str, list[Op]] = {}
        for op in ops:
            if len(found) == MOST_OPS:
                break
            sample = samples.of(op)
            if isinstance(sample, Sample) and sample.key in found:
                continue
            case = sample if isinstance(sample, No) else self._case(sample)
            if isinstance(case, No):
                left_out.setdefault(case.reason, []).append(op)
            elif isinstance(sample, Sample):
                found[sample.key] = op, case
        return [op for op, _ in found.values()], [case for _, case in found.values()], _left_out(left_out)

    def _case(self, sample: Sample) -> tuple[int, int] | No:
        """The numbers of two cases with inputs of their own, or why there are none."""
        numbers = (self._numbers, self._numbers + 1)
        self._numbers += 2
        for number in numbers:
            request = {
                "do": "prepare",
                "case": number,
                "sample": str(sample.path),
                "variant": ORIGINAL,
                "buffers": FRESH,
            }
            try:
                answer = self.process.ask(request, self.answer_seconds)
            except Ended as error:
                return No(str(error))
            if answer.get("status") != "ok":
                return No(str(answer.get("reason", "no reason was given")))
            if answer["writes"]:
                return No("it writes what it is given")
        return numbers

    def _round(self, pair: Pair, cases: tuple[int, int]) -> None:
        """One more round: each alone, both, and then the work of both in turn and side by side."""
        alone = [self._ask({"do": "rates", "cases": [case], "seconds": WINDOW_SECONDS})[0] for case in cases]
        both = self._ask({"do": "rates", "cases": cases, "seconds": WINDOW_SECONDS})
        if not pair.alone:
            pair.calls = _calls(alone[0]), _calls(alone[1])
        work = {"do": "finish", "cases": cases, "calls": pair.calls}
        in_turn, beside = self._ask({**work, "in_turn": True}), self._ask({**work, "in_turn": False})
        pair.alone.append((alone[0], alone[1]))
        pair.slow.append((both[0] / alone[0], both[1] / alone[1]))
        pair.in_turn.append(in_turn)
        pair.beside.append(beside)

    def _ask(self, request: dict[str, Any]) -> Any:
        answer = self.process.ask(request, self.answer_seconds)
        if answer.get("status") != "ok":
            raise Ended(str(answer.get("reason", "no reason was given")))
        if len(request["cases"]) > 1 and "waited" in answer:
            self._waited.append(float(answer["waited"]))
        return answer["seconds"]


def _left_out(found: Mapping[str, Sequence[Op]]) -> list[str]:
    """Why operations are not among the pairs, with the hottest one for each reason."""
    more = {reason: f" and {len(ops) - 1} more" if len(ops) > 1 else "" for reason, ops in found.items()}
    return [f"not run side by side: {ops[0].label}{more[reason]}: {reason}" for reason, ops in found.items()]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _calls(seconds: float) -> int:
    return max(1, round(WORK_SECONDS / seconds))


def _key(samples: Samples, op: Op) -> str:
    sample = samples.of(op)
    return "" if isinstance(sample, No) else sample.key


def _foretell(pairs: Sequence[Pair]) -> None:
    """Fills in what the other pairs say of each one, where each operation is in another pair."""
    slow: dict[tuple[int, int], float] = {}
    for pair in pairs:
        slow[pair.one, pair.other], slow[pair.other, pair.one] = pair.slowdowns
    for pair in pairs:
        if len(pairs) > 3:
            pair.foretold_seconds = pair_seconds(*pair.work, *foretold(slow, pair.one, pair.other))
