"""Predictions of sizes that were left out: errors, order, choices, intervals and refusals."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import stage_tables
from stage_tables import SEED15

from codedag.ir import No
from codedag.stages.planning.lookup import Estimate, SizeModel

NAMES = ("nodes", "edges")


def left_out(noise: float, seed: int):
    """(predicted, measured) of every cell, each by a model that has not seen it."""
    rows: dict[tuple[str, int], dict[tuple[int, int], float]] = {}
    for key, row in stage_tables.lookup(noise=noise, seed=seed).items():
        nodes, edges, pu, stage = key.split(",")
        rows.setdefault((pu, int(stage)), {})[int(nodes), int(edges)] = row["compute_time_ms"] / 1e3
    found = {}
    for (pu, stage), cells in rows.items():
        for size, seconds in cells.items():
            others = [one for one in cells if one != size]
            found[pu, stage, size] = SizeModel(NAMES, others, [cells[one] for one in others]).at(size), seconds
    return found


def rank_correlation(pairs):
    one, other = (np.argsort(np.argsort([pair[at] for pair in pairs])) for at in (0, 1))
    return float(np.corrcoef(one, other)[0, 1])


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_left_out_sizes_are_predicted_well_enough_to_choose(noise):
    found = left_out(noise, seed=3)
    errors = [abs(told / seconds - 1) for told, seconds in found.values()]
    assert np.mean(errors) <= 0.12
    assert rank_correlation([(float(told), seconds) for told, seconds in found.values()]) >= 0.985
    inside = np.mean([told.low <= seconds <= told.high for told, seconds in found.values()])
    assert inside >= 0.9
    chosen = best = 0.0
    for stage in range(1, 8):
        for size in SEED15:
            able = {pu: found[pu, stage, size] for pu in ("CPU", "torch:cpu", "ort:cpu", "GPU")}
            chosen += able[min(able, key=lambda pu: able[pu][0])][1]
            best += min(seconds for _, seconds in able.values())
    assert chosen / best - 1 <= 0.04


def test_sizes_beyond_twice_what_was_measured_are_refused():
    model = SizeModel(NAMES, SEED15, [1e-9 * n * e for n, e in SEED15])
    for size in ((21_000, 10_000), (10_000, 20_001), (499, 1000)):
        told = model.at(size)
        assert isinstance(told, No)
        assert "beyond 2x" in told.reason
    assert isinstance(model.at((20_000, 20_000)), Estimate)
    assert isinstance(model.at((500, 500)), Estimate)


def test_predictions_are_never_negative_and_follow_the_line():
    sizes = [(n, e) for n in (10, 20, 40, 80) for e in (100, 200, 400)]
    model = SizeModel(NAMES, sizes, [1e-3 + 2e-5 * n for n, _ in sizes])
    assert model.at((60, 150)) == pytest.approx(2.2e-3, rel=0.03)
    falling = SizeModel(("batch",), [(1,), (2,), (4,), (8,)], [8.0, 4.0, 2.0, 1.0])
    assert all(falling.at((n,)) > 0 for n in range(1, 17))


def test_the_interval_contains_the_prediction_and_widens_far_away():
    seconds = [1e-3 + 1e-8 * n * (1 + 0.1 * (n % 3000 == 0)) for n, _ in SEED15]
    model = SizeModel(NAMES, SEED15, seconds)
    near, far = model.at((2000, 2100)), model.at((18_000, 18_000))
    assert near.low < near < near.high
    assert log(far.high / far.low) > log(near.high / near.low)


def test_noisy_rows_count_less():
    sizes, seconds = [(n,) for n in (1, 2, 3, 4, 5, 6)], [1.0, 2.0, 3.0, 4.0, 15.0, 6.0]
    told = SizeModel(("batch",), sizes, seconds, [0.0, 0.0, 0.0, 0.0, 2.0, 0.0]).at((5,))
    assert told == pytest.approx(5.0, rel=0.1)


def test_rows_of_zero_seconds_predict_zero():
    assert SizeModel(("batch",), [(1,), (2,), (4,)], [0.0, 0.0, 0.0]).at((3,)) == 0.0
    some = SizeModel(("batch",), [(1,), (2,), (4,)], [0.0, 1e-3, 2e-3]).at((3,))
    assert 0 < some < 2e-3


def test_two_sizes_are_joined():
    model = SizeModel(("batch",), [(10,), (20,)], [1.0, 1.5])
    assert model.at((15,)) == pytest.approx(1.25, rel=0.02)
    assert model.is_fitted


def test_many_sizes_are_predicted_as_one_by_one():
    model = SizeModel(NAMES, SEED15, [1e-6 * n + 2e-7 * e for n, e in SEED15])
    sizes = [(1500, 2500), (9000, 9000), (30_000, 1000)]
    told = model.many(np.array(sizes, dtype=float))
    assert told[:2].tolist() == pytest.approx([float(model.at(one)) for one in sizes[:2]])
    assert np.isnan(told[2])
