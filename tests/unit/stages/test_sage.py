"""sage7 is SAGEConv (mean) and ReLU: on all kinds of graphs, in one layer and in a stack."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from codedag.stages.model import BadInput
from codedag.stages.reference import draw
from codedag.stages.torch_models.sage import KINDS, sage7

torch = pytest.importorskip("torch")
SAGEConv = pytest.importorskip("torch_geometric.nn").SAGEConv

GRAPHS = {
    "drawn": (9, [[0, 3, 8, 8, 2, 5], [1, 1, 0, 7, 2, 4]]),
    "isolated nodes": (6, [[0], [5]]),
    "self loops": (3, [[0, 1, 2, 2], [0, 1, 2, 2]]),
    "repeated edges": (4, [[1, 1, 1, 2], [0, 0, 0, 3]]),
    "no edges": (5, [[], []]),
    "no nodes": (0, [[], []]),
    "one node": (1, [[0], [0]]),
}


@pytest.fixture(scope="module")
def model():
    return sage7(features=6, hidden=4)


@pytest.fixture(scope="module")
def stack():
    return sage7(layers=[5, 3], features=6)


def layers_of(model, widths):
    weights = model.programs.weights()
    for at, (inputs, outputs) in enumerate(pairwise(widths)):
        layer, here = SAGEConv(inputs, outputs, aggr="mean"), "" if at == 0 else f"{at}."
        layer.load_state_dict({name: torch.from_numpy(weights[f"{here}{name}"].copy()) for name in layer.state_dict()})
        yield layer


def by_pyg(model, widths, x, edge_index):
    x, edge_index = torch.from_numpy(x), torch.from_numpy(edge_index)
    with torch.no_grad():
        for layer in layers_of(model, widths):
            x = torch.relu(layer(x, edge_index))
    return x.numpy()


def graph_of(name):
    nodes, edges = GRAPHS[name]
    x = np.random.default_rng(1).standard_normal((nodes, 6), dtype=np.float32)
    return {"x": x, "edge_index": np.array(edges, np.int64).reshape(2, -1)}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_layer_has_the_bits_of_pyg(model, name):
    graph = graph_of(name)
    np.testing.assert_array_equal(model.run(graph)["out"], by_pyg(model, [6, 4], **graph))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_stack_has_the_bits_of_pyg(stack, name):
    graph = graph_of(name)
    np.testing.assert_array_equal(stack.run(graph)["out"], by_pyg(stack, [6, 5, 3], **graph))


def test_nan_spreads_as_in_pyg(model):
    graph = graph_of("drawn")
    graph["x"][3] = np.nan
    np.testing.assert_array_equal(model.run(graph)["out"], by_pyg(model, [6, 4], **graph))


def test_stages_and_tensors_have_the_guides_names(model, stack):
    assert tuple(stage.name for stage in model.stages) == KINDS
    assert model.sizes == ("nodes", "edges")
    assert model.tensors["x_j"].shape == ("edges", 6)
    assert model.tensors["degree"].shape == ("nodes",)
    assert model.stage(6).flop == "104*nodes"  # two products of 6 x 4, a bias and a sum
    assert [stage.kind for stage in stack.stages] == [*KINDS, *KINDS]
    assert stack.stage(8).inputs == ("out.0", "edge_index")
    assert stack.stage(13).inputs == ("1.mean", "out.0")
    assert stack.outputs == ("out",)


def test_weights_are_the_same_each_time_and_have_pygs_names(model, stack):
    again = sage7(features=6, hidden=4)
    assert list(again.programs.weights()) == ["lin_l.weight", "lin_l.bias", "lin_r.weight"]
    assert again.programs.digest == model.programs.digest
    assert "1.lin_r.weight" in stack.programs.weights()


def test_weights_of_a_file_say_the_sizes(tmp_path, stack):
    np.savez(tmp_path / "w.npz", **stack.programs.weights())
    read = sage7(weights=tmp_path / "w.npz")
    assert read.tensors["out"].shape == ("nodes", 3)
    assert read.programs.digest == stack.programs.digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lin_l.bias": None}, "no array `lin_l.bias`"),
        ({"lin_l.bias": np.zeros(9, np.float32)}, r"`lin_l.bias` is float32 \(9,\)"),
        ({"lin_r.weight": np.zeros((4, 6), np.int64)}, "`lin_r.weight` is int64"),
        ({"lin_l.weight": np.zeros(6, np.float32)}, "must be a matrix"),
        ({"1.lin_l.weight": np.zeros((2, 9), np.float32)}, "no array `1.lin_l.bias`"),
    ],
)
def test_weights_that_do_not_fit_are_named(model, change, message):
    weights = {**model.programs.weights(), **change}
    with pytest.raises(BadInput, match=message):
        sage7(weights={name: value for name, value in weights.items() if value is not None})


def test_other_inputs_are_refused(model):
    inputs = draw(model, {"nodes": 4, "edges": 3})
    with pytest.raises(BadInput, match="`edge_index` is int32"):
        model(inputs["x"], inputs["edge_index"].astype(np.int32))
    with pytest.raises(BadInput, match="takes 2 inputs"):
        model(inputs["x"], inputs["edge_index"], inputs["x"])
