"""Schedules of loops, ranked by a model that has not seen the nest: against misses that a simulated cache counts."""

from __future__ import annotations

import functools
import itertools
import json
import math
import random
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from codedag.ir import BadFile
from codedag.tune import CostModel, Record
from codedag.tune.loops import (
    LINE,
    WAYS,
    Access,
    LoopNest,
    Schedule,
    Walk,
    features,
    fetched,
    fetched_lines,
    levels_of,
    priced,
)

CACHES = (1024, 4096)
ITEM = 32  # half of a line: what small nests touch is then more than a cache holds


def product(rows: int, inner: int, columns: int) -> LoopNest:
    """A product of matrices."""
    first, second = Access((inner, 1, 0), ITEM), Access((0, columns, 1), ITEM)
    return LoopNest((rows, inner, columns), (first, second, Access((columns, 0, 1), ITEM, written=True)))


def turned(rows: int, columns: int) -> LoopNest:
    """A matrix written along the other way."""
    return LoopNest((rows, columns), (Access((columns, 1), ITEM), Access((1, rows), ITEM, written=True)))


def blurred(rows: int, columns: int) -> LoopNest:
    """Sums of three by three neighbours."""
    wide = columns + 2
    read, made = Access((wide, 1, wide, 1), ITEM), Access((columns, 1, 0, 0), ITEM, written=True)
    return LoopNest((rows, columns, 3, 3), (read, made))


def schedules(nest: LoopNest, count: int, seed: int) -> list[Schedule]:
    draw, rank = random.Random(seed), len(nest.extents)
    found = set()
    while len(found) < count:
        tiles = tuple(draw.choice([t for t in (1, 2, 4, 8, 16, 32) if t < 2 * e]) for e in nest.extents)
        outer, inner = (tuple(draw.sample(range(rank), rank)) for _ in range(2))
        found.add(Schedule(tiles, outer, inner))
    return sorted(found, key=repr)


def visited(nest: LoopNest, schedule: Schedule) -> list[tuple[int, ...]]:
    """The iterations in the order of the schedule, by walking its loops."""
    levels, rank = levels_of(nest, schedule), len(nest.extents)
    found = []
    for turns in itertools.product(*(range(level.turns) for level in levels)):
        at = [0] * rank
        for level, turn in zip(levels, turns, strict=True):
            at[level.loop] += turn * level.step
        if all(one < extent for one, extent in zip(at, nest.extents, strict=True)):
            found.append(tuple(at))
    return found


@functools.cache
def touched(nest: LoopNest, schedule: Schedule) -> tuple[int, ...]:
    """The lines that the iterations touch, one after the other; no two arrays share one."""
    places = np.array(visited(nest, schedule)) @ np.array([access.strides for access in nest.accesses]).T
    lines = places * [access.itemsize for access in nest.accesses] // LINE
    return tuple((lines + np.arange(len(nest.accesses)) * 100_003).ravel().tolist())


@functools.cache
def misses(nest: LoopNest, schedule: Schedule, nbytes: int, ways: int = 0) -> int:
    """The lines that a cache brings which drops what was not used for longest, of all or of those that end alike."""
    sets = max(nbytes // LINE // ways, 1) if ways else 1
    kept: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(sets)]
    missed = 0
    for line in touched(nest, schedule):
        own = kept[line % sets]
        if line in own:
            own.move_to_end(line)
            continue
        missed += 1
        own[line] = None
        if len(own) > nbytes // LINE // sets:
            own.popitem(last=False)
    return missed


def records(nest: LoopNest, count: int, seed: int) -> list[Record]:
    """Schedules with what bringing their lines would take: ten times as much from memory as from the larger cache."""
    found = []
    for schedule in schedules(nest, count, seed):
        near, far = misses(nest, schedule, CACHES[0], WAYS), misses(nest, schedule, CACHES[1])
        found.append(Record(nest, schedule, 1e-9 * (math.prod(nest.extents) + 4 * near + 40 * far)))
    return found


def spearman(left: list[float], right: list[float]) -> float:
    """The rank correlation; equals share a rank, as many schedules miss equally often."""
    ranks = []
    for values in (left, right):
        _, which, counts = np.unique(np.round(values, 12), return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - counts / 2)[which])
    return float(np.corrcoef(*ranks)[0, 1])


@pytest.fixture(scope="module")
def measured() -> dict[LoopNest, list[Record]]:
    nests = [  # odd, so that rows begin anywhere in a line
        product(11, 13, 15),
        product(17, 9, 19),
        product(13, 13, 11),
        turned(151, 11),
        turned(19, 91),
        blurred(9, 13),
        blurred(7, 19),
    ]
    return {nest: records(nest, 24, seed) for seed, nest in enumerate(nests)}


@pytest.fixture(scope="module")
def model(measured: dict[LoopNest, list[Record]]) -> CostModel:
    return CostModel.fit([one for own in measured.values() for one in own], CACHES)


def test_every_iteration_runs_once() -> None:
    nest = product(5, 7, 6)
    for schedule in schedules(nest, 20, 3):
        assert sorted(visited(nest, schedule)) == sorted(itertools.product(range(5), range(7), range(6)))


def test_what_comes_from_memory_is_told_by_the_loops(measured: dict[LoopNest, list[Record]]) -> None:
    found = []
    for nest, own in measured.items():
        counted = [float(misses(nest, one.schedule, CACHES[1])) for one in own]
        told = [fetched_lines(nest, one.schedule, CACHES[1]) for one in own]
        found.append(spearman(told, counted))
    assert np.mean(found) > 0.7, found


def test_a_nest_that_was_not_seen_is_ranked(measured: dict[LoopNest, list[Record]]) -> None:
    correlations, found = [], 0
    for nest, own in measured.items():
        model = CostModel.fit([one for other, each in measured.items() if other != nest for one in each], CACHES)
        order = model.rank(nest, [one.schedule for one in own])
        seconds = {one.schedule: one.seconds for one in own}
        correlations.append(spearman(list(map(float, range(len(order)))), [seconds[one] for one in order]))
        found += min(seconds.values()) == min(seconds[one] for one in order[:5])
    assert np.mean(correlations) >= 0.8, correlations
    assert found / len(measured) >= 0.8


def test_the_order_does_not_depend_on_that_of_the_records(
    measured: dict[LoopNest, list[Record]], model: CostModel
) -> None:
    every = [one for own in measured.values() for one in own]
    nest = next(iter(measured))
    candidates = [one.schedule for one in measured[nest]]
    other = CostModel.fit(random.Random(0).sample(every, len(every)), CACHES)
    assert model.score(nest, candidates) == other.score(nest, candidates)
    assert model.rank(nest, []) == []


def test_a_score_does_not_depend_on_the_other_schedules(
    measured: dict[LoopNest, list[Record]], model: CostModel
) -> None:
    nest, own = next(iter(measured.items()))
    candidates = [one.schedule for one in own]
    assert model.score(nest, candidates[3:4]) == pytest.approx(model.score(nest, candidates)[3:4])
    assert len(model.prices) == priced(CACHES)
    assert (model.prices > 0).all()


def test_rows_that_begin_alike_push_each_other_out() -> None:
    """Down a column and then the next: rows of a power of two all want the same lines of a cache, others do not."""
    found = {}
    for columns in (1024, 1040):  # of four bytes; 64 rows have 64 lines, an eighth of the cache
        nest = LoopNest((64, columns), (Access((columns, 1)),))
        walk = Walk.of(nest, Schedule((64, 16), (1, 0), (1, 0)))
        found[columns] = [sum(fetched(walk, 512, sets=sets)) / sum(fetched(walk, 512)) for sets in (0, 64)]
    assert found[1040] == pytest.approx([1, 1], abs=0.01)
    assert found[1024][0] == 1
    assert found[1024][1] > 5


def test_what_fits_is_brought_once() -> None:
    nest = product(8, 8, 8)
    whole = fetched_lines(nest, Schedule((8, 8, 8), (0, 1, 2), (0, 1, 2)), 1 << 20)
    assert whole == pytest.approx(3 * (63 * ITEM / LINE + 1))


def test_too_few_records_are_refused() -> None:
    nest = turned(8, 8)
    one = [Record(nest, schedule, 1.0) for schedule in schedules(nest, 3, 0)]
    with pytest.raises(ValueError, match="at least"):
        CostModel.fit(one)


def test_orders_and_strides_must_name_every_loop() -> None:
    with pytest.raises(ValueError, match="every loop once"):
        levels_of(turned(4, 4), Schedule((2, 2), (0, 0), (0, 1)))
    with pytest.raises(ValueError, match="stride"):
        LoopNest((4, 4), (Access((1,)),))
    with pytest.raises(ValueError, match="extents"):
        LoopNest((4, 0), ())


def test_features_are_as_many_for_every_nest() -> None:
    two, three = turned(8, 8), product(4, 4, 4)
    assert len(features(two, schedules(two, 1, 0)[0])) == len(features(three, schedules(three, 1, 0)[0]))


def test_a_saved_model_ranks_as_before(
    measured: dict[LoopNest, list[Record]], model: CostModel, tmp_path: Path
) -> None:
    model.save(tmp_path / "model.json")
    again = CostModel.load(tmp_path / "model.json")
    for nest, own in measured.items():
        candidates = [one.schedule for one in own]
        assert again.score(nest, candidates) == model.score(nest, candidates)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 1},
        {"prices": [1.0]},
        {"trees": [[]]},
        {"trees": [[0.0, 500, 0.0, [0.0], [0.0]]]},
    ],
)
def test_what_is_no_saved_model_is_refused(change: dict[str, object], model: CostModel, tmp_path: Path) -> None:
    place = tmp_path / "model.json"
    model.save(place)
    place.write_text(json.dumps(json.loads(place.read_text()) | change))
    with pytest.raises(BadFile, match="no model of costs"):
        CostModel.load(place)
    place.write_text("{")
    with pytest.raises(BadFile, match="no model of costs"):
        CostModel.load(place)
