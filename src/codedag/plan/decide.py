"""From a graph, its costs and a machine to a plan: the strategies compete, the simulator judges, ties stay."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from codedag.ir import CannotPlan, CostTable, Graph, Machine, Plan, Source, Strategy, Tradeoff
from codedag.ir.cost_columns import CostColumns
from codedag.plan.feasible import why_not
from codedag.plan.memory import fits, frugal, may_bind, within_memory
from codedag.plan.pareto import pareto
from codedag.plan.problem import Problem
from codedag.plan.search import Found, Progress, search
from codedag.plan.solution import Solution, Timetable, bound_in_seconds
from codedag.plan.strategies import Candidate, Context, candidates, single, stay

log = logging.getLogger("codedag.plan")

BUDGET_SECONDS = 2.0


def make_plan(
    graph: Graph, costs: CostTable | CostColumns, machine: Machine, *, budget: float = BUDGET_SECONDS, seed: int = 0,
    sources: Iterable[Source] = (),
) -> Plan:  # fmt: skip
    """The plan for this graph on this machine; raises CannotPlan naming the culprit if there is none."""
    return solve(Problem(graph, costs, machine), budget=budget, seed=seed, sources=sources).plan()


def solve(
    problem: Problem, *, budget: float = BUDGET_SECONDS, seed: int = 0, sources: Iterable[Source] = (),
    progress: Progress | None = None, front: bool = False,
) -> Solution:  # fmt: skip
    """The chosen plan with its times, its bound, and what it is compared with."""
    context, binding = Context(problem), may_bind(problem)
    found = search(context, budget, seed, progress, whole=binding)
    if found is None:
        confined = problem.confined()
        if confined is None:
            raise why_not(problem)
        return solve(confined, budget=budget, seed=seed, sources=sources, progress=progress, front=front)
    if binding:
        found = within_memory(context, found, budget, seed)
    solution = _solution(context, found, list(sources), binding)
    if front:
        solution.front = _front(context, solution)
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


def _front(context: Context, solution: Solution) -> list[Tradeoff]:
    """What no other plan beats in both time and the largest peak: the chosen plan, every strategy's, a frugal order."""
    tables = [(solution.strategy, solution.table)]
    for candidate in (*candidates(context), *frugal(context)):
        tables.append((candidate.name, Timetable(context.problem, candidate)))
    found = [
        Tradeoff(name=name, makespan_seconds=table.makespan, peak_nbytes=max(table.peaks, default=0))
        for name, table in tables
    ]
    return pareto(found, lambda one: (one.makespan_seconds, one.peak_nbytes))


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
