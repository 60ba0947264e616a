"""Structural classes: ops that do the same in the same surroundings share measurements and decisions.

They are never merged into one node: that would hide that they can run side by side, and could close a cycle.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from codedag.plan.problem import NEVER, ints
from codedag.plan.strategies import Candidate, Context

#: How far around an op its class looks; 100,000 ops of a pipeline of repeated blocks have a few dozen classes then.
ROUNDS = 3


def classes(labels: Sequence[Hashable], edges: Iterable[tuple[int, int]], rounds: int = ROUNDS) -> list[int]:
    """The class of each node, numbered in the order in which they first appear.

    Nodes are of one class if they have the same label and, `rounds` steps far, the same classes before and after them.
    """
    found, pairs = _numbered(labels), list(edges)
    for _ in range(rounds):
        before: list[list[int]] = [[] for _ in labels]
        after: list[list[int]] = [[] for _ in labels]
        for source, target in pairs:
            before[target].append(found[source])
            after[source].append(found[target])
        finer = _numbered(
            [(own, tuple(sorted(a)), tuple(sorted(b))) for own, a, b in zip(found, before, after, strict=True)]
        )
        if max(finer, default=-1) == max(found, default=-1):
            break  # each round can only split classes: the same number means the same classes
        found = finer
    return found


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def op_classes(context: Context) -> list[int]:
    """The class of each op of a problem, by the numbers of the model: name, kind, size and neighbours."""
    problem = context.problem
    ops, number = problem.graph.op_columns, {row: at for at, row in enumerate(problem.rows)}
    labels = [(ops.name[row], ops.kind[row], ops.out_nbytes[row], ops.in_sig[row]) for row in problem.rows]
    sources, targets = problem.graph.edge_rows()
    return classes(labels, ((number[s], number[t]) for s, t in zip(sources, targets, strict=True)))


def tied(context: Context, start: Candidate, most: int) -> Candidate:
    """The plan in which whole classes were moved while that helped; at most so many attempts."""
    members: dict[int, list[int]] = {}
    for op, one in enumerate(op_classes(context)):
        members.setdefault(one, []).append(op)
    groups = [ops for ops in members.values() if len(ops) > 1]
    groups.sort(key=lambda ops: (-len(ops), ops[0]))
    best = start
    for ops in groups[: most // max(1, context.problem.k)]:
        for pu in range(context.problem.k):
            place = ints(best.place)
            if any(context.costs[op * context.problem.k + pu] >= NEVER for op in ops):
                continue
            for op in ops:
                place[op] = pu
            moved = context.judged("structural classes", place.tobytes(), best.order)
            if moved.makespan < best.makespan:
                best = moved
    return best
