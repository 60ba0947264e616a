"""Orders and placements that keep little alive, and a search for one that fits where none of them does."""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Iterator
from math import inf
from random import Random

from codedag.plan.gated import _Edges
from codedag.plan.problem import Problem, ints

Plan = tuple["array[int]", "array[int]"]  # placement and order
#: Of how many ops that are ready the most frugal one is taken where orders are drawn by lot, and the share of attempts
#: that draw a whole order instead of changing one a little.
DRAWN, FRESH = 6, 0.02
#: How far an op may be shifted in the order in one step.
FAR = 20
#: Temperatures of the search for what fits, as parts of the bytes that are too many.
HOT, COLD = 0.3, 0.003


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


def orders(problem: Problem, edges: _Edges) -> Iterator[bytes]:
    """Orders that keep little alive: what frees most first, and what was just made is read first."""
    yield frugal_order(problem, edges)
    yield deep_order(problem, edges)


def deep_order(problem: Problem, edges: _Edges) -> bytes:
    """An order that goes on with what was just made: the op that the last one made ready is next, the largest first."""
    waiting = [edges.waiting(op) for op in range(problem.n)]
    ready = sorted((op for op in range(problem.n) if not waiting[op]), key=lambda op: edges.nbytes[op])
    order = array("i")
    while ready:
        op = ready.pop()
        order.append(op)
        found = []
        for one in edges.followers(op):
            waiting[one] -= 1
            if not waiting[one]:
                found.append(one)
        ready += sorted(found, key=lambda one: edges.nbytes[one])
    return order.tobytes()


def drawn_order(problem: Problem, edges: _Edges, numbers: Random) -> bytes:
    """An order in which the next op is the one of some, drawn by lot, that leaves the least alive."""
    waiting = [edges.waiting(op) for op in range(problem.n)]
    left = [len(edges.readers(op)) for op in range(problem.n)]
    ready = [op for op in range(problem.n) if not waiting[op]]
    order = array("i")

    def growth(op: int) -> int:
        return edges.nbytes[op] - sum(edges.nbytes[one] for one in edges.flow(op) if left[one] == 1)

    while ready:
        at = min((int(numbers.random() * len(ready)) for _ in range(DRAWN)), key=lambda one: growth(ready[one]))
        op, ready[at] = ready[at], ready[-1]
        ready.pop()
        order.append(op)
        for one in edges.flow(op):
            left[one] -= 1
        for one in edges.followers(op):
            waiting[one] -= 1
            if not waiting[one]:
                ready.append(one)
    return order.tobytes()


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


def changed(problem: Problem, edges: _Edges, place: array[int], order: array[int], numbers: Random) -> Plan | None:
    """The plan with one op on another PU or elsewhere in the order, by lot; None if that cannot be."""
    op, k = numbers.randrange(problem.n), problem.k
    if k > 1 and numbers.random() < 0.6:
        pu = numbers.randrange(k)
        if pu == place[op] or problem.seconds[problem.rows[op] * k + pu] == inf:
            return None
        moved = place[:]
        moved[op] = pu
        return moved, order
    return _shifted(edges, place, order, op, numbers)


def _shifted(edges: _Edges, place: array[int], order: array[int], op: int, numbers: Random) -> Plan | None:
    at = order.index(op)
    before, after = {*edges.flow(op), *edges.order_only(op)}, set(edges.followers(op))
    low, high = at, at
    while low > 0 and at - low < FAR and order[low - 1] not in before:
        low -= 1
    while high < len(order) - 1 and high - at < FAR and order[high + 1] not in after:
        high += 1
    to = numbers.randint(low, high)
    if to == at:
        return None
    shifted = order[:]
    del shifted[at]
    shifted.insert(to, op)
    return place, shifted


class Fitting:
    """The search for a placement and an order that fit if one op runs at a time: annealing on the bytes too many."""

    def __init__(self, problem: Problem, edges: _Edges, starts: list[Plan]) -> None:
        self.problem, self.edges = problem, edges
        self.capacity = [pu.memory_nbytes for pu in problem.machine.pus]
        self.current = min(starts, key=self.over)
        self.best, self.least = self.current, self.over(self.current)

    def over(self, plan: Plan) -> int:
        """By how many bytes a plan exceeds the memories, in all."""
        peaks = peaks_one_by_one(self.problem, self.edges, *plan)
        return sum(max(0, peak - most) for peak, most in zip(peaks, self.capacity, strict=True))

    def go_on(self, attempts: int, numbers: Random) -> Plan | None:
        """A plan that fits, or None if so many more attempts have not found one."""
        self._draw(math.ceil(FRESH * attempts), numbers)
        self.current, over = self.best, self.least
        for at in range(attempts if self.least else 0):
            warmth = HOT * (COLD / HOT) ** (at / attempts) * (self.least + 1)
            other = changed(self.problem, self.edges, *self.current, numbers)
            if other is None:
                continue
            more = self.over(other) - over
            if more <= 0 or numbers.random() < math.exp(-more / warmth):
                self.current, over = other, over + more
            if over < self.least:
                self.best, self.least = self.current, over
            if not over:
                break
        return None if self.least else self.best

    def _draw(self, attempts: int, numbers: Random) -> None:
        """Looks at plans that begin anew: annealing changes an order little by little only."""
        for _ in range(attempts if self.least else 0):
            order = drawn_order(self.problem, self.edges, numbers)
            plan = ints(packed(self.problem, self.edges, order)), ints(order)
            over = self.over(plan)
            if over < self.least:
                self.best, self.least = plan, over
            if not over:
                return


def peaks_one_by_one(problem: Problem, edges: _Edges, place: array[int], order: array[int]) -> list[int]:
    """The peaks of a plan in which one op runs at a time, its inputs brought just before it."""
    k, nbytes, used, peaks = problem.k, edges.nbytes, [0] * problem.k, [0] * problem.k
    reads = _reads(edges, k, place)
    present = set[int]()
    for op in order:
        pu = place[op]
        for one in edges.flow(op):
            for src, dst in edges.hops(place[one], pu):
                if one * k + dst not in present:
                    present.add(one * k + dst)
                    used[dst] += nbytes[one]
                    peaks[dst] = max(peaks[dst], used[dst])
                    _read(one, src, k, reads, used, nbytes)
        used[pu] += nbytes[op]
        present.add(op * k + pu)
        peaks[pu] = max(peaks[pu], used[pu] + edges.scratch(op, pu))
        for one in edges.flow(op):
            _read(one, pu, k, reads, used, nbytes)
        if op * k + pu not in reads:
            used[pu] -= nbytes[op]
    return peaks


def _reads(edges: _Edges, k: int, place: array[int]) -> dict[int, int]:
    """How often each value is read on each PU: by ops, and by copies that leave it."""
    reads: dict[int, int] = {}
    known = set[int]()
    for op, pu in enumerate(place):
        for one in edges.flow(op):
            reads[one * k + pu] = reads.get(one * k + pu, 0) + 1
            for src, dst in edges.hops(place[one], pu):
                if one * k + dst not in known:
                    known.add(one * k + dst)
                    reads[one * k + src] = reads.get(one * k + src, 0) + 1
    return reads


def _read(op: int, pu: int, k: int, reads: dict[int, int], used: list[int], nbytes: array[int]) -> None:
    reads[op * k + pu] -= 1
    if not reads[op * k + pu]:
        used[pu] -= nbytes[op]
