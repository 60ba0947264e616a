"""Pipeline over the parts of a graph: layer after layer, since a part reads rows of other parts from the layer before.

Rows of a part and of its halo are taken by their indices from one array of the whole graph; parts that cannot run at
the same time share the memory of their tensors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from codedag.stages.execution.execution_plan import ExecutionPlan, PlannedBlock
from codedag.stages.execution.pipeline import Call, Finished, Pipeline
from codedag.stages.execution.pu_pool import BlockPrograms, PuPool
from codedag.stages.graph.layers import EDGES, Layer, layers_of
from codedag.stages.graph.parts import LocalGraph, Parts, parts_of
from codedag.stages.measuring.arena import Arena, Reference, attached
from codedag.stages.model import Arrays, BadInput, StagedModel
from codedag.stages.sizes import Sizes


class ReusedArena(Arena):
    """Tensors of parts that never run at the same time: the n-th tensor of each part has the same memory.

    Parts are loaded from the largest on, so that memory is made once. Edges are kept: no part changes them.
    """

    def __init__(self, arena: Arena) -> None:
        self.path, self._arena = arena.path, arena
        self._made: list[tuple[int, Reference]] = []
        self._at = 0

    def begin(self) -> None:
        """Begins the tensors of another part."""
        self._at = 0

    def empty(self, dtype: str, shape: Any) -> tuple[Any, Reference]:
        """An array in memory that another part used before, where it is large enough."""
        import numpy as np

        nbytes = prod(shape) * np.dtype(dtype).itemsize
        if self._at == len(self._made):
            self._made.append((-1, {}))
        if self._made[self._at][0] < nbytes:
            self._made[self._at] = (nbytes, self._arena.empty("uint8", [nbytes])[1])
        reference = {**self._made[self._at][1], "dtype": str(dtype), "shape": list(shape)}
        self._at += 1
        return attached(reference), reference

    def put(self, array: Any) -> tuple[Any, Reference]:
        """A copy of an array; of edges one of its own."""
        if array.dtype.kind in "iu":
            return self._arena.put(array)
        return super().put(array)

    def drop(self, references: Any) -> None:
        """Removes nothing: other parts have the same memory."""


@dataclass(slots=True)
class _Part:
    """One part of one layer, loaded."""

    number: int
    graph: LocalGraph
    pipeline: Pipeline


class PartsPipeline:
    """A plan for the parts of a graph, loaded: as a Pipeline, for items that have the same edges."""

    def __init__(
        self, model: StagedModel, plan: ExecutionPlan, pool: PuPool, programs: BlockPrograms, arena: Arena, sizes: Sizes
    ) -> None:
        self.model, self.plan, self.pool, self.sizes = model, plan, pool, dict(sizes)
        self._programs, self._arena = programs, arena
        self._layers = layers_of(model)
        self._loaded: list[list[list[_Part]]] = []  # layers, groups that can run at the same time, parts
        self._known: Arrays = {}  # rows of all nodes by tensor: inputs in the order given, others in that of the parts
        self._edges: Any = None
        self._parts: Parts | None = None
        self.setup_seconds = 0.0

    # -- loading

    def load(self, items: Sequence[Arrays]) -> None:
        """Cuts the graph, and loads every part of every layer; the first item has then run once. Raises Fault."""
        begun = time.perf_counter()
        self.pool.start(self.plan.pus)
        self._edges = items[0][EDGES]
        self._parts = parts_of(self._edges, self.sizes["nodes"], self.plan.parts, self.plan.part_ratios)
        self._known = {name: items[0][name] for name in self.model.inputs}
        graphs = {at: self._parts.local(at) for at, size in enumerate(self._parts.sizes) if size.nodes}
        arenas: dict[int, ReusedArena] = {}
        for layer in self._layers:
            self._begin(layer)
            groups = self._groups(sorted(graphs, key=lambda at: -len(graphs[at].rows)))
            self._loaded.append([
                [self._load(layer, at, graphs[at], arenas.setdefault(number, ReusedArena(self._arena))) for at in group]
                for number, group in enumerate(groups)
            ])  # fmt: skip
        self.setup_seconds = time.perf_counter() - begun

    def _begin(self, layer: Layer) -> None:
        """Makes room for the rows of all nodes that a layer gives."""
        import numpy as np

        tensor = self.model.tensors[layer.makes]
        if layer.makes not in self._known:
            self._known[layer.makes] = np.empty(tensor.at(self.sizes), tensor.dtype)

    def _groups(self, numbers: Sequence[int]) -> list[list[int]]:
        """Parts whose PUs take turns are one group."""
        groups: list[tuple[set[object], list[int]]] = []
        for at in numbers:
            claims: set[object] = set()
            for block in self._blocks(at):
                claims.update(*(self.pool.claims(pu) for pu in block.pus))
            joined = [each for each in groups if not each[0].isdisjoint(claims)]
            groups = [each for each in groups if each[0].isdisjoint(claims)]
            merged = [number for _, each in joined for number in each] + [at]
            groups.append((claims.union(*(each for each, _ in joined)), merged))
        return [sorted(each, key=numbers.index) for _, each in groups]

    def _blocks(self, part: int) -> tuple[PlannedBlock, ...]:
        return self.plan.clusters.get(part, self.plan.blocks)

    def _load(self, layer: Layer, number: int, graph: LocalGraph, arena: ReusedArena) -> _Part:
        arena.begin()
        plan = ExecutionPlan(tuple(self._of_layer(layer, number)))
        sizes = {"nodes": len(graph.rows), "edges": graph.edge_index.shape[1]}
        pipeline = Pipeline(
            self.model, plan, self.pool, self._programs, arena, sizes, (layer.reads, EDGES), (layer.makes,)
        )
        made = _Part(number, graph, pipeline)
        pipeline.load([{layer.reads: self._rows(layer, made), EDGES: graph.edge_index}])
        self._store(layer, made)
        return made

    def _of_layer(self, layer: Layer, number: int) -> Iterator[PlannedBlock]:
        """The blocks of a part's plan, cut where the layer begins and ends."""
        for each in self._blocks(number):
            first, last = max(each.block.first, layer.first), min(each.block.last, layer.last)
            if first <= last:
                block = self.model.block(first, last)
                yield replace(each, block=block, seconds=0.0, variant=each.variant if block == each.block else "")

    # -- rows in and out

    def _indices(self, layer: Layer, indices: Any) -> Any:
        """Rows of a tensor by their place in the order of the parts; inputs are in the order given."""
        assert self._parts is not None
        return self._parts.order[indices] if layer.reads in self.model.inputs else indices

    def _rows(self, layer: Layer, part: _Part, out: Any = None) -> Any:
        import numpy as np

        return np.take(self._known[layer.reads], self._indices(layer, part.graph.rows), axis=0, out=out, mode="clip")

    def _store(self, layer: Layer, part: _Part) -> None:
        """Keeps the rows that a part owns; what the model gives is put in the order given."""
        assert self._parts is not None
        made = part.pipeline.tensors()[layer.makes][: part.graph.owned]
        rows = self._parts.rows(part.number)
        self._known[layer.makes][self._parts.order[rows] if layer.makes in self.model.outputs else rows] = made

    # -- as a Pipeline

    def tensors(self) -> Arrays:
        """The inputs and outputs of the last item."""
        return {name: self._known[name] for name in (*self.model.inputs, *self.model.outputs)}

    def unload(self) -> None:
        """Forgets all parts."""
        for layer in self._loaded:
            for group in layer:
                for part in group:
                    part.pipeline.unload()
        self._loaded = []

    def run(self, items: Sequence[Arrays], finished: Finished, called: Callable[[Call], None]) -> None:
        """Passes the items through the layers, one after the other; raises Fault."""
        with ThreadPoolExecutor(max_workers=max(1, *(len(layer) for layer in self._loaded), 1)) as threads:
            try:
                for at, item in enumerate(items):
                    self._run(threads, at, item, called)
                    finished(at, {name: self._known[name] for name in self.model.outputs})
            except BaseException:
                self.pool.close()
                raise

    def _run(self, threads: ThreadPoolExecutor, item: int, inputs: Arrays, called: Callable[[Call], None]) -> None:
        if inputs[EDGES] is not self._edges:
            raise BadInput("items that are run in parts must have the same `edge_index`", hint="Run them one by one.")
        self._known.update({name: inputs[name] for name in self.model.inputs})
        for layer, groups in zip(self._layers, self._loaded, strict=True):
            if len(groups) == 1:
                self._run_group(layer, groups[0], item, called)
                continue
            futures = [threads.submit(self._run_group, layer, group, item, called) for group in groups]
            for future in futures:
                future.result()

    def _run_group(self, layer: Layer, parts: Sequence[_Part], item: int, called: Callable[[Call], None]) -> None:
        for part in parts:
            self._rows(layer, part, out=part.pipeline.tensors()[layer.reads])
            part.pipeline.run_once(item, called)
            self._store(layer, part)
