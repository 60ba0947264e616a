from __future__ import annotations

import re
from itertools import pairwise

import pytest
from ir_samples import diamond, flow, op

from codedag.ir import BadGraph, Edge, Graph, check

NAN, INF = float("nan"), float("inf")
TWO = [op(0), op(1)]


def test_legal_graphs_pass():
    assert check(diamond()) is None
    assert check(Graph.build([], [], [])) is None


@pytest.mark.parametrize(
    ("graph", "culprit"),
    [
        (Graph.build([op(0), op(-2)]), "ops[1].id: -2"),
        (Graph.build([op(7), op(3), op(7)]), "ops[0].id: 7 is also the id of op 7"),
        (Graph.build([op(0), op(1, kind="magic")]), "ops[1].kind: `magic`"),
        (Graph.build(TWO, [flow(0, 1), Edge(0, 1, "carried", 0)]), "edges[1].kind: `carried`"),
        (Graph.build(TWO, [flow(0, 1), flow(0, 9)]), "edges[1].dst: there is no op 9"),
        (Graph.build(TWO, [flow(9, 1)]), "edges[0].src: there is no op 9"),
        (Graph.build(TWO, [], [(0, 1), (0, 9)]), "carried[1].dst: there is no op 9"),
        (Graph.build(TWO, [flow(1, 1)]), "edges[0]: op 1 numpy.sqrt (train.py:41) depends on itself"),
        (Graph.build(TWO, [flow(0, 1, -1)]), "edges[0].nbytes: -1"),
        (Graph.build([op(0, count=0)]), "ops[0].count: 0"),
        (Graph.build([op(0, line=-1)]), "ops[0].line: -1"),
        (Graph.build([op(0, self_seconds=NAN)]), "ops[0].self_seconds: nan"),
        (Graph.build([op(0, total_seconds=INF)]), "ops[0].total_seconds: inf"),
        (Graph.build([op(0, self_seconds=-0.1)]), "ops[0].self_seconds: -0.1"),
        (Graph.build([op(0, out_nbytes=-1)]), "ops[0].out_nbytes: -1"),
        (Graph.build([op(0, site=-2)]), "ops[0].site: -2"),
        (Graph.build([op(0, col=-2)]), "ops[0].col: -2"),
        (Graph.build([op(0, parent=4)]), "ops[0].parent: there is no op 4"),
        (Graph.build([op(0, parent=0)]), "parents form a cycle: op 0"),
        (Graph.build([op(0, parent=1), op(1, parent=0)]), "parents form a cycle"),
    ],
)
def test_the_culprit_is_named(graph, culprit):
    with pytest.raises(BadGraph, match=re.escape(culprit)) as caught:
        check(graph)
    assert caught.value.hint


def test_a_cycle_is_named_in_the_direction_of_its_edges():
    ops = [op(i, name=f"f{i}", file="a.py", line=i + 1) for i in range(5)]
    edges = [flow(0, 1), flow(1, 2), Edge(2, 3, "anti", 0), flow(3, 1), flow(3, 4)]
    with pytest.raises(BadGraph) as caught:
        check(Graph.build(ops, edges))
    named = re.findall(r"op (\d) f\d \(a.py:\d\)", caught.value.message)
    steps = {(edge.src, edge.dst) for edge in edges}
    assert sorted(set(named)) == ["1", "2", "3"]
    assert all((int(a), int(b)) in steps for a, b in pairwise(named))


def test_a_long_cycle_is_cut_short():
    count = 5000
    ring = [flow(i, (i + 1) % count) for i in range(count)]
    with pytest.raises(BadGraph, match=r"\.\.\. 4992 more") as caught:
        check(Graph.build([op(i) for i in range(count)], ring))
    assert len(caught.value.message) < 600
