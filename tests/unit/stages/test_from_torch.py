"""Torch modules as stages: the module's own bits, open sizes, nested arguments, and what cannot be cut."""

from __future__ import annotations

import pytest

from codedag.stages.model import BadInput, BadModel, StagedModel
from codedag.stages.reference import draw

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)

    def forward(self, x):
        return nn.functional.relu_(self.norm(self.conv(x)) + x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.drop = nn.LSTM(4, 6, batch_first=True), nn.Dropout(0.3)

    def forward(self, x):
        y, (h, _) = self.cell(x)
        y = self.drop(y)
        y.add_(1)
        return {"last": y[:, -1].reshape(-1), "state": h}


class TwoIn(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, left, right, scale=2.0):
        u, v = self.first(left), self.first(right)
        w = self.second(u * v)
        return w + u, [v * scale, w.sum(1)]


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.tied = self.layer

    def forward(self, x):
        for _ in range(4):
            x = torch.tanh(self.tied(self.layer(x)))
        return x


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        y[:, 0] = 0
        y.clamp_(min=-1)
        part = y[:, 1:3]
        part *= 2
        return y + torch.arange(x.shape[0], dtype=x.dtype)[:, None]


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)


MODULES = {
    "cnn": (lambda: nn.Sequential(Residual(4), Residual(4), nn.Flatten(), nn.Linear(4 * 36, 5)), (3, 4, 6, 6)),
    "lstm": (Recurrent, (3, 5, 4)),
    "gru": (lambda: nn.GRU(4, 6, 2, batch_first=True), (3, 5, 4)),
    "shared weights": (Shared, (3, 4)),
    "in place": (InPlace, (3, 4)),
}


def leaves(result):
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def assert_same(first, second):
    assert pytree.tree_structure(first) == pytree.tree_structure(second)
    for one, other in zip(leaves(first), leaves(second), strict=True):
        assert torch.equal(one, other)


def made(build, *shapes, **options):
    torch.manual_seed(0)
    module = build().eval()
    return module, StagedModel.from_module(module, tuple(torch.randn(shape) for shape in shapes), **options)


@pytest.mark.parametrize("name", MODULES)
def test_stage_after_stage_has_the_modules_own_bits(name):
    build, shape = MODULES[name]
    module, model = made(build, shape)
    assert model.sizes == ("batch",)
    assert not model.notes
    for batch in (1, 2, 5):
        x = torch.randn(batch, *shape[1:])
        with torch.no_grad():
            assert_same(model(x), module(x))


def test_an_encoder_has_the_bits_of_its_path_that_can_be_exported():
    module, model = made(encoder, (2, 5, 8))
    x = torch.randn(4, 5, 8)
    assert "fused path" in model.notes[0]
    assert_same(model(x).detach(), module(x).detach())  # with gradients on, torch does not take the fused path


def test_several_inputs_and_outputs_keep_their_nesting():
    module, model = made(TwoIn, (3, 4), (3, 4), stages=2)
    assert (model.inputs, model.outputs) == (("left", "right"), ("out.0", "out.1", "out.2"))
    left, right = torch.randn(6, 4), torch.randn(6, 4)
    with torch.no_grad():
        assert_same(model(left, right), module(left, right))
    with pytest.raises(BadInput, match="nested otherwise"):
        model(left)


def test_results_of_numpy_inputs_are_numpy():
    _, model = made(Shared, (3, 4))
    inputs = draw(model, {"batch": 2})
    assert (model(inputs["x"]) == model.run(inputs)["out"]).all()


def test_a_shared_weight_has_one_name():
    _, model = made(Shared, (3, 4), stages=3)
    assert sorted(value.shape for value in model.programs.weights().values()) == [(4,), (4, 4)]


def test_only_tensors_cross_and_sizes_are_computed_again():
    _, model = made(InPlace, (3, 4), stages=3)
    assert all(model.tensors[name].dtype == "float32" for stage in model.stages for name in stage.inputs)


def test_a_batch_of_one_stays_open():
    _, model = made(Shared, (1, 4))
    assert (model.sizes, model.example["x"].shape) == (("batch",), (1, 4))


def test_a_size_that_cannot_stay_open_is_fixed_and_said():
    class Fixed(nn.Module):
        def forward(self, x):
            return torch.relu(x.view(3, 4)) + 1

    _, model = made(Fixed, (3, 4))
    assert model.sizes == ()
    assert "all sizes are fixed" in model.notes[0]
    with pytest.raises(BadModel, match="`rows` cannot stay open"):
        made(Fixed, (3, 4), dynamic={"x": {0: "rows"}})


def test_sizes_can_be_named():
    _, model = made(Recurrent, (3, 5, 4), dynamic={"x": {0: "people"}})
    assert model.sizes == ("people",)
    assert model.tensors["last"].shape == ("6*people",)


def test_cuts_at_layers_and_tensors():
    _, model = made(MODULES["cnn"][0], (3, 4, 6, 6), cuts=["0", "1"])
    assert len(model.stages) == 3
    crossing = model.stage(1).outputs
    _, again = made(MODULES["cnn"][0], (3, 4, 6, 6), cuts=crossing)
    assert again.stage(1).outputs == crossing
    with pytest.raises(BadModel, match="no tensor `nothing`"):
        made(MODULES["cnn"][0], (3, 4, 6, 6), cuts=["nothing"])


def test_stages_balance_their_flop():
    _, model = made(lambda: nn.Sequential(*(Residual(4) for _ in range(4))), (2, 4, 6, 6), stages=4)
    assert len({stage.flop for stage in model.stages}) == 1
    assert [len(stage.inputs) for stage in model.stages] == [1, 1, 1, 1]


# -- what cannot be cut


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(()))


class Branches(Base):
    def forward(self, x):
        if x.sum() > 0:
            return self.layer(x)
        return x


class Draws(Base):
    def forward(self, x):
        return self.layer(x) + torch.rand_like(x)


class DropsAlways(Base):
    def forward(self, x):
        return nn.functional.dropout(self.layer(x), 0.5, training=True)


class Counts(Base):
    def forward(self, x):
        self.count += 1
        return self.layer(x) * self.count


class WritesInput(Base):
    def forward(self, x):
        x.add_(1)
        return self.layer(x)


class LeavesTorch(Base):
    def forward(self, x):
        return self.layer(torch.from_numpy(x.numpy() * 2))


class Nothing(Base):
    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Branches, r"depends on the values of its tensors at .*test_from_torch.py:\d+"),
        (Draws, r"random: `rand_like.default` at .*test_from_torch.py:\d+"),
        (DropsAlways, r"random: `dropout.default` at .*test_from_torch.py:\d+"),
        (Counts, "changes `count` when it runs"),
        (WritesInput, "changes `x` when it runs"),
        (LeavesTorch, r"does not take the module at .*test_from_torch.py:\d+"),
        (Nothing, "no operations on tensors"),
    ],
)
def test_modules_that_cannot_be_cut_are_told_with_their_line(kind, message):
    with pytest.raises(BadModel, match=message):
        made(kind, (3, 4))


def test_a_module_in_training_mode_is_refused():
    with pytest.raises(BadModel, match="training mode"):
        StagedModel.from_module(Shared().train(), torch.randn(3, 4))
    half = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).eval()
    half[1].train()
    with pytest.raises(BadModel, match="the layer `1`"):
        StagedModel.from_module(half, torch.randn(3, 4))


# -- lists of modules


def test_a_list_of_modules_is_a_chain():
    torch.manual_seed(0)
    modules = [nn.Linear(4, 6).eval(), nn.ReLU().eval(), nn.Linear(6, 2).eval()]
    model = StagedModel.from_modules(modules, torch.randn(3, 4))
    assert [stage.name for stage in model.stages] == ["Linear_1", "ReLU", "Linear_3"]
    assert (model.inputs, model.stage(2).inputs, model.outputs) == (("input",), ("h1",), ("out",))
    assert model.tensors["h1"].shape == ("batch", 6)
    x = torch.randn(5, 4)
    with torch.no_grad():
        assert torch.equal(model(x), nn.Sequential(*modules)(x))


def test_a_list_whose_sizes_cannot_stay_open_is_fixed_and_said():
    model = StagedModel.from_modules([nn.Flatten(0).eval(), nn.Linear(12, 2).eval()], torch.randn(3, 4))
    assert model.sizes == ()
    assert "all sizes are fixed" in model.notes[0]


def test_nan_is_compared_and_is_no_zero():
    from codedag.stages.torch_models.from_torch import _same

    nan, zero = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 0.0])
    assert _same(nan, nan.clone())
    assert not _same(nan, zero)
    assert not _same(zero, zero.double())


def test_names_of_stages_can_be_given():
    modules = [nn.Linear(4, 4).eval(), nn.ReLU().eval()]
    model = StagedModel.from_modules(modules, {"x": torch.randn(3, 4)}, names=["up", "bend"])
    assert [stage.name for stage in model.stages] == ["up", "bend"]
    with pytest.raises(BadModel, match="2 modules and 1 names"):
        StagedModel.from_modules(modules, torch.randn(3, 4), names=["up"])


@pytest.mark.parametrize(
    ("modules", "example", "message"),
    [
        ([], None, "no modules"),
        ([len], [1.0], "not a tensor"),
        ([nn.Linear(4, 4)], torch.zeros(2, 4), "training mode"),
    ],
)
def test_lists_that_are_no_model_are_refused(modules, example, message):
    with pytest.raises(BadModel, match=message):
        StagedModel.from_modules(modules, example)
