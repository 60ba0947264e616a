"""The guides' tracer: a thin face over the trace of a running process."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codedag.api.dag import DAG, DAGBuilder
from codedag.api.filters import FunctionFilter
from codedag.api.monitors import MemoryProfiler
from codedag.api.run import Run
from codedag.api.tracing import Tracing
from codedag.instrument.selection import FilterConfig
from codedag.ir import Edge, Graph, write_atomically


class EnhancedTracer:
    """Traces what runs inside `tracing_context()`; a second block adds to the same graph.

    `max_depth` limits how deep calls are followed.  Bytes of results are always exact; `track_memory` adds a snapshot
    of the process before and after each block (`memory_profiler`).
    """

    def __init__(
        self, max_depth: int = 10, track_memory: bool = True, filter_config: FilterConfig | None = None
    ) -> None:
        self.max_depth, self.track_memory = max_depth, track_memory
        self.dag_builder = DAGBuilder()
        self.memory_profiler = MemoryProfiler() if track_memory else None
        self.function_filter = FunctionFilter(filter_config)
        self.runs: list[Run] = []
        self._filter = filter_config

    @contextmanager
    def tracing_context(self) -> Iterator[Run]:
        """Traces the block; the graph is there when it has ended."""
        self._snapshot()
        tracing = Tracing(None, (), self._filter, self.max_depth)
        run: Run | None = None
        try:
            with tracing as run:
                yield run
        finally:
            if run is not None:
                self.runs.append(run)
                self.dag_builder.add_trace(run.recorded)
            self._snapshot()

    def _snapshot(self) -> None:
        if self.memory_profiler is not None:
            self.memory_profiler.take_snapshot()

    @property
    def notes(self) -> list[str]:
        """What was not seen in any block, and why."""
        return [note for run in self.runs for note in run.notes]

    @property
    def graph(self) -> Graph:
        """The graphs of all blocks as one, without edges from one block to another."""
        return _joined([run.graph for run in self.runs])

    def export_dataflow_graph(self) -> dict[str, Any]:
        """The graph as a dictionary that `json.dump` can write."""
        builder = self.dag_builder
        return {
            "nodes": [
                {
                    "id": node.node_id, "name": node.name, "type": node.node_type, "version": node.version,
                    "performance": dict(node.performance), "attributes": dict(node.attributes),
                }
                for node in builder.dag.nodes.values()
            ],
            "edges": [{"source": source, "target": target, "type": kind} for source, target, kind in builder.dag.edges],
            "statistics": _statistics(builder.dag),
            "metadata": {
                "max_depth": self.max_depth, "track_memory": self.track_memory, "blocks": len(self.runs),
                "notes": self.notes, "carried": [list(pair) for pair in builder.carried],
                "order_only": [list(pair) for pair in builder.order_only],
            },
        }  # fmt: skip

    def export_visualization(self, path: str | os.PathLike[str]) -> Path:
        """The picture of the graph, written as SVG."""
        place = Path(path)
        if place.suffix.lower() != ".svg":
            raise ValueError(f"cannot write {place.name!r}: pictures are written as .svg, name the file so")
        from codedag.view.svg import draw

        write_atomically(place, draw(self.graph).encode())
        return place


def _statistics(dag: DAG) -> dict[str, Any]:
    working = [n for n in dag.nodes.values() if n.node_type != "variable" and n.attributes.get("kind") != "region"]
    return {
        "node_count": len(dag.nodes),
        "edge_count": len(dag.edges),
        "node_types": dict(Counter(node.node_type for node in dag.nodes.values())),
        "edge_types": dict(Counter(kind for _, _, kind in dag.edges)),
        "execution_time": sum(node.performance.get("self_time", 0.0) for node in working),
        "memory_usage": sum(node.performance["memory_usage"] for node in working),
    }


def _joined(graphs: list[Graph]) -> Graph:
    import msgspec

    ops, edges, carried, first = [], [], [], 0
    for graph in graphs:
        ops += [msgspec.structs.replace(op, id=op.id + first) for op in graph.ops]
        edges += [Edge(edge.src + first, edge.dst + first, edge.kind, edge.nbytes) for edge in graph.edges]
        carried += [(pair.src + first, pair.dst + first) for pair in graph.carried]
        first = 1 + max((op.id for op in ops), default=first - 1)
    return Graph.build(ops, edges, carried)
