"""Parallel execution plans (PEPs): blocks of stages x PUs x ratios, searched for latency or throughput.

Latency is a shortest path over cut points (exact at any length, since the seconds of blocks add up).  Throughput counts
every pipeline in which a PU has one block; where there are too many, those that no other beats in its sum and slowest
block are kept, which is exact unless PUs take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest

from codedag.ir import CannotPlan, Machine
from codedag.plan.pareto import pareto
from codedag.profile.figures import NEAR
from codedag.stages.planning.item_line import DeviceChain, passage
from codedag.stages.planning.prices import Int8, PlacedBlock, Prices
from codedag.stages.planning.splits import Splits
from codedag.stages.planning.tables import Tables, size_text
from codedag.stages.sizes import Sizes

LATENCY, THROUGHPUT = "latency", "throughput"
ITEMS, QUEUE = 64, 2
#: Relative: less is rounding, no gain.
SAME = 1e-9
#: Digits of seconds that tell two sums apart: beyond them is the order of addition.
TIE_DIGITS = 13
#: Up to so many pipelines each one is priced.
MOST_PIPELINES = 60_000
#: How many plans a front is chosen from, for latency and for throughput each.
FRONT_POOL = 200


@dataclass(frozen=True)
class Pep:
    """Blocks in order, each with what it costs here: no transfer behind a block on the same PU."""

    blocks: tuple[PlacedBlock, ...]
    entries: tuple[float, ...]  # the transfer that each block pays

    @cached_property
    def seconds(self) -> float:
        """The latency of one item."""
        return sum(self.times)

    @cached_property
    def times(self) -> tuple[float, ...]:
        """The seconds of each block with the transfer that it pays."""
        return tuple(block.compute + entry for block, entry in zip(self.blocks, self.entries, strict=True))

    @property
    def interval(self) -> tuple[float, float]:
        """The latency if every block is as fast, or as slow, as its interval says."""
        parts = list(zip(self.blocks, self.entries, strict=True))
        return (
            sum(block.low - block.transfer + entry for block, entry in parts),
            sum(block.high - block.transfer + entry for block, entry in parts),
        )

    @cached_property
    def assignment(self) -> tuple[tuple[str, ...], ...]:
        """The PUs (and variant) of each stage: plans that differ only in their cuts have the same."""
        return tuple(block.place for block in self.blocks for _ in block.stages)

    @property
    def pus(self) -> tuple[str, ...]:
        """The PUs that it uses, in order of first use."""
        return tuple(dict.fromkeys(pu for block in self.blocks for pu in block.pus))

    @property
    def nbytes(self) -> int:
        """The memory of all its PUs: of each the largest of its blocks, since they run one after another there."""
        return sum(max(block.nbytes for block in self.blocks if pu in block.pus) for pu in self.pus)

    @property
    def is_pipeline(self) -> bool:
        """Whether every PU has one block only, so that items can follow each other."""
        return len(self.pus) == sum(len(block.pus) for block in self.blocks)

    @property
    def is_whole(self) -> bool:
        """Whether it is one block on one PU, as given."""
        return len(self.blocks) == 1 and not self.blocks[0].is_split and not self.blocks[0].variant

    @property
    def error(self) -> float:
        """The errors of its int8 blocks, added up."""
        return sum(block.error for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Goal:
    """What is minimised: `latency` of one item, or the seconds until `items` have passed with queues of `queue`."""

    name: str = LATENCY
    items: int = ITEMS
    queue: int = QUEUE
    deadline_seconds: float | None = None


BY_LATENCY = Goal()


@dataclass
class Plans:
    """The best plans, the best first, with what they are compared with and how far the search went."""

    prices: Prices
    goal: Goal
    best: list[Pep]
    seconds: list[float]  # of the goal, for each of the best
    baseline: Pep | None  # one best runtime, the whole model; None if no PU can do all of it
    baseline_seconds: float | None
    candidates: int
    exact: bool
    meets_deadline: bool = True
    front: list[Pep] = field(default_factory=list)
    is_within_noise: bool = False  # one best runtime was taken: a plan with less seconds may not be faster

    @property
    def chosen(self) -> Pep:
        """The plan."""
        return self.best[0]

    @property
    def runner_up(self) -> tuple[Pep, float] | None:
        """The best plan that puts a stage elsewhere."""
        return (self.best[1], self.seconds[1]) if len(self.best) > 1 else None


def plans(
    tables: Tables, sizes: Sizes, goal: Goal = BY_LATENCY, *, pus: Sequence[str] = (), machine: Machine | None = None,
    top: int = 2, front: bool = False, int8: Int8 | None = None,
) -> Plans:  # fmt: skip
    """The best plans of a model at one size; raises CannotPlan naming a stage that no PU can do.

    With `int8`, quantised blocks are candidates too: the errors of those in a plan add up to the largest one at most.
    """
    names, known = tuple(pus) or tables.pus, machine if machine is not None else tables.machine
    wide, halves = _layouts(names, known)
    found = _searched(tables, sizes, goal, wide or halves, machine, top, front, int8)
    if halves and wide and goal.name == THROUGHPUT:
        found = _better(found, _searched(tables, sizes, goal, halves, machine, top, front, int8))
    return _unless_tied(found)


def _searched(
    tables: Tables, sizes: Sizes, goal: Goal, pus: Sequence[str], machine: Machine | None, top: int, front: bool,
    int8: Int8 | None,
) -> Plans:  # fmt: skip
    prices = Prices(tables, sizes, pus, machine, int8=int8)
    return Search(prices, goal, with_splits=True).plans(max(top, 2), front)


def _layouts(pus: Sequence[str], machine: Machine | None) -> tuple[list[str], list[str]]:
    """PUs that use the host's cores as they like, and PUs that are bound to some; devices are in both.

    A plan takes one of the two: a runtime on all cores would meet those that are bound to them.
    """
    known = {pu.name: pu for pu in machine.pus} if machine is not None else {}
    bound = [pu for pu in pus if pu in known and isinstance(known[pu].cores, list)]
    host = {known[pu].resource for pu in pus if pu in known and pu.partition(":")[2].startswith("cpu")}
    wide = [pu for pu in pus if pu not in bound]
    return wide, [pu for pu in pus if pu in bound or pu not in known or known[pu].resource not in host] if bound else []


def _better(found: Plans, bound: Plans) -> Plans:
    """The plans of the layout with less seconds, compared with one best runtime on all cores."""
    best = found if found.seconds[0] <= bound.seconds[0] else bound
    return replace(
        best, baseline=found.baseline, baseline_seconds=found.baseline_seconds,
        candidates=found.candidates + bound.candidates, exact=found.exact and bound.exact,
    )  # fmt: skip


def _unless_tied(found: Plans) -> Plans:
    """One best runtime in front unless the plan that was found faster is so beyond its interval: it wins ties.

    The least of very many plans is often one whose figures happen to be low, so it must be clearly less.  Tables
    without a machine were not measured by us, and without intervals they say nothing about noise: then the least
    seconds count.
    """
    base = found.baseline
    if (
        found.prices.tables.machine is None
        or base is None
        or found.baseline_seconds is None
        or found.chosen.is_whole
        or found.goal.name != LATENCY
    ):
        return found
    low, high = found.chosen.interval
    if low == high or base.seconds > NEAR * high:
        return found
    others = [(pep, at) for pep, at in zip(found.best, found.seconds, strict=True) if not pep.is_whole]
    best, seconds = [base, *(pep for pep, _ in others)], [found.baseline_seconds, *(at for _, at in others)]
    return replace(found, best=best, seconds=seconds, exact=False, is_within_noise=True)


class Search:
    """The search for one size: its blocks on single PUs, and splits of them that pay."""

    def __init__(self, prices: Prices, goal: Goal, *, with_splits: bool) -> None:
        self.prices, self.goal, self.count = prices, goal, prices.count
        splits = Splits(prices) if with_splits else None
        self.complete = splits is None or splits.is_complete
        self.ending: dict[int, list[PlacedBlock]] = {last: [] for last in range(1, self.count + 1)}
        for block in (*(one for found in prices.blocks.values() for one in found), *(splits.all() if splits else ())):
            self.ending[block.last].append(block)

    def plans(self, top: int, front: bool = False) -> Plans:
        """The best plans of the goal."""
        by_latency = self.goal.name == LATENCY
        found, exact, candidates = (*self.latency(top), self.paths) if by_latency else self.throughput(top)
        if not found:
            raise self._stuck()
        baseline = self.baseline()
        kept, met = self._within_deadline(_first_if_tied(found, self._judged(baseline)))
        return Plans(
            self.prices, self.goal, [pep for _, pep in kept[:top]], [seconds for seconds, _ in kept[:top]],
            baseline, self.judged(baseline) if baseline else None, candidates, exact and self.complete, met,
            self.front(found) if front else [],
        )  # fmt: skip

    def _judged(self, pep: Pep | None) -> tuple[float, Pep] | None:
        return None if pep is None else (self.judged(pep), pep)

    def judged(self, pep: Pep) -> float:
        """The seconds of the goal."""
        return pep.seconds if self.goal.name == LATENCY else self.passage(pep).seconds

    def passage(self, pep: Pep) -> DeviceChain:
        """The passage of all items: a pipeline if each PU has one block, else one item after another."""
        goal = self.goal
        if not pep.is_pipeline:
            return DeviceChain(pep.seconds * goal.items, pep.seconds)
        turns = [frozenset(self.prices.turn_of(pu) for pu in block.pus) for block in pep.blocks]
        return passage(pep.times, turns, goal.items, goal.queue)

    def baseline(self) -> Pep | None:
        """One best runtime, the whole model as given: one block on one PU."""
        whole = [self._whole(block) for block in self.prices.blocks[1, self.count] if not block.variant]
        return min(whole, key=lambda pep: pep.seconds, default=None)

    def _whole(self, block: PlacedBlock) -> Pep:
        return Pep((block,), (self.prices.entry(None, block),))

    def _within_deadline(self, found: list[tuple[float, Pep]]) -> tuple[list[tuple[float, Pep]], bool]:
        limit = self.goal.deadline_seconds
        if limit is None:
            return found, True
        if self.goal.name == LATENCY:
            return found, found[0][0] <= limit
        kept = [one for one in found if self.passage(one[1]).slowest_item <= limit]
        return (kept, True) if kept else (found, False)

    def _stuck(self) -> CannotPlan:
        if self.goal.name == THROUGHPUT and self.latency(1)[0]:
            return CannotPlan(
                f"no pipeline at {size_text(self.prices.sizes)} gives each PU one block only",
                hint="Plan with --goal latency, where a PU may have several blocks.",
            )
        return CannotPlan(
            f"no chain of blocks covers all {self.count} stages at {size_text(self.prices.sizes)}",
            hint="Measure the missing stages with `codedag stages profile`.",
        )

    # -- latency

    def latency(self, top: int) -> tuple[list[tuple[float, Pep]], bool]:
        """The `top` plans of least latency that differ in where a stage runs; exact."""
        states: list[dict[tuple[str, ...] | None, list[_Path]]] = [{None: [_Path(0.0, 0, None, None, 0.0)]}]
        for last in range(1, self.count + 1):
            states.append({})
            for block in self.ending[last]:
                arrived = list(self._arrivals(states[block.first - 1], block))
                states[last].setdefault(block.pus, []).extend(arrived)
            for pus, paths in states[last].items():
                states[last][pus] = _distinct(paths, top)
        ends = _distinct((path for paths in states[-1].values() for path in paths), top)
        found: dict[tuple[tuple[str, ...], ...], Pep] = {}
        for path in ends:
            found.setdefault(path.assignment(), path.pep())
        return [(pep.seconds, pep) for pep in found.values()][:top], True

    def _arrivals(self, before: dict[tuple[str, ...] | None, list[_Path]], block: PlacedBlock) -> Iterator[_Path]:
        for source, paths in before.items():
            entry = self.prices.entry(source, block)
            for path in paths:
                own, error = entry + block.compute, path.error + block.error
                if self._allows(error):
                    yield _Path(path.cost + own, path.blocks + 1, path, block, entry, max(path.slowest, own), error)

    def _allows(self, error: float) -> bool:
        """Whether the errors of int8 blocks may add up to this."""
        return error <= self.prices.max_error * (1 + SAME)

    @cached_property
    def paths(self) -> int:
        """How many plans there are: all ways to cut the stages, times the PUs and splits of each block."""
        ways = [1]
        for last in range(1, self.count + 1):
            ways.append(sum(ways[block.first - 1] for block in self.ending[last]))
        return ways[-1]

    # -- throughput

    def throughput(self, top: int) -> tuple[list[tuple[float, Pep]], bool, int]:
        """The best pipelines, whether they are the best there are, and how many were priced."""
        if self._pipeline_count() <= MOST_PIPELINES:
            pipelines, complete = list(self._pipelines()), True
        else:
            pipelines, complete = self._undominated(), not self._takes_turns
        return self._ranked(pipelines, top), complete, len(pipelines)

    def _ranked(self, pipelines: list[Pep], top: int) -> list[tuple[float, Pep]]:
        """The best of the pipelines by their passage; those whose bound is above the best so far are not simulated."""
        items = self.goal.items
        if not self._takes_turns:
            timed = [(sum(pep.times) + (items - 1) * max(pep.times), pep) for pep in pipelines]
            return _by_assignment(timed, top if self.goal.deadline_seconds is None else len(timed))
        judged: list[tuple[float, Pep]] = []
        most = top if self.goal.deadline_seconds is None else len(pipelines)
        for bound, pep in sorted(((self._bound(pep), pep) for pep in pipelines), key=lambda one: one[0]):
            if len(judged) >= most and bound > sorted(seconds for seconds, _ in judged)[most - 1]:
                break
            judged.append((self.passage(pep).seconds, pep))
        return _by_assignment(judged, most)

    def _bound(self, pep: Pep) -> float:
        loads: dict[object, float] = {}
        for block, seconds in zip(pep.blocks, pep.times, strict=True):
            for turn in {self.prices.turn_of(pu) for pu in block.pus}:
                loads[turn] = loads.get(turn, 0.0) + seconds
        items = self.goal.items
        return max(sum(pep.times) + (items - 1) * max(pep.times), items * max(loads.values())) * (1 - SAME)

    @cached_property
    def _takes_turns(self) -> bool:
        return len({self.prices.turn_of(pu) for pu in self.prices.pus}) < len(self.prices.pus)

    @cached_property
    def _beginning(self) -> dict[int, list[PlacedBlock]]:
        found: dict[int, list[PlacedBlock]] = {first: [] for first in range(1, self.count + 1)}
        for blocks in self.ending.values():
            for block in blocks:
                found[block.first].append(block)
        return found

    def _pipeline_count(self) -> int:
        """How many pipelines there are, PUs in several blocks counted too: never fewer than there are."""
        return self._count_from(1, len(self.prices.pus))

    def _count_from(self, first: int, pus: int) -> int:
        ways = {(self.count + 1, left): 1 for left in range(pus + 1)}
        for at in range(self.count, first - 1, -1):
            for left in range(pus + 1):
                ways[at, left] = sum(
                    ways[block.last + 1, left - len(block.pus)]
                    for block in self._beginning[at] if len(block.pus) <= left
                )  # fmt: skip
        return ways[first, pus]

    def _pipelines(self) -> Iterator[Pep]:
        yield from self._continued(1, (), ())

    def _continued(self, first: int, blocks: tuple[PlacedBlock, ...], entries: tuple[float, ...]) -> Iterator[Pep]:
        if first > self.count:
            yield Pep(blocks, entries)
            return
        used = {pu for block in blocks for pu in block.pus}
        source = blocks[-1].pus if blocks else None
        for block in self._beginning[first]:
            if used.isdisjoint(block.pus) and self._allows(block.error + sum(one.error for one in blocks)):
                entry = self.prices.entry(source, block)
                yield from self._continued(block.last + 1, (*blocks, block), (*entries, entry))

    def _undominated(self) -> list[Pep]:
        """The pipelines that no other with the same PUs and the same last block beats in its sum and slowest block."""
        states: list[dict[_Reached, list[_Path]]] = [{(frozenset(), None): [_Path(0.0, 0, None, None, 0.0)]}]
        for last in range(1, self.count + 1):
            reached: dict[_Reached, list[_Path]] = {}
            for block in self.ending[last]:
                for (used, source), paths in states[block.first - 1].items():
                    if used.isdisjoint(block.pus):
                        grown = self._arrivals({source: paths}, block)
                        reached.setdefault((used | set(block.pus), block.pus), []).extend(grown)
            states.append({key: _not_beaten(paths) for key, paths in reached.items()})
        return [path.pep() for paths in states[-1].values() for path in paths]

    # -- front

    def front(self, found: Iterable[tuple[float, Pep]] = ()) -> list[Pep]:
        """The plans that none of those looked at beats in latency, seconds per item and memory."""
        pool = [pep for _, pep in found]
        pool += [pep for _, pep in self.latency(FRONT_POOL)[0]]
        pool += [pep for _, pep in self.throughput(FRONT_POOL)[0]]
        pool += [self._whole(block) for block in self.prices.blocks[1, self.count]]
        return pareto(pool, self._merits)

    def _merits(self, pep: Pep) -> tuple[float, float, float]:
        return pep.seconds, self.passage(pep).seconds, float(pep.nbytes)


@dataclass(frozen=True, slots=True)
class _Path:
    """A way to some stage: its cost, its blocks so far, and the path before its last block."""

    cost: float
    blocks: int
    before: _Path | None
    block: PlacedBlock | None
    entry: float
    slowest: float = 0.0  # of its blocks
    error: float = 0.0  # of its int8 blocks, added up

    def steps(self) -> list[_Path]:
        """The path block by block, the first one first."""
        at: _Path | None = self
        found: list[_Path] = []
        while at is not None and at.block is not None:
            found.append(at)
            at = at.before
        return found[::-1]

    def assignment(self) -> tuple[tuple[str, ...], ...]:
        """The PUs (and variant) of each stage."""
        return tuple(step.block.place for step in self.steps() if step.block for _ in step.block.stages)

    def pep(self) -> Pep:
        """The path as a plan."""
        steps = self.steps()
        return Pep(tuple(step.block for step in steps if step.block), tuple(step.entry for step in steps))


_Reached = tuple[frozenset[str], tuple[str, ...] | None]  # the PUs that were used, and those of the last block


def _not_beaten(paths: Iterable[_Path]) -> list[_Path]:
    """The paths that no other one beats in its sum, its slowest block and its error."""
    kept: list[_Path] = []
    least: dict[float, float] = {}  # the slowest block of those kept, by their error
    for path in sorted(paths, key=lambda one: (one.cost, one.slowest, one.error)):
        if all(path.slowest < slowest for error, slowest in least.items() if error <= path.error):
            kept.append(path)
            least[path.error] = path.slowest
    return kept


def _distinct(paths: Iterable[_Path], top: int) -> list[_Path]:
    """The `top` cheapest paths that differ in where a stage runs; of equal ones that with the fewest blocks.

    With int8, costlier ones too that have less error than all but `top` of those: they may go on where those may not.
    """
    kept: list[_Path] = []
    errors: dict[tuple[tuple[str, ...], ...], float] = {}  # the least of those kept
    for path in sorted(paths, key=lambda one: (round(one.cost, TIE_DIGITS), one.blocks, one.error)):
        if sum(error <= 0.0 for error in errors.values()) >= top:
            break
        below = [place for place, error in errors.items() if error <= path.error]
        place = path.assignment()
        if len(below) < top and place not in below:
            kept.append(path)
            errors[place] = path.error
    return kept


def _by_assignment(timed: list[tuple[float, Pep]], top: int) -> list[tuple[float, Pep]]:
    """The `top` best plans; of equal ones the one of least latency and fewest blocks comes first."""
    best = nsmallest(top, timed, key=lambda one: (one[0], one[1].seconds, len(one[1].blocks)))
    kept: dict[tuple[tuple[str, ...], ...], tuple[float, Pep]] = {}
    for one in best:
        kept.setdefault(one[1].assignment, one)
    return list(kept.values())


def _first_if_tied(found: list[tuple[float, Pep]], baseline: tuple[float, Pep] | None) -> list[tuple[float, Pep]]:
    """The plans with one best runtime in front where nothing is faster than it."""
    if baseline is None or found[0][0] < baseline[0] * (1 - SAME):
        return found
    return [baseline, *(one for one in found if one[1].assignment != baseline[1].assignment)]
