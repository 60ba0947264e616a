"""A plan with its times in seconds, as rows: made into a Plan, or written row by row when there are millions."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import inf
from typing import Any

import msgspec

from codedag.ir import Decision, Peak, Placement, Plan, Segment, Source, Step, Strategy, Tradeoff, Transfer
from codedag.plan.changes import moves_of
from codedag.plan.problem import Problem, floats, ints
from codedag.plan.segments import segments
from codedag.plan.strategies import Candidate

BATCH = 10_000
_ENCODER = msgspec.json.Encoder()


class Timetable:
    """When each op and each copy of a candidate starts and ends, in seconds; ops by the numbers of the model."""

    name = ""

    def __init__(self, problem: Problem, candidate: Candidate) -> None:
        self.problem, self.place = problem, ints(candidate.place)
        _, end, copies = problem.model.schedule(candidate.place, candidate.order)
        self.turn = array("q", end)  # in ticks: what came first where seconds are the same
        self.op, self.src, self.dst = (ints(column) for column in copies[:3])
        self.copy_turn = array("q", copies[4])
        times = problem.model.replay(candidate.place, end, copies)
        self.start, self.end, self.copy_start, self.copy_end = (floats(column) for column in times)

    @property
    def makespan(self) -> float:
        """The last end."""
        return max(max(self.end, default=0.0), max(self.copy_end, default=0.0))

    @cached_property
    def peaks(self) -> array[int]:
        """The most bytes alive at once on each PU."""
        columns = (self.op, self.src, self.dst, self.copy_start, self.copy_end)
        copies = tuple(column.tobytes() for column in columns)
        found = self.problem.model.peaks(self.place.tobytes(), self.start.tobytes(), self.end.tobytes(), copies)  # type: ignore[arg-type]
        return array("q", found)


@dataclass(slots=True)
class Solution:
    """The chosen plan, what it is compared with, and how it was found."""

    problem: Problem
    table: Timetable
    strategy: str
    lower_bound: float
    baseline: str
    baseline_seconds: float
    strategies: list[Strategy] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    truncated: bool = False
    with_peaks: bool = True
    front: list[Tradeoff] = field(default_factory=list)
    joules: float | None = None

    def plan(self) -> Plan:
        """The plan as one object."""
        tables = {name: list(rows()) for name, rows in self._tables()}
        everything: dict[str, Any] = {**tables, **self._facts()}
        return Plan(**everything)

    def pieces(self) -> Iterator[bytes]:
        """plan.json in pieces, so that rows never exist all at once."""
        facts = {"format": "codedag/plan", "version": 1, **msgspec.to_builtins(self._facts())}
        yield _ENCODER.encode(facts)[:-1]
        for name, rows in self._tables():
            yield b',\n"%b":[' % name.encode()
            yield from _lines(rows())
            yield b"]"
        yield b"}\n"

    def _facts(self) -> dict[str, Any]:
        machine = self.problem.machine
        return {
            "sources": self.sources,
            "moves": moves_of(self.problem, self._by_row()),
            "makespan_seconds": self.table.makespan,
            "lower_bound_seconds": self.lower_bound,
            "baseline_seconds": self.baseline_seconds,
            "truncated": self.truncated,
            "strategy": self.strategy,
            "strategies": self.strategies,
            "baseline": self.baseline,
            "peaks": self._peaks() if self.with_peaks else [],
            "simulated": [pu.name for pu in machine.pus if pu.simulated],
            "segments": self._segments() if self.with_peaks else [],
            "front": self.front,
            **({} if self.joules is None else {"joules": self.joules}),
        }

    def _segments(self) -> list[Segment]:
        """Units for backends that compile: runs of ops of one PU with an acyclic order between them."""
        problem, table = self.problem, self.table
        at, _, pred = (ints(part) for part in problem.model.edges[:3])
        before = [pred[at[op] : at[op + 1]] for op in range(problem.n)]
        order = sorted(range(problem.n), key=lambda one: (table.start[one], table.end[one], one))
        ids, rows = problem.graph.op_columns.id, problem.rows
        return [
            Segment(pu=problem.pus[table.place[ops[0]]], ops=[ids[rows[op]] for op in ops])
            for ops in segments(order, table.place, before)
        ]

    def _peaks(self) -> list[Peak]:
        pus = self.problem.machine.pus
        return [
            Peak(pu=pu.name, nbytes=nbytes, memory_nbytes=pu.memory_nbytes)
            for pu, nbytes in zip(pus, self.table.peaks, strict=True)
        ]

    def _tables(self) -> tuple[tuple[str, Callable[[], Iterable[Any]]], ...]:
        return (
            ("placement", self._placement), ("schedule", self._schedule),
            ("transfers", self._transfers), ("decisions", self._decisions),
        )  # fmt: skip

    def _by_row(self) -> array[int]:
        """The PU of each row of the graph."""
        place = array("i", bytes(4 * self.problem.n))
        for number, row in enumerate(self.problem.rows):
            place[row] = self.table.place[number]
        return place

    def _placement(self) -> Iterator[Placement]:
        ops, problem = self.problem.graph.op_columns, self.problem
        columns = zip(self._by_row(), ops.id, ops.name, ops.context, ops.file, ops.line, strict=True)
        for row, (pu, op, name, context, file, line) in enumerate(columns):
            variant = problem.variant_of(row, pu)
            yield Placement(
                op=op, name=name, context=context, file=file, line=line, pu=problem.pus[pu], variant=variant
            )

    def _schedule(self) -> Iterator[Step]:
        table, ids, rows = self.table, self.problem.graph.op_columns.id, self.problem.rows
        start, end, turn = table.start, table.end, table.turn
        for number in sorted(range(self.problem.n), key=lambda one: (start[one], end[one], turn[one])):
            yield Step(op=ids[rows[number]], start=start[number], end=end[number])

    def _transfers(self) -> Iterator[Transfer]:
        table, ids, rows, pus = self.table, self.problem.graph.op_columns.id, self.problem.rows, self.problem.pus
        start, end, turn, op = table.copy_start, table.copy_end, table.copy_turn, table.op
        for at in sorted(range(len(start)), key=lambda one: (start[one], end[one], turn[one], op[one])):
            src, dst = pus[table.src[at]], pus[table.dst[at]]
            yield Transfer(op=ids[rows[table.op[at]]], src=src, dst=dst, start=start[at], end=end[at])

    def _decisions(self) -> Iterator[Decision]:
        problem, ids = self.problem, self.problem.graph.op_columns.id
        for row, pu in enumerate(self._by_row()):
            other, why = reason(problem, row, pu)
            runner_up = f"{problem.pus[other]}/{problem.variant_of(row, other)}" if other is not None else ""
            chosen = f"{problem.pus[pu]}/{problem.variant_of(row, pu)}"
            yield Decision(op=ids[row], chosen=chosen, runner_up=runner_up, why=why)


def reason(problem: Problem, row: int, pu: int) -> tuple[int | None, str]:
    """The PU that comes second for an op by its own time, and why the chosen one was taken."""
    own = problem.seconds[row * problem.k : (row + 1) * problem.k]
    others = [one for one in range(problem.k) if one != pu and own[one] < inf]
    if not others:
        return None, "no other PU supports it, or has the memory for it"
    best = min(others, key=lambda one: own[one])
    if own[pu] <= own[best]:
        return best, f"faster here: {own[pu]:.3g} s against {own[best]:.3g} s"
    return best, f"{own[best]:.3g} s there against {own[pu]:.3g} s here, but copies and turns would cost more"


def _lines(rows: Iterable[Any]) -> Iterator[bytes]:
    rest, first = iter(rows), True
    while batch := list(islice(rest, BATCH)):
        yield (b"\n" if first else b",\n") + b",\n".join(map(_ENCODER.encode, batch))
        first = False


def bound_in_seconds(problem: Problem, bound: float, makespan: float) -> float:
    """The lower bound in seconds, rounded so that it never exceeds what a plan reaches."""
    # Each op and copy on a path was rounded by half a tick at most.
    return max(0.0, min((bound - problem.n) * problem.model.quantum, makespan))
