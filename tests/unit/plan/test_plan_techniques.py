"""Fronts, segments, chains and recomputation, each against brute force."""

from __future__ import annotations

import random
import re
from itertools import combinations, pairwise, product
from pathlib import Path

import pytest

from codedag.ir import CostRow, CostTable, Edge, Graph, Link, Machine, Op, Pu
from codedag.plan.chain import recompute, switches
from codedag.plan.classes import classes
from codedag.plan.decide import make_plan
from codedag.plan.kway import Weighted, cut, grow, refine
from codedag.plan.pareto import Front, pareto, select
from codedag.plan.segments import segments


def brute_front(points):
    def beaten(point):
        return any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in points)

    return sorted({point for point in points if not beaten(point)})


@pytest.mark.parametrize("values", [3, 10, 1000])
def test_a_front_equals_brute_force_in_any_order_of_arrival(values, seed):
    r = random.Random(seed)
    points = [tuple(float(r.randrange(values)) for _ in range(3)) for _ in range(400)]
    wanted = brute_front(points)
    assert pareto(points, lambda point: point) == wanted
    r.shuffle(points)
    front = Front(lambda point: point)
    kept = [point for point in points if front.add(point)]
    assert front.items == wanted
    assert all(kept.count(point) == 1 for point in wanted)


def test_a_dominated_candidate_leaves_the_front_as_it_is():
    front = Front(lambda point: point)
    assert front.add((1, 5))
    assert front.add((5, 1))
    assert not front.add((2, 6))
    assert front.items == [(1, 5), (5, 1)]


def test_energy_never_rises_with_its_weight(seed):
    r = random.Random(seed)
    variants = [(r.random(), r.random()) for _ in range(30)]
    chosen = [select(variants, lambda v: v[0], lambda v: v[1], 2.0**w) for w in range(-10, 10)]
    assert all(a[1] >= b[1] and a[0] <= b[0] for a, b in pairwise(chosen))
    assert chosen[0][0] == min(v[0] for v in variants)


@pytest.mark.parametrize("number", range(20))
def test_switches_along_a_chain_equal_brute_force(number, seed):
    r = random.Random(100 * seed + number)
    n, k = r.randint(1, 6), r.randint(1, 3)
    costs = [[r.choice((r.random(), float("inf"))) if d else r.random() for d in range(k)] for _ in range(n)]
    moves = [[[r.random() for _ in range(k)] for _ in range(k)] for _ in range(n)]

    def total(path):
        own = sum(costs[i][d] for i, d in enumerate(path))
        return own + sum(moves[i][a][b] for i, (a, b) in enumerate(pairwise(path)) if a != b)

    least, path = switches(costs, lambda i, a, b: moves[i][a][b])
    assert least == pytest.approx(min(total(path) for path in product(range(k), repeat=n)))
    assert least == pytest.approx(total(path))


def test_an_empty_chain_and_one_that_cannot_run():
    assert switches([], lambda i, a, b: 0.0) == (0.0, [])
    assert switches([[float("inf")]], lambda i, a, b: 0.0) == (float("inf"), [])


@pytest.mark.parametrize("number", range(20))
def test_recomputation_equals_brute_force_and_fits(number, seed):
    r = random.Random(100 * seed + number)
    n = r.randint(1, 11)
    seconds, nbytes = [r.choice((1.0, 2.0, r.random())) for _ in range(n)], [r.randint(0, 9) for _ in range(n)]
    budget = r.randint(0, sum(nbytes))
    least, again = recompute(seconds, nbytes, budget)
    every = [set(c) for size in range(n + 1) for c in combinations(range(n), size)]
    legal = [c for c in every if sum(nbytes[i] for i in range(n) if i not in c) <= budget]
    assert least == pytest.approx(min(sum(seconds[i] for i in c) for c in legal))
    assert sum(nbytes[i] for i in range(n) if i not in again) <= budget
    assert least == pytest.approx(sum(seconds[i] for i in again))


def random_plan(r, n, k):
    before = [sorted({r.randrange(v) for _ in range(r.randint(0, 2))}) if v else [] for v in range(n)]
    return before, [r.randrange(k) for _ in range(n)]


@pytest.mark.parametrize("number", range(30))
def test_segments_are_convex_and_their_order_is_acyclic(number, seed):
    r = random.Random(100 * seed + number)
    n = r.randint(1, 60)
    before, place = random_plan(r, n, r.randint(1, 3))
    found = segments(range(n), place, before)
    assert sorted(op for ops in found for op in ops) == list(range(n))
    of = {op: number for number, ops in enumerate(found) for op in ops}
    for ops in found:
        assert len({place[op] for op in ops}) == 1
    for op in range(n):  # every dependence is inside or from an earlier segment: acyclic, hence convex
        assert all(of[p] <= of[op] for p in before[op])
    assert len(found) <= n


def test_one_unit_is_one_segment_and_a_detour_splits():
    chain = [[], [0], [1]]
    assert segments(range(3), [0, 0, 0], chain) == [[0, 1, 2]]
    assert segments(range(3), [0, 1, 0], chain) == [[0], [1], [2]]
    beside = [[], [], [0]]  # op 1 is elsewhere, but nothing of PU 0 waits for it
    assert segments(range(3), [0, 1, 0], beside) == [[0, 2], [1]]


def test_classes_split_by_name_and_surroundings():
    labels = ["load", "resize", "load", "resize", "load"]
    assert classes(labels, [(0, 1), (2, 3)]) == [0, 1, 0, 1, 2]
    assert classes(labels, [(0, 1), (2, 3)], rounds=0) == [0, 1, 0, 1, 0]
    assert classes([], []) == []


def test_refinement_never_raises_its_objective_and_counts_what_it_says(seed):
    r = random.Random(seed)
    n = 80
    edges = [(r.randrange(v), v, float(r.randint(1, 9))) for v in range(1, n) for _ in range(2)]
    graph = Weighted.of([r.random() for _ in range(n)], [1.0] * n, edges)
    parts = grow(graph, 4)
    whole = sum(w for near in graph.near for w in near.values()) / 2
    done = refine(graph, parts, 1000, alpha=0.4, beta=0.6)
    assert done.after <= done.before
    now = 0.4 * parts.imbalance + 0.6 * cut(graph, parts.part)[1] / whole
    assert done.after == pytest.approx(now)
    assert sorted(set(parts.part)) == [0, 1, 2, 3]
    for number, centre in enumerate(parts.centres):
        assert parts.part[centre] == number


def test_the_page_about_planning_runs():
    page = (Path(__file__).parents[3] / "docs" / "planning.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert blocks
    for block in blocks:
        exec(block, {})


def test_each_op_on_its_fastest_unit_is_among_what_is_compared():
    costs = {(0, "cpu"): 1.0, (0, "x"): 3.0, (1, "cpu"): 3.0, (1, "x"): 1.0}
    rows = [CostRow(op=op, pu=pu, variant="original", seconds=cost, status="ok") for (op, pu), cost in costs.items()]
    links = [Link(src=a, dst=b, latency_seconds=5.0, bytes_per_second=1e9) for a, b in (("cpu", "x"), ("x", "cpu"))]
    pus = [Pu(name=name, memory_nbytes=1 << 30, launch_seconds=0.0, simulated=True) for name in ("cpu", "x")]
    ops = [Op(number, "f", "call", "a.py", 1, "f", 1, 1.0, 1.0, 8) for number in range(2)]
    graph = Graph.build(ops, [Edge(0, 1, "flow", 8)])
    plan = make_plan(graph, CostTable(pus=["cpu", "x"], rows=rows), Machine(pus=pus, links=links), budget=0.0)
    found = {one.name: one.makespan_seconds for one in plan.strategies}
    assert found["fastest each"] == pytest.approx(7.0)  # 1 + 5 for the copy + 1: ignoring it does not pay
    assert plan.makespan_seconds == pytest.approx(4.0)
