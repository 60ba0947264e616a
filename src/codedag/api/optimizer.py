"""The guides' optimiser: thin faces over the classes, parts and refinement of the plan room.

Loads and cuts say nothing about time on another device, so what runs where is not decided by them alone: a device that
is not there is never named, and the plan says why.  `codedag plan` decides from measured costs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codedag.api.dag import DAG, DAGNode
from codedag.ir import Machine, write_atomically
from codedag.plan.classes import classes
from codedag.plan.kway import Parts, Taste, Weighted, cut, grow, refine

log = logging.getLogger("codedag.plan")

ACCELERATORS = ("cuda", "xpu", "mps")


@dataclass(slots=True)
class Partition:
    """One part of a graph: its centre, the ids of its nodes, and what they cost."""

    id: int
    center: int
    nodes: set[int] = field(default_factory=set)
    total_compute: float = 0.0
    total_memory: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """What `json.dump` can write."""
        return {
            "id": self.id, "center": self.center, "nodes": sorted(self.nodes), "total_compute": self.total_compute,
            "total_memory": self.total_memory,
        }  # fmt: skip


class GraphCoarsening:
    """Finds nodes that do the same in the same surroundings; each gets the number of its class, none is merged."""

    def __init__(self, max_depth: int = 5) -> None:
        self.max_depth = max_depth
        self._stats: dict[str, Any] = {}

    def coarsen(self, dag: DAG) -> DAG:
        """A copy of the graph in which `attributes["structural_class"]` is the same for nodes that share decisions."""
        copy, ids = deepcopy(dag), list(dag.nodes)
        row = {node: at for at, node in enumerate(ids)}
        labels = [(dag.nodes[one].name, dag.nodes[one].node_type) for one in ids]
        edges = [(row[source], row[target]) for source, target, _ in dag.edges]
        found = classes(labels, edges, self.max_depth)
        for one, number in zip(ids, found, strict=True):
            copy.nodes[one].attributes["structural_class"] = number
        self._stats = _class_stats(found, len(ids))
        log.info("coarsening: %d nodes in %d classes", len(ids), self._stats["classes"])
        return copy

    def get_stats(self) -> dict[str, Any]:
        """How many nodes there are, how many classes, and how many nodes share one."""
        return dict(self._stats)


def _class_stats(found: Sequence[int], count: int) -> dict[str, Any]:
    sizes: dict[int, int] = {}
    for number in found:
        sizes[number] = sizes.get(number, 0) + 1
    shared, largest = sum(size for size in sizes.values() if size > 1), max(sizes.values(), default=0)
    return {
        "original_nodes": count, "coarsened_nodes": count, "classes": len(sizes), "shared_nodes": shared,
        "largest_class": largest,
    }  # fmt: skip


class KWayPartitioner:
    """Cuts a graph into k parts around its bottlenecks."""

    def __init__(
        self, k: int = 2, lambda_weight: float = 0.5, alpha: float = 0.5, beta: float = 0.3, gamma: float = 0.2
    ) -> None:
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        self.k, self.taste = k, Taste(lambda_weight, alpha, beta, gamma)
        self._stats: dict[str, Any] = {}

    def partition(self, dag: DAG) -> list[Partition]:
        """The parts, the one of the heaviest centre first; fewer than k if there are fewer nodes."""
        work = _Work(dag)
        parts = grow(work.graph, self.k, self.taste)
        self._stats = work.stats(parts)
        return work.partitions(parts)

    def get_stats(self) -> dict[str, Any]:
        """Loads, `load_balance` (mean / largest load, 1 = equal), `edge_cut` and its bytes."""
        return dict(self._stats)


class IterativeOptimizer:
    """Moves nodes at the borders of parts while load spread and cut bytes together fall."""

    def __init__(
        self, max_iterations: int = 100, alpha: float = 0.5, beta: float = 0.5, no_improvement_threshold: int = 50
    ) -> None:
        self.max_iterations, self.alpha, self.beta = max_iterations, alpha, beta
        self.no_improvement_threshold = no_improvement_threshold
        self._stats: dict[str, Any] = {}

    def optimize(self, partitions: Sequence[Partition], dag: DAG) -> list[Partition]:
        """New parts, each with its old id and centre; those that were given stay as they are."""
        work = _Work(dag)
        parts = work.parts(partitions)
        done = refine(
            work.graph, parts, self.max_iterations, alpha=self.alpha, beta=self.beta,
            patience=self.no_improvement_threshold,
        )  # fmt: skip
        self._stats = {
            "iterations": done.tried, "moves": done.moves, "initial_objective": done.before,
            "best_objective": done.after, **work.stats(parts),
        }  # fmt: skip
        return work.partitions(parts, [one.id for one in partitions])

    def get_stats(self) -> dict[str, Any]:
        """Iterations, moves, the objective before and after, and the balance and cut that came out."""
        return dict(self._stats)


class _Work:
    """A guides' graph as weights: rows in the order of its nodes."""

    def __init__(self, dag: DAG) -> None:
        self.ids = list(dag.nodes)
        self.row = {node: at for at, node in enumerate(self.ids)}
        nodes = [dag.nodes[one] for one in self.ids]
        edges = [(self.row[s], self.row[t], _bytes(dag.nodes[s])) for s, t, kind in dag.edges if kind != "calls"]
        self.graph = Weighted.of([_load(node) for node in nodes], [_bytes(node) for node in nodes], edges)
        self.edges = len(edges)

    def parts(self, partitions: Sequence[Partition]) -> Parts:
        """The parts as rows; raises ValueError if they are not parts of this graph."""
        part, loads = [-1] * len(self.ids), [0.0] * len(partitions)
        for number, one in enumerate(partitions):
            for node in one.nodes:
                if node not in self.row or part[self.row[node]] >= 0:
                    raise ValueError(f"partition {one.id}: node {node} is not in this graph, or in two partitions")
                part[self.row[node]] = number
                loads[number] += self.graph.load[self.row[node]]
        if -1 in part:
            raise ValueError(f"node {self.ids[part.index(-1)]} is in no partition")
        return Parts(part, [self.row[one.center] for one in partitions], loads)

    def partitions(self, parts: Parts, ids: Sequence[int] | None = None) -> list[Partition]:
        """The parts as the guides show them."""
        made = [Partition(ids[n] if ids else n, self.ids[c]) for n, c in enumerate(parts.centres)]
        for row, number in enumerate(parts.part):
            made[number].nodes.add(self.ids[row])
            made[number].total_compute += self.graph.load[row]
            made[number].total_memory += self.graph.nbytes[row]
        return made

    def stats(self, parts: Parts) -> dict[str, Any]:
        """Balance and cut."""
        edges, nbytes = cut(self.graph, parts.part)
        top = max(parts.loads, default=0.0)
        balance = sum(parts.loads) / len(parts.loads) / top if top > 0 else 1.0
        return {
            "partitions": len(parts.loads), "loads": parts.loads[:], "load_balance": balance, "edge_cut": edges,
            "cut_nbytes": nbytes, "cut_ratio": edges / self.edges if self.edges else 0.0,
        }  # fmt: skip


def _load(node: DAGNode) -> float:
    """What a node costs itself: a region's time is that of the operations in it."""
    if node.node_type == "variable" or node.attributes.get("kind") == "region":
        return 0.0
    return float(node.performance.get("self_time", node.performance.get("execution_time", 0.0)))


def _bytes(node: DAGNode) -> float:
    return float(node.performance.get("memory_usage", 0) or 0)


class OptimizerManager:
    """Coarsens, cuts and refines a traced graph, and says which context runs on which device.

    `lambda_weight`, `alpha`, `beta` and `gamma` weigh the cut (distance of centres; load, distance and balance of the
    growth), `iter_alpha` and `iter_beta` the refinement (balance, cut bytes).
    """

    def __init__(
        self, k: int = 2, coarsen_max_depth: int = 5, max_iterations: int = 100, lambda_weight: float = 0.5,
        alpha: float = 0.5, beta: float = 0.3, gamma: float = 0.2, iter_alpha: float = 0.5, iter_beta: float = 0.5,
        no_improvement_threshold: int = 50,
    ) -> None:  # fmt: skip
        self.coarsening = GraphCoarsening(coarsen_max_depth)
        self.partitioner = KWayPartitioner(k, lambda_weight, alpha, beta, gamma)
        self.iterative = IterativeOptimizer(max_iterations, iter_alpha, iter_beta, no_improvement_threshold)

    def optimize(self, dag: DAG, export_dir: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """`coarsened_dag`, `kway_partitions`, `optimized_partitions` and `statistics`; each stage also as a file."""
        coarsened = self.coarsening.coarsen(dag)
        first = self.partitioner.partition(coarsened)
        refined = self.iterative.optimize(first, coarsened)
        statistics = {
            "coarsening": self.coarsening.get_stats(), "partitioning": self.partitioner.get_stats(),
            "iteration": self.iterative.get_stats(),
        }  # fmt: skip
        if export_dir is not None:
            _export(Path(export_dir), coarsened, first, refined, statistics)
        return {
            "coarsened_dag": coarsened, "kway_partitions": first, "optimized_partitions": refined,
            "statistics": statistics,
        }  # fmt: skip

    def get_migration_plan(
        self, partitions: Sequence[Partition], dag: DAG, gpu_count: int = 1, machine: Machine | None = None
    ) -> dict[str, Any]:
        """A plan that `PipelineMigrator.from_plan` takes: the device of every context of the graph, and why.

        The heaviest partitions go to the accelerators that this machine (or the one given) has, at most `gpu_count`;
        without any, everything stays on the CPU and `reason` says so.
        """
        found, why = _accelerators(gpu_count, machine)
        ranked = sorted(partitions, key=lambda one: (-one.total_compute, one.id))
        devices = {one.id: found[at] if at < len(found) else "cpu" for at, one in enumerate(ranked)}
        contexts = _contexts(partitions, dag, devices)
        return {
            "format": "codedag/migration_plan", "version": 1, "context_device_map": contexts,
            "partition_device_map": {str(number): device for number, device in sorted(devices.items())},
            "devices": ["cpu", *found], "gpu_count": len(found), "reason": why,
            "partitions": [{**one.as_dict(), "device": devices[one.id]} for one in partitions],
        }  # fmt: skip


def _contexts(partitions: Sequence[Partition], dag: DAG, devices: dict[int, str]) -> dict[str, str]:
    """The device of each context key of the graph: that of the partition its operation is in."""
    where = {node: devices[one.id] for one in partitions for node in one.nodes}
    found: dict[str, str] = {}
    for number, node in dag.nodes.items():
        context = node.attributes.get("context")
        if node.node_type != "variable" and context and context not in found:
            found[context] = where.get(number, "cpu")
    return found


def _accelerators(wanted: int, machine: Machine | None) -> tuple[list[str], str]:
    """The accelerators that can be used, at most as many as wanted, and what to tell the user."""
    if wanted < 1:
        return [], "cpu: no accelerator was asked for (gpu_count is 0)"
    pus = machine.pus if machine is not None else _here().pus
    names = [pu.name for pu in pus if pu.name.partition(":")[0] in ACCELERATORS]
    if not names:
        return [], f"cpu: {wanted} accelerator(s) asked for, none found on this machine"
    simulated = " (simulated)" if any(pu.simulated for pu in pus) else ""
    return names[:wanted], f"the heaviest partitions go to {', '.join(names[:wanted])}{simulated}; not measured yet"


def _here() -> Machine:
    """The machine with its accelerators, looked for only where the program already uses a framework for them."""
    from codedag.devices import inventory

    look: Callable[..., Machine] | None = getattr(inventory, "inventory", None)
    if look is not None and "torch" in sys.modules:
        return look(("torch",), measure=False)
    return inventory.this_machine()


def _export(
    folder: Path, dag: DAG, first: list[Partition], refined: list[Partition], statistics: dict[str, Any]
) -> None:
    import json

    nodes = [
        {"id": one.node_id, "name": one.name, "type": one.node_type, "class": one.attributes["structural_class"]}
        for one in dag.nodes.values()
    ]
    edges = [{"source": source, "target": target, "type": kind} for source, target, kind in dag.edges]
    files: dict[str, dict[str, Any]] = {
        "coarsening_result": {"nodes": nodes, "edges": edges, "statistics": statistics["coarsening"]},
        "kway_partition": {"partitions": [one.as_dict() for one in first], "statistics": statistics["partitioning"]},
        "optimized_partition": {
            "partitions": [one.as_dict() for one in refined],
            "statistics": statistics["iteration"],
        },
    }
    for name, content in files.items():
        whole = {"format": f"codedag/{name}", "version": 1, **content}
        write_atomically(folder / f"{name}.json", json.dumps(whole, indent=2).encode())
