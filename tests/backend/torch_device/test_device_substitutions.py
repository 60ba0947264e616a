"""Substitutions for an accelerator, run on the processor's tensors: as near as promised, and declined where none is."""

from __future__ import annotations

import random
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("cv2")

from codedag.backends.on_device import back, using
from codedag.backends.proof import prove
from codedag.backends.registry import EXACT, all_substitutions, attempt

pytestmark = pytest.mark.filterwarnings("ignore")  # originals may warn about odd calls; the tests compare results
SUBSTITUTIONS = {
    made.name: made for made in all_substitutions() if made.pu == "cuda" and find_spec(made.source.partition(".")[0])
}


@pytest.fixture
def device():
    with using("cpu"):
        yield


def test_there_are_substitutions():
    assert len(SUBSTITUTIONS) >= 20
    assert sum(made.equivalence is EXACT for made in SUBSTITUTIONS.values()) >= 12


@pytest.mark.parametrize("name", sorted(SUBSTITUTIONS))
def test_random_calls(name, seed, device):
    proof = prove(SUBSTITUTIONS[name], calls=60, seed=seed)
    assert proof.verdict, proof


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SUBSTITUTIONS))
def test_many_random_calls(name, seed, device):
    proof = prove(SUBSTITUTIONS[name], calls=1000, seed=seed + 1)
    assert proof.verdict, proof


@pytest.mark.parametrize("name", sorted(SUBSTITUTIONS))
def test_half_of_the_valid_calls_are_accepted(name, device):
    made, valid, accepted = SUBSTITUTIONS[name], 0, 0
    for number in range(100):
        call = made.random_call(random.Random(number))
        if made.accepts(call.args, call.kwargs):
            valid, accepted = valid + 1, accepted + 1
        elif attempt(made.original(), *call.args, **call.kwargs).error is None:
            valid += 1
    assert accepted >= valid // 2


def test_without_an_accelerator_calls_are_declined(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    verdict = SUBSTITUTIONS["cv2.resize -> torch"].accepts((np.zeros((20, 20, 3), np.uint8), (10, 10)), {})
    assert not verdict
    assert "accelerator" in verdict.reason


def test_linear_resizing_is_bit_equal_for_exact_halves(device):
    made = SUBSTITUTIONS["cv2.resize -> torch"]
    picture = np.random.default_rng(0).integers(0, 256, (64, 48, 3)).astype(np.uint8)
    for size in ((24, 32), (96, 128), (47, 3)):
        assert np.array_equal(made.run(picture, size), made.original()(picture, size))


def test_results_are_fresh_arrays(device):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6)
    fresh = back(tensor)
    fresh[0] = 9
    assert tensor[0] == 0
    assert fresh.flags.owndata


def test_filters_finer_than_the_sound_are_declined(device):
    made = SUBSTITUTIONS["librosa.feature.melspectrogram -> torch"]
    sound = np.random.default_rng(3).standard_normal(5721).astype(np.float32)
    verdict = made.accepts((), {"y": sound, "dtype": np.float64})
    assert not verdict
    assert "finer" in verdict.reason
    assert made.accepts((), {"y": sound.astype(np.float64), "dtype": np.float32})
    assert prove(made, calls=120, seed=3200642).verdict


@pytest.mark.parametrize("channels", [None, 1, 2, 3, 4])
@pytest.mark.parametrize("block", [(2, 2), (2, 3), (4, 4)])
def test_blocks_are_rounded_as_cv2_does_for_so_many_channels(channels, block, device):
    resize = SUBSTITUTIONS["cv2.resize -> torch"]
    shape = (20 * block[0], 9 * block[1]) + (() if channels is None else (channels,))
    image = np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
    call = (image, (9, 20), None, 0, 0, 3)
    if resize.accepts(call, {}):
        assert np.array_equal(resize.run(*call), resize.original()(*call))
    else:
        assert channels == 1
