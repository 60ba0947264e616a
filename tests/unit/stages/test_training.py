"""Simulated training steps: the known bubbles of GPipe and 1F1B."""

from __future__ import annotations

import itertools

import pytest

from codedag.stages.planning.training import GPIPE, ONE_F_ONE_B, SCHEDULES, training_step


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("blocks", "batches"), [(1, 1), (2, 1), (2, 8), (4, 4), (4, 16), (3, 2)])
def test_even_blocks_have_the_textbook_bubble(schedule, blocks, batches):
    step = training_step(schedule, [1.0] * blocks, batches)
    assert step.seconds == pytest.approx((batches + blocks - 1) * 3.0)
    assert step.bubble == pytest.approx((blocks - 1) / (batches + blocks - 1))


def test_1f1b_keeps_fewer_activations():
    assert training_step(GPIPE, [1.0] * 4, 16).kept == (16, 16, 16, 16)
    assert training_step(ONE_F_ONE_B, [1.0] * 4, 16).kept == (4, 3, 2, 1)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_passes_respect_their_inputs_and_their_pu(schedule):
    step = training_step(schedule, [1.0, 2.5, 0.5], 6)
    ends = {(one.block, one.batch, one.forward): one.end for one in step.passes}
    for one in step.passes:
        if one.forward and one.block:
            assert one.start >= ends[one.block - 1, one.batch, True]
        if not one.forward:
            assert one.start >= ends[one.block, one.batch, True]
        if not one.forward and one.block < 2:
            assert one.start >= ends[one.block + 1, one.batch, False]
    for block in range(3):
        own = sorted((one.start, one.end) for one in step.passes if one.block == block)
        assert all(a[1] <= b[0] + 1e-12 for a, b in itertools.pairwise(own))
    assert step.seconds >= 6 * 7.5, "the slowest block does all its passes"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_blocks_on_one_resource_do_one_pass_at_a_time(schedule):
    step = training_step(schedule, [1.0, 2.0], 4, [frozenset("h"), frozenset("h")])
    assert step.seconds == pytest.approx(4 * 9.0)
