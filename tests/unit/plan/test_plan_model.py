"""Every plan obeys the model: an independent judge replays it and finds the makespan that the plan states."""

from __future__ import annotations

import json
import random

import pytest
from plan_instances import instance, objects, random_instance
from plan_judge import judge

from codedag.ir import CannotPlan
from codedag.plan.decide import make_plan, solve
from codedag.plan.problem import Problem


def planned(made, budget=0.02, seed=0):
    solution = solve(Problem(*objects(made)), budget=budget, seed=seed)
    plan = json.loads(b"".join(solution.pieces()))
    judge(made["graph"], made["costs"], made["machine"], plan)
    return plan


@pytest.mark.parametrize("number", range(25))
def test_plans_of_random_instances_are_what_they_say(number, seed):
    planned(random_instance(1000 * seed + number))


@pytest.mark.parametrize("number", range(60))
def test_plans_of_hostile_instances_are_what_they_say(number, seed):
    planned(random_instance(1000 * seed + number, hostile=True))


@pytest.mark.parametrize("number", [5, 61, 237, 248, 290, *range(5)])
def test_what_takes_no_time_is_listed_in_an_order_in_which_it_can_happen(number):
    """Ops and copies of one moment: whoever replays the file has only the order of its lines to go by."""
    made, draw = random_instance(number, 40, hostile=True), random.Random(number)
    for link in made["machine"]["links"]:
        link |= {"latency_seconds": 0.0, "shared": "bus"}
    for pu in made["machine"]["pus"]:
        pu["launch_seconds"] = 0.0
    for value in (*made["graph"]["ops"], *made["graph"]["edges"]):
        value["out_nbytes" if "id" in value else "nbytes"] = 0
    for row in made["costs"]["rows"]:
        if row["seconds"] is not None and draw.random() < 0.6:
            row["seconds"] = 0.0
    planned(made, budget=0.0)


def test_two_copies_over_one_link_take_turns():
    """Both inputs of op 2 must cross the same link: 1 s to make each, 1 s to copy each, 1 s to use them."""
    made = instance([1, 1, 0], [(0, 2), (1, 2)], {"cpu": [1.0, 1.0, None], "gpu": [None, None, 1.0]})
    plan = planned(made)
    assert plan["makespan_seconds"] == 4.0  # 0-1 1-2 | copies 1-2 2-3 | 3-4


def test_links_of_one_bus_take_turns_and_others_do_not():
    costs = {"cpu": [1.0, None, None], "gpu": [None, 1.0, None], "npu": [None, None, 1.0]}
    apart = instance([4, 0, 0], [(0, 1), (0, 2)], costs)
    assert planned(apart)["makespan_seconds"] == 6.0
    links = [("cpu", "gpu", 0.0, 1.0, "bus"), ("cpu", "npu", 0.0, 1.0, "bus")]
    assert planned(instance([4, 0, 0], [(0, 1), (0, 2)], costs, links))["makespan_seconds"] == 10.0


def test_units_of_one_resource_take_turns():
    costs = {"cpu": [3.0, None], "torch:cpu": [None, 3.0]}
    assert planned(instance([0, 0], [], costs))["makespan_seconds"] == 3.0
    same = {"resource": "host"}
    shared = instance([0, 0], [], costs, None, **{"cpu": same, "torch:cpu": same})
    assert planned(shared)["makespan_seconds"] == 6.0


def test_a_value_is_relayed_where_there_is_no_direct_link():
    costs = {"cpu": [None, None], "gpu": [1.0, None], "npu": [None, 1.0]}
    links = [("gpu", "cpu", 0.5, 1.0), ("cpu", "npu", 0.5, 1.0)]
    plan = planned(instance([1, 0], [(0, 1)], costs, links))
    assert [(t["src"], t["dst"]) for t in plan["transfers"]] == [("gpu", "cpu"), ("cpu", "npu")]
    assert plan["makespan_seconds"] == 5.0


def test_a_value_that_several_ops_read_is_copied_once():
    made = instance([2, 0, 0], [(0, 1), (0, 2)], {"cpu": [1.0, None, None], "gpu": [None, 1.0, 1.0]})
    assert len(planned(made)["transfers"]) == 1


def test_order_only_edges_need_no_link():
    made = instance([9, 0], [(0, 1, "anti")], {"cpu": [1.0, None], "gpu": [None, 1.0]}, [])
    plan = planned(made)
    assert (plan["makespan_seconds"], plan["transfers"]) == (2.0, [])


def test_flow_wins_over_order_only_and_repeated_edges_count_once():
    edges = [(0, 1, "anti"), (0, 1), (0, 1), (0, 1, "anti")]
    made = instance([3, 0], edges, {"cpu": [1.0, None], "gpu": [None, 1.0]})
    plan = planned(made)
    assert plan["makespan_seconds"] == 5.0
    assert len(plan["transfers"]) == 1


def test_launches_count():
    made = instance([0, 0], [], {"cpu": [1.0, 1.0]}, None, cpu={"launch_seconds": 0.25})
    assert planned(made)["makespan_seconds"] == 2.5


def test_staying_wins_ties_and_is_the_baseline():
    plan = planned(instance([0, 0], [(0, 1)], {"cpu": [1.0, 1.0], "gpu": [1.0, 1.0]}))
    assert plan["strategy"] == plan["baseline"] == "stay"
    assert {row["pu"] for row in plan["placement"]} == {"cpu"}
    assert plan["baseline_seconds"] == plan["makespan_seconds"] == 2.0


def test_an_empty_graph_has_an_empty_plan():
    plan = make_plan(*objects(instance([], [], {"cpu": []})))
    assert (plan.makespan_seconds, plan.lower_bound_seconds, plan.schedule) == (0.0, 0.0, [])


def test_sources_and_regions_cost_nothing_and_stay():
    made = instance([5, 0], [(0, 1)], {"gpu": [None, 1.0], "cpu": [None, None]})
    made["graph"]["ops"][0]["kind"] = "source"
    made["costs"]["rows"] = [row for row in made["costs"]["rows"] if row["op"] == 1]
    plan = planned(made)
    assert [row["pu"] for row in plan["placement"]] == ["cpu", "gpu"]
    assert plan["makespan_seconds"] == 6.0


@pytest.mark.parametrize(
    ("made", "culprit"),
    [
        (instance([0], [], {"cpu": [None]}), "op 0 f0 (a.py:1): no PU supports it"),
        (
            instance([1, 0], [(0, 1)], {"cpu": [1.0, None], "gpu": [None, 1.0]}, []),
            "op 0 f0 (a.py:1) runs on cpu only and op 1 f1 (a.py:2), which needs its value, on gpu only: no link",
        ),
    ],
)
def test_what_cannot_be_planned_is_named(made, culprit):
    with pytest.raises(CannotPlan) as caught:
        planned(made)
    assert culprit in caught.value.message
    assert caught.value.hint


def test_unknown_ops_and_units_are_named():
    made = instance([0], [], {"cpu": [1.0]})
    made["costs"]["rows"][0]["op"] = 7
    with pytest.raises(CannotPlan, match=r"rows\[0\]\.op: there is no op 7"):
        planned(made)
    made = instance([0], [], {"cpu": [1.0], "gpu": [1.0]})
    made["machine"]["pus"].pop()
    made["machine"]["links"] = []
    with pytest.raises(CannotPlan, match=r"pus\[1\]: machine.json has no PU `gpu`"):
        planned(made)


def test_parts_without_a_link_between_them_go_to_different_islands():
    """The join of two sources must be on one island, although each source alone would be faster on another."""
    costs = {"a": [1.0, 5.0, 1.0], "b": [5.0, 1.0, 1.0]}
    plan = planned(instance([1, 1, 0], [(0, 2), (1, 2)], costs, []))
    assert len({row["pu"] for row in plan["placement"]}) == 1
    assert plan["makespan_seconds"] == 7.0
