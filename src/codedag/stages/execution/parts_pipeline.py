"""Pipeline over the parts of a graph: layer after layer, since a part reads rows of other parts from the layer before.

Arrays of all nodes are renumbered so that a part is a range of rows. Our kernels compute such a range of a layer in
place, with halos as indices; other runtimes get the rows of a part and of its halo as a graph of their own, and compute
what follows the mean for the part alone. Parts that cannot run at the same time share the memory of their tensors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from codedag.stages.execution.execution_plan import ExecutionPlan, PlannedBlock
from codedag.stages.execution.pipeline import Call, Finished, Pipeline, Share
from codedag.stages.execution.pu_pool import BlockPrograms, PuPool
from codedag.stages.graph.fusion import KINDS
from codedag.stages.graph.layers import EDGES, Layer, layers_of
from codedag.stages.graph.parts import LocalGraph, parts_of
from codedag.stages.measuring.arena import Arena, Reference, attached
from codedag.stages.model import Arrays, BadInput, Block, StagedModel
from codedag.stages.sizes import Sizes

#: PUs that compute a range of the rows of a layer in the arrays of all nodes.
IN_PLACE = "numba:"


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
    """One part of one layer, loaded as a graph of its own."""

    number: int
    graph: LocalGraph
    pipeline: Pipeline


@dataclass(slots=True)
class _RowRange:
    """One part of one layer, loaded as a range of rows of the arrays of all nodes."""

    block: Block
    share: Share


class PartsPipeline:
    """A plan for the parts of a graph, loaded: as a Pipeline, for items that have the same edges."""

    def __init__(
        self, model: StagedModel, plan: ExecutionPlan, pool: PuPool, programs: BlockPrograms, arena: Arena, sizes: Sizes
    ) -> None:
        self.model, self.plan, self.pool, self.sizes = model, plan, pool, dict(sizes)
        self._programs, self._arena = programs, arena
        self._layers = layers_of(model)
        self._loaded: list[list[list[_Part | _RowRange]]] = []  # layers, groups that can run at the same time, parts
        self._known: dict[str, tuple[Any, Reference]] = {}  # arrays of all nodes, in the order of the parts, and edges
        self._given: Any = None
        self.setup_seconds = 0.0

    # -- loading

    def load(self, items: Sequence[Arrays]) -> None:
        """Cuts the graph, and loads every part of every layer; the first item has then run once. Raises Fault."""
        begun = time.perf_counter()
        self.pool.start(self.plan.pus)
        self._given = items[0][EDGES]
        self._parts = parts_of(self._given, self.sizes["nodes"], self.plan.parts, self.plan.part_ratios)
        self._known = {name: self._arena.put(self._parts.arranged(items[0][name])) for name in self._features}
        self._known[EDGES] = self._arena.put(self._parts.edge_index)
        arenas: dict[int, ReusedArena] = {}
        for layer in self._layers:
            tensor = self.model.tensors[layer.makes]
            self._known[layer.makes] = self._arena.empty(tensor.dtype, tensor.at(self.sizes))
            self._loaded.append([
                [self._load(layer, at, arenas.setdefault(number, ReusedArena(self._arena))) for at in group]
                for number, group in enumerate(self._groups())
            ])  # fmt: skip
        self.setup_seconds = time.perf_counter() - begun

    @property
    def _features(self) -> list[str]:
        return [name for name in self.model.inputs if name != EDGES]

    def _groups(self) -> list[list[int]]:
        """The parts that have nodes, those with most rows first; parts whose PUs take turns are one group."""
        sizes = self._parts.sizes
        numbers = sorted((at for at, size in enumerate(sizes) if size.nodes), key=lambda at: -sizes[at].rows)
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

    def _load(self, layer: Layer, number: int, arena: ReusedArena) -> _Part | _RowRange:
        blocks = tuple(self._of_layer(layer, number))
        if len(blocks) == 1 and all(pu.startswith(IN_PLACE) for pu in blocks[0].pus):
            return self._load_rows(layer, number, blocks[0])
        arena.begin()
        graph = self._parts.local(number)
        sizes = {"nodes": len(graph.rows), "edges": graph.edge_index.shape[1]}
        pipeline = Pipeline(
            self.model, ExecutionPlan(blocks), self.pool, self._programs, arena, sizes, (layer.reads, EDGES),
            (layer.makes,), graph.owned,
        )  # fmt: skip
        made = _Part(number, graph, pipeline)
        pipeline.load([{layer.reads: self._rows(layer, made), EDGES: graph.edge_index}])
        self._store(layer, made)
        return made

    def _load_rows(self, layer: Layer, number: int, each: PlannedBlock) -> _RowRange:
        """Loads a part as rows of the arrays of all nodes: nothing is copied."""
        rows, pu = self._parts.rows(number), each.pus[0]
        share = Share(pu, f"{id(self)}.{layer.first}.{number}", 0.0)
        program = replace(self._programs.of(each.block, pu, each.variant), rows=(rows.start, rows.stop))
        request = {
            "do": "load", "key": share.key, "program": program.facts(), "sizes": self.sizes,
            "inputs": {name: self._known[name][1] for name in each.block.inputs},
            "outputs": {layer.makes: self._known[layer.makes][1]},
        }  # fmt: skip
        share.predicted_seconds = self.pool.setup(pu, request)["setup_seconds"]
        return _RowRange(each.block, share)

    def _of_layer(self, layer: Layer, number: int) -> Iterator[PlannedBlock]:
        """The blocks of a part's plan, cut where the layer begins and ends, and behind the mean unless in place."""
        for each in self._blocks(number):
            first, last = max(each.block.first, layer.first), min(each.block.last, layer.last)
            in_place = (first, last) == (layer.first, layer.last) and all(pu.startswith(IN_PLACE) for pu in each.pus)
            middle = layer.first + KINDS.index("TRANSFORM")
            ranges = (
                [(first, middle - 1), (middle, last)] if first < middle <= last and not in_place else [(first, last)]
            )
            for begin, end in ranges:
                if begin <= end:
                    block = self.model.block(begin, end)
                    variant = each.variant if block == each.block else ""
                    yield replace(each, block=block, seconds=0.0, variant=variant)

    # -- rows in and out

    def _rows(self, layer: Layer, part: _Part, out: Any = None) -> Any:
        import numpy as np

        return np.take(self._known[layer.reads][0], part.graph.rows, axis=0, out=out, mode="clip")

    def _store(self, layer: Layer, part: _Part) -> None:
        """Keeps the rows that a part owns."""
        made = part.pipeline.tensors()[layer.makes][: part.graph.owned]
        self._known[layer.makes][0][self._parts.rows(part.number)] = made

    # -- as a Pipeline

    def tensors(self) -> Arrays:
        """The outputs of the last item, in the order of the nodes as given."""
        return {name: self._parts.restored(self._known[name][0]) for name in self.model.outputs}

    def unload(self) -> None:
        """Forgets all parts and gives the arrays back."""
        parts = [part for layer in self._loaded for group in layer for part in group]
        for part in parts:
            if isinstance(part, _Part):
                part.pipeline.unload()
        self.pool.forget([part.share for part in parts if isinstance(part, _RowRange)])
        self._arena.drop(reference for _, reference in self._known.values())
        self._loaded, self._known = [], {}

    def run(self, items: Sequence[Arrays], finished: Finished, called: Callable[[Call], None]) -> None:
        """Passes the items through the layers, one after the other; raises Fault."""
        with ThreadPoolExecutor(max_workers=max(1, *(len(layer) for layer in self._loaded), 1)) as threads:
            try:
                for at, item in enumerate(items):
                    self._run(threads, at, item, called)
                    finished(at, self.tensors())
            except BaseException:
                self.pool.close()
                raise

    def _run(self, threads: ThreadPoolExecutor, item: int, inputs: Arrays, called: Callable[[Call], None]) -> None:
        if inputs[EDGES] is not self._given:
            raise BadInput("items that are run in parts must have the same `edge_index`", hint="Run them one by one.")
        for name in self._features:
            self._parts.arranged(inputs[name], out=self._known[name][0])
        for layer, groups in zip(self._layers, self._loaded, strict=True):
            if len(groups) == 1:
                self._run_group(layer, groups[0], item, called)
                continue
            futures = [threads.submit(self._run_group, layer, group, item, called) for group in groups]
            for future in futures:
                future.result()

    def _run_group(
        self, layer: Layer, parts: Sequence[_Part | _RowRange], item: int, called: Callable[[Call], None]
    ) -> None:
        for part in parts:
            if isinstance(part, _RowRange):
                answer = self.pool.run(part.share.pu, part.share.key, part.share.predicted_seconds)
                called(Call(item, part.block, part.share.pu, answer["start"], answer["end"], answer["total"]))
                continue
            self._rows(layer, part, out=part.pipeline.tensors()[layer.reads])
            part.pipeline.run_once(item, called)
            self._store(layer, part)
