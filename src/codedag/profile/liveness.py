"""The most memory that one iteration of the program needs: what is alive at each operation, and its scratch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from codedag.ir import Graph, Op


@dataclass(frozen=True, slots=True)
class Peak:
    """The operation at which the most bytes are alive, with its scratch among them."""

    op: int
    nbytes: int
    scratch_nbytes: int


def peak_of(graph: Graph, scratch: Mapping[int, int], views: Collection[int] = ()) -> Peak | None:
    """The peak of one iteration in an order that respects its edges; None for a graph without operations.

    A result lives from its operation to its last reader; bytes are per call, scratch is what a call needs beside it.
    A view has no memory of its own: whoever reads it keeps alive what it looks at.
    """
    ops = [op for op in map(graph.op, graph.topological()) if op.kind != "region"]
    until = _last_readers(graph, ops, views)
    freed: list[int] = [0] * len(ops)
    alive, best = 0, None
    for at, op in enumerate(ops):
        made = 0 if op.id in views else op.out_nbytes // op.count
        alive += made
        freed[until[at]] += made
        extra = scratch.get(op.id, 0)
        if best is None or alive + extra > best.nbytes:
            best = Peak(op.id, alive + extra, extra)
        alive -= freed[at]
    return best


def training_peak(graph: Graph, views: Collection[int] = ()) -> int:
    """The most bytes of results and gradients alive in one step that goes forward and then back through every op.

    Going back reads what going forward made, so every result lives until its own op is gone back through. The gradient
    of a result is there from the first of its readers that is gone back through; a view has no memory of its own, but
    its gradient has.
    """
    ops = [op for op in map(graph.op, graph.topological()) if op.kind != "region"]
    place = {op.id: at for at, op in enumerate(ops)}
    size = [op.out_nbytes // op.count for op in ops]
    own = [0 if op.id in views else size[at] for at, op in enumerate(ops)]
    alive = best = sum(own)
    held = [False] * len(ops)
    for at in range(len(ops) - 1, -1, -1):
        sources = [place[e.src] for e in graph.edges_to(ops[at].id) if e.kind == "flow" and e.src in place]
        for one in {at, *sources}:
            alive += 0 if held[one] else size[one]
            held[one] = True
        best = max(best, alive)
        alive -= own[at] + size[at]
    return best


def _last_readers(graph: Graph, ops: Sequence[Op], views: Collection[int]) -> list[int]:
    """For each op the place of the last op that reads its memory; its own if there is none."""
    place = {op.id: at for at, op in enumerate(ops)}
    owner = list(range(len(ops)))  # whose memory the result of an op lies in
    until = list(range(len(ops)))
    for at, op in enumerate(ops):
        sources = [e for e in graph.edges_to(op.id) if e.kind == "flow" and e.src in place]
        for edge in sources:
            memory = owner[place[edge.src]]
            until[memory] = max(until[memory], at)
        if op.id in views and sources:
            owner[at] = owner[place[max(sources, key=lambda edge: edge.nbytes).src]]
    return until
