"""Drop-in modules: the same signature and results, the original wherever the fast way does not fit."""

import copy
import inspect
import pickle

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

from codedag.stages import optimise  # noqa: E402
from codedag.stages.execution import dropin  # noqa: E402
from codedag.stages.model import BadInput  # noqa: E402


class Net(torch.nn.Module):
    """Two layers with a skip; a second argument that is no tensor."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x, scale=1.0):
        return self.last(self.drop(torch.relu(self.first(x))) + x) * scale


class Nested(torch.nn.Module):
    """Keyword arguments, and results in a dict."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, *, left, right):
        both = self.linear(left) + right
        return {"sum": both, "parts": (both * 2, torch.relu(both))}


@pytest.fixture(autouse=True)
def always_faster(monkeypatch):
    """No test depends on a clock."""
    monkeypatch.setattr(
        dropin._Preparation, "_timed", lambda self, fast: {"original_seconds": 2.0, "seconds": 1.0, "gain": 2.0}
    )


@pytest.fixture(scope="module", params=["ov:cpu", "ort:cpu"])
def made(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            dropin._Preparation, "_timed", lambda self, fast: {"original_seconds": 2.0, "seconds": 1.0, "gain": 2.0}
        )
        torch.manual_seed(0)
        module = Net().eval()
        return module, optimise(module, torch.randn(4, 6), pus=[request.param])


def near(got, expected):
    torch.testing.assert_close(got, expected.detach(), rtol=1e-4, atol=1e-5)


def test_a_drop_in_is_the_module_for_its_users(made):
    module, fast = made
    assert fast.restore() is module
    assert isinstance(fast, torch.nn.Module)
    assert inspect.signature(fast.forward) == inspect.signature(module.forward)
    assert list(fast.state_dict()) == list(module.state_dict())
    assert all(a is b for a, b in zip(fast.parameters(), module.parameters(), strict=True))
    assert fast.first is module.first
    assert not fast.training
    assert " on " in fast.facts["uses"], fast.report()
    assert "2.00 times as fast" in fast.report()


def test_results_are_the_modules_and_fresh(made):
    module, fast = made
    one, two = torch.randn(4, 6), torch.randn(4, 6)
    first, second = fast(one), fast(two)
    near(first, module(one))
    near(second, module(two))
    assert first.data_ptr() != second.data_ptr()
    assert not first.requires_grad


def test_other_batches_are_compiled_and_verified(made):
    module, fast = made
    for count in (2, 7, 7):
        given = torch.randn(count, 6)
        near(fast(given), module(given))
    assert (torch.Size([7, 6]),) in fast._fast._runs


def test_inputs_that_are_not_contiguous(made):
    module, fast = made
    given = torch.randn(6, 4).T
    near(fast(given), module(given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda: torch.randn(4, 6, requires_grad=True), "requires gradients"),
        (lambda: torch.nn.Parameter(torch.randn(4, 6), requires_grad=False), "no plain tensor"),
    ],
)
def test_what_the_fast_way_does_not_take_runs_the_original(made, given, words):
    module, fast = made
    value = given()
    near(fast(value).detach(), module(value))
    assert any(words in reason for reason in fast.facts["original_calls"])
    assert words in fast.report()


def test_gradients_flow_through_the_original(made):
    _, fast = made
    value = torch.randn(4, 6, requires_grad=True)
    fast(value).sum().backward()
    assert value.grad is not None


def test_another_constant_argument_runs_the_original(made):
    module, fast = made
    value = torch.randn(4, 6)
    near(fast(value, 3.0), module(value, 3.0))
    near(fast(value, scale=3.0), module(value, scale=3.0))


def test_errors_are_the_modules_own(made):
    _, fast = made
    with pytest.raises(RuntimeError):
        fast(torch.randn(4, 5))
    with pytest.raises(TypeError):
        fast()


def test_copies_and_pickles_are_of_the_module(made):
    module, fast = made
    assert type(copy.deepcopy(fast)) is Net
    assert type(pickle.loads(pickle.dumps(fast))) is Net
    assert copy.deepcopy(fast) is not module


def test_training_changed_weights_and_moves_run_the_original():
    torch.manual_seed(0)
    module = Net().eval()
    fast = optimise(module, (torch.randn(4, 6),), pus=["ort:cpu"])
    value = torch.randn(4, 6)
    near(fast(value), module(value))
    fast.train()
    assert module.training
    fast(value)
    assert any("training mode" in reason for reason in fast.facts["original_calls"])
    fast.eval()
    with torch.no_grad():
        module.last.bias.add_(1)
    near(fast(value), module(value))
    assert any("weights have changed" in reason for reason in fast.facts["original_calls"])
    fast.double()
    assert fast(value.double()).dtype is torch.float64
    assert fast.facts["uses"] == "original"


def test_nested_arguments_and_results():
    torch.manual_seed(0)
    module = Nested().eval()
    example = {"left": torch.randn(3, 4), "right": torch.randn(3, 4)}
    fast = optimise(module, example, pus=["ort:cpu"])
    got, expected = fast(**example), module(**example)
    assert got.keys() == expected.keys()
    near(got["sum"], expected["sum"])
    near(got["parts"][1], expected["parts"][1])
    assert not fast.facts["original_calls"], fast.report()


def test_an_input_that_is_a_result_is_handed_on():
    class Same(torch.nn.Module):
        def forward(self, x, y):
            return x, y + 1, x

    given = (torch.ones(2, 3), torch.ones(2, 3))
    made = optimise(Same().eval(), given, pus=["ort:cpu"])
    assert made.report().startswith("uses 1 on ort:cpu")
    first, changed, again = made(*given)
    assert first is given[0]
    assert again is given[0]
    assert torch.equal(changed, given[1] + 1)


def test_a_module_that_cannot_be_exported_stays_as_it_is():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x - 1

    module = Odd().eval()
    fast = optimise(module, torch.ones(3), pus=["ort:cpu"])
    assert fast.facts["uses"] == "original"
    assert fast.facts["reason"]
    assert torch.equal(fast(torch.ones(3)), torch.full((3,), 2.0))
    assert torch.equal(fast(-torch.ones(3)), torch.full((3,), -2.0))


def test_a_slower_plan_is_not_used(monkeypatch):
    monkeypatch.setattr(
        dropin._Preparation, "_timed", lambda self, fast: {"original_seconds": 1.0, "seconds": 2.0, "gain": 0.5}
    )
    module = Nested().eval()
    fast = optimise(module, {"left": torch.randn(3, 4), "right": torch.randn(3, 4)}, pus=["ort:cpu"])
    assert fast.facts["uses"] == "original"
    assert "not faster" in fast.report()


def test_unknown_permissions_are_refused():
    with pytest.raises(BadInput, match="int4"):
        optimise(Net().eval(), torch.randn(4, 6), allow=("int4",))


def test_plans_for_several_pus_go_through_their_processes():
    from small_sage import exported, plan, small

    from codedag.stages.execution.execute import Executor
    from codedag.stages.reference import draw

    with Executor(small(), exported()) as executor:
        run = dropin._executed(executor, plan((1, 5, "ort:cpu"), (6, 7, "ov:cpu")), None, {"nodes": 9, "edges": 20})
        for seed in (0, 1):
            given = draw(small(), {"nodes": 9, "edges": 20}, seed)
            got = run([torch.from_numpy(given[name]) for name in small().inputs])
            near(got["out"], torch.from_numpy(small().reference.outputs(given)["out"]))


def test_int8_that_cannot_be_used_is_said():
    module = torch.nn.Linear(4, 2).eval()
    made = optimise(module, (torch.randn(3, 4),), allow=("int8",), budget=5, pus=["ort:cpu"])
    assert "int8 is not used: it needs calibration=" in made.report()


def test_int8_is_calibrated_and_stays_within_its_error():
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)
    module = torch.nn.Sequential(*layers).eval()
    data = torch.randn(32, 64)
    made = optimise(module, data[:8], ("int8",), budget=10, pus=["ort:cpu"], calibration=data, max_error=0.2)
    assert 0 < made.facts["int8_errors"]["ort:cpu"] <= 0.2, made.report()
    expected = module(data).detach()
    assert float((made(data) - expected).abs().max()) <= 0.2 * float(expected.abs().max())
    assert not any("int8 is not used" in note for note in made.facts.get("notes", ()))


@pytest.mark.parametrize(("allow", "error"), [(("int8",), None), ((), 0.1), (("int8",), 1.5)])
def test_a_calibration_needs_its_other_options(allow, error):
    with pytest.raises(BadInput, match="calibration= needs"):
        optimise(Net().eval(), torch.randn(4, 6), allow, calibration=torch.randn(8, 6), max_error=error)


def test_replaced_weights_and_autocast_run_the_module_itself():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    x = torch.randn(3, 4)
    fast = optimise(module, (x,), budget=5, pus=["ort:cpu"])
    with torch.autocast("cpu"), torch.no_grad():
        assert fast(x).dtype == module(x).dtype == torch.bfloat16
    module[0].load_state_dict({"weight": torch.zeros(4, 4), "bias": torch.ones(4)}, assign=True)
    assert torch.equal(fast(x), torch.ones(3, 4))
    module[0] = torch.nn.Linear(4, 4).eval()
    assert torch.equal(fast(x), module(x))
