"""The substitutions from librosa against their originals: an accepted call is bit-equal, any other has a reason."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

pytest.importorskip("librosa")

from codedag.backends.proof import prove
from codedag.backends.registry import EXACT, all_substitutions, attempt, find
from codedag.backends.same import same

pytestmark = pytest.mark.filterwarnings("ignore")  # originals may warn about odd calls; the tests compare results
FILES = ("librosa_",)
ALL = sorted({made.source for made in all_substitutions() if made.module.rpartition(".")[2] in FILES})


def of(name):
    (found,) = find(name)
    return found


def noise(shape=(100, 120), dtype="uint8", high=256, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


def reason(name, *args, **kwargs):
    verdict = of(name).accepts(args, kwargs)
    return "" if verdict else verdict.reason


def check(name, *args, **kwargs):
    """Runs an accepted call through both and wants the same result and untouched arguments."""
    made = of(name)
    verdict = made.accepts(args, kwargs)
    assert verdict, verdict
    before = [arg.tobytes() if isinstance(arg, np.ndarray) else arg for arg in args]
    result = made.run(*args, **kwargs)
    verdict = same(made.original()(*args, **kwargs), result)
    assert verdict, verdict
    assert before == [arg.tobytes() if isinstance(arg, np.ndarray) else arg for arg in args]


def test_there_are_substitutions():
    assert len(ALL) == 4


@pytest.mark.parametrize("name", ALL)
def test_random_calls(name, seed):
    proof = prove(of(name), calls=80, seed=seed)
    assert proof.verdict, proof
    assert proof.accepted >= 80 // 4


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_many_random_calls(name, seed):
    proof = prove(of(name), calls=500, seed=seed + 1)
    assert proof.verdict, proof


@pytest.mark.parametrize("name", ALL)
def test_half_of_the_valid_calls_are_accepted(name):
    made, valid, accepted = of(name), 0, 0
    for number in range(150):
        call = made.random_call(random.Random(number))
        if made.accepts(call.args, call.kwargs):
            valid, accepted = valid + 1, accepted + 1
        elif attempt(made.original(), *call.args, **call.kwargs).error is None:
            valid += 1
    assert accepted >= valid // 2
    assert valid >= 60


@pytest.mark.parametrize("name", ALL)
def test_accepted_calls_warn_only_if_the_original_does(name):
    made = of(name)
    for number in range(60):
        call = made.random_call(random.Random(number))
        if made.accepts(call.args, call.kwargs):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                expected = attempt(made.original(), *call.args, **call.kwargs)
                got = attempt(made.run, *call.args, **call.kwargs)
            assert type(expected.error) is type(got.error), (expected.error, got.error)


@pytest.mark.parametrize("name", ALL)
def test_facts(name):
    made = of(name)
    assert (made.equivalence, made.pu) == (EXACT, "cpu")
    assert made.available()
    assert callable(made.original())


SOUND = np.random.default_rng(0).standard_normal(22050).astype(np.float32)


def test_banks_are_copies():
    made = of("librosa.filters.mel")
    first = made.run(sr=22050, n_fft=2048, n_mels=40)
    first[:] = 7
    assert same(made.original()(sr=22050, n_fft=2048, n_mels=40), made.run(sr=22050, n_fft=2048, n_mels=40))
    for options in ({}, {"n_mels": 40}, {"htk": True, "n_mels": 40}, {"norm": None}, {"fmax": 8000}):
        check("librosa.filters.mel", sr=22050, n_fft=2048, **options)
        check("librosa.filters.mel", sr=22050.0, n_fft=2048, **options)


def test_banks_with_empty_filters_are_left_to_librosa():
    with pytest.warns(UserWarning, match="Empty filters"):
        of("librosa.filters.mel").original()(sr=22050, n_fft=512, n_mels=300)
    assert "empty" in reason("librosa.filters.mel", sr=22050, n_fft=512, n_mels=300)
    assert "plain" in reason("librosa.filters.mel", sr="a", n_fft=512)
    assert "norm" in reason("librosa.filters.mel", sr=22050, n_fft=2048, norm=1)
    assert "range" in reason("librosa.filters.mel", sr=22050, n_fft=2048, fmax=20000)


def test_spectrograms():
    for options in ({}, {"n_mels": 40}, {"hop_length": 160, "n_fft": 1024, "n_mels": 40}, {"power": 1.0}):
        check("librosa.feature.melspectrogram", y=SOUND, **options)
    check("librosa.feature.melspectrogram", y=SOUND.astype(np.float64))
    assert "finite" in reason("librosa.feature.melspectrogram", y=np.where(SOUND > 3, np.nan, SOUND))
    assert "channel" in reason("librosa.feature.melspectrogram", y=np.stack([SOUND, SOUND]))
    assert "too long" in reason("librosa.feature.melspectrogram", y=np.zeros(200_000, np.float32))
    assert "longer" in reason("librosa.feature.melspectrogram", y=SOUND[:4000], n_fft=4096)
    assert "spectrogram" in reason("librosa.feature.melspectrogram", y=SOUND, S=np.ones((1025, 9)))


def test_emphasis():
    for coefficient in (0.97, 0.5, 1, 1e-3):
        check("librosa.effects.preemphasis", SOUND, coef=coefficient)
        check("librosa.effects.preemphasis", SOUND.astype(np.float64), coef=coefficient)
    zeros = np.where(SOUND > 0, np.float32(0), np.float32(-0.0))
    check("librosa.effects.preemphasis", zeros)
    for value in (np.nan, np.inf, -np.inf, 1e35):
        odd = SOUND.copy()
        odd[7] = value
        assert "finite" in reason("librosa.effects.preemphasis", odd)
    assert "state" in reason("librosa.effects.preemphasis", SOUND, return_zf=True)


def test_windows_are_copies():
    made = of("librosa.filters.get_window")
    made.run("hann", 64)[:] = 7
    assert same(made.original()("hann", 64), made.run("hann", 64))
    assert "by name" in reason("librosa.filters.get_window", np.hanning(64), 64)
