"""Why an op is where it is: what it costs elsewhere, what its copies cost, and what would change the decision."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf

import msgspec

from codedag.ir import BadGraph, CannotPlan, CostRow, CostTable, Graph, Machine, Plan, Transfer
from codedag.plan.problem import NEVER, Problem

HINT = "OP is a name as `codedag view RUN` shows them, with @file:line if it stands in several places, or an id."


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What one PU would mean for an op: its own seconds there, and the makespan with only this op moved."""

    pu: str
    variant: str
    seconds: float | None
    low: float | None
    high: float | None
    makespan: float | None
    why_not: str = ""
    variants: tuple[str, ...] = ()  # the others there, each with its time or why it is not used


@dataclass(frozen=True, slots=True)
class Explanation:
    """One op of a plan: where it is, what else there is, and what would change it."""

    op: int
    label: str
    chosen: str
    makespan: float
    options: list[Elsewhere]
    transfers: list[Transfer]
    runner_up: str
    change: str
    why: str


def find_op(graph: Graph, text: str) -> int:
    """The id of the op that is meant: an id, or a name with or without `@file:line`; raises BadGraph if none is.

    A name is whole or its last parts (`Image.resize`, `resize`). Of several operations the one with most time is meant,
    unless they stand at different places.
    """
    if text.isdigit():
        return graph.op(int(text)).id
    name, _, place = text.partition("@")
    ops = [op for op in graph.ops if op.kind != "region" and (not place or place in (op.where, _last(op.where)))]
    found = [op for op in ops if op.name == name] or [op for op in ops if op.name.endswith(f".{name}")]
    if not found:
        raise BadGraph(f"there is no op `{text}` in this graph{_nearest(graph, name)}", hint=HINT)
    if len({op.where for op in found}) == 1:
        return max(found, key=lambda op: op.self_seconds).id
    several = ", ".join(f"{op.id} ({op.context} at {op.where})" for op in found[:8])
    raise BadGraph(
        f"`{text}` is the name of {len(found)} ops: {several}",
        hint=f"Say which one: {name}@{found[0].where}, or its id.",
    )


def _last(where: str) -> str:
    return where.replace("\\", "/").rpartition("/")[2]


def _nearest(graph: Graph, name: str) -> str:
    whole = [op.name.split(".") for op in graph.ops if op.kind != "region"]
    names = {".".join(parts[-count:]) for parts in whole for count in (1, 2, len(parts))}
    near = get_close_matches(name, names, 3)
    return f" (near: {', '.join(near)})" if near else ""


class Explainer:
    """A plan on the instance that it was made for, ready to be asked what-if questions."""

    def __init__(self, graph: Graph, costs: CostTable, machine: Machine, plan: Plan) -> None:
        self.graph, self.costs, self.machine, self.plan = graph, costs, machine, plan
        self.problem = Problem(graph, costs, machine)
        self.number = {graph.op_columns.id[row]: number for number, row in enumerate(self.problem.rows)}
        self.place, self.order = self._place(), self._order()
        self.makespan = self._judged(self.place)

    def _place(self) -> array[int]:
        """The PU of each op; raises CannotPlan if the plan is not one for this graph."""
        place = array("i", [-1]) * self.problem.n
        for row in self.plan.placement:
            if row.op not in self.number or row.pu not in self.problem.pus:
                raise CannotPlan(
                    f"plan.json: placement: op {row.op} on `{row.pu}` is not of this graph and machine",
                    hint="`codedag plan RUN` makes a plan for them.",
                )
            place[self.number[row.op]] = self.problem.pus.index(row.pu)
        if -1 in place:
            op = self.graph.ops[self.problem.rows[place.index(-1)]]
            raise CannotPlan(
                f"plan.json: placement: {op.label} has no place", hint="`codedag plan RUN` makes a whole plan."
            )
        return place

    def _order(self) -> bytes:
        when = {step.op: step.start for step in self.plan.schedule}
        ids, rows = self.graph.op_columns.id, self.problem.rows
        keyed = sorted(range(self.problem.n), key=lambda one: (when.get(ids[rows[one]], inf), one))
        return array("i", keyed).tobytes()

    def _judged(self, place: array[int], problem: Problem | None = None) -> float:
        model = (problem or self.problem).model
        ticks = model.simulate(place.tobytes(), self.order)
        return ticks * model.quantum if ticks < NEVER else inf

    def explain(self, op: int) -> Explanation:
        """Everything about one op."""
        number, problem = self.number[op], self.problem
        row, here = problem.rows[number], self.place[number]
        options = [self._option(op, number, pu) for pu in range(problem.k)]
        others = [one for at, one in enumerate(options) if at != here and one.makespan is not None]
        second = min(others, key=lambda one: (one.makespan, one.pu), default=None)
        chosen = f"{problem.pus[here]}/{problem.variant_of(row, here)}"
        return Explanation(
            op, self.graph.ops[row].label, chosen, self.makespan, options, self._transfers(op),
            f"{second.pu}/{second.variant}" if second else "", self._change(number, options[here], second),
            _why(options[here], second, self.makespan),
        )  # fmt: skip

    def _option(self, op: int, number: int, pu: int) -> Elsewhere:
        row = self.costs.row(op, self.problem.pus[pu])
        if row is None or row.status != "ok":
            reason = "not measured" if row is None else f"{row.status}: {row.reason or 'no reason given'}"
            return Elsewhere(self.problem.pus[pu], row.variant if row else "", None, None, None, None, reason)
        moved = self.place[:]
        moved[number] = pu
        makespan = self._judged(moved)
        why = "no link leads there" if makespan == inf else ""
        known = makespan if makespan < inf else None
        return Elsewhere(row.pu, row.variant, row.seconds, row.low, row.high, known, why, _others(row))

    def _transfers(self, op: int) -> list[Transfer]:
        """The copies of its value, and those of its inputs to where it runs."""
        inputs = {edge.src for edge in self.graph.edges_to(op) if edge.kind == "flow"}
        pu = self.problem.pus[self.place[self.number[op]]]
        return [t for t in self.plan.transfers if t.op == op or (t.op in inputs and t.dst == pu)]

    def _change(self, number: int, here: Elsewhere, second: Elsewhere | None) -> str:
        """What the runner-up would have to cost for the plan to be better with it; checked by the simulator."""
        if second is None or second.makespan is None or second.seconds is None:
            return "nothing: no other PU supports it"
        if second.makespan <= self.makespan:
            return f"nothing is lost: with {second.pu} the plan takes as long"
        wanted = second.seconds - (second.makespan - self.makespan)
        if wanted > 0 and self._with(number, second.pu, wanted) <= self.makespan * (1 + 1e-6):
            return f"{second.pu} would do as well if it took at most {wanted:.3g} s instead of {second.seconds:.3g} s"
        if self._with(number, second.pu, 0.0) <= self.makespan * (1 + 1e-6):
            return f"{second.pu} would do as well if it took almost no time there"
        return f"not the speed of {second.pu} alone: even at no cost there, the copies would make the plan slower"

    def _with(self, number: int, pu: str, seconds: float) -> float:
        """The makespan with the op moved to a PU and taking that long there."""
        op = self.graph.op_columns.id[self.problem.rows[number]]
        rows = list(self.costs.rows)
        at = next(at for at, row in enumerate(rows) if (row.op, row.pu) == (op, pu))
        rows[at] = msgspec.structs.replace(rows[at], seconds=seconds)
        problem = Problem(self.graph, CostTable(pus=self.costs.pus, rows=rows), self.machine)
        place, order = array("i", bytes(4 * problem.n)), array("i", self.order)
        back = {row: one for one, row in enumerate(problem.rows)}
        for one, where in enumerate(self.place):
            place[back[self.problem.rows[one]]] = where
        place[back[self.problem.rows[number]]] = self.problem.pus.index(pu)
        moved = array("i", (back[self.problem.rows[one]] for one in order))
        ticks = problem.model.simulate(place.tobytes(), moved.tobytes())
        return ticks * problem.model.quantum if ticks < NEVER else inf


def _others(row: CostRow) -> tuple[str, ...]:
    return tuple(
        f"{one.variant}: {one.seconds:.3g} s"
        if one.seconds is not None
        else f"{one.variant}: {one.status} {one.reason}"
        for one in row.alternatives
    )


def _why(here: Elsewhere, second: Elsewhere | None, makespan: float) -> str:
    if second is None or second.makespan is None or second.seconds is None or here.seconds is None:
        return "no other PU supports it"
    lost = second.makespan - makespan
    if lost <= 0:
        return f"it makes no difference: {second.pu} would take {second.seconds:.3g} s, and the plan would be as long"
    faster = "although the op itself is faster there" if second.seconds < here.seconds else "where the op is slower too"
    return f"on {second.pu} the plan would take {lost:.3g} s longer, {faster}"
