"""The substitutions from librosa against their originals: an accepted call is bit-equal, any other has a reason."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("librosa")

from substitution_checks import check, of, reason

from codedag.backends import frames
from codedag.backends.registry import ULP, find
from codedag.backends.same import same

pytestmark = pytest.mark.filterwarnings("ignore")  # originals may warn about odd calls; the tests compare results

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
    assert "too long" in reason("librosa.feature.melspectrogram", y=np.zeros((1 << 20) + 1, np.float32))
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


def test_a_lifter_for_more_coefficients_than_filters_runs_as_written():
    sound = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    options = {"y": sound, "n_mels": 10, "n_mfcc": 13}
    assert "lifter" in reason("librosa.feature.mfcc", **options, lifter=22)  # librosa raises
    check("librosa.feature.mfcc", **options)


def test_spectra_are_the_same_where_scipy_cannot_transform_into_given_memory(monkeypatch):
    (single,) = (made for made in find("librosa.stft", "cpu") if made.equivalence is ULP)
    for sound in (SOUND, SOUND.astype(np.float64)):
        for options in ({}, {"n_fft": 512, "hop_length": 100}, {"n_fft": 64}):
            fast = single.run(sound, **options)
            with monkeypatch.context() as patched:
                patched.setattr(frames, "into_place", lambda: None)
                assert same(single.run(sound, **options), fast)


def test_a_scipy_of_another_form_is_noticed(monkeypatch):
    def wrong(values, into):
        into[...] = 1

    def gone(values, into):
        raise AttributeError("r2c")

    for other in (wrong, gone):
        monkeypatch.setattr(frames, "_by_scipy", other)
        assert frames.into_place.__wrapped__() is None
