"""Plans within the memory of every PU: candidates that fit as they are, and candidates that wait until they fit."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from math import inf
from random import Random

from codedag.ir import CannotPlan
from codedag.plan.frugal import Fitting, Plan, changed, frugal_order, orders, packed, peaks_one_by_one
from codedag.plan.gated import WINDOWS, Times, _Edges, edges_of, gated
from codedag.plan.problem import Problem, ints
from codedag.plan.search import Found, latest, stage_seconds
from codedag.plan.solution import Timetable
from codedag.plan.strategies import Candidate, Context, candidates

#: How many of the best candidates are tried with waiting, in all and where the graph is large.
TRIED, TRIED_OF_LARGE, LARGE = 8, 3, 5_000
#: How long candidates are tried with waiting once there is one that fits, beyond the budget.
PATIENCE_SECONDS = 10.0
WAITS = ", waiting for memory"
#: Larger graphs are not improved: one attempt would be a part of the budget.
LARGEST_IMPROVED = 3_000
#: Ops that the search that waits looks at per second of the budget; it looks at 40,000 to 60,000 here.
OPS_PER_SECOND = 30_000
#: The search for a plan that fits looks at this many times as many, and at so many ops whatever the budget.
FASTER, FEWEST = 5, 100_000


def may_bind(problem: Problem) -> bool:
    """Whether some plan could need more memory than a PU has: everything at once, with the largest scratch."""
    most = sum(problem.graph.op_columns.out_nbytes) + max(problem.scratch, default=0)
    return any(pu.memory_nbytes < most for pu in problem.machine.pus)


def within_memory(context: Context, found: Found, budget: float, seed: int) -> Found:
    """The best plan that respects every memory; raises CannotPlan naming the smallest peak reached."""
    problem = context.problem
    fast = sorted(candidates(context), key=lambda one: one.makespan)
    waiting = _Waiting(context, edges_of(problem))
    any(waiting.early(one) for one in [found.ends[0], *fast])  # the first that fits is the best of them
    late = time.thread_time() + budget + PATIENCE_SECONDS
    for candidate in _candidates(context, waiting.edges, found.ends[0], fast):
        waiting.offer(candidate)
        if time.thread_time() > late and waiting.best is not None:
            found.truncated = True
            break
    if 1 < problem.n <= LARGEST_IMPROVED:
        if waiting.best is None:
            waiting.fit(FEWEST // problem.n + 100, Random(seed))
        found.truncated |= waiting.improve(found, budget, seed)
    waiting.early(found.best)  # the solver's, after all stages
    if waiting.best is None:
        raise _none_found(waiting)
    return replace(found, best=waiting.best, table=_not_later(waiting.table))


class TimesTable(Timetable):
    """A timetable whose times are stated: as early as memory allows, not as early as turns allow."""

    def __init__(self, problem: Problem, times: Times) -> None:
        self.problem, self.place = problem, times.place
        self.start, self.end = times.start, times.end
        self.turn = array("q", bytes(8 * problem.n))
        columns: list[list[float]] = [list(column) for column in zip(*times.copies, strict=True)] or [[]] * 5
        self.op, self.src, self.dst = (array("i", map(int, column)) for column in columns[:3])
        self.copy_start, self.copy_end = array("d", columns[3]), array("d", columns[4])
        self.copy_turn = array("q", bytes(8 * len(self.op)))


def _not_later(table: Timetable | None) -> Timetable | None:
    """The timetable with everything as early as its turn allows, if that fits: then nothing had to wait."""
    if isinstance(table, TimesTable):
        pulled = TimesTable(table.problem, earliest(table))
        return pulled if fits(pulled) else table
    return table


def earliest(table: Timetable) -> Times:
    """When everything could begin at the earliest, with the same turns."""
    problem, links, op, src, dst = table.problem, table.problem.links, table.op, table.src, table.dst
    k, edges, where, rows = problem.k, edges_of(problem), table.place, problem.rows
    tasks = [(table.start[v], table.end[v], v, -1) for v in range(problem.n)]
    tasks += [(table.copy_start[c], table.copy_end[c], op[c], c) for c in range(len(op))]
    have, pus, lanes = dict[int, float](), [0.0] * k, [0.0] * (k * k)
    start, end = array("d", bytes(8 * problem.n)), array("d", bytes(8 * problem.n))
    copies: list[tuple[int, int, int, float, float]] = []
    for _, _, v, c in sorted(tasks):
        if c >= 0:
            lane = links.lane[src[c] * k + dst[c]]
            begun = max(have[v * k + src[c]], lanes[lane])
            lanes[lane] = have[v * k + dst[c]] = begun + problem.copy_seconds(rows[v], src[c], dst[c])
            copies.append((v, src[c], dst[c], begun, lanes[lane]))
            continue
        pu, group = where[v], links.group[where[v]]
        values = [have[one * k + pu] for one in edges.flow(v)]
        start[v] = max([pus[group], *values, *(end[one] for one in edges.order_only(v))])
        end[v] = pus[group] = have[v * k + pu] = start[v] + problem.seconds[rows[v] * k + pu]
    return Times(where, start, end, copies)


def with_room(problem: Problem) -> Problem:
    """The problem without PUs that cannot hold an op, its inputs and its scratch; raises if none can hold one.

    What takes no time holds no bytes, so it can be anywhere.
    """
    k, nbytes, inputs = problem.k, problem.graph.op_columns.out_nbytes, _input_bytes(problem)
    memory = [pu.memory_nbytes for pu in problem.machine.pus]
    without: list[int] = []
    for row in range(problem.n):
        supported = [cell for cell in range(row * k, row * k + k) if problem.seconds[cell] < inf]
        needs = {
            cell: nbytes[row] + inputs[row] + (problem.scratch[cell] if problem.scratch else 0) for cell in supported
        }
        tight = [cell for cell in supported if needs[cell] > memory[cell % k] and problem.seconds[cell] > 0]
        if len(tight) == len(supported):
            raise _fits_nowhere(problem, row, needs)
        without += tight
    return problem.without(without) if without else problem


def _fits_nowhere(problem: Problem, row: int, needs: dict[int, int]) -> CannotPlan:
    pus = problem.machine.pus
    cell = min(needs, key=lambda one: needs[one] - pus[one % problem.k].memory_nbytes)
    pu = pus[cell % problem.k]
    return CannotPlan(
        f"{problem.graph.ops[row].label} fits nowhere: with its inputs it needs {needs[cell]} bytes on `{pu.name}`, "
        f"which has {pu.memory_nbytes}",
        hint="Use a machine with more memory, or smaller batches; no plan can help here.",
    )


def _input_bytes(problem: Problem) -> array[int]:
    edges, total = edges_of(problem), array("q", bytes(8 * problem.n))
    for op, row in enumerate(problem.rows):
        total[row] = sum(edges.nbytes[one] for one in edges.flow(op))
    return total


def fits(table: Timetable) -> bool:
    """Whether a timetable respects the memory of every PU."""
    pus = table.problem.machine.pus
    return all(nbytes <= pu.memory_nbytes for nbytes, pu in zip(table.peaks, pus, strict=True))


class _Waiting:
    """The best plan that fits, with its times, and the search around it."""

    def __init__(self, context: Context, edges: _Edges) -> None:
        self.context, self.edges, self.makespan = context, edges, inf
        self.best: Candidate | None = None
        self.table: Timetable | None = None
        self.tried: list[Plan] = []  # until one fits

    def early(self, candidate: Candidate) -> bool:
        """Whether the candidate fits although nothing waits, and is better so."""
        table = Timetable(self.context.problem, candidate)
        if not fits(table) or table.makespan >= self.makespan:
            return False
        self.best, self.table, self.makespan = candidate, table, table.makespan
        return True

    def offer(self, candidate: Candidate) -> bool:
        """Whether the candidate is better once it waits."""
        problem = self.context.problem
        for window in WINDOWS:
            times = gated(problem, self.edges, candidate.place, candidate.order, window)
            if times is not None and times.makespan < self.makespan:
                self.best = replace(candidate, name=f"{candidate.name.removesuffix(WAITS)}{WAITS}")
                self.table, self.makespan = TimesTable(problem, times), times.makespan
                return True
            if times is not None:
                return False
        if self.best is None:
            self.tried.append((ints(candidate.place), ints(candidate.order)))
        return False

    def improve(self, found: Found, budget: float, seed: int) -> bool:
        """Goes on from where each stage of the search ended; whether the clock cut that short.

        The path does not depend on the budget, which only says how far along it we go.
        """
        late, ends = latest(budget), found.ends
        for number, seconds in enumerate(_stages(found, budget)):
            if number + 1 < len(ends) and ends[number + 1] != ends[number]:
                self.early(ends[number + 1])
                self.offer(ends[number + 1])
            numbers, attempts = Random(f"{seed} {number}"), self._attempts(seconds)
            if self.best is None:
                self.fit(FASTER * attempts, numbers)
            elif not self._moved(self.best, attempts, numbers, late):
                return True
            if time.thread_time() > late:
                return True
        return False

    def _attempts(self, seconds: float) -> int:
        return int(seconds * OPS_PER_SECOND / (self.context.problem.n + 1))

    def fit(self, attempts: int, numbers: Random) -> None:
        """Looks for a plan that fits at all."""
        plan = self.fitting.go_on(attempts, numbers)
        if plan is not None:
            self.offer(Candidate("fitted", plan[0].tobytes(), plan[1].tobytes(), 0))

    @cached_property
    def fitting(self) -> Fitting:
        """The search for a plan that fits, from all that were tried in vain."""
        return Fitting(self.context.problem, self.edges, self.tried)

    def _moved(self, best: Candidate, attempts: int, numbers: Random, late: float) -> bool:
        """Moves ops to other PUs and places in the order, and keeps what helps; False if the time is over before."""
        place, order = ints(best.place), ints(best.order)
        for _ in range(attempts):
            other = changed(self.context.problem, self.edges, place, order, numbers)
            if other is not None:
                candidate = Candidate(best.name, other[0].tobytes(), other[1].tobytes(), 0)
                if self.offer(candidate):
                    place, order = other
            if time.thread_time() > late:
                return False
        return True


def _stages(found: Found, budget: float) -> Iterator[float]:
    """The stages that a budget pays for: as many as the search had, and more if it could not go on."""
    spent, done = 0.0, len(found.ends) - 1
    for number, seconds in enumerate(stage_seconds()):
        spent += seconds
        if number >= done and (spent > budget or not found.ended):
            return
        yield seconds


def _candidates(context: Context, edges: _Edges, first: Candidate, fast: list[Candidate]) -> Iterator[Candidate]:
    """Plans that may fit if they wait: the fastest ones, and orders that keep little alive."""
    tried = TRIED if context.problem.n <= LARGE else TRIED_OF_LARGE
    placements = {one.place: one.name for one in [first, *fast]}
    yield first
    yield from fast[:tried]
    for order in orders(context.problem, edges):
        for place, name in list(placements.items())[:tried]:
            yield Candidate(f"{name}, frugal order", place, order, 0)
        yield Candidate("packed", packed(context.problem, edges, order), order, 0)
        for place, name in _spread(context):
            yield Candidate(f"{name}, frugal order", place, order, 0)


def _spread(context: Context) -> Iterator[tuple[bytes, str]]:
    """Each op on the PU with the most memory that supports it."""
    problem = context.problem
    ranked = sorted(range(problem.k), key=lambda pu: -problem.machine.pus[pu].memory_nbytes)
    k = problem.k
    yield (
        array(
            "i", (next(pu for pu in ranked if problem.seconds[row * k + pu] < inf) for row in problem.rows)
        ).tobytes(),
        "roomiest",
    )


def frugal(context: Context) -> Iterator[Candidate]:
    """Every single PU in an order that keeps little alive."""
    problem, order = context.problem, frugal_order(context.problem, edges_of(context.problem))
    for pu in range(problem.k):
        if problem.supports_all(pu):
            place = (array("i", [pu]) * problem.n).tobytes()
            yield context.judged(f"single {problem.pus[pu]}, frugal order", place, order)


def _none_found(waiting: _Waiting) -> CannotPlan:
    problem = waiting.context.problem
    peaks = peaks_one_by_one(problem, waiting.edges, *waiting.fitting.best)
    most = [pu.memory_nbytes for pu in problem.machine.pus]
    pu = max(range(problem.k), key=lambda one: peaks[one] - most[one])
    return CannotPlan(
        f"no plan was found that respects the memory; the smallest peak reached is {peaks[pu]} bytes on "
        f"`{problem.pus[pu]}`, which has {most[pu]}",
        hint="Use a machine with more memory, or smaller batches; a larger --budget may find a plan.",
    )
