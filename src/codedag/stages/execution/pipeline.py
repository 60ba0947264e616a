"""Pipeline of loaded blocks: items pass through slots of shared tensors, blocks of different items run at once.

A slot holds every tensor of one item that passes between blocks; blocks are loaded once per slot and bound to its
arrays, so nothing is copied between PUs of the host. There are few slots and short queues: that is the back-pressure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from codedag.stages.execution.execution_plan import ExecutionPlan, PlannedBlock
from codedag.stages.execution.pu_pool import BlockPrograms, Fault, PuPool
from codedag.stages.graph.layers import EDGES, has_layers
from codedag.stages.measuring.arena import Arena, Reference
from codedag.stages.model import Arrays, Block, StagedModel, Tensor
from codedag.stages.planning.divisible import divisible_size
from codedag.stages.sizes import Sizes

#: Every slot is compiled for: more of them cost set-up time and memory, and no longer help.
MOST_SLOTS = 6

Found = tuple[Any, Reference]  # an array and how another process finds it
Finished = Callable[[int, Arrays], None]  # an item and its outputs, which the next item will overwrite


@dataclass(frozen=True, slots=True)
class Call:
    """One block of one item on one PU, by the system's clock; `total` is what it computed for, its inputs included."""

    item: int
    block: Block
    pu: str
    start: float
    end: float
    total: float


@dataclass(slots=True)
class Share:
    """What one PU does of a block in one slot: the key of the loaded block, and copies to be made before it runs."""

    pu: str
    key: str
    predicted_seconds: float
    copies: list[tuple[Any, Any]] = field(default_factory=list)  # target, source


@dataclass(slots=True)
class Slot:
    """The tensors of one item, and the shares of each block that are bound to them."""

    tensors: dict[str, Found] = field(default_factory=dict)
    shares: list[list[Share]] = field(default_factory=list)
    holds: Arrays | None = None  # the inputs that it has a copy of


class Pipeline:
    """A plan, loaded: `run` passes items through it."""

    def __init__(
        self, model: StagedModel, plan: ExecutionPlan, pool: PuPool, programs: BlockPrograms, arena: Arena,
        sizes: Sizes, inputs: Sequence[str] = (), outputs: Sequence[str] = (), owned: int | None = None,
    ) -> None:  # fmt: skip
        self.model, self.plan, self.pool, self.sizes = model, plan, pool, dict(sizes)
        self._owned = owned  # of a part of a graph: the nodes that are its own; what is behind them is halo
        self.inputs, self.outputs = tuple(inputs or model.inputs), tuple(outputs or model.outputs)
        self._programs, self._arena = programs, arena
        self._slots: list[Slot] = []
        self._loaded = 0
        self.setup_seconds = 0.0

    # -- loading

    def load(self, items: Sequence[Arrays]) -> None:
        """Starts the PUs and loads every block for as many slots as items can be under way; raises Fault."""
        begun = time.perf_counter()
        self.pool.start(self.plan.pus)
        for at in range(min(len(items), self._most_slots())):
            slot = Slot()
            self._slots.append(slot)
            self._fill(slot, items[at])
            for each in self.plan.blocks:
                slot.shares.append(self._load_block(slot, each))
        self.setup_seconds = time.perf_counter() - begun

    def _most_slots(self) -> int:
        count = len(self.plan.blocks)
        if not self.plan.is_pipeline:
            return 1
        return min(count + self.plan.queue * (count - 1), MOST_SLOTS)

    def _fill(self, slot: Slot, inputs: Arrays) -> None:
        """Copies the inputs of an item into a slot, unless they are there already."""
        if slot.holds is inputs:
            return
        for name in self.inputs:
            if name in slot.tensors:
                slot.tensors[name][0][...] = inputs[name]
            else:
                slot.tensors[name] = self._arena.put(inputs[name])
        slot.holds = inputs

    def _load_block(self, slot: Slot, each: PlannedBlock) -> list[Share]:
        for name in each.block.outputs:
            tensor = self.model.tensors[name]
            slot.tensors[name] = self._arena.empty(tensor.dtype, tensor.at(self.sizes))
        return [self._load_share(slot, each, pu, cut) for pu, cut in self._shares(each)]

    def _shares(self, each: PlannedBlock) -> list[tuple[str, Cut]]:
        """The PUs of a block with their rows; of a part of a graph, halos are left out where rows are independent."""
        if self._owned is None or len(each.pus) > 1 or divisible_size(self.model, each.block) != "nodes":
            return shares_of(self.model, each, self.sizes)
        return [(each.pus[0], Cut("nodes", 0, self._owned, {**self.sizes, "nodes": self._owned}))]

    def _load_share(self, slot: Slot, each: PlannedBlock, pu: str, cut: Cut) -> Share:
        self._loaded += 1
        is_for_this_size = dict(self.plan.sizes) in ({}, self.sizes)
        share = Share(pu, f"{id(self)}.{self._loaded}", each.seconds if is_for_this_size else 0.0)
        inputs = {name: self._cut_input(slot, name, cut, share) for name in each.block.inputs}
        outputs = {name: cut.slice(self.model.tensors[name], slot.tensors[name])[1] for name in each.block.outputs}
        program = self._programs.of(each.block, share.pu, each.variant)
        _copy(share)
        request = {
            "do": "load", "key": share.key, "program": program.facts(), "sizes": cut.sizes, "inputs": inputs,
            "outputs": outputs,
        }  # fmt: skip
        loaded = self.pool.setup(share.pu, request, program.torch)
        if not share.predicted_seconds:  # then its set-up, which has called it once, says how long to wait for it
            share.predicted_seconds = loaded.get("setup_seconds", 0.0)
        return share

    def _cut_input(self, slot: Slot, name: str, cut: Cut, share: Share) -> Reference:
        array, reference = cut.slice(self.model.tensors[name], slot.tensors[name])
        if reference is not None:
            return dict(reference)
        there, made = self._arena.put(array)  # columns of a matrix are no one piece of memory
        share.copies.append((there, array))
        return made

    def tensors(self, slot: int = 0) -> Arrays:
        """The tensors of a slot by name, as its last item left them."""
        return {name: array for name, (array, _) in self._slots[slot].tensors.items()}

    def unload(self) -> None:
        """Forgets the blocks and gives their tensors back; PUs that are left by then do not matter."""
        self.pool.forget([share for slot in self._slots for shares in slot.shares for share in shares])
        self._arena.drop(reference for slot in self._slots for _, reference in slot.tensors.values())
        self._slots = []

    # -- running

    def run(self, items: Sequence[Arrays], finished: Finished, called: Callable[[Call], None]) -> None:
        """Passes the items through the blocks in their order; raises Fault once every PU at work has answered."""
        _Passage(self, items, finished, called).run()

    def run_once(self, item: int, called: Callable[[Call], None]) -> None:
        """Runs all blocks on what the tensors of the first slot hold, in this thread; raises Fault."""
        for each, shares in zip(self.plan.blocks, self._slots[0].shares, strict=True):
            for share in shares:
                answer = self.run_share(share)
                called(Call(item, each.block, share.pu, answer["start"], answer["end"], answer["total"]))

    def run_share(self, share: Share) -> dict[str, Any]:
        """Runs one share of a block."""
        _copy(share)
        return self.pool.run(share.pu, share.key, share.predicted_seconds)


def _copy(share: Share) -> None:
    for target, source in share.copies:
        target[...] = source


@dataclass(slots=True)
class _Task:
    """One share of a block of an item."""

    item: int
    at: int  # of the block in the plan
    share: Share


class _Passage:
    """The passage of items through one pipeline: what waits, what is at work, what is free."""

    def __init__(
        self, pipeline: Pipeline, items: Sequence[Arrays], finished: Finished, called: Callable[[Call], None]
    ) -> None:
        self.pipeline, self.items, self.finished, self.called = pipeline, items, finished, called
        self.count = len(pipeline.plan.blocks)
        self.free = list(pipeline._slots)
        self.slots: dict[int, Slot] = {}
        self.entered = 0
        self.waiting: list[list[_Task]] = [[] for _ in range(self.count)]  # before each block
        self.left: dict[tuple[int, int], int] = {}  # shares of (item, block) that have not ended
        self.under_way: dict[Future[dict[str, Any]], _Task] = {}
        self.fault: Fault | None = None

    def run(self) -> None:
        """Runs everything; a PU that fails stops what has not begun."""
        with ThreadPoolExecutor(max_workers=max(1, len(self.pipeline.plan.pus))) as threads:
            try:
                while self._more():
                    self._step(threads)
            except BaseException:
                self.pipeline.pool.close()  # ends the waiting of the threads, too
                raise
        if self.fault is not None:
            raise self.fault

    def _step(self, threads: ThreadPoolExecutor) -> None:
        self._enter()
        begun = self._startable()
        if len(begun) == 1 and not self.under_way:  # nobody else could work meanwhile: no thread is needed
            self._inline(begun[0])
            return
        for task in begun:
            self.under_way[threads.submit(self.pipeline.run_share, task.share)] = task
        self._await()

    def _more(self) -> bool:
        if self.fault is not None:
            return bool(self.under_way)
        return bool(self.under_way or self.slots or self.entered < len(self.items))

    def _enter(self) -> None:
        """Lets items in while there are slots, and no queue before the first block."""
        while self.fault is None and self.free and self.entered < len(self.items) and not self.waiting[0]:
            slot = self.free.pop(0)
            self.pipeline._fill(slot, self.items[self.entered])
            self.slots[self.entered] = slot
            self._wait_for(self.entered, 0)
            self.entered += 1

    def _wait_for(self, item: int, at: int) -> None:
        shares = self.slots[item].shares[at]
        self.left[item, at] = len(shares)
        self.waiting[at] += [_Task(item, at, share) for share in shares]

    def _startable(self) -> list[_Task]:
        """Takes what can begin now: the oldest item first, PUs that share cores in turn, no full queue behind it."""
        if self.fault is not None:
            return []
        busy: set[object] = set()
        for task in self.under_way.values():
            busy |= self.pipeline.pool.claims(task.share.pu)
        found = []
        for task in sorted((task for queue in self.waiting for task in queue), key=lambda task: (task.item, task.at)):
            claims = self.pipeline.pool.claims(task.share.pu)
            if busy.isdisjoint(claims) and not self._is_full(task.at + 1):
                busy |= claims
                found.append(task)
                self.waiting[task.at].remove(task)
        return found

    def _is_full(self, at: int) -> bool:
        return at < self.count and len({task.item for task in self.waiting[at]}) >= max(1, self.pipeline.plan.queue)

    def _inline(self, task: _Task) -> None:
        try:
            self._ended(task, self.pipeline.run_share(task.share))
        except Fault as fault:
            self.fault = fault

    def _await(self) -> None:
        done, _ = wait(self.under_way, return_when=FIRST_COMPLETED)
        for future in done:
            task = self.under_way.pop(future)
            try:
                self._ended(task, future.result())
            except Fault as fault:
                self.fault = self.fault or fault

    def _ended(self, task: _Task, answer: dict[str, Any]) -> None:
        block = self.pipeline.plan.blocks[task.at].block
        self.called(Call(task.item, block, task.share.pu, answer["start"], answer["end"], answer["total"]))
        self.left[task.item, task.at] -= 1
        if self.left[task.item, task.at]:
            return
        if task.at + 1 < self.count:
            self._wait_for(task.item, task.at + 1)
            return
        slot = self.slots.pop(task.item)
        self.finished(task.item, {name: slot.tensors[name][0] for name in self.pipeline.outputs})
        self.free.append(slot)


# -- shares of a split block


@dataclass(frozen=True, slots=True)
class Cut:
    """A range of one size: the rows of a block that one PU computes; of the whole block without a name."""

    name: str
    begin: int
    end: int
    sizes: dict[str, int]

    @staticmethod
    def whole(sizes: Sizes) -> Cut:
        """All of a block."""
        return Cut("", 0, 0, dict(sizes))

    def slice(self, tensor: Tensor, found: Found) -> tuple[Any, Any]:
        """The part of a tensor, and how another process finds it; None where it is no one piece of memory."""
        array, reference = found
        if not self.name or self.name not in tensor.shape:
            return array, reference
        if tensor.shape[0] != self.name:
            return array[:, self.begin : self.end], None
        part = array[self.begin : self.end]
        offset = self.begin * (array.strides[0] if array.ndim else 0)
        return part, {**reference, "shape": list(part.shape), "offset": reference.get("offset", 0) + offset}


def runnable(model: StagedModel, plan: ExecutionPlan, items: Sequence[Arrays]) -> tuple[ExecutionPlan, list[str]]:
    """The plan with each split block as it can be run, and notes on blocks that are not split.

    A graph model that is split as a whole runs as parts of the graph with halos, one for each PU. Another block whose
    rows depend on each other is not split: the PU of the largest share has all of it.
    """
    if _is_split_graph(model, plan) and all(item[EDGES] is items[0][EDGES] for item in items):
        return in_parts(plan), []
    notes: dict[str, None] = {}

    def whole(blocks: Sequence[PlannedBlock]) -> tuple[PlannedBlock, ...]:
        found = []
        for each in blocks:
            if len(each.pus) > 1 and divisible_size(model, each.block) is None:
                largest = each.pus[each.ratios.index(max(each.ratios))]
                notes[
                    f"block {each.block.name} is not split, since its rows depend on each other: {largest} has it"
                ] = None
                each = replace(each, pus=(largest,), ratios=(1.0,), seconds=0.0)
            found.append(each)
        return tuple(found)

    made = replace(plan, blocks=whole(plan.blocks), clusters={at: whole(each) for at, each in plan.clusters.items()})
    return (replace(made, seconds=0.0), list(notes)) if notes else (plan, [])


def _is_split_graph(model: StagedModel, plan: ExecutionPlan) -> bool:
    only = plan.blocks[0] if len(plan.blocks) == 1 and plan.parts == 1 else None
    return only is not None and len(only.pus) > 1 and divisible_size(model, only.block) is None and has_layers(model)


def in_parts(plan: ExecutionPlan) -> ExecutionPlan:
    """The plan of one split block as a plan of as many parts as it has PUs, whose sizes have its ratios."""
    only = plan.blocks[0]
    shares = [replace(only, pus=(pu,), ratios=(1.0,)) for pu in only.pus]
    clusters = {at: (share,) for at, share in enumerate(shares)}
    return replace(plan, blocks=(shares[0],), parts=len(shares), part_ratios=only.ratios, clusters=clusters)


def cuts_of(model: StagedModel, each: PlannedBlock, sizes: Sizes) -> list[Cut]:
    """The rows of each PU of a split block whose rows do not depend on each other."""
    name = divisible_size(model, each.block)
    assert name is not None, f"block {each.block.name} cannot be split"
    ends = [0]
    reached = 0.0
    for ratio in each.ratios:
        reached += ratio
        ends.append(round(sizes[name] * min(reached, 1.0)))
    ends[-1] = sizes[name]
    return [Cut(name, begin, end, {**sizes, name: end - begin}) for begin, end in pairwise(ends)]


def shares_of(model: StagedModel, each: PlannedBlock, sizes: Sizes) -> list[tuple[str, Cut]]:
    """The PUs of a block with their rows; one that has none is left out."""
    if len(each.pus) == 1:
        return [(each.pus[0], Cut.whole(sizes))]
    cuts = list(zip(each.pus, cuts_of(model, each, sizes), strict=True))
    return [(pu, cut) for pu, cut in cuts if cut.end > cut.begin] or cuts[:1]
