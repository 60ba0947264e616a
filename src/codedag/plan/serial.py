"""The plan for one processing unit: every operation in order, each move's operations at the move's cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codedag.ir import CostTable, Decision, Graph, Move, Op, Placement, Plan, Source, Step

PU = "cpu"
ORIGINAL = "original"


def serial_plan(graph: Graph, costs: CostTable, moves: Sequence[Move], sources: Iterable[Source]) -> Plan:
    """A plan that runs the program as written except for the moves, one operation after the other.

    A move's cost is charged to its last operation.  On one PU nothing can overlap, so the makespan is its own lower
    bound for these variants.
    """
    seconds, variant = _as_moved(graph, costs, moves)
    steps, at = [], 0.0
    for op in (graph.op(number) for number in graph.topological()):
        if op.id in seconds:
            steps.append(Step(op=op.id, start=at, end=at + seconds[op.id]))
            at += seconds[op.id]
    baseline = sum(row.seconds or 0.0 for row in costs.rows if row.pu == PU)
    placed = [op for op in graph.ops if op.id in seconds]
    return Plan(
        sources=list(sources),
        placement=[_placement(op, variant.get(op.id, ORIGINAL)) for op in placed],
        moves=list(moves),
        schedule=steps,
        makespan_seconds=at,
        lower_bound_seconds=at,
        baseline_seconds=baseline,
        decisions=[_decision(op, variant.get(op.id, ORIGINAL)) for op in placed],
    )


def _as_moved(graph: Graph, costs: CostTable, moves: Sequence[Move]) -> tuple[dict[int, float], dict[int, str]]:
    seconds = {row.op: row.seconds for row in costs.rows if row.pu == PU and row.seconds is not None}
    variant: dict[int, str] = {}
    for move in moves:
        known = [op for op in move.ops if op in seconds]
        for op in known:
            seconds[op] = 0.0
            variant[op] = move.variant
        if known and move.seconds is not None:
            seconds[known[-1]] = move.seconds
    return seconds, variant


def _placement(op: Op, variant: str) -> Placement:
    return Placement(op=op.id, name=op.name, context=op.context, file=op.file, line=op.line, pu=PU, variant=variant)


def _decision(op: Op, variant: str) -> Decision:
    if variant == ORIGINAL:
        return Decision(op=op.id, chosen=f"{PU}/{ORIGINAL}", why="no faster variant was proven here")
    return Decision(
        op=op.id,
        chosen=f"{PU}/{variant}",
        runner_up=f"{PU}/{ORIGINAL}",
        why="measured faster on the same calls",
    )
