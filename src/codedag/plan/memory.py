"""Plans within the memory of every PU: candidates that fit as they are, and candidates that wait until they fit."""

from __future__ import annotations

import heapq
import random
import time
from array import array
from collections.abc import Iterator
from dataclasses import replace
from math import inf

from codedag.ir import CannotPlan
from codedag.plan.gated import WINDOWS, Times, _Edges, edges_of, gated, least_peaks
from codedag.plan.problem import Problem, ints
from codedag.plan.search import Found
from codedag.plan.solution import Timetable
from codedag.plan.strategies import Candidate, Context, candidates

#: How many of the best candidates are tried with waiting, and how many ops the search that waits looks at per second.
TRIED = 8
#: How long candidates are tried with waiting once there is one that fits, beyond the budget.
PATIENCE_SECONDS = 2.0
OPS_PER_SECOND = 60_000


def may_bind(problem: Problem) -> bool:
    """Whether some plan could need more memory than a PU has: everything at once, with the largest scratch."""
    most = sum(problem.graph.op_columns.out_nbytes) + max(problem.scratch, default=0)
    return any(pu.memory_nbytes < most for pu in problem.machine.pus)


def within_memory(context: Context, found: Found, budget: float, seed: int) -> Found:
    """The best plan that respects every memory; raises CannotPlan naming the op, or the smallest peak reached."""
    problem = context.problem
    _refuse_impossible(problem)
    best = _as_early_as_possible(context, found)
    edges = edges_of(problem)
    waiting = _Waiting(context, edges, best.makespan if best else inf)
    deadline = time.monotonic() + budget + PATIENCE_SECONDS
    for candidate in _candidates(context, edges, found):
        waiting.offer(candidate)
        if time.monotonic() > deadline and (best or waiting.best):
            found.truncated = True
            break
    if problem.n <= 3000:
        waiting.improve(budget, seed)
    if waiting.best is not None and waiting.times is not None:
        return _stated(found, waiting.best, TimesTable(problem, waiting.times))
    if best is None:
        raise _none_found(context, edges)
    return found_with(found, best)


def found_with(found: Found, table: Timetable) -> Found:
    """The same search with this plan as its result."""
    return replace(found, best=Candidate(table.name, b"", b"", 0), table=table)


def _stated(found: Found, candidate: Candidate, table: Timetable) -> Found:
    return replace(found, best=replace(candidate, name=f"{candidate.name}, waiting for memory"), table=table)


class TimesTable(Timetable):
    """A timetable whose times are stated: as early as memory allows, not as early as turns allow."""

    def __init__(self, problem: Problem, times: Times) -> None:
        self.problem, self.place = problem, times.place
        self.start, self.end = times.start, times.end
        self.turn = array("q", bytes(8 * problem.n))
        columns: list[list[float]] = [list(column) for column in zip(*times.copies, strict=True)] or [[]] * 5
        self.op, self.src, self.dst = (array("i", map(int, column)) for column in columns[:3])
        self.copy_start, self.copy_end = array("d", columns[3]), array("d", columns[4])


def _refuse_impossible(problem: Problem) -> None:
    """Raises if an op with its inputs, its value and its scratch fits on no PU that supports it."""
    k, nbytes, inputs = problem.k, problem.graph.op_columns.out_nbytes, _input_bytes(problem)
    for row in range(problem.n):
        supported = [pu for pu in range(k) if problem.seconds[row * k + pu] < inf]
        needs = {
            pu: nbytes[row] + inputs[row] + (problem.scratch[row * k + pu] if problem.scratch else 0)
            for pu in supported
        }
        if all(
            needs[pu] > problem.machine.pus[pu].memory_nbytes and problem.seconds[row * k + pu] > 0 for pu in supported
        ):
            pu = min(supported, key=lambda one: needs[one] - problem.machine.pus[one].memory_nbytes)
            raise CannotPlan(
                f"{problem.graph.ops[row].label} fits nowhere: with its inputs it needs {needs[pu]} bytes on "
                f"`{problem.pus[pu]}`, which has {problem.machine.pus[pu].memory_nbytes}",
                hint="Use a machine with more memory, or smaller batches; no plan can help here.",
            )


def _input_bytes(problem: Problem) -> array[int]:
    edges, total = edges_of(problem), array("q", bytes(8 * problem.n))
    for op, row in enumerate(problem.rows):
        total[row] = sum(edges.nbytes[one] for one in edges.flow(op))
    return total


def _as_early_as_possible(context: Context, found: Found) -> Timetable | None:
    """The best candidate that fits although nothing waits."""
    ranked = [found.best, *sorted(candidates(context), key=lambda one: one.makespan)]
    for candidate in ranked:
        table = Timetable(context.problem, candidate)
        if fits(table):
            table.name = candidate.name
            return table
    return None


def fits(table: Timetable) -> bool:
    """Whether a timetable respects the memory of every PU."""
    pus = table.problem.machine.pus
    return all(nbytes <= pu.memory_nbytes for nbytes, pu in zip(table.peaks, pus, strict=True))


class _Waiting:
    """The best plan that waits for memory, and the search around it."""

    def __init__(self, context: Context, edges: _Edges, limit: float) -> None:
        self.context, self.edges, self.makespan = context, edges, limit
        self.best: Candidate | None = None
        self.times: Times | None = None
        self.start: Candidate | None = None

    def offer(self, candidate: Candidate, windows: tuple[int, ...] = WINDOWS) -> bool:
        """Whether the candidate is better once it waits."""
        for window in windows:
            times = gated(self.context.problem, self.edges, candidate.place, candidate.order, window)
            if times is not None and times.makespan < self.makespan:
                self.best, self.times, self.makespan = candidate, times, times.makespan
                return True
            if times is not None:
                return False
        return False

    def improve(self, budget: float, seed: int) -> None:
        """Moves ops to other PUs and places in the order, and keeps what helps; a fixed number of attempts."""
        if self.best is None or budget <= 0:
            return
        problem, numbers = self.context.problem, random.Random(seed)
        place, order = ints(self.best.place), ints(self.best.order)
        deadline = time.monotonic() + budget
        for _ in range(int(budget * OPS_PER_SECOND / (problem.n + 1))):
            changed = _changed(problem, self.edges, place, order, numbers)
            if changed is not None:
                candidate = Candidate(self.best.name, changed[0].tobytes(), changed[1].tobytes(), 0)
                if self.offer(candidate):
                    place, order = changed
            if time.monotonic() > deadline:
                return


def _changed(
    problem: Problem, edges: _Edges, place: array[int], order: array[int], numbers: random.Random
) -> tuple[array[int], array[int]] | None:
    op, k = numbers.randrange(problem.n), problem.k
    if k > 1 and numbers.random() < 0.6:
        pu = numbers.randrange(k)
        if pu == place[op] or problem.seconds[problem.rows[op] * k + pu] == inf:
            return None
        moved = place[:]
        moved[op] = pu
        return moved, order
    return _shifted(edges, place, order, op, numbers)


def _shifted(
    edges: _Edges, place: array[int], order: array[int], op: int, numbers: random.Random
) -> tuple[array[int], array[int]] | None:
    at = order.index(op)
    before, after = {*edges.flow(op), *edges.order_only(op)}, set(edges.followers(op))
    low, high = at, at
    while low > 0 and at - low < 20 and order[low - 1] not in before:
        low -= 1
    while high < len(order) - 1 and high - at < 20 and order[high + 1] not in after:
        high += 1
    to = numbers.randint(low, high)
    if to == at:
        return None
    shifted = order[:]
    del shifted[at]
    shifted.insert(to, op)
    return place, shifted


def _candidates(context: Context, edges: _Edges, found: Found) -> Iterator[Candidate]:
    """Plans that may fit if they wait: the fastest ones, and orders that keep little alive."""
    fast = sorted(candidates(context), key=lambda one: one.makespan)
    placements = {one.place: one.name for one in [found.best, *fast]}
    yield found.best
    yield from fast[:TRIED]
    order = frugal_order(context.problem, edges)
    for place, name in list(placements.items())[: TRIED if context.problem.n <= 5000 else 3]:
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


def packed(problem: Problem, edges: _Edges, order: bytes) -> bytes:
    """A placement that spreads what is alive over all memories: each op goes where it is cheapest and still fits."""
    k, place = problem.k, array("i", bytes(4 * problem.n))
    left = [len(edges.readers(op)) for op in range(problem.n)]
    used, on = [0] * k, [set[int]() for _ in range(problem.n)]
    for op in ints(order):
        pu = min(range(k), key=lambda one: _packing(problem, edges, op, one, used, on))
        place[op] = pu
        for one in (op, *edges.flow(op)):
            if pu not in on[one]:
                on[one].add(pu)
                used[pu] += edges.nbytes[one]
        for one in edges.flow(op):
            left[one] -= 1
        for one in (op, *edges.flow(op)):
            if not left[one]:
                for where in on[one]:
                    used[where] -= edges.nbytes[one]
                on[one].clear()
    return place.tobytes()


def _packing(
    problem: Problem, edges: _Edges, op: int, pu: int, used: list[int], on: list[set[int]]
) -> tuple[float, float, int]:
    """How much an op would exceed a memory, and what it would cost there."""
    seconds = problem.seconds[problem.rows[op] * problem.k + pu]
    far = [one for one in edges.flow(op) if pu not in on[one]]
    need = used[pu] + edges.nbytes[op] + edges.scratch(op, pu) + sum(edges.nbytes[one] for one in far)
    copies = sum(min(problem.copy_seconds(problem.rows[one], src, pu) for src in on[one]) for one in far if on[one])
    over = max(0, need - problem.machine.pus[pu].memory_nbytes) if seconds + copies < inf else inf
    return over, seconds + copies, pu


def frugal_order(problem: Problem, edges: _Edges) -> bytes:
    """An order in which the next op is the one that leaves the least alive: it frees most, or allocates least."""
    waiting = [edges.waiting(op) for op in range(problem.n)]
    left = [len(edges.readers(op)) for op in range(problem.n)]
    heap: list[tuple[int, int]] = []

    def growth(op: int) -> int:
        freed = sum(edges.nbytes[one] for one in edges.flow(op) if left[one] == 1)
        return (edges.nbytes[op] if left[op] else 0) - freed

    order = array("i")
    for op in range(problem.n):
        if not waiting[op]:
            heapq.heappush(heap, (growth(op), op))
    while heap:
        key, op = heapq.heappop(heap)
        if key != growth(op):  # something was read since: look again
            heapq.heappush(heap, (growth(op), op))
            continue
        order.append(op)
        for one in edges.flow(op):
            left[one] -= 1
        for one in edges.followers(op):
            waiting[one] -= 1
            if not waiting[one]:
                heapq.heappush(heap, (growth(one), one))
    return order.tobytes()


def frugal(context: Context) -> Iterator[Candidate]:
    """Every single PU in an order that keeps little alive."""
    problem, order = context.problem, frugal_order(context.problem, edges_of(context.problem))
    for pu in range(problem.k):
        if problem.supports_all(pu):
            place = (array("i", [pu]) * problem.n).tobytes()
            yield context.judged(f"single {problem.pus[pu]}, frugal order", place, order)


def _none_found(context: Context, edges: _Edges) -> CannotPlan:
    problem, best = context.problem, (inf, 0, 0)
    for candidate in _candidates(context, edges, Found(next(iter(candidates(context))))):
        for pu, peak in enumerate(least_peaks(problem, edges, candidate.place, candidate.order)):
            over = peak - problem.machine.pus[pu].memory_nbytes
            if over > 0:
                best = min(best, (over, peak, pu))
    _, peak, pu = best
    return CannotPlan(
        f"no plan was found that respects the memory; the smallest peak reached is {peak} bytes on "
        f"`{problem.pus[pu]}`, which has {problem.machine.pus[pu].memory_nbytes}",
        hint="Use a machine with more memory, or smaller batches; a larger --budget may find a plan.",
    )
