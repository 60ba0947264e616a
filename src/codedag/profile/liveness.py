"""The most memory that one iteration of the program needs: what is alive at each operation, and its scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codedag.ir import Graph


@dataclass(frozen=True, slots=True)
class Peak:
    """The operation at which the most bytes are alive, with its scratch among them."""

    op: int
    nbytes: int
    scratch_nbytes: int


def peak_of(graph: Graph, scratch: Mapping[int, int]) -> Peak | None:
    """The peak of one iteration in an order that respects its edges; None for a graph without operations.

    A result lives from its operation to its last reader; bytes are per call, scratch is what a call needs beside it.
    """
    ops = [op for op in map(graph.op, graph.topological()) if op.kind != "region"]
    place = {op.id: at for at, op in enumerate(ops)}
    until = list(range(len(ops)))
    for edge in graph.edges:
        if edge.kind == "flow" and edge.src in place and edge.dst in place:
            until[place[edge.src]] = max(until[place[edge.src]], place[edge.dst])
    freed: list[int] = [0] * len(ops)
    alive, best = 0, None
    for at, op in enumerate(ops):
        made = op.out_nbytes // op.count
        alive += made
        freed[until[at]] += made
        extra = scratch.get(op.id, 0)
        if best is None or alive + extra > best.nbytes:
            best = Peak(op.id, alive + extra, extra)
        alive -= freed[at]
    return best
