"""The optimum of a small graph by a constraint solver (the optional extra `graph`): a polish, and a bound.

Durations are rounded down, so what the solver proves is a bound for the model too; its plan is judged by the simulator
like any other.
"""

from __future__ import annotations

import importlib.util
from array import array
from typing import Any

from codedag.plan.problem import NEVER, ints
from codedag.plan.strategies import Candidate, Context

#: Up to this size the solver ends soon: it proves most graphs of 24 ops, and improves those of 50.
LARGEST = 50
#: Ticks per unit of the solver: 2**14 units are the mean cost of an op.
UNIT = 64
#: What the solver counts as a second of work takes up to eight here.
WORK_PER_SECOND = 0.1


def available() -> bool:
    """Whether the solver is installed."""
    return importlib.util.find_spec("ortools") is not None


def polish(context: Context, start: Candidate, seconds: float, seed: int) -> tuple[Candidate, float, bool]:
    """The best plan that the solver finds from this one, its bound in ticks, and whether the clock stopped it.

    The work is counted by the solver itself, so that the same seed gives the same plan.
    """
    from ortools.sat.python import cp_model

    model = _Exact(context, cp_model.CpModel(), start)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed % (2**31)
    solver.parameters.max_deterministic_time = seconds * WORK_PER_SECOND
    solver.parameters.max_time_in_seconds = 2 * seconds + 1
    status = solver.Solve(model.solver)
    bound = max(0.0, solver.BestObjectiveBound()) * UNIT
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return start, bound, False
    bound = min(bound, solver.ObjectiveValue() * UNIT)
    late = status == cp_model.FEASIBLE and solver.WallTime() >= 2 * seconds + 1
    return model.candidate(solver), bound, late


class _Exact:
    """The rules of the model as constraints."""

    def __init__(self, context: Context, solver: Any, start: Candidate) -> None:
        self.context, self.solver = context, solver
        problem = context.problem
        self.n, self.k, self.links = problem.n, problem.k, problem.links
        self.horizon = start.makespan // UNIT + 1
        self.edges = [ints(part) for part in context.model.edges[:3]]
        self.perbyte = context.model.quantum * UNIT
        out = problem.graph.op_columns.out_nbytes
        self.nbytes = [out[row] for row in problem.rows]
        self.turns: dict[int, list[Any]] = {}
        self.lanes: dict[int, list[Any]] = {}
        self.here = [[solver.NewBoolVar("") for _ in range(self.k)] for _ in range(self.n)]
        self.start = [solver.NewIntVar(0, self.horizon, "") for _ in range(self.n)]
        self.end = [solver.NewIntVar(0, self.horizon, "") for _ in range(self.n)]
        self.copied: dict[tuple[int, int], Any] = {}
        self.held: dict[tuple[int, int], Any] = {}
        self._ops()
        self._copies()
        self._inputs()
        for intervals in (*self.turns.values(), *self.lanes.values()):
            solver.AddNoOverlap(intervals)
        self._goal(start)

    def _ops(self) -> None:
        costs = self.context.costs
        for v in range(self.n):
            self.solver.AddExactlyOne(self.here[v])
            for d in range(self.k):
                cost = costs[v * self.k + d]
                if cost >= NEVER:
                    self.solver.Add(self.here[v][d] == 0)
                    continue
                interval = self.solver.NewOptionalIntervalVar(
                    self.start[v], cost // UNIT, self.end[v], self.here[v][d], ""
                )
                self.turns.setdefault(self.links.group[d], []).append(interval)

    def _copies(self) -> None:
        """A copy of a value to a PU, from one of the PUs that hold it."""
        solver, k = self.solver, self.k
        read = {p for v in range(self.n) for p in self._flow(v)}
        for v in sorted(read):
            for d in range(k):
                self.held[v, d] = solver.NewIntVar(0, self.horizon, "")
                self.copied[v, d] = solver.NewBoolVar("")
                solver.Add(self.held[v, d] >= self.end[v])
                solver.AddImplication(self.copied[v, d], self.here[v][d].Not())
            for d in range(k):
                self._one_copy(v, d)

    def _one_copy(self, v: int, d: int) -> None:
        solver, sources = self.solver, []
        for s in range(self.k):
            at = s * self.k + d
            if self.links.lane[at] < 0:
                continue
            chosen = solver.NewBoolVar("")
            sources.append(chosen)
            length = int(self.links.seconds(self.nbytes[v], s, d) / self.perbyte)
            begin = solver.NewIntVar(0, self.horizon, "")
            interval = solver.NewOptionalIntervalVar(begin, length, self.held[v, d], chosen, "")
            self.lanes.setdefault(self.links.lane[at], []).append(interval)
            solver.AddBoolOr([self.here[v][s], self.copied[v, s]]).OnlyEnforceIf(chosen)
            solver.Add(begin >= self.held[v, s]).OnlyEnforceIf([chosen, self.copied[v, s]])
            solver.Add(begin >= self.end[v]).OnlyEnforceIf(chosen)
        solver.Add(sum(sources) == self.copied[v, d])

    def _inputs(self) -> None:
        at, mid, pred = self.edges
        for v in range(self.n):
            for p in self._flow(v):
                for d in range(self.k):
                    self.solver.AddBoolOr([self.here[p][d], self.copied[p, d]]).OnlyEnforceIf(self.here[v][d])
                    self.solver.Add(self.start[v] >= self.held[p, d]).OnlyEnforceIf(
                        [self.here[v][d], self.copied[p, d]]
                    )
                self.solver.Add(self.start[v] >= self.end[p])
            for p in pred[mid[v] : at[v + 1]]:
                self.solver.Add(self.start[v] >= self.end[p])

    def _flow(self, v: int) -> array[int]:
        at, mid, pred = self.edges
        return pred[at[v] : mid[v]]

    def _goal(self, start: Candidate) -> None:
        makespan = self.solver.NewIntVar(0, self.horizon, "")
        for end in self.end:
            self.solver.Add(makespan >= end)
        self.solver.Minimize(makespan)
        for v, pu in enumerate(ints(start.place)):
            for d in range(self.k):
                self.solver.AddHint(self.here[v][d], int(pu == d))

    def candidate(self, solver: Any) -> Candidate:
        """The plan that was found, judged."""
        place = array("i", (next(d for d in range(self.k) if solver.Value(self.here[v][d])) for v in range(self.n)))
        order = array(
            "i", sorted(range(self.n), key=lambda v: (solver.Value(self.start[v]), solver.Value(self.end[v]), v))
        )
        return self.context.judged("constraint solver", place.tobytes(), order.tobytes())
