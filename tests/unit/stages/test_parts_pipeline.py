"""Graphs in parts: the same results as in one piece, for several layers and odd graphs."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from small_sage import exported, plan, small, tables

from codedag.stages.execution.execute import Executor
from codedag.stages.execution.execution_plan import planned_parts, whole
from codedag.stages.execution.parts_pipeline import ReusedArena
from codedag.stages.graph.layers import Layer, layers_of
from codedag.stages.graph.parts import parts_of
from codedag.stages.measuring.arena import Arena
from codedag.stages.model import BadInput
from codedag.stages.onnx_models.export import export, load
from codedag.stages.planning.clusters import Part
from codedag.stages.reference import draw
from codedag.stages.torch_models.sage import sage7


@pytest.fixture
def executor():
    with Executor(small(), exported()) as made:
        yield made


@pytest.mark.parametrize(
    ("sizes", "parts"), [({"nodes": 40, "edges": 90}, 4), ({"nodes": 3, "edges": 9}, 5), ({"nodes": 6, "edges": 0}, 2)]
)
def test_parts_give_what_the_whole_gives(executor, sizes, parts):
    item = draw(small(), sizes)
    done = executor.run(plan((1, 5, "ort:cpu"), (6, 7, "ov:cpu"), parts=parts), [item, item])
    assert done.is_right
    assert not done.left
    expected = small().reference.outputs(item)["out"]
    np.testing.assert_allclose(done.outputs[1]["out"], expected, rtol=1e-4, atol=1e-5)
    assert len(done.calls) == 2 * 2 * min(parts, sizes["nodes"])


def test_parts_have_plans_of_their_own(executor):
    item = draw(small(), {"nodes": 30, "edges": 80})
    clusters = {0: plan((1, 7, "ov:cpu")).blocks}
    done = executor.run(plan((1, 7, "ort:cpu"), parts=3, clusters=clusters), [item])
    assert done.is_right
    assert sorted((call.pu, call.block.name) for call in done.calls) == [
        ("ort:cpu", "1-5"), ("ort:cpu", "1-5"), ("ort:cpu", "6-7"), ("ort:cpu", "6-7"), ("ov:cpu", "1-5"),
        ("ov:cpu", "6-7"),
    ], "what follows the mean is computed for the rows of the part alone"  # fmt: skip


@pytest.mark.parametrize("layers", [1, 2])
def test_our_kernels_compute_parts_in_place(tmp_path, layers):
    pytest.importorskip("numba")
    export(sage7(features=12, hidden=8, layers=layers), tmp_path)
    model = load(tmp_path)
    item = draw(model, {"nodes": 50, "edges": 140})
    given = replace(whole(model, "numba:cpu"), parts=4, clusters={2: whole(model, "ort:cpu").blocks})
    with Executor(model, tmp_path) as executor:
        done = executor.run(given, [item, item])
    assert done.is_right
    assert not done.left
    names = [call.block.name for call in done.calls if call.pu == "numba:cpu"]
    assert sorted(set(names)) == ["1-7", "8-14"][:layers]
    assert len(names) == 2 * 3 * layers


@pytest.mark.parametrize(
    ("sizes", "pus"),
    [({"nodes": 60, "edges": 150}, {"ort:cpu", "ov:cpu"}), ({"nodes": 1, "edges": 2}, {"ort:cpu"})],
)
def test_a_split_graph_runs_as_parts_with_halos(executor, sizes, pus):
    item = draw(small(), sizes)
    done = executor.run(plan((1, 7, ("ort:cpu", "ov:cpu"), (0.75, 0.25))), [item, item])
    assert done.is_right
    assert not done.left
    assert not done.notes
    assert {call.pu for call in done.calls} == pus


def test_parts_have_the_ratios_of_a_split():
    item = draw(small(), {"nodes": 400, "edges": 1200})
    nodes = [size.nodes for size in parts_of(item["edge_index"], 400, 2, (0.75, 0.25)).sizes]
    assert nodes == pytest.approx([300, 100], abs=15)


def test_items_with_other_edges_are_not_split(executor):
    items = [draw(small(), {"nodes": 10, "edges": 20}, seed) for seed in (0, 1)]
    done = executor.run(plan((1, 7, ("ort:cpu", "ov:cpu"), (0.75, 0.25))), items)
    assert done.is_right
    assert "block 1-7 is not split" in done.notes[0]


def test_parts_are_planned_by_their_sizes():
    known = tables({"ort:cpu": 2e-3, "ov:cpu": 1e-3})
    alone = planned_parts(small(), known, [Part(30, 80)] * 2, ["ov:cpu"])
    assert (alone.parts, alone.pus, alone.seconds) == (2, ("ov:cpu",), pytest.approx(14e-3))
    found = planned_parts(small(), known, [Part(30, 80)] * 2)
    assert set(found.pus) == {"ov:cpu", "ort:cpu"}
    assert found.seconds == pytest.approx(13e-3), "the second part begins on the other one"
    far = planned_parts(small(), known, [Part(300_000, 80)] * 2)
    assert (far.parts, far.pus, far.seconds) == (2, ("ov:cpu",), 0.0), "no prediction so far away"


def test_items_with_other_edges_are_refused(executor):
    sizes = {"nodes": 10, "edges": 20}
    with pytest.raises(BadInput, match="same `edge_index`"):
        executor.run(plan((1, 7, "ort:cpu"), parts=2), [draw(small(), sizes, seed) for seed in (0, 1)])


def test_layers_are_found():
    assert layers_of(small()) == [Layer(1, 7, "x", "out")]


@pytest.mark.slow
def test_a_second_layer_reads_the_halos_rows_of_the_first(tmp_path):
    export(sage7(layers=[5, 4], features=6), tmp_path)
    model = load(tmp_path)
    assert [(each.first, each.last, each.reads) for each in layers_of(model)] == [(1, 7, "x"), (8, 14, "out.0")]
    item = draw(model, {"nodes": 50, "edges": 200})
    parted = whole(model, "ort:cpu")  # one block over both layers: it is cut between them
    with Executor(model, tmp_path) as executor:
        done = executor.run(type(parted)(parted.blocks, parts=3), [item])
    assert done.is_right
    assert not done.left
    assert {call.block.name for call in done.calls} == {"1-5", "6-7", "8-12", "13-14"}


def test_parts_share_memory():
    with Arena() as arena:
        reused = ReusedArena(arena)
        large, first = reused.empty("float32", (4, 3))
        reused.begin()
        small_one, second = reused.empty("float32", (2, 3))
        assert first["file"] == second["file"]
        large[...] = 7
        assert (small_one == 7).all()
        _, own = reused.put(np.arange(4))
        assert own["file"] != first["file"]
