"""A loop of a program as a line of stages, one thread each: which operations, and what it would bring."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf

from codedag.ir import Graph
from codedag.plan.depths import Depths, depths
from codedag.plan.line import Line, line
from codedag.plan.problem import STAY
from codedag.plan.solution import Timetable
from codedag.plan.stages import stages

MOST_LOOPS = 4  # numbers of rounds that are looked at, those with the most time first
MOST_ITEMS = 1_000  # whose calls are followed one by one


@dataclass(frozen=True, slots=True)
class Work:
    """What the operations of a planned program take, by row of the graph."""

    graph: Graph
    seconds: Sequence[float]
    turns: Sequence[Hashable]  # what each occupies; equal ones take turns
    units: Mapping[Hashable, int] = field(default_factory=dict)  # how many there are of it, one if not said
    calls: Mapping[int, Sequence[float]] = field(default_factory=dict)  # of an op, if every single one is known
    slowdowns: Mapping[tuple[int, int], float] = field(default_factory=dict)  # of an op beside another one


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Some stages for a loop, and what the whole program would take with them."""

    items: int
    stages: list[list[int]]  # ops
    item_seconds: list[float]  # what each stage takes for one item beside the others
    queues: Depths
    alone_seconds: float  # the program, if stages cost each other nothing
    seconds: float  # the program, with what was measured that they do
    ordered: list[int]  # ops of several stages whose order may matter: a line changes it

    @property
    def bottleneck_seconds(self) -> float:
        """What the slowest stage takes for one item."""
        return max(self.item_seconds, default=0.0)


def pipeline(work: Work, k: int) -> Pipeline | None:
    """The best line of 2 to k stages for the best loop of the program; None if there is no loop that can be cut."""
    found = [made for loop in _loops(work) for count in range(2, k + 1) if (made := _line(work, *loop, count))]
    return min(found, key=lambda one: (one.seconds, len(one.stages)), default=None)


def work_of(table: Timetable, calls: Mapping[int, Sequence[float]], slow: Mapping[tuple[int, int], float]) -> Work:
    """The work of a plan; a copy counts with the op that made its value."""
    problem = table.problem
    seconds, turns = [0.0] * problem.n, [problem.machine.pus[0].turn] * problem.n
    for number, row in enumerate(problem.rows):
        seconds[row] = table.end[number] - table.start[number]
        turns[row] = problem.machine.pus[table.place[number]].turn
    for op, start, end in zip(table.op, table.copy_start, table.copy_end, strict=True):
        seconds[problem.rows[op]] += end - start
    host = problem.machine.pu(STAY)
    units: dict[Hashable, int] = {}
    if host is not None and isinstance(host.threads, int):
        units[host.turn] = host.threads
    return Work(problem.graph, seconds, turns, units, calls, slow)


def _loops(work: Work) -> Iterator[tuple[int, list[int]]]:
    """The loops there may be: a number of rounds, and the rows in program order that take part in each round.

    These are operations joined by edges whose counts are multiples of it, and the functions around them.
    """
    counts = work.graph.op_columns.count
    weight: defaultdict[int, float] = defaultdict(float)
    for count, seconds in zip(counts, work.seconds, strict=True):
        weight[count] += seconds
    for rounds in sorted(weight, key=lambda one: -weight[one])[:MOST_LOOPS]:
        if rounds > 1:
            part = max(_parts(work, rounds), key=lambda rows: sum(work.seconds[row] for row in rows))
            yield rounds, sorted(part | _around(work, part, rounds), key=_order(work.graph).__getitem__)


def _order(graph: Graph) -> list[int]:
    """The place of each row in the order of the program, or in one that respects the edges if the rows do not."""
    if all(src < dst for src, dst in zip(*graph.edge_rows(), strict=True)):
        return list(range(len(graph)))
    places = [0] * len(graph)
    for place, row in enumerate(graph.topological_rows()):
        places[row] = place
    return places


def _parts(work: Work, rounds: int) -> list[set[int]]:
    """The rows that can be part of such a loop, in sets that are joined by edges."""
    counts, kinds = work.graph.op_columns.count, work.graph.op_columns.kind
    part = {row: {row} for row, count in enumerate(counts) if count % rounds == 0 and kinds[row] != "region"}
    for src, dst in zip(*work.graph.edge_rows(), strict=True):
        if src in part and dst in part and part[src] is not part[dst]:
            small, large = sorted((part[src], part[dst]), key=len)
            large |= small
            part.update(dict.fromkeys(small, large))
    return list({id(rows): rows for rows in part.values()}.values()) or [set()]


def _around(work: Work, part: set[int], rounds: int) -> set[int]:
    """The functions that run in each round around some rows: their own code is a part of the round."""
    graph, found = work.graph, set[int]()
    for row in part:
        while (parent := graph.op_columns.parent[row]) >= 0:
            row = graph.row(parent)
            if row in found or graph.op_columns.count[row] % rounds:
                break
            found.add(row)
    return found - part


def _line(work: Work, items: int, rows: list[int], k: int) -> Pipeline | None:
    """The line of up to k stages for one loop, or None if it cannot be cut."""
    each = [work.seconds[row] / items for row in rows]
    cut = stages(each, k, _handovers(work.graph, rows))
    if len(cut.begins) < 2:
        return None
    parts = [rows[begin:end] for begin, end in zip(cut.begins, [*cut.begins[1:], len(rows)], strict=True)]
    alone = [[work.seconds[row] / items for row in part] for part in parts]
    slowed = _slowed(work, parts, alone, cut.bottleneck_seconds)
    free = line(_times(work, parts, alone, items))
    times = _times(work, parts, slowed, items)
    queues = depths(times, [_crossing(work.graph, rows, at) // items for at in cut.begins[1:]])
    rest = sum(work.seconds) - sum(each) * items
    ids = work.graph.op_columns.id
    return Pipeline(
        items, [[ids[row] for row in part] for part in parts], [sum(own) for own in slowed], queues,
        rest + _took(work, parts, alone, items, free),
        rest + _took(work, parts, slowed, items, line(times, queues.depths)),
        _ordered(work.graph, parts),
    )  # fmt: skip


def _handovers(graph: Graph, rows: list[int]) -> list[float]:
    """Where the loop must not be cut: what a later round reads at its begin is made at the end of this one."""
    places = {row: place for place, row in enumerate(rows)}
    changes = [0] * len(rows)  # how many such pairs begin, less those that end
    for one in graph.carried:
        src, dst = places.get(graph.row(one.src), -1), places.get(graph.row(one.dst), -1)
        if 0 <= dst < src:
            changes[dst] += 1
            changes[src] -= 1
    return [inf if held else 0.0 for held in accumulate(changes[:-1])]


def _slowed(work: Work, parts: list[list[int]], alone: list[list[float]], period: float) -> list[list[float]]:
    """What each op takes beside the other stages: what each of theirs costs it, by the share of time that it runs."""
    ids = work.graph.op_columns.id
    stage = {ids[row]: number for number, part in enumerate(parts) for row in part}
    share = {
        ids[row]: min(own / period, 1.0) if period else 0.0
        for part, seconds in zip(parts, alone, strict=True)
        for row, own in zip(part, seconds, strict=True)
    }
    more: defaultdict[int, float] = defaultdict(float)
    for (op, beside), slowdown in work.slowdowns.items():
        if op in stage and beside in stage and stage[op] != stage[beside]:
            more[op] += max(slowdown - 1, 0.0) * share[beside]
    return [
        [own * (1 + more[ids[row]]) for row, own in zip(part, seconds, strict=True)]
        for part, seconds in zip(parts, alone, strict=True)
    ]


def _times(work: Work, parts: list[list[int]], own: list[list[float]], items: int) -> list[list[float]]:
    """What each stage takes for each item, or for the first ones of many."""
    ids, found = work.graph.op_columns.id, []
    for part, seconds in zip(parts, own, strict=True):
        times = [0.0] * min(items, MOST_ITEMS)
        steady = 0.0
        for row, each in zip(part, seconds, strict=True):
            shape = _shape(work.calls.get(ids[row], ()), items)
            steady += 0.0 if shape else each
            times = [now + each * factor for now, factor in zip(times, shape, strict=False)] if shape else times
        found.append([each + steady for each in times])
    return found


def _shape(calls: Sequence[float], items: int) -> list[float]:
    """How the calls for each item vary around their mean; empty if not every call is known."""
    per, total = len(calls) // items, sum(calls)
    if not total or len(calls) != per * items:
        return []
    return [sum(calls[item * per : (item + 1) * per]) * items / total for item in range(items)]


def _took(work: Work, parts: list[list[int]], own: list[list[float]], items: int, flowing: Line) -> float:
    """What all items take: as the line flows, and no less than what each resource has to do."""
    loads: defaultdict[Hashable, float] = defaultdict(float)
    for part, seconds in zip(parts, own, strict=True):
        for row, each in zip(part, seconds, strict=True):
            loads[work.turns[row]] += each
    busy = max(load / work.units.get(turn, 1) for turn, load in loads.items()) * items
    return max(flowing.seconds * items / len(flowing.begun[0]), busy)


def _crossing(graph: Graph, rows: list[int], at: int) -> int:
    """The bytes that are handed over a cut, each value once."""
    before, after = set(rows[:at]), set(rows[at:])
    made = {src for src, dst in zip(*graph.edge_rows(), strict=True) if src in before and dst in after}
    return sum(graph.op_columns.out_nbytes[row] for row in made)


def _ordered(graph: Graph, parts: list[list[int]]) -> list[int]:
    """Ops of several stages that may not change their order with each other: they draw, or do what is not known."""
    ops = graph.op_columns
    found = [[ops.id[row] for row in part if _may_matter(ops.effects[row], ops.kind[row])] for part in parts]
    return [op for part in found for op in part] if sum(map(bool, found)) > 1 else []


def _may_matter(effects: str, kind: str) -> bool:
    return kind != "region" and not effects.startswith(("pure", "reads", "writes"))
