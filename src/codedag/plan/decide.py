"""From a graph, its costs and a machine to a plan: the strategies compete, the simulator judges, ties stay."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from codedag.ir import CannotPlan, CostTable, Graph, Machine, Plan, Source, Strategy, Tradeoff
from codedag.ir.cost_columns import CostColumns
from codedag.plan.energy import joules_of, need_watts, saving
from codedag.plan.feasible import why_not
from codedag.plan.memory import fits, frugal, may_bind, with_room, within_memory
from codedag.plan.pareto import pareto, select
from codedag.plan.problem import Problem
from codedag.plan.search import Found, Progress, search
from codedag.plan.solution import Solution, Timetable, bound_in_seconds
from codedag.plan.strategies import Candidate, Context, candidates, single, stay

log = logging.getLogger("codedag.plan")

BUDGET_SECONDS = 2.0


def make_plan(
    graph: Graph, costs: CostTable | CostColumns, machine: Machine, *, budget: float = BUDGET_SECONDS, seed: int = 0,
    sources: Iterable[Source] = (), joule: float = 0.0,
) -> Plan:  # fmt: skip
    """The plan for this graph on this machine; raises CannotPlan naming the culprit if there is none."""
    return solve(Problem(graph, costs, machine), budget=budget, seed=seed, sources=sources, joule=joule).plan()


def solve(
    problem: Problem, *, budget: float = BUDGET_SECONDS, seed: int = 0, sources: Iterable[Source] = (),
    progress: Progress | None = None, front: bool = False, joule: float = 0.0,
) -> Solution:  # fmt: skip
    """The chosen plan with its times, its bound, and what it is compared with; a joule is worth so many seconds."""
    if joule:
        need_watts(problem)
    binding = may_bind(problem)
    problem = with_room(problem) if binding else problem
    context = Context(problem)
    found = search(context, budget, seed, progress, whole=binding)
    if found is None:
        confined = problem.confined()
        if confined is None:
            raise why_not(problem)
        return solve(
            confined, budget=budget, seed=seed, sources=sources, progress=progress, front=front, joule=joule
        )  # fmt: skip
    if binding:
        found = within_memory(context, found, budget, seed)
    solution = _solution(context, found, list(sources), binding)
    if front or joule:
        _weigh(context, solution, joule, binding, front)
    solution.joules = joules_of(solution.table)
    return solution


def _solution(context: Context, found: Found, sources: list[Source], binding: bool) -> Solution:
    problem, bound = context.problem, found.bound
    best, table = found.best, found.table or Timetable(problem, found.best)
    plain = [(one, Timetable(problem, one)) for one in _plain(context)]
    plain = [(one, times) for one, times in plain if not binding or fits(times)]
    for candidate, times in plain[::-1]:  # judged in seconds; leaving it as it is wins ties
        if times.makespan <= table.makespan:
            best, table = candidate, times
    baseline, seconds = (plain[0][0].name, plain[0][1].makespan) if plain else (best.name, table.makespan)
    if baseline == "stay":  # the program as written, not with better variants in the same place
        seconds += problem.saved
    log.info("%s wins: %.6g s, at least %.6g s", best.name, table.makespan, bound * problem.model.quantum)
    return Solution(
        problem, table, best.name, bound_in_seconds(problem, bound, table.makespan), baseline, seconds,
        _strategies(context, found), sources, found.truncated, binding or problem.n <= 100_000,
    )  # fmt: skip


def _weigh(context: Context, solution: Solution, joule: float, binding: bool, front: bool) -> None:
    """Finds what no other plan beats in time, the largest peak and energy; takes the one of least seconds and worth.

    Looked at are the chosen plan, every strategy's, frugal orders, and plans that save energy.
    """
    tables = {solution.strategy: solution.table}
    for candidate in (*candidates(context), *frugal(context), *saving(context)):
        tables.setdefault(candidate.name, Timetable(context.problem, candidate))
    found = [
        Tradeoff(
            name=name, makespan_seconds=table.makespan, peak_nbytes=max(table.peaks, default=0), joules=_energy(table)
        )
        for name, table in tables.items()
    ]
    solution.front = pareto(found, _merits) if front else []
    if joule:
        fitting = [one for one in found if not binding or fits(tables[one.name])]
        chosen = select(fitting, lambda one: one.makespan_seconds, lambda one: one.joules or 0.0, joule)
        solution.strategy, solution.table = chosen.name, tables[chosen.name]


def _energy(table: Timetable) -> float | UnsetType:
    joules = joules_of(table)
    return UNSET if joules is None else joules


def _merits(one: Tradeoff) -> tuple[float, ...]:
    merits = (one.makespan_seconds, float(one.peak_nbytes))
    return (*merits, one.joules) if isinstance(one.joules, float) else merits


def _plain(context: Context) -> list[Candidate]:
    """Stay, then the single PUs from the best on; the first one that there is, is the baseline."""
    return [*stay(context), *sorted(single(context), key=lambda one: one.makespan)]


def _strategies(context: Context, found: Found) -> list[Strategy]:
    """The best makespan of each strategy, the best first."""
    best: dict[str, int] = {}
    for candidate in found.tried:
        best[candidate.name] = min(candidate.makespan, best.get(candidate.name, candidate.makespan))
    quantum = context.model.quantum
    return [
        Strategy(name=name, makespan_seconds=ticks * quantum)
        for name, ticks in sorted(best.items(), key=lambda one: (one[1], one[0]))
    ]


__all__ = ["BUDGET_SECONDS", "CannotPlan", "make_plan", "solve"]
