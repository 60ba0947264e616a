"""Energy of plans: what their ops draw, and plans that take longer and draw less."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from math import inf

from codedag.ir import CannotPlan
from codedag.plan.problem import Problem
from codedag.plan.solution import Timetable
from codedag.plan.strategies import MEAN, Candidate, Context

#: What a joule is worth in seconds, times the mean watts of the PUs: from hardly anything to nothing else.
WEIGHTS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 1e6)


def watts_of(problem: Problem) -> list[float] | None:
    """The watts of each PU, or None if some PU does not say."""
    found = [pu.watts for pu in problem.machine.pus if isinstance(pu.watts, float)]
    return found if len(found) == problem.k else None


def need_watts(problem: Problem) -> None:
    """Raises if the energy of a plan cannot be told."""
    for pu in problem.machine.pus:
        if not isinstance(pu.watts, float):
            raise CannotPlan(
                f"machine.json: PU `{pu.name}` has no `watts`, so the energy of a plan is not known",
                hint="Add what it draws while it works; `codedag devices -o FILE` measures it where it can.",
            )


def joules_of(table: Timetable) -> float | None:
    """What all ops of a plan draw, or None if some PU does not say; copies and idle PUs are not counted."""
    watts = watts_of(table.problem)
    if watts is None:
        return None
    return sum((end - start) * watts[pu] for pu, start, end in zip(table.place, table.start, table.end, strict=True))


def saving(context: Context) -> Iterator[Candidate]:
    """Each op where its seconds and what its joules are worth are least together, for rising worths."""
    problem, watts = context.problem, watts_of(context.problem)
    mean = sum(watts) / len(watts) if watts else 0.0
    seen: set[bytes] = set()
    for weight in WEIGHTS if watts and mean else ():
        place = _cheapest(problem, [1 + weight * each / mean for each in watts or ()])
        if place not in seen:
            seen.add(place)
            found = context.listed(f"saving {weight}", context.order(MEAN, 1.0), fixed=place)
            if found is not None:
                yield found


def _cheapest(problem: Problem, factors: list[float]) -> bytes:
    k, seconds = problem.k, problem.seconds
    return array(
        "i",
        (
            min(
                (pu for pu in range(k) if seconds[row * k + pu] < inf),
                key=lambda pu: (seconds[row * k + pu] * factors[pu], pu),
            )
            for row in problem.rows
        ),
    ).tobytes()
