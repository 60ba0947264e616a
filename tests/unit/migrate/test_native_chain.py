"""Native chains: taken when only numbers vary, left when anything else does, not where a warning could raise."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "property"))
from chain_runs import NeverDue, fused_module, plain_module

from codedag.backends.same import same
from codedag.migrate.fuse import native_chain
from codedag.migrate.fuse.chain import Chain

SOURCE = """
import numpy as np
import torch

MEAN = np.array([0.485, 0.456, 0.406])

def f(image, scale, shift, mean=MEAN):
    image = np.clip(image.astype(np.float32) * scale + shift, 0, 255)
    image = (image / 255.0 - mean) / 0.25
    return torch.from_numpy(image.transpose(2, 0, 1)).float()
"""


pytestmark = pytest.mark.skipif(native_chain.native is None, reason="without the extension")


@pytest.fixture
def image():
    return np.random.default_rng(2).integers(0, 256, (40, 50, 3), dtype=np.uint8)


@pytest.fixture
def counted(monkeypatch):
    """Counts results of the extension: the trial is asked from there, or from `_finish`."""
    counts = {"native": 0}
    due, finish = NeverDue.due, Chain._finish

    def count(self):
        counts["native"] += 1
        return due(self)

    def analysed(self, *args):
        before = counts["native"]
        result = finish(self, *args)
        counts["native"] = before
        return result

    monkeypatch.setattr(NeverDue, "due", count)
    monkeypatch.setattr(Chain, "_finish", analysed)
    return counts


@pytest.fixture
def modules(image):
    def warm(module):
        for _ in range(3):
            module.f(image.copy(), 1.5, 2.5)

    return plain_module(SOURCE), fused_module(SOURCE, warm)


@pytest.fixture(autouse=True)
def warnings_stay_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


def _agree(modules, *arguments):
    plain, fused = modules
    assert same(plain.f(*arguments), fused.module.f(*arguments))


def test_varying_numbers_need_no_new_analysis(modules, image, counted):
    for scale, shift in [(1.5, 2.5), (0.9, -3.0), (1.1, 0.0), (1.1, -0.0), (1e-30, 7.0), (0.0, 0.0)]:
        _agree(modules, image, scale, shift)
    assert counted["native"] >= 5


def test_contents_of_an_array_parameter_may_change(modules, image, counted):
    mean = np.array([0.1, 0.2, 0.3])
    _agree(modules, image, 1.0, 2.0, mean)
    for value in (0.4, 0.5):
        mean[1] = value
        _agree(modules, image, 1.0, 2.0, mean)
    assert counted["native"] >= 2


@pytest.mark.parametrize(
    "arguments",
    [
        (2, 2.0),
        (1.5, np.float32(2)),
        (1.5, 2.5, np.zeros(3, np.float32)),
        (1.5, 2.5, 0.5),
        (True, 1.0),
        (float("nan"), 1.0),
    ],
)
def test_other_parameters_are_analysed_anew(modules, image, counted, arguments):
    _agree(modules, image, 1.5, 2.5)
    _agree(modules, image, 0.7, 2.5)
    before = counted["native"]
    assert before >= 1
    _agree(modules, image, *arguments)
    _agree(modules, image, 0.6, 1.5)
    assert counted["native"] >= before


def test_another_layout_of_the_input_is_analysed_once(modules, image, counted):
    for view in (image, image[:, ::-1], image[::-1], image[2:, 3:], np.asfortranarray(image)):
        for scale in (1.1, 1.2, 1.3):
            _agree(modules, view, scale, 2.0)
    assert counted["native"] >= 8


def test_an_overflow_warns_as_written_and_gives_the_same(modules, image):
    plain, fused = modules
    _agree(modules, image, 1.5, 2.5)
    seen = []
    for module in (plain, fused.module):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = module.f(image, 3e38, 2.5)
        seen.append((result, [(w.category, str(w.message)) for w in caught]))
    assert same(seen[0][0], seen[1][0])
    assert seen[0][1] == seen[1][1] != []
    assert fused.chains[0].trial.active  # one call that warns is no reason to take the change back
    assert any("overflow" in reason for reason in fused.chains[0].trial.declined)


def test_nothing_native_is_used_where_a_warning_would_raise(modules, image, counted):
    _agree(modules, image, 1.5, 2.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _agree(modules, image, 1.4, 2.5)
    with np.errstate(over="raise"):
        _agree(modules, image, 1.3, 2.5)
    assert counted["native"] <= 1


def test_a_wrong_parameter_raises_what_the_original_raises(modules, image):
    plain, fused = modules
    _agree(modules, image, 1.5, 2.5)
    _agree(modules, image, 1.6, 2.5)
    for arguments in [(image, 1.5, 2.5, np.zeros(4)), (image, "a", 1.0), (image, 1.5, None)]:
        with pytest.raises(Exception) as expected:
            plain.f(*arguments)
        with pytest.raises(type(expected.value)) as got:
            fused.module.f(*arguments)
        assert str(got.value) == str(expected.value)
        assert (
            got.traceback[-1].name == expected.traceback[-1].name
            or got.traceback[1].lineno == expected.traceback[1].lineno
        )
    _agree(modules, image, 1.5, 2.5)


SWAPPED = """
import numpy as np

def f(left, right):
    x = left - right
    return (x * 0.5).astype(np.float32)
"""


def test_operands_that_change_places_are_told_apart(image):
    def warm(module):
        for _ in range(3):
            module.f(image.copy(), 5.0)

    both = plain_module(SWAPPED), fused_module(SWAPPED, warm)
    for _ in range(3):
        _agree(both, image, 5.0)
        _agree(both, 5.0, image)
        _agree(both, 6.0, image)
        _agree(both, image, 6.0)


TENSORS = """
import torch

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

def f(image, mean=MEAN, std=STD):
    tensor = torch.from_numpy(image).permute(2, 0, 1).float() / 255.0
    return (tensor - mean) / std
"""


@pytest.fixture
def with_tensors(image):
    def warm(module):
        for _ in range(3):
            module.f(image.copy())

    return plain_module(TENSORS), fused_module(TENSORS, warm)


def test_contents_of_a_tensor_parameter_may_change(with_tensors, image):
    torch = pytest.importorskip("torch")
    mean = torch.full((3, 1, 1), 0.5)
    for value in (0.5, 0.25, -0.0, 0.5):
        mean[1] = value  # in place: it is the same tensor
        _agree(with_tensors, image, mean)
    _agree(with_tensors, image, mean.clone(), torch.full((3, 1, 1), 2.0))


@pytest.mark.parametrize("kind", ["double", "two axes", "one", "learned", "transposed", "zero"])
def test_other_tensors_are_analysed(with_tensors, image, kind):
    torch = pytest.importorskip("torch")
    mean = {
        "double": lambda: torch.full((3, 1, 1), 0.5, dtype=torch.float64),
        "two axes": lambda: torch.rand(3, 40, 1),
        "one": lambda: torch.tensor(0.5),
        "learned": lambda: torch.full((3, 1, 1), 0.5, requires_grad=True),
        "transposed": lambda: torch.rand(1, 6, 3).transpose(0, 2)[:, ::6],
        "zero": lambda: torch.zeros(3, 1, 1),
    }[kind]()
    plain, fused = with_tensors
    for _ in range(3):
        expected, got = plain.f(image, mean), fused.module.f(image, mean)
        assert expected.requires_grad is got.requires_grad is (kind == "learned")
        assert same(expected.detach(), got.detach())
    _agree(with_tensors, image)
