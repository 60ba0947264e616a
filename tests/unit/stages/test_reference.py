"""The reference: every tensor, in torch or on ONNX files, in float64, and inputs of any size."""

from __future__ import annotations

import numpy as np
import pytest

from codedag.ir.verdict import No
from codedag.stages import reference
from codedag.stages.model import BadInput, BadModel, StagedModel
from codedag.stages.reference import draw, exact_tensors
from codedag.stages.torch_models.sage import sage7

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def model():
    return sage7(features=6, hidden=4)


@pytest.fixture(scope="module")
def mixed():
    """A model of floats and whole numbers."""

    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(9, 4)

        def forward(self, tokens, x):
            return torch.relu(self.words(tokens).sum(1) + x).to(torch.float32)

    tokens = torch.tensor([[1, 2, 3], [8, 7, 6]])
    return StagedModel.from_module(Mixed().eval(), (tokens, torch.full((2, 4), 5.0) + torch.arange(4)), stages=2)


def test_all_tensors_are_there_by_name(model):
    tensors = model.run(draw(model, {"nodes": 5, "edges": 9}))
    assert tensors.keys() == model.tensors.keys()
    assert all(tensors[name].dtype == each.dtype for name, each in model.tensors.items())


def test_outputs_alone_are_the_same(model):
    inputs = draw(model, {"nodes": 5, "edges": 9})
    alone = model.reference.outputs(inputs)
    assert list(alone) == ["out"]
    np.testing.assert_array_equal(alone["out"], model.run(inputs)["out"])


def test_inputs_are_not_changed_and_may_be_read_only(model):
    inputs = draw(model, {"nodes": 5, "edges": 9})
    before = inputs["x"].copy()
    inputs["x"].flags.writeable = False
    model.run(inputs)
    np.testing.assert_array_equal(inputs["x"], before)


@pytest.mark.parametrize("make", [reference.in_onnxruntime, reference.in_openvino])
def test_other_runtimes_compute_a_stage(model, make):
    pytest.importorskip("onnx")
    tensors = model.run(draw(model, {"nodes": 5, "edges": 9}))
    stage = model.stage(6)
    compute = make(model.programs.onnx(stage), stage)
    if isinstance(compute, No):
        pytest.skip(compute.reason)
    made = compute([tensors[name] for name in stage.inputs])
    np.testing.assert_allclose(made[0], tensors["transformed"], rtol=1e-5, atol=1e-6)


def test_what_nothing_can_compute_is_told(model, monkeypatch):
    monkeypatch.setattr(type(model.programs), "torch", lambda self, block: No("torch is away"))
    for name in ("in_onnxruntime", "in_openvino"):
        monkeypatch.setattr(reference, name, lambda proto, stage: No("it is away"))
    monkeypatch.setattr(type(model.programs), "onnx", lambda self, stage: None)
    with pytest.raises(BadModel, match="stage 1 `GATHER`: torch is away; it is away; it is away"):
        reference.Reference(model).tensors(draw(model, {"nodes": 2, "edges": 2}))


def test_float64_is_nearer_to_the_truth(model):
    inputs = draw(model, {"nodes": 40, "edges": 400})
    exact, plain = exact_tensors(model, inputs), model.run(inputs)
    assert exact["out"].dtype == np.float64
    weights = {name: value.astype(np.float64) for name, value in model.programs.weights().items()}
    x, (source, target) = inputs["x"].astype(np.float64), inputs["edge_index"]
    sums = np.zeros_like(x)
    np.add.at(sums, target, x[source])
    mean = sums / np.maximum(np.bincount(target, minlength=40), 1)[:, None]
    truth = np.maximum(mean @ weights["lin_l.weight"].T + weights["lin_l.bias"] + x @ weights["lin_r.weight"].T, 0)
    np.testing.assert_allclose(exact["out"], truth, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(plain["out"], truth, rtol=1e-4, atol=1e-5)


def test_float64_reaches_types_that_are_written_in_the_graph(mixed):
    exact = exact_tensors(mixed, mixed.example)
    assert exact["out"].dtype == np.float64
    assert mixed.run(mixed.example)["out"].dtype == np.float32  # the model itself is as it was


def test_drawn_inputs_fit_and_repeat(model):
    first, second, other = (draw(model, {"nodes": 50, "edges": 70}, seed) for seed in (1, 1, 2))
    assert model.sizes_of(first) == {"nodes": 50, "edges": 70}
    assert 0 <= first["edge_index"].min() <= first["edge_index"].max() < 50
    np.testing.assert_array_equal(first["x"], second["x"])
    assert not np.array_equal(first["x"], other["x"])


def test_drawn_inputs_are_like_the_example(mixed):
    inputs = draw(mixed, {"batch": 400})
    assert set(np.unique(inputs["tokens"])) == {1, 2, 3, 6, 7, 8}
    assert inputs["x"].mean() == pytest.approx(6.5, abs=0.3)
    assert mixed.sizes_of(draw(mixed, {"batch": 0})) == {"batch": 0}


def test_a_size_that_is_missing_is_named(model):
    with pytest.raises(BadInput, match="needs the size `edges`"):
        draw(model, {"nodes": 3})


def test_a_call_takes_names_and_refuses_others(model):
    inputs = {name: torch.from_numpy(value) for name, value in draw(model, {"nodes": 3, "edges": 4}).items()}
    assert torch.equal(model(**inputs), model(inputs["x"], edge_index=inputs["edge_index"]))
    with pytest.raises(BadInput, match="does not take an input `y`"):
        model(y=inputs["x"])
    with pytest.raises(BadInput, match="no array `edge_index`"):
        model(inputs["x"])
