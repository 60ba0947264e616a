"""Energy of plans: what a joule is worth decides between fast and frugal ones."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from plan_instances import instance, objects, random_instance
from plan_judge import judge

from codedag.ir import CannotPlan
from codedag.plan.decide import make_plan, solve
from codedag.plan.problem import Problem
from codedag.plan.search import Clock, steps_per_second


@pytest.fixture(autouse=True)
def no_clock(monkeypatch):
    """Budgets are counted in steps only: a busy machine must not decide a test."""
    monkeypatch.setattr(Clock, "of", classmethod(lambda cls, problem, s, **_: cls(s * steps_per_second(problem), 0.0)))


def powered(made, *watts):
    for pu, each in zip(made["machine"]["pus"], watts, strict=False):
        pu["watts"] = each
    return made


@pytest.mark.parametrize("number", range(6))
def test_a_rising_worth_takes_more_time_and_less_energy(number, seed):
    made = powered(random_instance(100 * seed + number, 25), 15.0, 200.0, 5.0, 40.0)
    plans = []
    for joule in (1e-9, 0.001, 0.01, 0.1, 1.0, 100.0):
        solution = solve(Problem(*objects(made)), budget=0.0, joule=joule)
        plan = json.loads(b"".join(solution.pieces()))
        judge(made["graph"], made["costs"], made["machine"], plan)
        plans.append(plan)
    for one, other in pairwise(plans):
        assert other["joules"] <= one["joules"] * (1 + 1e-12)
        assert other["makespan_seconds"] >= one["makespan_seconds"] * (1 - 1e-12)


def test_the_energy_is_that_of_the_ops():
    made = powered(instance([0, 0], [(0, 1)], {"cpu": [2.0, 2.0], "gpu": [1.0, 1.0]}), 10.0, 100.0)
    fast, frugal = (make_plan(*objects(made), budget=0.0, joule=joule) for joule in (0.0, 1.0))
    assert (fast.makespan_seconds, fast.joules) == (2.0, 200.0)
    assert (frugal.makespan_seconds, frugal.joules) == (4.0, 40.0)
    between = make_plan(*objects(made), budget=0.0, joule=2.0 / 160 - 1e-6)  # two seconds for 160 joules
    assert between.joules == 200.0


def test_the_front_has_all_three():
    made = powered(instance([0, 0], [], {"cpu": [2.0, 2.0], "gpu": [1.0, 1.0]}), 10.0, 100.0)
    front = solve(Problem(*objects(made)), budget=0.0, front=True).plan().front
    found = {(one.makespan_seconds, one.joules) for one in front}
    assert {(2.0, 120.0), (4.0, 40.0)} <= found
    assert all(not (a[0] <= b[0] and a[1] <= b[1]) for a in found for b in found if a != b)


def test_a_unit_that_does_not_say_is_named():
    made = powered(random_instance(3, 10), 15.0)
    made["machine"]["pus"].append({"name": "tpu", "memory_nbytes": 1, "launch_seconds": 0.0})
    with pytest.raises(CannotPlan, match="has no `watts`"):
        make_plan(*objects(made), budget=0.0, joule=1.0)
    assert solve(Problem(*objects(made)), budget=0.0).joules is None
