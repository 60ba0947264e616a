"""Plans of small instances against brute force, and of any instance against the independent judge."""

from __future__ import annotations

import json
import sys
from array import array
from itertools import permutations, product
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "plan"))

from plan_instances import instance, objects, random_instance
from plan_judge import judge

from codedag.plan.decide import solve
from codedag.plan.problem import NEVER, Problem, ints
from codedag.plan.search import search
from codedag.plan.strategies import Context

SLOW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(st.integers(0, 10**9), st.booleans(), st.floats(0, 0.02))
def test_any_plan_passes_the_judge(number, hostile, budget):
    made = random_instance(number, 25, hostile=hostile)
    solution = solve(Problem(*objects(made)), budget=budget, seed=number)
    plan = json.loads(b"".join(solution.pieces()))
    judge(made["graph"], made["costs"], made["machine"], plan)
    assert plan["lower_bound_seconds"] <= plan["makespan_seconds"]
    assert plan["makespan_seconds"] <= plan["baseline_seconds"] * (1 + 1e-12)


def brute(problem):
    """The least makespan over all placements and orders of the ops."""
    at, _, pred = (ints(part) for part in problem.model.edges[:3])
    orders = []
    for order in permutations(range(problem.n)):
        where = {op: x for x, op in enumerate(order)}
        if all(where[p] < where[op] for op in order for p in pred[at[op] : at[op + 1]]):
            orders.append(array("i", order).tobytes())
    places = [array("i", place).tobytes() for place in product(range(problem.k), repeat=problem.n)]
    return min(problem.model.simulate(place, order) for place in places for order in orders)


times = st.floats(0.1, 3.0)


@SLOW
@given(st.data())
def test_tiny_instances_are_planned_optimally_and_no_bound_is_too_high(data):
    n = data.draw(st.integers(1, 5))
    edges = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=6))
    edges = [(min(e), max(e)) for e in edges if e[0] != e[1]]
    costs = {name: data.draw(st.lists(times, min_size=n, max_size=n)) for name in ("cpu", "gpu")}
    nbytes = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    problem = Problem(*objects(instance(nbytes, edges, costs)))
    found = search(Context(problem), 0.05, solver=False, timed=False)
    least = brute(problem)
    assert least < NEVER
    assert found.best.makespan == least
    assert found.bound <= least
