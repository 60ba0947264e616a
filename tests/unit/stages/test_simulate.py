"""Plans as graph, costs and machine: the simulator agrees with the prices, and an independent judge with it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
import stage_tables
from stage_tables import FakePu

from codedag.ir import Machine, Pu, check
from codedag.ir.graph_file import graph_bytes
from codedag.stages.planning.clusters import Part, plan_parts
from codedag.stages.planning.pep_file import simulation_of
from codedag.stages.planning.peps import THROUGHPUT, Goal, plans
from codedag.stages.planning.simulate import machine_for, named_as
from codedag.stages.planning.tables import Tables

sys.path.insert(0, str(Path(__file__).parents[1] / "plan"))

from plan_judge import judge

SIZE = {"nodes": 5000, "edges": 10000}


def judged(simulation):
    check(simulation.graph)
    graph = msgspec.json.decode(b"".join(graph_bytes(simulation.graph)))
    plan = msgspec.to_builtins(simulation.plan())
    return judge(graph, msgspec.to_builtins(simulation.costs), msgspec.to_builtins(simulation.machine), plan)


@pytest.fixture
def tables(tmp_path):
    return Tables.load(stage_tables.write(tmp_path, stage_tables.lookup(noise=0.05)))


def test_a_latency_plan_takes_as_long_as_it_was_priced(tables):
    found = plans(tables, SIZE)
    assert any(block.is_split for block in found.chosen.blocks)
    simulation = simulation_of(found, machine_for(tables.pus, None, simulated=True))
    assert simulation.seconds == pytest.approx(found.seconds[0])
    assert judged(simulation) == pytest.approx(found.seconds[0])
    plan = simulation.plan()
    assert plan.simulated == list(tables.pus)
    assert plan.lower_bound_seconds <= plan.makespan_seconds
    assert plan.baseline_seconds == pytest.approx(found.baseline_seconds)
    assert {one.op for one in plan.placement} >= set(range(1, 8)), "stage k is operation k"


def test_a_pipeline_takes_as_long_as_its_queues_say(tables):
    found = plans(tables, SIZE, Goal(THROUGHPUT, 12))
    simulation = simulation_of(found, machine_for(tables.pus, None, simulated=True))
    assert simulation.seconds == pytest.approx(found.seconds[0])
    assert judged(simulation) == pytest.approx(found.seconds[0])


def test_launches_of_the_machine_are_part_of_what_was_measured(tables):
    machine = Machine(pus=[Pu(name=pu, memory_nbytes=1 << 40, launch_seconds=5e-6) for pu in tables.pus])
    found = plans(tables, SIZE, machine=machine)
    simulation = simulation_of(found, machine)
    assert simulation.seconds == pytest.approx(found.seconds[0])
    assert judged(simulation) == pytest.approx(found.seconds[0])


def test_a_machine_from_elsewhere_has_the_names_of_the_tables():
    machine = Machine(
        pus=[Pu(name="ov:gpu", memory_nbytes=1, launch_seconds=0.0), Pu(name="x", memory_nbytes=1, launch_seconds=0.0)]
    )
    assert [pu.name for pu in named_as(machine, ("CPU", "GPU")).pus] == ["GPU", "x"]
    made = machine_for(("GPU", "NPU"), named_as(machine, ("GPU", "NPU")), simulated=True)
    assert [pu.name for pu in made.pus] == ["GPU", "NPU", "x"]
    assert all(pu.simulated for pu in made.pus)


# -- parts


def parts_tables(folder, pus):
    sizes = [(n, e) for n in (500, 1000, 2000, 4000) for e in (n, 4 * n, 10 * n)]
    return Tables.load(stage_tables.write(folder, stage_tables.lookup(pus, sizes)))


PARTS = [Part(1000 + 37 * at, 5000 + 211 * at, 300) for at in range(16)]


def test_parts_are_spread_over_pus_that_do_not_take_turns(tmp_path):
    tables = parts_tables(tmp_path, [FakePu("A", 1, 0, 1.0), FakePu("B", 2, 0, 1.0)])
    found = plan_parts(tables, PARTS, machine_for(tables.pus, None, simulated=True))
    assert found.seconds < 0.75 * found.baseline_seconds
    assert sorted(number for _, numbers in found.clusters for number in numbers) == list(range(16))
    assert judged(found.simulation) == pytest.approx(found.seconds)


def test_parts_on_one_resource_stay_on_the_best_runtime(tmp_path):
    tables = parts_tables(tmp_path, [FakePu("A", 1, 0, 1.0)])
    found = plan_parts(tables, PARTS, machine_for(tables.pus, None, simulated=True))
    assert len(found.clusters) == 1
    assert found.seconds == pytest.approx(found.baseline_seconds)
    whole = sum(item.pep.seconds for item in found.items)
    assert found.seconds == pytest.approx(whole), "one PU does one part after the other"


def test_halos_are_in_the_cost_and_empty_parts_are_not(tmp_path):
    tables = parts_tables(tmp_path, [FakePu("GPU", 1, 0, 1.0, link=1e9)])
    machine = machine_for(tables.pus, None, simulated=True)
    alone = plan_parts(tables, [Part(1000, 5000)], machine)
    assert plan_parts(tables, [Part(1000, 5000, 900)], machine).seconds > alone.seconds
    assert plan_parts(tables, [Part(1000, 5000), Part(0, 0)], machine).seconds == pytest.approx(alone.seconds)
    assert plan_parts(tables, [Part(3, 0)], machine).seconds > 0, "isolated nodes cost what the smallest size does"
