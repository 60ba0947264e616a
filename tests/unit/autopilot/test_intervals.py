"""Intervals of paired log ratios: by hand for few values, against the definition, and by how often they hold."""

import itertools
import random

import pytest

from codedag.autopilot.judge.intervals import bounds, critical, few_bounds, median, rank_sum, sign


def test_median():
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5


@pytest.mark.parametrize("n", [4, 6, 9])
def test_critical_value_is_counted(n):
    sums = [sum(rank for rank, sign in enumerate(signs, 1) if sign) for signs in itertools.product((0, 1), repeat=n)]
    limit = critical(n, 0.05)
    assert limit == max((at for at in range(99) if sum(s <= at for s in sums) <= 0.025 * 2**n), default=-1)


def test_rank_sum_shares_the_ranks_of_ties():
    assert rank_sum([-1.0, 1.0, 2.0, -3.0], 0.0) == 1.5 + 3
    assert rank_sum([5.0, 6.0, 7.0], 0.0) == 6


@pytest.mark.parametrize("n", [6, 7, 12, 30])
def test_bounds_are_walsh_averages(n):
    values = [random.Random(n + at).gauss(0.3, 1) for at in range(n)]
    walsh = sorted((a + b) / 2 for at, a in enumerate(values) for b in values[at:])
    low, middle, high = bounds(values, 0.05)
    limit = int(critical(n, 0.05))
    assert low == pytest.approx(walsh[limit], abs=1e-5)
    assert high == pytest.approx(walsh[-limit - 1], abs=1e-5)
    assert middle == pytest.approx(median(walsh), abs=0.05)


def test_too_few_values_have_no_bounds():
    assert bounds([0.1] * 5, 0.05) is None
    assert bounds([0.1] * 6, 0.05) == pytest.approx((0.1, 0.1, 0.1))


@pytest.mark.parametrize("n", [6, 20, 60])
def test_intervals_hold_for_heavy_tails(n):
    draw, held = random.Random(n), 0
    for _ in range(200):
        values = [0.1 + draw.choice((-1, 1)) * draw.paretovariate(1.2) * 0.01 for _ in range(n)]
        low, _, high = bounds(values, 0.05)
        held += low <= 0.1 <= high
    assert held >= 182  # 190 are expected


@pytest.mark.parametrize("n", [5, 7, 20, 50])
def test_the_sign_is_that_of_the_bounds(n):
    for seed in range(60):
        values = [random.Random(1000 * seed + at).gauss(0.02 * (seed - 30), 0.3) for at in range(n)]
        found = bounds(values, 0.05)
        expected = 0 if found is None or found[0] <= 0 <= found[2] else 1 if found[0] > 0 else -1
        assert sign(values, 0.05) == expected


@pytest.mark.parametrize("n", [4, 5])
def test_few_values_are_bounded_by_student(n):
    draw, held = random.Random(n), 0
    for _ in range(400):
        low, _, high = few_bounds([draw.gauss(0.1, 1) for _ in range(n)])
        held += low <= 0.1 <= high
    assert 365 <= held <= 395  # 380 are expected
    assert few_bounds([0.1] * 3) is None
    assert few_bounds([0.1] * 6) is None
