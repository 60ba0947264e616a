"""Searches on tables: one counter, no point twice, the same sequence for the same seed; and the network's slopes."""

from __future__ import annotations

import json
import zlib
from functools import partial

import numpy as np
import pytest

from codedag.tune.declined import CannotTune
from codedag.tune.model import shipped
from codedag.tune.model.network import Network
from codedag.tune.schedule.space import point_text
from codedag.tune.search.history import History
from codedag.tune.search.search import Context
from codedag.tune.search.strategies import STRATEGIES, propose_by_gradient
from codedag.tune.task import Task


@pytest.fixture
def task(compiler, codedag_home):
    return Task.of("matmul", shape=(300, 280, 310))


def _seconds(points):
    """A made-up table: larger blocks are faster, and every seventh point fails."""
    made = []
    for point in points:
        chance = zlib.crc32(point_text(point).encode()) % 1000 / 1000
        made.append(None if chance > 0.86 else (1 + 8 / (int(point["mr"]) * int(point["nv"])) + 0.05 * chance) * 1e-3)
    return made


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_search_measures_what_it_may_and_no_point_twice(task, name):
    asked = []

    def measure(points):
        asked.extend(point_text(point) for point in points)
        return _seconds(points)

    found = task.search(name, seed=1, measurements=30, measure=measure)
    assert len(asked) == len(set(asked)) == len(found.history) == 30
    assert all(task.space.valid(point) for point, _ in found.history)
    assert found.seconds == min(s for _, s in found.history if s is not None)
    assert (found.best, found.seconds) in found.history


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_seed_and_measurements_give_the_same_sequence(task, name):
    one, two, other = (task.search(name, seed=s, measurements=20, measure=_seconds).history for s in (4, 4, 5))
    assert one == two
    assert one != other


def test_without_measurements_there_is_a_first_pick(task):
    found = task.search(measurements=0)
    assert task.space.valid(found.best)
    assert (found.seconds, found.history) == (None, [])


def test_a_search_without_seconds_gives_the_first_pick(task):
    assert task.search(measurements=8, seconds=0.0) == task.search(measurements=0)


def test_a_search_looks_at_the_clock_between_points(task, monkeypatch):
    looks = iter([False, False, True, True, True, True])
    monkeypatch.setattr("codedag.tune.search.search._is_over", lambda until: next(looks))
    assert len(task.search("random", measurements=64, seconds=99.0, measure=_seconds).history) == 4


@pytest.mark.parametrize("answer", [None, [1.0], [float("nan")] * 8, [-1.0] * 8])
def test_answers_that_are_no_seconds_are_named(task, answer):
    with pytest.raises(CannotTune, match="`measure` "):
        task.search("random", measurements=8, measure=lambda points: answer)


@pytest.mark.parametrize("point", [None, "block", {}, {"sketch": "block"}, {"sketch": "none", "mr": 2}])
def test_what_is_no_point_is_named(task, point):
    assert not task.space.valid(point)
    for use in (task.space.neighbours, task.kernel, *(partial(_of_list, f) for f in (task.features, task.measure))):
        with pytest.raises(CannotTune, match="no point of this space"):
            use(point)


def _of_list(use, point):
    return use([point])


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"what": 3}, "not 3"),
        ({"what": "matmul", "shape": (1.5, 2, 3)}, "1.5, which is no whole number"),
        ({"what": "i k, k j -> i j", "sizes": {"i": "3", "k": 3, "j": 2}}, "axis i is '3'"),
        ({"what": "matmul", "shape": (3, 3, 3), "allow": ("bits",)}, "no class 'bits'"),
        ({"what": np.sqrt, "like": 5}, "arrays like its own"),
    ],
)
def test_arguments_that_do_not_fit_are_named(keywords, words):
    with pytest.raises(CannotTune, match=words):
        Task.of(**keywords)


def test_a_search_whose_candidates_all_fail_has_no_best(task):
    found = task.search("evolution", measurements=12, measure=lambda points: [None] * len(points))
    assert found.best is None
    assert len(found.history) == 12


def test_a_small_space_is_measured_whole_and_then_ends(compiler, codedag_home):
    task = Task.of("standardise", shape=(8, 8, 3))
    found = task.search("gradient", measurements=500, measure=lambda points: [1.0] * len(points))
    assert len(found.history) <= task.space.points


def test_a_history_counts_every_point_once(task):
    points = task.space.sample(5, seed=0)
    history = History(4)
    history.measure([points[0], points[0], points[1]], lambda p: [1.0] * len(p))
    history.measure(points, lambda p: [2.0] * len(p))
    assert len(history.entries) == 4
    assert history.left == 0


def test_candidates_are_ranked_by_their_own_scores(task):
    context = Context(
        task.space, task._features, shipped.shipped_model("contraction"), History(9), np.random.default_rng(0)
    )
    proposed = propose_by_gradient(context, 6)
    scores = context.score(proposed)
    assert list(scores) == sorted(scores, reverse=True)
    assert all(task.space.valid(point) for point in proposed)


def test_points_of_a_round_differ_in_more_than_their_tiles(task):
    """Tiles of any size have neighbours of nearly the same score: they would fill a round and teach nothing."""
    found = task.search("gradient", seed=3, measurements=8, measure=_seconds)
    kept = [{k: v for k, v in point.items() if k not in ("kc", "mt", "nt")} for point, _ in found.history]
    assert len({point_text(one) for one in kept}) == 8


def test_slopes_of_the_network_agree_with_differences():
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((40, 9))
    network = Network.fresh(rows)
    network.fit(rows, rows[:, 0] ** 2 - rows[:, 1], 50)
    told, slopes = network.slope(rows[:5])
    assert np.allclose(told, network.score(rows[:5]))
    for k in range(9):
        move = np.zeros(9)
        move[k] = 1e-6
        difference = (network.score(rows[:5] + move) - network.score(rows[:5] - move)) / 2e-6
        assert np.allclose(difference, slopes[:, k], atol=1e-6)


def test_a_network_learns_and_comes_back_from_json():
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((400, 6))
    target = np.sin(rows[:, 0]) + 0.5 * rows[:, 1]
    network = Network.fresh(rows)
    before = np.mean((network.score(rows) - target) ** 2)
    network.fit(rows, target, 300)
    assert np.mean((network.score(rows) - target) ** 2) < before / 10
    again = Network.decoded(json.loads(json.dumps(network.encoded())))
    assert np.allclose(again.score(rows), network.score(rows), atol=1e-2)


def test_the_shipped_records_are_small_and_the_model_is_theirs():
    import hashlib

    place = shipped.FOLDER / "records.json.gz"
    assert place.stat().st_size <= 2 << 20
    facts = json.loads((shipped.FOLDER / "model.json").read_bytes())
    assert facts["records"] == hashlib.sha256(place.read_bytes()).hexdigest()
    assert shipped.shipped_model("contraction") is not None
    assert shipped.shipped_model("rows") is not None


@pytest.mark.parametrize("words", [{"measurements": "x"}, {"measurements": 2.5}, {"seed": "a"}, {"seed": None}])
def test_numbers_of_a_search_that_are_none_are_named(task, words):
    with pytest.raises(CannotTune, match="no whole number"):
        task.search(measure=_seconds, **words)


def test_sizes_that_are_no_dict_are_named(codedag_home):
    with pytest.raises(CannotTune, match="not a dict of axes"):
        Task.of("i k, k j -> i j", sizes=[3, 4])
