"""K parts of a graph grown around its bottlenecks, and their refinement by moving nodes at the border.

Loads and cut edges say nothing about time on unlike devices, so parts are candidates that must win under the simulator
like all others; balance and cut are reported.
"""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from codedag.plan.problem import NEVER, ints
from codedag.plan.strategies import Candidate, Context

#: Up to so many PUs every way to give parts to PUs is tried.
MOST_PERMUTED = 4


@dataclass(slots=True)
class Weighted:
    """A graph for cutting: the load and bytes of each node, and its neighbours with the bytes between them."""

    load: list[float]
    nbytes: list[float]
    near: list[dict[int, float]] = field(default_factory=list)

    @classmethod
    def of(cls, load: Sequence[float], nbytes: Sequence[float], edges: Iterable[tuple[int, int, float]]) -> Weighted:
        """The graph without directions; repeated edges add up."""
        near: list[dict[int, float]] = [{} for _ in load]
        for source, target, weight in edges:
            if source != target:
                near[source][target] = near[source].get(target, 0.0) + weight
                near[target][source] = near[target].get(source, 0.0) + weight
        return cls(list(load), list(nbytes), near)

    def __len__(self) -> int:
        return len(self.load)

    def distances(self, start: int) -> list[int]:
        """Edges from a node to every other, -1 where none leads."""
        far = [-1] * len(self)
        far[start] = 0
        queue = deque((start,))
        while queue:
            node = queue.popleft()
            for other in self.near[node]:
                if far[other] < 0:
                    far[other] = far[node] + 1
                    queue.append(other)
        return far


@dataclass(frozen=True, slots=True)
class Taste:
    """How the guides weigh distance against load: centres by `spread`, growth by alpha, beta and gamma."""

    spread: float = 0.5
    alpha: float = 0.5
    beta: float = 0.3
    gamma: float = 0.2


@dataclass(slots=True)
class Parts:
    """The part of each node and the centre of each part."""

    part: list[int]
    centres: list[int]
    loads: list[float]

    @property
    def imbalance(self) -> float:
        """The spread of the loads, as a part of their mean (0 = all equal)."""
        mean = sum(self.loads) / len(self.loads) if self.loads else 0.0
        if mean <= 0:
            return 0.0
        return float((sum((load - mean) ** 2 for load in self.loads) / len(self.loads)) ** 0.5 / mean)


def cut(graph: Weighted, part: Sequence[int]) -> tuple[int, float]:
    """How many edges join different parts, and their bytes."""
    crossing = [w for v, near in enumerate(graph.near) for u, w in near.items() if u > v and part[u] != part[v]]
    return len(crossing), sum(crossing)


def grow(graph: Weighted, k: int, taste: Taste | None = None) -> Parts:
    """K parts (fewer if there are fewer nodes) that grow from far-apart heavy centres, the lightest part first."""
    taste = taste or Taste()
    centres, far = _centres(graph, min(k, len(graph)), taste)
    parts = Parts([-1] * len(graph), centres, [0.0] * len(centres))
    heaps: list[list[tuple[float, int]]] = [[] for _ in centres]
    top = max(graph.load, default=0.0) or 1.0
    wide = max((max(one) for one in far), default=0) or 1

    def take(number: int, node: int) -> None:
        parts.part[node] = number
        parts.loads[number] += graph.load[node]
        for other in graph.near[node]:
            if parts.part[other] < 0:
                score = taste.alpha * graph.load[other] / top - taste.beta * far[number][other] / wide
                heapq.heappush(heaps[number], (-score, other))

    for number, node in enumerate(centres):
        take(number, node)
    _spread(graph, parts, heaps, take, taste)
    return parts


def _spread(graph: Weighted, parts: Parts, heaps: list[list[tuple[float, int]]], take: object, taste: Taste) -> None:
    """The lightest part takes its best neighbour; a part that has none left takes what nobody borders on."""
    assert callable(take)
    left = sorted((node for node, one in enumerate(parts.part) if one < 0), key=lambda node: (graph.load[node], -node))
    turns = [(load, number) for number, load in enumerate(parts.loads)]
    heapq.heapify(turns)
    while turns:
        _, number = heapq.heappop(turns)
        heap = heaps[number]
        while heap and parts.part[heap[0][1]] >= 0:
            heapq.heappop(heap)
        while left and parts.part[left[-1]] >= 0:
            left.pop()
        if heap:
            take(number, heapq.heappop(heap)[1])
        elif left:
            take(number, left.pop())
        else:
            continue
        heapq.heappush(turns, (parts.loads[number] * (1 + taste.gamma), number))


def _centres(graph: Weighted, k: int, taste: Taste) -> tuple[list[int], list[list[int]]]:
    """Nodes that are heavy and far from those chosen before, with the distances from each."""
    total, chosen, far = sum(graph.load) or 1.0, list[int](), list[list[int]]()
    nearest = [1 << 30] * len(graph)
    for _ in range(k):
        widest = max((d for d in nearest if d < 1 << 30), default=0) or 1
        scores = (
            (taste.spread * min(nearest[v], widest) / widest if chosen else 0.0)
            + (1 - taste.spread) * graph.load[v] / total
            for v in range(len(graph))
        )
        taken = set(chosen)
        best = max(((score, -v) for v, score in enumerate(scores) if v not in taken), default=None)
        if best is None:
            break
        chosen.append(-best[1])
        far.append(graph.distances(chosen[-1]))
        nearest = [min(a, b) if b >= 0 else a for a, b in zip(nearest, far[-1], strict=True)]
    return chosen, far


@dataclass(slots=True)
class Refined:
    """What refinement did: its objective before and after, and how many moves it made."""

    before: float
    after: float
    moves: int = 0
    tried: int = 0


def refine(
    graph: Weighted, parts: Parts, most: int, *, alpha: float = 0.5, beta: float = 0.5, patience: int = 50
) -> Refined:
    """Moves border nodes while alpha * imbalance + beta * (cut bytes / all bytes) falls; changes the parts in place.

    A centre never moves and no part becomes empty.  Gains are computed from the neighbours of the node alone.
    """
    if len(parts.loads) < 2:
        return Refined(0.0, 0.0)
    whole = sum(w for near in graph.near for w in near.values()) / 2 or 1.0
    objective = alpha * parts.imbalance + beta * cut(graph, parts.part)[1] / whole
    done = Refined(objective, objective)
    fixed, idle = set(parts.centres), 0
    heap = [entry for node in range(len(graph)) for entry in _moves(graph, parts, node, fixed)]
    heapq.heapify(heap)
    while heap and done.tried < most and idle < patience:
        _, node, to = heapq.heappop(heap)
        done.tried += 1
        gain = _gain(graph, parts, node, to, alpha, beta / whole)
        if node in fixed or parts.part[node] == to or gain <= 1e-12:
            idle += 1
            continue
        idle, done.moves, done.after = 0, done.moves + 1, done.after - gain
        parts.loads[parts.part[node]] -= graph.load[node]
        parts.loads[to] += graph.load[node]
        parts.part[node] = to
        for other in graph.near[node]:
            for entry in _moves(graph, parts, other, fixed):
                heapq.heappush(heap, entry)
    return done


def parts(context: Context) -> Iterator[Candidate]:
    """The plans in which each PU runs one part of the graph, as grown and as refined."""
    problem = context.problem
    at, mid, pred = (ints(part) for part in context.model.edges[:3])
    load = [_least(context.costs[v * problem.k : (v + 1) * problem.k]) for v in range(problem.n)]
    out = problem.graph.op_columns.out_nbytes
    nbytes = [float(out[row]) for row in problem.rows]
    edges = [(p, v, nbytes[p]) for v in range(problem.n) for p in pred[at[v] : mid[v]]]
    graph = Weighted.of(load, nbytes, edges)
    grown = grow(graph, problem.k)
    yield from _mapped(context, "k-way", grown)
    refine(graph, grown, 10 * problem.n)
    yield from _mapped(context, "k-way refined", grown)


def _least(costs: Sequence[int]) -> float:
    return float(min(costs))


def _mapped(context: Context, name: str, grown: Parts) -> Iterator[Candidate]:
    """The parts on the PUs, in the way that makes the loads smallest; ops go elsewhere where they must."""
    k, costs = context.problem.k, context.costs
    count = len(grown.loads)
    ways = permutations(range(k), count) if k <= MOST_PERMUTED else iter([tuple(range(count))])
    totals = [[0] * k for _ in range(count)]
    for v, part in enumerate(grown.part):
        for d in range(k):
            totals[part][d] += min(costs[v * k + d], NEVER >> 20)
    best = min(ways, key=lambda way: (max((totals[part][d] for part, d in enumerate(way)), default=0), way))
    place = array("i", (best[part] for part in grown.part))
    for v, d in enumerate(place):
        own = costs[v * k : (v + 1) * k]
        if own[d] >= NEVER:
            place[v] = own.index(min(own))
    listed = context.listed(name, context.order(0, 1.0), fixed=place.tobytes())
    if listed is not None:
        yield listed


def _moves(graph: Weighted, parts: Parts, node: int, fixed: set[int]) -> list[tuple[float, int, int]]:
    if node in fixed:
        return []
    pull: dict[int, float] = {}
    for other, weight in graph.near[node].items():
        pull[parts.part[other]] = pull.get(parts.part[other], 0.0) + weight
    own = pull.get(parts.part[node], 0.0)
    return [(own - weight, node, to) for to, weight in sorted(pull.items()) if to != parts.part[node]]


def _gain(graph: Weighted, parts: Parts, node: int, to: int, alpha: float, beta: float) -> float:
    source, before = parts.part[node], parts.imbalance
    saved = sum(w * ((parts.part[o] == to) - (parts.part[o] == source)) for o, w in graph.near[node].items())
    loads = parts.loads
    loads[source], loads[to] = loads[source] - graph.load[node], loads[to] + graph.load[node]
    after = parts.imbalance
    loads[source], loads[to] = loads[source] + graph.load[node], loads[to] - graph.load[node]
    return alpha * (before - after) + beta * saved
