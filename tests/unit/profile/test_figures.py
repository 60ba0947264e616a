"""What batches say: undisturbed ones count, intervals hold, ties are called."""

from __future__ import annotations

import random

from codedag.profile.figures import Batches, are_tied, interval


def batches(seconds, clean=None):
    return Batches(list(seconds), list(clean or [True] * len(seconds)), [0.0] * len(seconds))


def test_disturbed_batches_do_not_count_where_enough_others_are():
    found = batches([1.0] * 6 + [9.0] * 20, [True] * 6 + [False] * 20).figures()
    assert (found.median, found.high, found.rounds, found.clean) == (1.0, 1.0, 26, 6)


def test_where_all_were_disturbed_the_fastest_quarter_counts():
    assert batches([1.0, 2.0, 3.0, 9.0, 4.0, 4.0, 5.0, 5.0], [False] * 8).figures().high == 2.0


def test_a_busy_machine_is_waited_for_but_not_for_ever():
    assert batches([1.0] * 6).figures().tight
    assert not batches([1.0] * 30, [False] * 30).figures().tight
    assert batches([1.0] * 40, [False] * 40).figures().tight


def test_the_interval_holds_the_median_in_about_95_of_100_cases(seed):
    rng = random.Random(seed)
    inside = 0
    for _ in range(400):
        low, high = interval(sorted(rng.lognormvariate(0, 0.3) for _ in range(30)))
        inside += low <= 1.0 <= high
    assert 360 <= inside <= 400


def test_a_clear_winner_is_no_tie_whatever_both_do_together():
    """Load that slows both at once: the figures overlap, and each pair still tells them apart."""
    load = [1, 5, 2, 9, 1, 3, 4, 1, 6, 2, 8, 1]
    fast, slow = batches([0.9 * each for each in load]), batches([1.1 * each for each in load])
    assert fast.figures().high > slow.figures().low
    assert not are_tied(fast, slow)
    assert not are_tied(slow, fast)


def test_what_differs_by_a_little_is_a_tie():
    one = batches([1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0])
    assert are_tied(one, batches([1.03] * 7))
    assert not are_tied(one, batches([1.2] * 7))
