"""Executor of plans: items through a pipeline of PUs, every result compared with the model as given, faults replaced.

A PU that crashes, hangs, runs out of memory or gives wrong results is left; items that it had go to the next plan: the
best one without it, else the reference itself. A plan that stays slower than predicted is made anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from codedag.ir.errors import CannotPlan
from codedag.ir.verdict import No
from codedag.stages.execution.execution_plan import ExecutionPlan, PlannedBlock, planned_near
from codedag.stages.execution.parts_pipeline import PartsPipeline
from codedag.stages.execution.pipeline import Call, Pipeline, runnable
from codedag.stages.execution.pu_pool import SETUP_SECONDS, BlockPrograms, Fault, PuPool
from codedag.stages.execution.verify import Nearness, judged
from codedag.stages.measuring.arena import Arena
from codedag.stages.measuring.pus import our_name
from codedag.stages.model import Arrays, Block, StagedModel
from codedag.stages.planning.peps import Goal
from codedag.stages.planning.tables import Row, Tables
from codedag.stages.reference import exact_tensors

REFERENCE = "reference"
#: All tensors of the reference are kept while it has at most so many bytes; above it only its outputs are.
MOST_REFERENCE_NBYTES = 1 << 30
#: A block that takes this many times its prediction, over so many items in a row, is planned anew.
SLOW_TIMES, SLOW_ITEMS = 1.5, 3


@dataclass(frozen=True, slots=True)
class Left:
    """A PU that was left, or a plan that was given up: why, the stage that is off if one is, and what came instead."""

    pu: str
    reason: str
    replaced_by: str
    stage: int | None = None


@dataclass
class Execution:
    """What came of a run: results by item, how near they are, the calls, and what had to be replaced."""

    plan: ExecutionPlan
    outputs: list[Arrays]
    near: list[dict[str, Nearness]] = field(default_factory=list)
    off: dict[str, int | None] = field(default_factory=dict)  # of outputs that are off: the first stage that is
    calls: list[Call] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    pus: list[str] = field(default_factory=list)  # that made the results
    seconds: float = 0.0
    setup_seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether every result is what the model gives."""
        return all(each for one in self.near for each in one.values())

    def worst(self, name: str) -> Nearness:
        """The nearness of one output over all items: that of the item that is farthest off."""
        return max((one[name] for one in self.near), key=lambda near: (bool(near.wrong), near.worst))


class _Slower(Exception):  # noqa: N818 - control flow of one pass
    """A block that stays slower than its prediction."""

    def __init__(self, block: PlannedBlock, times: float) -> None:
        super().__init__(block.block.name)
        self.block, self.times = block, times


class References:
    """The results of the model as given, for each distinct input; kept, since the reference is slow."""

    def __init__(self, model: StagedModel) -> None:
        self._model = model
        self._kept: dict[int, tuple[Arrays, Arrays]] = {}  # by the id of the inputs, which are kept with it
        self._exact: dict[int, Arrays | No] = {}
        self.tolerance: float | None = None  # of a plan with int8 blocks; None: what rounding explains

    def of(self, inputs: Arrays) -> Arrays:
        """The tensors for these inputs: all of them where they are small, else the outputs."""
        if id(inputs) not in self._kept:
            sizes = self._model.sizes_of(inputs)
            nbytes = sum(tensor.nbytes(sizes) for tensor in self._model.tensors.values())
            small = nbytes <= MOST_REFERENCE_NBYTES
            reference = self._model.reference
            self._kept[id(inputs)] = (inputs, reference.tensors(inputs) if small else reference.outputs(inputs))
        return self._kept[id(inputs)][1]

    def exact(self, inputs: Arrays, name: str) -> Any:
        """One tensor in float64, or None where the model has no such form."""
        if id(inputs) not in self._exact:
            self._exact[id(inputs)] = exact_tensors(self._model, inputs)
        found = self._exact[id(inputs)]
        return None if isinstance(found, No) else found[name]

    def judge(self, inputs: Arrays, got: Mapping[str, Any]) -> dict[str, Nearness]:
        """How near each of these tensors is to the reference's; those that it did not keep are left out."""
        known = self.of(inputs)
        return {
            name: judged(name, known[name], array, lambda each: self.exact(inputs, each), self.tolerance)
            for name, array in got.items() if name in known
        }  # fmt: skip


class Executor:
    """Runs plans of one model: its processes and shared tensors live as long as it is open."""

    def __init__(
        self, model: StagedModel, directory: Path, *, tables: Tables | None = None,
        setup_seconds: float = SETUP_SECONDS, say: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        self.model, self.tables, self.say = model, tables, say
        self.references = References(model)
        self._setup_seconds = setup_seconds
        self._programs = BlockPrograms(model, directory)
        self._pool: PuPool | None = None

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes of the PUs and removes the tensors."""
        if self._pool is not None:
            self._pool.close()
        if "_arena" in self.__dict__:
            self._arena.close()
            del self.__dict__["_arena"]

    @cached_property
    def _arena(self) -> Arena:
        return Arena()

    def pool(self, plan: ExecutionPlan) -> PuPool:
        """The processes, bound to the cores of a plan; others than those of the last plan are started anew."""
        if self._pool is None or self._pool.cores != dict(plan.cores):
            if self._pool is not None:
                self._pool.close()
            self._pool = PuPool(plan.cores, self._setup_seconds)
        return self._pool

    def run(self, plan: ExecutionPlan, items: Sequence[Arrays]) -> Execution:
        """The results of every item, whatever PUs do; each is what the model gives, or said to be off."""
        self.references.tolerance = plan.tolerance
        return _Run(self, plan, items).done()

    def pipeline(self, plan: ExecutionPlan, sizes: Mapping[str, int]) -> Pipeline | PartsPipeline:
        """A plan to be loaded."""
        kind = Pipeline if plan.parts == 1 else PartsPipeline
        return kind(self.model, plan, self.pool(plan), self._programs, self._arena, sizes)

    # -- which stage is off

    def first_stage_off(self, block: Block, pu: str, inputs: Arrays) -> int:
        """The first stage of a block that a PU gets wrong from the reference's tensors; else the block's first."""
        tensors = self.model.run(inputs)
        sizes = self.model.sizes_of(inputs)
        for number in block.stages:
            single = self.model.block(number, number)
            got = self._computed(single, pu, tensors, sizes)
            near = {name: judged(name, tensors[name], got[name], lambda each: self.references.exact(inputs, each))
                    for name in got}  # fmt: skip
            if not all(near.values()):
                return number
        return block.first

    def _computed(self, block: Block, pu: str, tensors: Arrays, sizes: Mapping[str, int], variant: str = "") -> Arrays:
        """What a PU makes of a block from given tensors; what it cannot do is nothing."""
        pool = self._pool or self.pool(ExecutionPlan(()))
        made = {name: self._arena.empty(str(tensors[name].dtype), tensors[name].shape) for name in block.outputs}
        try:
            pool.start([pu])
            program = self._programs.of(block, pu, variant)
            request = {
                "do": "load", "key": "stage", "program": program.facts(), "sizes": dict(sizes),
                "inputs": {name: self._arena.put(tensors[name])[1] for name in block.inputs},
                "outputs": {name: reference for name, (_, reference) in made.items()},
            }  # fmt: skip
            pool.setup(pu, request, program.torch)
        except Fault:
            return {}
        return {name: array for name, (array, _) in made.items()}


class _Run:
    """One run: items that are not done yet go through plan after plan."""

    def __init__(self, executor: Executor, plan: ExecutionPlan, items: Sequence[Arrays]) -> None:
        self.executor, self.model, self.items = executor, executor.model, items
        self.sizes = self.model.sizes_of(items[0]) if items else {}
        self.plan: ExecutionPlan | None = plan
        self.result = Execution(plan, [{} for _ in items], [{} for _ in items])
        self.todo = list(range(len(items)))
        self.tables = executor.tables
        self.kept: set[tuple[tuple[str, str], ...]] = set()  # plans that were looked at anew and stayed

    def done(self) -> Execution:
        """The results."""
        while self.todo:
            if self.plan is None:
                self._by_reference()
            else:
                self._by(self.plan)
        return self.result

    # -- one pass

    def _by(self, plan: ExecutionPlan) -> None:
        """Passes what is left through a plan; a fault is noted, and the next plan chosen."""
        plan, notes = runnable(self.model, plan, self.items)
        self.result.notes += [note for note in notes if note not in self.result.notes]
        todo, made = list(self.todo), dict[int, Arrays]()
        try:
            with self._loaded(plan, [self.items[at] for at in todo]) as pipeline:
                self._passed(pipeline, todo, made)
        except Fault as fault:
            self._take(made, plan.pus)
            self._leave(plan, fault)
        except _Slower as slower:
            self._take(made, plan.pus)
            self._replan(plan, slower)
        else:
            self._take(made, plan.pus)
            if self.todo:
                self._leave(plan, self._wrong(plan, self.todo[0], made))

    @contextmanager
    def _loaded(self, plan: ExecutionPlan, items: Sequence[Arrays]) -> Iterator[Pipeline | PartsPipeline]:
        self.executor.references.of(items[0])  # no part of the plan's set-up
        begun = time.perf_counter()
        pipeline = self.executor.pipeline(plan, self.sizes)
        try:
            pipeline.load(items)
            self._check_first(plan, pipeline, items[0])
            self.result.setup_seconds += time.perf_counter() - begun
            yield pipeline
        except Fault as fault:
            for pu in fault.pu.split("+"):  # it is not asked to forget anything: it may hang, or be gone
                self.executor.pool(plan).leave(pu)
            raise
        except (KeyboardInterrupt, SystemExit):
            self.executor.pool(plan).close()
            raise
        finally:
            pipeline.unload()

    def _check_first(self, plan: ExecutionPlan, pipeline: Pipeline | PartsPipeline, inputs: Arrays) -> None:
        """Compares what the blocks made of the first item when they were loaded: a PU that is off is named."""
        near = self.executor.references.judge(inputs, pipeline.tensors())
        for each in plan.blocks:
            wrong = next((name for name in each.block.outputs if name in near and not near[name]), None)
            if wrong is not None:
                raise self._blamed(each, wrong, near[wrong], inputs)

    def _blamed(self, each: PlannedBlock, name: str, near: Nearness, inputs: Arrays) -> Fault:
        pu = each.pus[0] if len(each.pus) == 1 else "+".join(each.pus)
        stage = self.executor.first_stage_off(each.block, each.pus[0], inputs)
        return Fault(pu, f"its result `{name}` of block {each.block.name} is wrong: {near.wrong}", stage)

    def _passed(self, pipeline: Pipeline | PartsPipeline, todo: Sequence[int], made: dict[int, Arrays]) -> None:
        pace = _Pace(pipeline.plan, len(todo))

        def called(call: Call) -> None:
            self.result.calls.append(replace(call, item=todo[call.item]))
            pace.add(call)

        def finished(item: int, outputs: Arrays) -> None:
            made[todo[item]] = {name: array.copy() for name, array in outputs.items()}
            pace.check(len(made), self._may_replan(pipeline.plan))

        begun = time.perf_counter()
        try:
            pipeline.run([self.items[at] for at in todo], finished, called)
        finally:
            self.result.seconds += time.perf_counter() - begun

    def _take(self, made: Mapping[int, Arrays], pus: Sequence[str]) -> None:
        """Keeps the results that are right."""
        for at, outputs in made.items():
            near = self.executor.references.judge(self.items[at], outputs)
            if all(near.values()):
                self.result.outputs[at], self.result.near[at] = outputs, near
                self.todo.remove(at)
                self.result.pus += [pu for pu in pus if pu not in self.result.pus]

    def _wrong(self, plan: ExecutionPlan, item: int, made: Mapping[int, Arrays]) -> Fault:
        """Who is to blame for a result that is off although the first one was right: the block that is off again."""
        inputs = self.items[item]
        tensors = self.model.run(inputs)
        for each in plan.blocks:
            got = self.executor._computed(each.block, each.pus[0], tensors, self.sizes, each.variant)
            near = self.executor.references.judge(inputs, got)
            if not all(near.values()):
                name = next(name for name, one in near.items() if not one)
                return self._blamed(each, name, near[name], inputs)
        near = self.executor.references.judge(inputs, made[item])
        name = next(name for name, one in near.items() if not one)
        return Fault("+".join(plan.pus), f"the result `{name}` was wrong now and then: {near[name].wrong}")

    def _by_reference(self) -> None:
        """Computes what is left by the model as given."""
        begun = time.perf_counter()
        for at in list(self.todo):
            self._take({at: self.model.reference.outputs(self.items[at])}, (REFERENCE,))
        self.result.seconds += time.perf_counter() - begun
        self._give_up()

    def _give_up(self) -> None:
        """Items that even the reference does not give twice alike: they are handed out, and said to be off."""
        for at in self.todo:
            outputs = self.model.reference.outputs(self.items[at])
            self.result.outputs[at] = outputs
            self.result.near[at] = self.executor.references.judge(self.items[at], outputs)
            self.result.off.update({name: None for name, near in self.result.near[at].items() if not near})
        self.todo = []

    # -- the next plan

    def _leave(self, plan: ExecutionPlan, fault: Fault) -> None:
        gone = fault.pu.split("+")
        for pu in gone:
            self.executor.pool(plan).leave(pu)
        before = {pu for each in self.result.left for pu in each.pu.split("+")}
        self.plan = self._without({*before, *gone}, plan)
        told = str(self.plan) if self.plan is not None else "the model as given"
        self.result.left.append(Left(fault.pu, fault.reason, told, fault.stage))
        self.executor.say(f"{fault.pu} is left: {fault.reason}; its items go to {told}")

    def _without(self, gone: set[str], plan: ExecutionPlan) -> ExecutionPlan | None:
        """The best plan without some PUs: the planner's, else the runner-up, else None."""
        known = [pu for pu in self.tables.pus if our_name(pu) not in gone] if self.tables is not None else []
        if known and self.tables is not None:
            try:
                part = {name: max(1, size // plan.parts) for name, size in self.sizes.items()}
                found = planned_near(self.model, self.tables, part, self._goal(plan), known)
                return replace(found, parts=plan.parts)
            except CannotPlan:
                pass
        second = plan.runner_up
        return second if second is not None and gone.isdisjoint(second.pus) else None

    def _goal(self, plan: ExecutionPlan) -> Goal:
        return Goal(plan.goal, max(1, len(self.todo)), plan.queue)

    def _may_replan(self, plan: ExecutionPlan) -> bool:
        predicted = plan.parts == 1 and dict(plan.sizes) == dict(self.sizes)
        return self.tables is not None and predicted and plan.assignment not in self.kept

    def _replan(self, plan: ExecutionPlan, slower: _Slower) -> None:
        """Plans the rest with the figures of a slow block as they are now."""
        self.kept.add(plan.assignment)
        gone = {pu for each in self.result.left for pu in each.pu.split("+")}
        assert self.tables is not None
        for pu in slower.block.pus:
            self.tables = scaled(self.tables, pu, slower.block.block, slower.times)
        found = self._without(gone, plan)
        if found is None or found.assignment == plan.assignment:
            self.plan = plan
            return
        self.plan = found
        reason = f"block {slower.block.block.name} takes {slower.times:.1f} times its prediction"
        self.result.left.append(Left("+".join(slower.block.pus), reason, str(found)))
        self.executor.say(f"{reason} on {'+'.join(slower.block.pus)}; the rest goes to {found}")


class _Pace:
    """How long the blocks of a pass take against their predictions."""

    def __init__(self, plan: ExecutionPlan, items: int) -> None:
        self._plan, self._items = plan, items
        self._times: dict[str, list[float]] = {each.block.name: [] for each in plan.blocks}

    def add(self, call: Call) -> None:
        """Notes one call."""
        self._times.setdefault(call.block.name, []).append(call.total)  # parts have blocks of their own

    def check(self, done: int, may_replan: bool) -> None:
        """Raises _Slower for the block that is farthest behind, if several items are left."""
        if not may_replan or self._items - done < SLOW_ITEMS:
            return
        behind = [(median(last) / each.seconds, each) for each, last in self._last() if self._is_slow(each, last)]
        if behind:
            times, each = max(behind, key=lambda one: one[0])
            raise _Slower(each, times)

    def _last(self) -> Iterator[tuple[PlannedBlock, list[float]]]:
        for each in self._plan.blocks:
            yield each, self._times[each.block.name][-SLOW_ITEMS * len(each.pus) :]

    @staticmethod
    def _is_slow(each: PlannedBlock, last: Sequence[float]) -> bool:
        enough = each.seconds > 0 and len(last) >= SLOW_ITEMS * len(each.pus)
        return enough and min(last) > SLOW_TIMES * each.seconds


def scaled(tables: Tables, pu: str, block: Block, times: float) -> Tables:
    """The tables with the figures of a PU for the stages of a block multiplied."""
    own = tables.pu(pu)
    touched = set(block.stages)
    rows = {
        (name, stage): {size: _times(row, times) for size, row in found.items()}
        if name == own and touched & set(_numbers(stage)) else found
        for (name, stage), found in tables.rows.items()
    }  # fmt: skip
    return replace(tables, rows=rows, _models={})


def _numbers(stage: str) -> range:
    first, _, last = stage.partition("-")
    return range(int(first), int(last or first) + 1)


def _times(row: Row, times: float) -> Row:
    return replace(row, compute=row.compute * times, low=row.low * times, high=row.high * times)
