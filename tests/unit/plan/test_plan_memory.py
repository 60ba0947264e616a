"""Memory caps: every plan keeps within them by the judge's own count, or there is a reason in bytes."""

from __future__ import annotations

import json
import re

import pytest
from plan_instances import instance, objects, random_instance
from plan_judge import judge

from codedag.ir import CannotPlan
from codedag.plan.decide import solve
from codedag.plan.problem import Problem


def planned(made, budget=0.0):
    solution = solve(Problem(*objects(made)), budget=budget)
    plan = json.loads(b"".join(solution.pieces()))
    judge(made["graph"], made["costs"], made["machine"], plan)
    return plan


def capped(made, share):
    """The same instance with every memory at this share of what an unlimited plan needs there."""
    peaks = {row["pu"]: row["nbytes"] for row in planned(made)["peaks"]}
    for pu in made["machine"]["pus"]:
        pu["memory_nbytes"] = int(share * max(peaks.values()))
    return made


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
@pytest.mark.parametrize("number", range(12))
def test_plans_keep_within_memory_or_say_why_not(number, share, seed):
    made = capped(random_instance(500 * seed + number, 25, hostile=number % 2 == 1), share)
    why = ""
    try:
        planned(made, budget=0.02)
    except CannotPlan as error:
        why = error.message
    assert not why or re.search(r"fits nowhere: .* needs \d+ bytes|smallest peak reached is \d+ bytes", why)


def test_two_values_that_do_not_fit_together_are_made_one_after_the_other():
    """Each branch makes 60 bytes and reduces them to 1; both at once would need 120 of 100."""
    edges = [(0, 1), (2, 3), (1, 4), (3, 4)]
    made = instance([60, 1, 60, 1, 0], edges, {"cpu": [1.0] * 5}, None, cpu={"memory_nbytes": 100})
    plan = planned(made)
    assert plan["makespan_seconds"] == 5.0
    order = [row["op"] for row in plan["schedule"]]
    assert abs(order.index(0) - order.index(1)) == 1
    assert abs(order.index(2) - order.index(3)) == 1


def test_a_plan_waits_for_memory_where_going_early_would_not_fit():
    """The values of ops 0 and 2 cross to a PU that has room for one at a time."""
    costs = {"cpu": [1.0, None, 1.0, None], "gpu": [None, 5.0, None, 5.0]}
    made = instance([60, 0, 60, 0], [(0, 1), (2, 3)], costs, None, gpu={"memory_nbytes": 100})
    made["machine"]["links"][0]["bytes_per_second"] = 60.0
    plan = planned(made)
    assert plan["strategy"].endswith("waiting for memory")
    assert plan["makespan_seconds"] == 13.0  # make 1, copy 1, use 5, copy 1, use 5
    assert {row["pu"]: row["nbytes"] for row in plan["peaks"]}["gpu"] == 60


def test_scratch_counts_while_the_op_runs():
    made = instance([10, 0], [(0, 1)], {"cpu": [1.0, 1.0], "gpu": [5.0, 5.0]}, None, cpu={"memory_nbytes": 100})
    made["costs"]["rows"][0]["scratch_nbytes"] = 95
    plan = planned(made)
    assert plan["placement"][0]["pu"] == "gpu"


def test_the_op_that_fits_nowhere_is_named_with_its_bytes():
    made = instance([60, 50, 0], [(0, 2), (1, 2)], {"cpu": [1.0] * 3}, None, cpu={"memory_nbytes": 109})
    with pytest.raises(
        CannotPlan, match=r"op 2 f2 \(a.py:3\) fits nowhere: .* needs 110 bytes on `cpu`, which has 109"
    ):
        planned(made)


def test_the_smallest_peak_is_told_when_no_plan_was_found():
    """Every op fits alone, but the value of op 0 must outlive op 1, which needs its room."""
    edges = [(0, 3), (1, 2), (0, 1, "anti"), (2, 3)]
    made = instance([60, 60, 60, 0], edges, {"cpu": [1.0] * 4}, None, cpu={"memory_nbytes": 125})
    with pytest.raises(CannotPlan, match=r"smallest peak reached is 180 bytes on `cpu`, which has 125"):
        planned(made)


def test_caps_that_cannot_bind_change_nothing():
    made = random_instance(5, 30)
    free = planned(made)
    total = sum(op["out_nbytes"] for op in made["graph"]["ops"])
    for pu in made["machine"]["pus"]:
        pu["memory_nbytes"] = total
    again = planned(made)
    assert free["schedule"] == again["schedule"]
