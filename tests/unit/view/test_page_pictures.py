"""The views of the graph: few boxes each, nothing lost in folds, nothing on top of anything, and tall ones wrapped."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from codedag.ir import Edge, Graph, Op
from codedag.view.html import pictures
from codedag.view.html.pictures import ALL_BOXES, FEW_BOXES, MOST_BOXES, MOST_NEIGHBOURS, views


def _graph(seed: int, count: int, equal: bool = False) -> Graph:
    rng = random.Random(seed)
    ops = [
        Op(
            id=at, name=f"lib.op{at}", kind="call", file="a.py", line=at + 1, count=1, out_nbytes=at,
            context=f"main/f{at * 9 // count}/g{at * 30 // count}/lib.op{at}",
            self_seconds=0.1 if equal else rng.random() ** 6, total_seconds=1.0,
        )
        for at in range(count)
    ]  # fmt: skip
    edges = {(max(0, at - rng.randint(1, 6)), at) for at in range(1, count) for _ in range(2)}
    return Graph.build(ops, [Edge(a, b, "flow", 10 * b) for a, b in sorted(edges)])


def _rows(made: list, at: int) -> list[int]:
    """The rows that a view shows, through everything that it opens."""
    return [row for box in made[at]["boxes"] for row in (_rows(made, box[5]) if box[5] >= 0 else box[6])]


@pytest.mark.parametrize(("seed", "count"), [(1, 20), (2, 60), (3, 300), (4, 1500)])
def test_every_operation_is_found_by_opening_boxes(seed, count):
    made = views(_graph(seed, count))
    assert sorted(_rows(made, 0)) == list(range(count))


@pytest.mark.parametrize(("seed", "count"), [(1, 20), (3, 300), (4, 1500)])
def test_views_have_few_boxes_and_none_overlap(seed, count):
    for at, view in enumerate(views(_graph(seed, count))):
        most = MOST_BOXES if at == 1 and view["parent"] < 0 else ALL_BOXES if view["parent"] >= 0 else FEW_BOXES
        inside = [box for box in view["boxes"] if box[2] != "outside"]
        assert len(inside) <= most
        assert len(view["boxes"]) - len(inside) <= 2 * (MOST_NEIGHBOURS + 1)
        for one, other in combinations([box[0] for box in view["boxes"]], 2):
            apart_x = one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0]
            assert apart_x or one[1] + one[3] <= other[1] or other[1] + other[3] <= one[1]
        for x, y, width, height in (box[0] for box in view["boxes"]):
            assert -1 <= x <= x + width <= view["width"] + 1
            assert -1 <= y <= y + height <= view["height"] + 1


def test_operations_that_take_the_same_time_open_too():
    made = views(_graph(5, 900, equal=True))
    assert sorted(_rows(made, 0)) == list(range(900))


def test_a_long_chain_is_set_in_columns():
    ops = [
        Op(
            id=at, name=f"lib.op{at}", kind="call", file="a.py", line=at, context=f"f/lib.op{at}", count=1,
            self_seconds=1.0, total_seconds=1.0, out_nbytes=1,
        )
        for at in range(1, 41)
    ]  # fmt: skip
    view = views(Graph.build(ops, [Edge(at, at + 1, "flow", 10**6) for at in range(1, 40)]))[0]
    assert 0.7 < view["width"] / view["height"] < 3
    assert len(view["frames"]) > 1
    assert [frame[4] for frame in view["frames"]][1].endswith("(goes on)")
    crossing = [link for link in view["links"] if "Q" in link[0]]
    assert len(crossing) == len(view["frames"]) - 1
    for path, head, *_ in view["links"]:
        assert path.startswith("M")
        assert head.startswith("M")


def test_what_a_folded_box_exchanges_is_drawn_at_its_edges():
    made = views(_graph(6, 400))
    opened = next(view for view in made if view["parent"] >= 0)
    outside = [box for box in opened["boxes"] if box[2] == "outside"]
    assert outside
    joined = {link[5] for link in opened["links"]} | {link[6] for link in opened["links"]}
    assert all(at in joined for at, box in enumerate(opened["boxes"]) if box[2] == "outside")


def test_an_empty_graph_has_an_empty_view():
    (view,) = views(Graph.build([]))
    assert (view["boxes"], view["links"], view["operations"]) == ([], [], 0)


def test_there_is_a_bound_on_views(monkeypatch):
    monkeypatch.setattr(pictures, "MOST_VIEWS", 5)
    made = views(_graph(4, 1500))
    assert len(made) == 5
    assert all(box[5] < 5 for view in made for box in view["boxes"])
