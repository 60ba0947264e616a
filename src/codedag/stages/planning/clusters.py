"""Plans of a partitioned graph: a PEP for each part, parts with the same PEP as a cluster, the whole simulated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codedag.ir import CannotPlan, Machine
from codedag.stages.planning.peps import LATENCY, SAME, THROUGHPUT, Goal, Pep, Search
from codedag.stages.planning.prices import Prices
from codedag.stages.planning.simulate import Item, Simulation
from codedag.stages.planning.tables import Tables
from codedag.stages.sizes import GRAPH, Sizes

#: How many of the fastest plans of the middle part are tried for all parts.
SHAPES = 3

Shape = tuple[tuple[int, int, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a graph: its own nodes, the edges that end in them, and nodes of other parts that these come from."""

    nodes: int
    edges: int
    halo: int = 0


@dataclass(frozen=True)
class PartsPlan:
    """A plan for every part that has nodes, judged as a whole."""

    parts: Sequence[Part]
    items: Sequence[Item]
    numbers: Sequence[int]  # of the parts that the items are
    simulation: Simulation
    baseline: str
    baseline_seconds: float
    candidates: int

    @property
    def seconds(self) -> float:
        """When the last part is done."""
        return self.simulation.seconds

    @property
    def clusters(self) -> list[tuple[Pep, list[int]]]:
        """The plans with the numbers of the parts that have them, the largest cluster first."""
        found: dict[Shape, tuple[Pep, list[int]]] = {}
        for number, item in zip(self.numbers, self.items, strict=True):
            found.setdefault(shape_of(item.pep), (item.pep, []))[1].append(number)
        return sorted(found.values(), key=lambda one: -len(one[1]))


def plan_parts(tables: Tables, parts: Sequence[Part], machine: Machine, pus: Sequence[str] = ()) -> PartsPlan:
    """The plan of all parts that ends first; all parts on one best runtime wins ties."""
    if tables.size_names != GRAPH:
        raise CannotPlan("parts are of graphs: these tables have other sizes than nodes and edges")
    numbers = [at for at, part in enumerate(parts) if part.nodes]
    if not numbers:
        raise CannotPlan("the graph has no nodes: there is nothing to plan")
    prices = [_prices(tables, parts[at], pus, machine) for at in numbers]
    return _Parts(parts, numbers, prices, machine).best()


def shape_of(pep: Pep) -> Shape:
    """What parts with the same plan share: blocks and PUs, not their seconds."""
    return tuple((block.first, block.last, block.pus) for block in pep.blocks)


def _prices(tables: Tables, part: Part, pus: Sequence[str], machine: Machine) -> Prices:
    """The prices of a part: it computes its own nodes and brings its halo too."""
    own = _raised(tables, {"nodes": part.nodes, "edges": part.edges})
    moved = _raised(tables, {"nodes": part.nodes + part.halo, "edges": part.edges})
    return Prices(tables, own, pus, machine, moved=moved)


def _raised(tables: Tables, sizes: Sizes) -> dict[str, int]:
    """The sizes, but none so small that nothing is known: it takes no longer than the smallest that is."""
    least = {name: min(one[name] for one in tables.sizes) for name in sizes}
    return {name: max(value, -(-least[name] // 2)) for name, value in sizes.items()}


class _Parts:
    """The candidates for all parts, each simulated as a whole."""

    def __init__(
        self, parts: Sequence[Part], numbers: Sequence[int], prices: Sequence[Prices], machine: Machine
    ) -> None:
        self.parts, self.numbers, self.prices, self.machine = parts, numbers, prices, machine
        self.searches = [Search(one, Goal(LATENCY), with_splits=False) for one in prices]

    def best(self) -> PartsPlan:
        """The best of: one runtime for all, one plan for all, each part's own fastest, and parts dealt out."""
        shapes = list(dict.fromkeys(self._shapes()))
        alike = {shape: found for shape in shapes if (found := self._all_as(shape)) is not None}
        single = [shape for shape in alike if len(shape) == 1]
        options = [*(alike[shape] for shape in single), *(alike[shape] for shape in alike if shape not in single)]
        options.append([search.latency(1)[0][0][1] for search in self.searches])
        options.append(self._dealt(list(alike)))
        judged = [self._simulated(option) for option in options]
        base = min(judged[: len(single)], key=lambda one: one.seconds, default=None)
        chosen = min(judged, key=lambda one: one.seconds)
        if base is not None and base.seconds <= chosen.seconds * (1 + SAME):
            chosen = base
        name = base.items[0].pep.pus[0] if base is not None else ""
        seconds = base.seconds if base is not None else chosen.seconds
        chosen.baseline, chosen.baseline_seconds = f"all parts on {name}" if name else "the plan itself", seconds
        return PartsPlan(self.parts, chosen.items, self.numbers, chosen, name, seconds, len(options))

    def _shapes(self) -> Iterable[Shape]:
        """Single PUs, and the fastest plans for the part in the middle, by latency and by throughput."""
        count = self.prices[0].count
        for pu in self.prices[0].pus:
            yield ((1, count, (pu,)),)
        middle = sorted(range(len(self.prices)), key=lambda at: self.prices[at].sizes["edges"])[len(self.prices) // 2]
        yield from (shape_of(pep) for _, pep in self.searches[middle].latency(SHAPES)[0])
        flow = Search(self.prices[middle], Goal(THROUGHPUT, max(len(self.prices), 1)), with_splits=False)
        yield from (shape_of(pep) for _, pep in flow.throughput(1)[0])

    def _all_as(self, shape: Shape) -> list[Pep] | None:
        found = [priced_as(one, shape) for one in self.prices]
        return None if any(pep is None for pep in found) else [pep for pep in found if pep is not None]

    def _dealt(self, shapes: Sequence[Shape]) -> list[Pep]:
        """The largest part first, each with the plan that ends first behind those that were dealt before it."""
        free: dict[object, float] = {}
        made: dict[int, Pep] = {}
        for at in sorted(range(len(self.prices)), key=lambda one: -self.prices[one].sizes["edges"]):
            able = [pep for shape in shapes if (pep := priced_as(self.prices[at], shape)) is not None]
            pep = min(able or [self.searches[at].latency(1)[0][0][1]], key=lambda one: self._end(one, at, dict(free)))
            self._end(pep, at, free)
            made[at] = pep
        return [made[at] for at in range(len(self.prices))]

    def _end(self, pep: Pep, at: int, free: dict[object, float]) -> float:
        now = 0.0
        for block, seconds in zip(pep.blocks, pep.times, strict=True):
            turns = [self.prices[at].turn_of(pu) for pu in block.pus]
            now = max([now, *(free.get(turn, 0.0) for turn in turns)]) + seconds
            free.update(dict.fromkeys(turns, now))
        return now

    def _simulated(self, peps: Sequence[Pep]) -> Simulation:
        items = [
            Item(f"part {number}", prices, pep)
            for number, prices, pep in zip(self.numbers, self.prices, peps, strict=True)
        ]
        return Simulation(items, self.machine, strategy="parts")


def priced_as(prices: Prices, shape: Shape) -> Pep | None:
    """The plan with these blocks and PUs at the sizes of these prices; None if a PU cannot do its block there."""
    blocks, entries, source = [], [], None
    for first, last, pus in shape:
        block = next((one for one in prices.blocks[first, last] if one.pus == pus), None)
        if block is None:
            return None
        entries.append(prices.entry(source, block))
        blocks.append(block)
        source = pus
    return Pep(tuple(blocks), tuple(entries))
