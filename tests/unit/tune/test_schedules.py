"""Schedules: points as text, inequalities, neighbours, and features with slopes."""

from __future__ import annotations

import numpy as np
import pytest

from codedag.tune.declined import CannotTune
from codedag.tune.program.record import record
from codedag.tune.schedule.contraction import contraction_of
from codedag.tune.schedule.features import Exact, Smooth
from codedag.tune.schedule.space import Choice, Range, columns_of, point_of, point_text
from codedag.tune.task import Task, arrays_like

SPECS = [
    {"what": "matmul", "shape": (130, 90, 70)},
    {"what": "n i k, n k j -> n i j", "sizes": {"n": 9, "i": 7, "k": 5, "j": 11}},
    {"what": "layernorm", "shape": (30, 200)},
    {"what": "softmax", "shape": (300, 40)},
    {"what": "normalise", "shape": (20, 30, 3)},
]


@pytest.fixture(params=SPECS, ids=lambda spec: spec["what"])
def task(request, compiler, codedag_home):
    return Task.of(**request.param)


def test_points_are_valid_different_and_come_back_from_text(task):
    points = task.space.sample(40, seed=1)
    assert len({point_text(point) for point in points}) == len(points) > 1
    assert all(task.space.valid(point) and point_of(point_text(point)) == point for point in points)
    assert points == task.space.sample(40, seed=1)
    assert points != task.space.sample(40, seed=2)


def test_neighbours_differ_in_one_variable(task):
    point = task.space.sample(1, seed=3)[0]
    near = task.space.neighbours(point)
    assert near
    for other in near:
        assert task.space.valid(other)
        assert sum(other[name] != point[name] for name in point) == 1


def test_points_with_other_variables_or_values_are_not_valid(task):
    point = task.space.sample(1, seed=3)[0]
    assert not task.space.valid({**point, "nothing": 1})
    assert not task.space.valid({**point, "vb": 48})
    assert not task.space.valid({"sketch": "nothing"})


def test_too_many_registers_break_an_inequality(compiler, codedag_home):
    space = Task.of("matmul", shape=(512, 512, 512)).space
    point = next(p for p in space.sample(200, seed=0) if p["vb"] == 16)
    assert not space.valid({**point, "mr": 14, "nv": 6})


def test_slopes_of_smooth_features_agree_with_differences(task):
    features, step = task._features, 1e-5
    for sketch in task.space.sketches:
        points = [p for p in task.space.sample(60, seed=2) if p["sketch"] == sketch.name][:6]
        if not points or not sketch.ordered:
            continue
        columns = columns_of(sketch, points)
        logs = np.stack([np.log2(columns[v.name]) for v in sketch.ordered], axis=1)
        words = {v.name: columns[v.name] for v in sketch.words}
        _, slopes = features.slopes(sketch, logs, words)
        for k in range(logs.shape[1]):
            move = np.zeros_like(logs)
            move[:, k] = step
            up, down = (features.slopes(sketch, logs + sign * move, words)[0] for sign in (1, -1))
            assert np.allclose((up - down) / 2 / step, slopes[k], atol=1e-5)


def test_smooth_features_are_near_exact_ones(task):
    points = task.space.sample(50, seed=4)
    exact, smooth = task.features(points), task.smooth(points)
    assert exact.shape == smooth.shape == (len(points), task._features.width)
    assert np.isfinite(exact).all()
    assert np.median(np.abs(exact - smooth).max(axis=1)) < 0.7


def test_a_whole_number_of_tiles_and_its_mean():
    counts = np.array([0.3, 1.0, 2.5, 7.0])
    assert Exact.tiles(counts).tolist() == [1, 1, 3, 7]
    assert np.all(np.abs(Smooth.tiles(counts) - Exact.tiles(counts)) < 0.7)


def test_variables_round_to_their_values():
    numbers = np.array([50.0, 1000.0, 3.2])
    assert Choice("vb", (16, 32, 64), ordered=True).rounded_all(numbers).tolist() == [64, 64, 16]
    assert Range("kc", 16, 300).rounded_all(numbers).tolist() == [50, 300, 16]
    assert list(Range("kc", 1, 3).near(3)) == [2]


@pytest.mark.parametrize("text", ["", "f4[3", "z9[3]", "f4[3] f4[4]", "f2[3]", "f4[100000,100000]"])
def test_arrays_that_are_none_are_named(text):
    with pytest.raises(CannotTune):
        arrays_like(text)


def test_arrays_like_a_text():
    assert [(a.dtype.str[1:], a.shape) for a in arrays_like("f4[3, 4],u1[5], f8[]")] == [
        ("f4", (3, 4)), ("u1", (5,)), ("f8", ()),
    ]  # fmt: skip


def test_neighbouring_axes_of_a_product_are_one_where_no_array_tells_them_apart():
    """Pixels of an image by a matrix are rows of one long product; stacks of two axes are one stack."""
    pixels = contraction_of(record(lambda a, b: a @ b, [np.ones((7, 5, 3)), np.ones((3, 3))]))
    assert [axis.extent for axis in pixels.axes] == [35, 3, 3]
    assert pixels.extents({"d0": 2, "d1": 4, "d2": 3, "r0": 3}) == {"d0d1": 8, "d2": 3, "r0": 3}
    stacks = contraction_of(record(lambda a, b: np.einsum("mnik,mnkj->mnij", a, b), [np.ones((2, 3, 4, 4))] * 2))
    assert [axis.extent for axis in stacks.axes] == [6, 4, 4, 4]
    apart = contraction_of(
        record(lambda a, b: np.einsum("mik,mkn->min", a, b), [np.ones((2, 3, 4)), np.ones((2, 4, 5))])
    )
    assert [axis.extent for axis in apart.axes] == [2, 3, 5, 4]
