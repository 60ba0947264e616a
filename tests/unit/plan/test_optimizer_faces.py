"""The guides' optimiser: parts, statistics, files, and a migration plan whose keys are the graph's contexts."""

from __future__ import annotations

import json
import logging

import pytest

from codedag import GraphCoarsening, IterativeOptimizer, KWayPartitioner, OptimizerManager, Partition
from codedag.api.dag import DAG, DAGBuilder
from codedag.ir import Machine, Pu


def pipeline(blocks=6):
    """Blocks of load -> resize -> normalise, each with its variable, one after the other."""
    builder = DAGBuilder()
    last = None
    for block in range(blocks):
        for step, seconds in (("load", 0.3), ("cv2.resize", 0.2), ("operator.truediv", 0.1)):
            call = builder.add_function_node(step, f"main/part{block}/{step}")
            builder.dag.nodes[call].performance = {"execution_time": seconds, "self_time": seconds, "memory_usage": 100}
            made = builder.add_variable_node(f"{step}_return")
            builder.dag.nodes[made].performance["memory_usage"] = 100
            builder.add_edge(call, made, "produces")
            if last is not None:
                builder.add_edge(last, call, "uses")
            last = made
        last = None
    return builder.dag


def test_optimize_returns_and_writes_what_the_guides_show(tmp_path):
    dag = pipeline()
    manager = OptimizerManager(k=2, coarsen_max_depth=5, max_iterations=100)
    result = manager.optimize(dag, export_dir=str(tmp_path / "out"))
    assert set(result) == {"coarsened_dag", "kway_partitions", "optimized_partitions", "statistics"}
    statistics = result["statistics"]
    assert set(statistics) == {"coarsening", "partitioning", "iteration"}
    assert 0 < statistics["partitioning"]["load_balance"] <= 1
    assert statistics["partitioning"]["edge_cut"] >= 0
    assert statistics["iteration"]["best_objective"] <= statistics["iteration"]["initial_objective"]
    for partition in result["optimized_partitions"]:
        assert isinstance(partition, Partition)
        assert partition.center in partition.nodes
    everything = [node for one in result["optimized_partitions"] for node in one.nodes]
    assert sorted(everything) == sorted(dag.nodes)
    assert sum(one.total_compute for one in result["optimized_partitions"]) == pytest.approx(6 * 0.6)
    assert sum(one.total_memory for one in result["optimized_partitions"]) == 36 * 100
    for name in ("coarsening_result", "kway_partition", "optimized_partition"):
        assert json.loads((tmp_path / "out" / f"{name}.json").read_text())["format"] == f"codedag/{name}"


def test_instances_share_a_class_and_are_never_merged():
    dag = pipeline()
    face = GraphCoarsening(max_depth=5)
    coarse = face.coarsen(dag)
    assert len(coarse.nodes) == len(dag.nodes)
    assert coarse.edges == dag.edges
    resizes = {n.attributes["structural_class"] for n in coarse.nodes.values() if n.name == "cv2.resize"}
    assert len(resizes) == 1
    assert face.get_stats()["classes"] == 6
    assert all("structural_class" not in node.attributes for node in dag.nodes.values())


def test_parts_of_equal_blocks_are_balanced_and_cut_nothing_after_refinement():
    dag = pipeline()
    partitioner = KWayPartitioner(k=3)
    parts = partitioner.partition(dag)
    assert [one.id for one in parts] == [0, 1, 2]
    refiner = IterativeOptimizer(max_iterations=500, alpha=0.2, beta=0.8)
    refined = refiner.optimize(parts, dag)
    assert refiner.get_stats()["edge_cut"] <= partitioner.get_stats()["edge_cut"]
    assert {one.id for one in refined} == {0, 1, 2}
    assert partitioner.get_stats()["load_balance"] > 0.6


def test_no_moves_when_there_are_no_iterations():
    dag = pipeline()
    parts = KWayPartitioner(k=2).partition(dag)
    face = IterativeOptimizer(max_iterations=0)
    assert [one.nodes for one in face.optimize(parts, dag)] == [one.nodes for one in parts]
    assert face.get_stats()["moves"] == 0


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_any_k_and_any_graph(k):
    for dag in (DAG(), pipeline(1), pipeline(3)):
        result = OptimizerManager(k=k).optimize(dag)
        assert len(result["kway_partitions"]) == min(k, len(dag.nodes))
        assert all(one.nodes for one in result["optimized_partitions"])


def test_contexts_are_exactly_those_of_the_graph_and_stay_where_there_is_no_accelerator():
    dag = pipeline()
    manager = OptimizerManager(k=2)
    result = manager.optimize(dag)
    plan = manager.get_migration_plan(
        partitions=result["optimized_partitions"], dag=result["coarsened_dag"], gpu_count=1,
        machine=Machine(pus=[Pu(name="cpu", memory_nbytes=1, launch_seconds=0.0)]),
    )  # fmt: skip
    wanted = {node.attributes["context"] for node in dag.nodes.values() if node.node_type != "variable"}
    assert set(plan["context_device_map"]) == wanted
    assert set(plan["context_device_map"].values()) == {"cpu"}
    assert set(plan["partition_device_map"]) == {"0", "1"}
    assert "none found" in plan["reason"]
    assert json.loads(json.dumps(plan)) == plan


def test_the_heaviest_partition_goes_to_the_accelerator_that_is_there():
    dag = pipeline()
    for node in dag.nodes.values():
        if node.attributes.get("context", "").startswith("main/part0/"):
            node.performance["self_time"] = 5.0
    manager = OptimizerManager(k=2)
    result = manager.optimize(dag)
    pus = [Pu(name=name, memory_nbytes=1, launch_seconds=0.0, simulated=True) for name in ("cpu", "cuda:0", "cuda:1")]
    plan = manager.get_migration_plan(result["optimized_partitions"], result["coarsened_dag"], 1, Machine(pus=pus))
    heaviest = max(result["optimized_partitions"], key=lambda one: one.total_compute)
    assert plan["partition_device_map"][str(heaviest.id)] == "cuda:0"
    assert sorted(set(plan["partition_device_map"].values())) == ["cpu", "cuda:0"]
    assert "simulated" in plan["reason"]


def test_parts_of_another_graph_are_refused():
    with pytest.raises(ValueError, match="node 99 is not in this graph"):
        IterativeOptimizer().optimize([Partition(0, 0, {99})], pipeline(1))
    with pytest.raises(ValueError, match="is in no partition"):
        IterativeOptimizer().optimize([Partition(0, 0, {0})], pipeline(1))
    with pytest.raises(ValueError, match="k must be at least 1"):
        KWayPartitioner(k=0)


def test_stages_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="codedag.plan"):
        OptimizerManager(k=2).optimize(pipeline())
    assert "36 nodes in 6 classes" in caplog.text
