"""The graph for the page: every operation is in every tree of folds, folds are small, and nothing is lost unsaid."""

from __future__ import annotations

import random

import pytest

from codedag.ir import Edge, Graph, Op
from codedag.view.html import pictures as module
from codedag.view.html.pictures import ALL_BOXES, FEW_BOXES, MOST_BOXES, pictures


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


def _units(parts: list) -> list[int]:
    return [unit for part in parts for unit in ([part] if isinstance(part, int) else _units(part[1]))]


def _boxes(parts: list) -> int:
    """How many boxes are seen while nothing is open."""
    return sum(1 if isinstance(part, int) or len(part) == 3 else _boxes(part[1]) for part in parts)


def _folds(parts: list) -> list[list]:
    inner = [part for part in parts if not isinstance(part, int)]
    return [part for part in inner if len(part) == 3] + [fold for part in inner for fold in _folds(part[1])]


@pytest.mark.parametrize(("seed", "count"), [(1, 20), (2, 60), (3, 300), (4, 1500)])
@pytest.mark.parametrize("equal", [False, True])
def test_every_operation_is_found_by_opening_boxes_in_an_order_that_respects_the_flow(seed, count, equal):
    made = pictures(_graph(seed, count, equal))
    assert sorted(row for unit in made["units"] for row in unit[8]) == list(range(count))
    for tree in made["folds"]:
        assert _units(tree) == list(range(len(made["units"])))
    assert all(source < target for source, target, _ in made["flow"])


@pytest.mark.parametrize(("seed", "count"), [(1, 20), (3, 300), (4, 1500)])
@pytest.mark.parametrize("equal", [False, True])
def test_what_is_seen_first_and_what_a_click_opens_has_few_boxes(seed, count, equal):
    made = pictures(_graph(seed, count, equal))
    assert len(made["folds"]) == (2 if count > FEW_BOXES else 1)
    for tree, most in zip(made["folds"], (FEW_BOXES, MOST_BOXES), strict=False):
        assert _boxes(tree) <= most
        for fold in _folds(tree):
            assert 1 < _boxes(fold[1]) <= ALL_BOXES
            assert fold[0]


def test_functions_that_a_fold_is_in_are_not_drawn_again_inside_it():
    made = pictures(_graph(4, 1500))
    for name, parts, kind in _folds(made["folds"][0]):
        if kind == "function":
            assert name not in [part[0] for part in parts if not isinstance(part, int)]


def test_an_empty_graph_has_an_empty_picture():
    made = pictures(Graph.build([]))
    assert (made["units"], made["flow"], made["folds"], made["operations"]) == ([], [], [[]], 0)


def test_of_very_many_dependences_the_widest_are_kept_and_the_rest_is_told(monkeypatch):
    monkeypatch.setattr(module, "MOST_EDGES", 50)
    graph = _graph(3, 300)
    made = pictures(graph)
    assert len(made["flow"]) == 50
    assert min(edge[2] for edge in made["flow"]) >= sorted((edge.nbytes for edge in graph.edges), reverse=True)[49]
    assert "are not in this page" in made["notes"][-1]
