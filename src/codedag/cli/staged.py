"""`codedag plan --stages`: a loop of the program as a line of stages, in facts and in lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codedag.ir import RunDirectory
    from codedag.plan.pipeline import Pipeline
    from codedag.plan.solution import Solution


def staged(solution: Solution, k: int, run: RunDirectory | None) -> Pipeline | None:
    """The best line of up to k stages for the planned program, or None if no loop of it can be cut."""
    from codedag.plan.pipeline import pipeline, work_of

    return pipeline(work_of(solution.table, _calls(run), solution.problem.slowdowns), k)


def _calls(run: RunDirectory | None) -> dict[int, list[float]]:
    """What the single calls of each op took, in their order, where every one was kept."""
    if run is None or not run.has("events"):
        return {}
    found: dict[int, list[tuple[float, float]]] = {}
    for call in run.events.calls:
        found.setdefault(call.op, []).append((call.start, call.end))
    counts = {op.id: op.count for op in run.graph.ops}
    return {
        op: [end - start for start, end in sorted(calls)] for op, calls in found.items() if len(calls) == counts.get(op)
    }


def facts(found: Pipeline | None, solution: Solution) -> dict[str, Any] | None:
    """What `--json` says of it."""
    if found is None:
        return None
    return {
        "items": found.items, "ops": found.stages, "item_seconds": found.item_seconds,
        "bottleneck_seconds": found.bottleneck_seconds, "depths": found.queues.depths,
        "queue_nbytes": found.queues.nbytes, "throughput_share": found.queues.share,
        "predicted_seconds": found.seconds, "undisturbed_seconds": found.alone_seconds,
        "speed_up": solution.table.makespan / found.seconds if found.seconds else 1.0,
        "order_may_matter": found.ordered,
    }  # fmt: skip


def lines(found: Pipeline | None, solution: Solution) -> list[str]:
    """What people read of it."""
    if found is None:
        return ["stages: no loop of several rounds can be cut"]
    most = f"at most {found.bottleneck_seconds:.4g} s a round"
    head = f"stages: {len(found.stages)} for each of {found.items} rounds, {most}; "
    tail = [f"stages: {_slower(found)}"] if found.seconds > found.alone_seconds else []
    if found.ordered:
        tail.append(
            f"stages: only if the order of these ops in different stages does not matter: {_some(found.ordered)}"
        )
    return [head + _gain(found, solution), *_each(found, solution), *tail]


def _gain(found: Pipeline, solution: Solution) -> str:
    now = solution.table.makespan
    if found.seconds >= now:
        return f"no gain: {found.seconds:.6g} s predicted, {now:.6g} s as planned"
    return f"{found.seconds:.6g} s predicted, {now / found.seconds:.2f} times as fast as the plan"


def _each(found: Pipeline, solution: Solution) -> list[str]:
    graph, planned, shown = solution.problem.graph, _planned(solution), []
    depths = [f", then a queue of {depth}" for depth in found.queues.depths]
    for number, (ops, seconds) in enumerate(zip(found.stages, found.item_seconds, strict=True)):
        most = graph.op(max(ops, key=planned.__getitem__))
        queue = depths[number] if number < len(depths) else ""
        shown.append(f"stage {number + 1}: {seconds:.4g} s, {len(ops)} operations, most in {most.label}{queue}")
    return shown


def _planned(solution: Solution) -> dict[int, float]:
    """What each op takes in the plan."""
    ids, table = solution.problem.graph.op_columns.id, solution.table
    rows = zip(solution.problem.rows, table.start, table.end, strict=True)
    return {ids[row]: end - start for row, start, end in rows}


def _slower(found: Pipeline) -> str:
    return f"{found.alone_seconds:.6g} s if they cost each other nothing and queues were endless"


def _some(ops: list[int], most: int = 6) -> str:
    return ", ".join(map(str, ops[:most])) + (f" and {len(ops) - most} more" if len(ops) > most else "")
