"""PEPs as graph, costs and machine of ir, timed by the one simulator: what plan.json and the Gantt chart show.

Every item (or part of a graph) is a chain of operations: `bring` for each block that pays a transfer, then its stages.
A block that was measured as one spreads its seconds over its stages by what they take alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from codedag.ir import CostRow, CostTable, Edge, Graph, Machine, Op, Plan, Pu, Strategy
from codedag.plan.problem import Problem
from codedag.plan.solution import Solution, Timetable, bound_in_seconds
from codedag.plan.strategies import Candidate
from codedag.stages.measuring.pus import our_name
from codedag.stages.planning.peps import Pep
from codedag.stages.planning.prices import PlacedBlock, Prices

#: The memory of a PU of which nothing is known: it never binds.
UNKNOWN_MEMORY_NBYTES = 1 << 50


@dataclass(frozen=True, slots=True)
class Item:
    """One item or part on its way: what it is called, what blocks cost at its size, and its plan."""

    name: str
    prices: Prices
    pep: Pep


@dataclass(frozen=True, slots=True)
class Task:
    """One operation of an item: a stage, or bringing the inputs of a block, on one PU."""

    id: int
    item: int
    stage: int
    name: str
    pu: str
    seconds: float
    variant: str
    after: tuple[int, ...]  # tasks on the same PU whose value it reads
    order: tuple[int, ...]  # tasks that must have ended
    nbytes: int = 0


def machine_for(pus: Sequence[str], known: Machine | None, *, simulated: bool) -> Machine:
    """The machine with these PUs: as it is known, else with PUs of which only the names are; labelled if simulated."""
    found = [known.pu(name) if known is not None else None for name in pus]
    made = [
        pu if pu is not None else Pu(name=name, memory_nbytes=UNKNOWN_MEMORY_NBYTES, launch_seconds=0.0, simulated=True)
        for name, pu in zip(pus, found, strict=True)
    ]
    others = [pu for pu in known.pus if pu.name not in pus] if known is not None else []
    every = [replace(pu, simulated=True) if simulated else pu for pu in (*made, *others)]
    return Machine(pus=every, links=known.links if known is not None else [])


def named_as(machine: Machine, pus: Sequence[str]) -> Machine:
    """A machine whose PUs have the names that the tables use: the guide's `GPU` is our `ov:gpu`."""
    names = {
        pu.name: next((name for name in pus if our_name(name) == our_name(pu.name)), pu.name) for pu in machine.pus
    }
    links = [replace(link, src=names[link.src], dst=names[link.dst]) for link in machine.links]
    return replace(machine, pus=[replace(pu, name=names[pu.name]) for pu in machine.pus], links=links)


@dataclass
class Simulation:
    """Items on a machine, judged by the simulator of `codedag plan`."""

    items: Sequence[Item]
    machine: Machine
    stage_nbytes: Callable[[int], int] = lambda stage: 0  # bytes that a stage makes
    baseline_seconds: float = 0.0
    baseline: str = "one best runtime"
    strategy: str = "pep"
    _ids: dict[tuple[int, int, str, bool], int] = field(default_factory=dict, repr=False)

    @cached_property
    def tasks(self) -> list[Task]:
        """The operations of all items, item after item, in an order in which they can run."""
        self._number_stages()
        return [task for at, item in enumerate(self.items) for task in self._chain(at, item)]

    def _number_stages(self) -> None:
        """Stage k of the first item is operation k, so that a plan and the profile name the same operations."""
        first = self.items[0].pep if self.items else None
        for block in first.blocks if first else ():
            for stage in block.stages:
                self._ids[0, stage, block.pus[0], False] = stage

    def _id(self, item: int, stage: int, pu: str, bring: bool) -> int:
        most = self.items[0].prices.count
        return self._ids.setdefault((item, stage, pu, bring), most + 1 + len(self._ids))

    def _chain(self, at: int, item: Item) -> list[Task]:
        made: list[Task] = []
        ends: tuple[int, ...] = ()
        for block, entry in zip(item.pep.blocks, item.pep.entries, strict=True):
            shares = [self._share(at, item, block, number, entry, ends) for number in range(len(block.pus))]
            made += [task for share in shares for task in share]
            ends = tuple(share[-1].id for share in shares)
        return made

    def _share(
        self, at: int, item: Item, block: PlacedBlock, number: int, entry: float, ends: tuple[int, ...]
    ) -> list[Task]:
        """The tasks of one PU of a block: bring, then its stages, which last as long as the share was priced."""
        pu = block.pus[number]
        seconds = block.compute if not block.is_split else max(0.0, block.shares[number] - entry)
        made: list[Task] = []
        if entry > 0:
            name = f"bring the inputs of {block.name}"
            made.append(Task(self._id(at, block.first, pu, True), at, block.first, name, pu, entry, "copy", (), ends))
        for stage, share in zip(block.stages, _spread(item.prices, block, pu, seconds), strict=True):
            last = (made[-1].id,) if made else ()
            made.append(Task(
                self._id(at, stage, pu, False), at, stage, _stage_name(item, stage), pu, share, _variant(block, number),
                last, () if made else ends, self.stage_nbytes(stage),
            ))  # fmt: skip
        return made

    # -- as files

    @cached_property
    def graph(self) -> Graph:
        """The operations and their order; a value that stays on its PU is a flow, a change of PU is order only."""
        sizes = {task.id: task.nbytes for task in self.tasks}
        ops = [self._op(task) for task in sorted(self.tasks, key=lambda one: one.id)]
        flows = [Edge(src, task.id, "flow", sizes[src]) for task in self.tasks for src in task.after]
        orders = [Edge(src, task.id, "anti", 0) for task in self.tasks for src in task.order]
        return Graph.build(ops, [*flows, *orders])

    def _op(self, task: Task) -> Op:
        item = self.items[task.item].name
        return Op(
            task.id, task.name, "call", "stages.json", task.stage, f"{item}/{task.name}" if item else task.name, 1,
            task.seconds, task.seconds, task.nbytes, effects="pure",
        )  # fmt: skip

    @cached_property
    def costs(self) -> CostTable:
        """What each operation costs where it is planned, and what its stage takes on other PUs."""
        names = [pu.name for pu in self.machine.pus]
        rows = [row for task in self.tasks for row in (self._row(task), *self._elsewhere(task))]
        return CostTable(pus=names, rows=rows)

    def _row(self, task: Task) -> CostRow:
        return _cost(task.id, task.pu, task.variant, task.seconds, self._launch(task.pu))

    def _elsewhere(self, task: Task) -> list[CostRow]:
        if task.variant == "copy":
            return []
        known = self.items[task.item].prices.stage_seconds
        return [
            _cost(task.id, pu, "stage alone", float(known[pu, task.stage]), self._launch(pu))
            for pu in self.items[task.item].prices.pus if pu != task.pu and (pu, task.stage) in known
        ]  # fmt: skip

    def _launch(self, pu: str) -> float:
        found = self.machine.pu(pu)
        return found.launch_seconds if found is not None else 0.0

    # -- judged

    @cached_property
    def _problem(self) -> Problem:
        return Problem(self.graph, self.costs, self.machine)

    @cached_property
    def table(self) -> Timetable:
        """When each operation starts and ends."""
        problem = self._problem
        number = {problem.graph.op_columns.id[row]: at for at, row in enumerate(problem.rows)}
        place = array("i", bytes(4 * problem.n))
        for task in self.tasks:
            place[number[task.id]] = problem.pus.index(task.pu)
        order = array("i", (number[task.id] for task in self._dispatched()))
        return Timetable(problem, Candidate(self.strategy, place.tobytes(), order.tobytes(), 0))

    def _dispatched(self) -> list[Task]:
        """The tasks as PUs take them: whichever can start first, of several that of the oldest item."""
        waiting = {at: [task for task in self.tasks if task.item == at] for at in range(len(self.items))}
        ends: dict[int, float] = {}
        free: dict[object, float] = {}
        made: list[Task] = []
        while waiting:
            start, item = min((self._earliest(tasks[0], ends, free), at) for at, tasks in waiting.items())
            task = waiting[item].pop(0)
            ends[task.id] = free[self._turn(task.pu)] = start + task.seconds
            made.append(task)
            if not waiting[item]:
                del waiting[item]
        return made

    def _earliest(self, task: Task, ends: Mapping[int, float], free: Mapping[object, float]) -> float:
        return max([free.get(self._turn(task.pu), 0.0), *(ends[one] for one in (*task.after, *task.order))])

    def _turn(self, pu: str) -> object:
        found = self.machine.pu(pu)
        return found.turn if found is not None else ("pu", pu)

    @property
    def seconds(self) -> float:
        """When the last operation ends."""
        return self.table.makespan

    @property
    def solution(self) -> Solution:
        """The plan with its times, bound and baseline, as `codedag plan` has them."""
        model, made = self._problem.model, self.table
        bound = bound_in_seconds(self._problem, model.path_bound(model.ahead()), made.makespan)
        tried = [Strategy(name=self.strategy, makespan_seconds=made.makespan)]
        before = self.baseline_seconds or made.makespan
        return Solution(self._problem, made, self.strategy, bound, self.baseline, before, tried)

    def plan(self) -> Plan:
        """plan.json."""
        return self.solution.plan()


def _stage_name(item: Item, stage: int) -> str:
    names = item.prices.tables.stage_names
    return names[stage - 1] if names else f"stage {stage}"


def _variant(block: PlacedBlock, number: int) -> str:
    if block.is_split:
        return f"{block.ratios[number]:.0%} of block {block.name}"
    name = f"block {block.name}" if block.first < block.last else "stage alone"
    return f"{name} {block.variant}".rstrip()


def _spread(prices: Prices, block: PlacedBlock, pu: str, seconds: float) -> list[float]:
    """The seconds of a block over its stages, by what each takes alone; evenly where that is not known."""
    known = [prices.stage_seconds.get((pu, stage)) for stage in block.stages]
    weights = [float(one) for one in known if one is not None]
    if len(weights) < len(known) or not sum(weights):
        weights = [1.0] * len(known)
    return [seconds * weight / sum(weights) for weight in weights]


def _cost(op: int, pu: str, variant: str, seconds: float, launch: float) -> CostRow:
    """A row whose seconds and the launch that the simulator adds are together what was measured."""
    own = max(0.0, seconds - launch)
    return CostRow(op=op, pu=pu, variant=variant, seconds=own, low=own, high=own, status="ok", source="predicted")
