"""The product of a bank of filters in parts has the bits of numpy's own product, and is left to it where it has not."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("codedag.backends._pixels")

from codedag.backends import _pixels
from codedag.backends import matrix_parts as parts
from codedag.backends.same import same


@pytest.fixture(autouse=True)
def order(monkeypatch):
    made = parts.Order()
    monkeypatch.setattr(parts, "_order", made)
    monkeypatch.setattr(parts, "_bounds", {})
    return made


def bank_of(rng, filters, bins):
    bank = np.zeros((filters, bins), np.float32)
    for row in bank:
        first = rng.randrange(bins)
        row[first : first + rng.randint(0, 12)] = rng.random()
    return bank


def spectrogram(frames, bins, seed=0):
    return (np.random.default_rng(seed).random((frames, bins), np.float32) ** 8).T


def in_parts(*ends):
    """A product that sums up in the given parts, one product after the other."""

    def multiply(strength, bank):
        total, start = np.zeros((len(bank), strength.shape[1]), np.float32), 0
        for end in ends:
            part = np.zeros_like(total)
            for k in range(start, end):
                part = (part.astype(np.float64) + np.multiply.outer(bank[:, k], strength[k])).astype(np.float32)
            total, start = total + part, end
        return total

    return multiply


def test_the_bits_are_those_of_numpy(seed):
    rng = random.Random(seed)
    for _ in range(12):
        filters, bins = rng.choice((1, 20, 40, 64, 128)), rng.choice((65, 201, 257, 513, 1025))
        strength, bank = spectrogram(rng.randint(1, 200), bins, seed), bank_of(rng, filters, bins)
        assert same(parts.whole(strength, bank), parts.product(strength, bank))


@pytest.mark.parametrize("ends", [(40,), (1, 40), (38, 40), (16, 40), (16, 28, 40), (16, 18, 40), (7, 9, 11, 30, 40)])
@pytest.mark.parametrize(("filters", "frames"), [(3, 2), (5, 9), (50, 1), (1, 30)])
def test_parts_are_found(ends, filters, frames, monkeypatch):
    monkeypatch.setattr(parts, "blas_threads", lambda: 3)
    found = parts.Order(in_parts(*ends)).parts(filters, 40, frames)
    if found is not None:  # without fused operations nothing is found
        assert found.tolist() == list(ends)
    assert parts.Order(in_parts(*ends))._ends(filters, 40, frames).tolist() == list(ends)


def test_a_last_part_of_one_is_not_seen_and_left_to_numpy(monkeypatch):
    monkeypatch.setattr(parts, "blas_threads", lambda: 3)
    assert parts.Order(in_parts(39, 40)).parts(20, 40, 30) is None


def test_another_order_of_sums_is_left_to_numpy(monkeypatch):
    monkeypatch.setattr(parts, "blas_threads", lambda: 1)
    for multiply in (
        lambda s, b: (b[:, ::-1].astype(np.float64) @ s[::-1]).astype(np.float32),
        lambda s, b: b * 1 @ s * 2,
    ):
        assert parts.Order(multiply).parts(20, 65, 10) is None


def test_a_library_that_is_not_known_is_not_asked(monkeypatch):
    monkeypatch.setattr(parts, "blas_threads", lambda: 0)
    assert parts.Order(lambda *_: pytest.fail("asked")).parts(20, 65, 10) is None
    strength, bank = spectrogram(30, 65), bank_of(random.Random(1), 20, 65)
    assert same(parts.whole(strength, bank), parts.product(strength, bank))


def test_numbers_of_frames_between_two_that_are_alike_are_not_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(parts, "blas_threads", lambda: 2)
    order = parts.Order()

    def answer(filters, bins, frames):
        asked.append(frames)
        return np.array([30 + (frames > 50), 65], np.int32) if frames > 5 else None

    monkeypatch.setattr(order, "_asked", answer)
    for frames in (20, 30, 12, 60, 100, 80, 45, 6):
        assert order.parts(20, 65, frames).tolist() == [30 + (frames > 50), 65]
    assert asked == [10, 40, 120, 60, 45, 3, 6]
    assert order.parts(20, 65, 4) is None


def test_no_more_than_some_sizes_are_asked_for(monkeypatch):
    monkeypatch.setattr(parts, "blas_threads", lambda: 2)
    order = parts.Order()
    monkeypatch.setattr(order, "_asked", lambda *sizes: None)
    for frames in range(1, 100):
        assert order.parts(20, 65, frames) is None
    assert len(order._known[20, 65, 2]) == parts.MOST


def test_sums_that_are_not_finite_are_left_to_numpy():
    strength, bank = spectrogram(40, 257).copy("F"), bank_of(random.Random(2), 40, 257)
    for odd in (np.inf, -np.inf, np.nan):
        strength[3, 5] = odd
        with np.errstate(invalid="ignore"):
            assert same(parts.whole(strength, bank), parts.product(strength, bank))


@pytest.mark.parametrize("place", [0, 3, 7, 8, 39, 40, 44])
def test_a_frame_that_is_not_finite_is_found_wherever_it_stands(place):
    for bins, frame in ((45, 0), (45, 17), (64, 39)):
        for odd in (np.inf, -np.inf, np.nan):
            frames, bank = np.ones((40, bins), np.float32), np.eye(20, bins, dtype=np.float32)
            assert parts.multiplied(frames, bank, parts.bounds_of(bank), np.array([bins], np.int32)) is not None
            frames[frame, place] = odd
            assert parts.multiplied(frames, bank, parts.bounds_of(bank), np.array([bins], np.int32)) is None


def test_where_weights_begin_and_end(seed):
    rng = random.Random(seed)
    for _ in range(60):
        bank = bank_of(rng, rng.randint(1, 9), rng.randint(1, 140))
        bank[0] *= rng.choice((1, 0, -1))  # which leaves zeros of the other sign
        filled = bank != 0
        expected = [(np.flatnonzero(row)[0], np.flatnonzero(row)[-1] + 1) if row.any() else (0, 0) for row in filled]
        bounds, between = parts.measured(bank)
        assert bounds.tolist() == [list(map(int, each)) for each in expected]
        assert between == sum(end - first for first, end in expected)


def test_the_threads_of_the_library_are_seen():
    limits = pytest.importorskip("threadpoolctl").threadpool_limits
    if not parts.blas_threads():
        pytest.skip("numpy's products are not made by OpenBLAS")
    with limits(1, "blas"):
        assert parts.blas_threads() == 1


def test_a_bank_that_does_not_fit_is_refused():
    frames, bank = np.ones((4, 8), np.float32), np.ones((2, 8), np.float32)
    bounds, ends, into = np.array([[0, 8], [0, 8]], np.int32), np.array([8], np.int32), np.empty((2, 4), np.float32)
    with pytest.raises(ValueError, match="are needed"):
        _pixels.bank(frames, bank, bounds, ends, into, 5, 8, 2, 1)
    for odd in ([0], [9], [8, 8], [7]):
        with pytest.raises(ValueError, match="beyond the bank"):
            _pixels.bank(frames, bank, bounds, np.array(odd, np.int32), into, 4, 8, 2, len(odd))
    with pytest.raises(ValueError, match="beyond the bank"):
        _pixels.bank(frames, bank, np.array([[0, 8], [0, 9]], np.int32), ends, into, 4, 8, 2, 1)
