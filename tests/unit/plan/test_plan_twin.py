"""The plain-Python twin gives the same plans as the extension, step by step."""

from __future__ import annotations

from array import array

import pytest
from plan_instances import objects, random_instance

from codedag.plan import _twin
from codedag.plan.problem import Problem
from codedag.plan.search import search
from codedag.plan.strategies import Context

_sim = pytest.importorskip("codedag.plan._sim", reason="the extension is not built here")


def both(number, most=30):
    problem = Problem(*objects(random_instance(number, most, hostile=number % 3 > 0)))
    links = problem.links
    sources, targets = problem.graph.edge_rows()
    columns = (
        problem.n, problem.k, sources, targets, bytes(kind == "flow" for kind in problem.graph.edge_columns.kind),
        problem.seconds, problem.graph.op_columns.out_nbytes, problem.scratch, links.group, links.lane, links.latency,
        links.rate, array("q", [0] * problem.k),
    )  # fmt: skip
    return problem, _sim.Model(*columns), _twin.Model(*columns)


@pytest.mark.parametrize("number", range(40))
def test_every_step_is_the_same(number, seed):
    _, one, two = both(1000 * seed + number)
    assert (one.rows, one.quantum, one.costs, one.edges) == (two.rows, two.quantum, two.costs, two.edges)
    assert one.plain == two.plain
    assert one.mixed() == two.mixed()
    ahead = one.ahead()
    assert ahead == two.ahead()
    assert one.path_bound(ahead) == two.path_bound(ahead)
    assert one.prices(30) == two.prices(30)
    price = one.prices(30)[1]
    for how, copying, weight, unlimited, copies in (
        (0, 1.0, 0.0, False, 0.0), (1, 0.0, 0.7, False, 0.6), (2, 1.0, 1.0, True, 0.0),
    ):  # fmt: skip
        rank = one.rank(how, copying)
        assert rank == two.rank(how, copying)
        order = one.sorted(rank, -1)
        assert order == two.sorted(rank, -1)
        arguments = (order, ahead, weight, price, 2.0, b"", True, unlimited, copies)
        found = one.lists(*arguments)
        assert found == two.lists(*arguments)
        if found is None:
            continue
        place, turns = found[1], one.sorted(found[2], 1)
        assert one.simulate(place, turns) == two.simulate(place, turns)
        made, end, copies = one.schedule(place, turns)
        assert (made, end, copies) == two.schedule(place, turns)
        tails = one.tails(place, turns)
        assert tails == two.tails(place, turns)
        assert one.ranked(place, tails) == two.ranked(place, tails)
        assert one.look_from(place, tails) == two.look_from(place, tails)
        times = one.replay(place, end, copies)
        assert times == two.replay(place, end, copies)
        moved = (*copies[:3], *times[2:])
        assert one.peaks(place, times[0], times[1], moved) == two.peaks(place, times[0], times[1], moved)
        annealing = (place, turns, ahead, 20_000.0, 15_000.0, 0.05, 1e-4, 0.2, 7 + number, 0.0)
        assert one.anneal(*annealing) == two.anneal(*annealing)


def test_longer_orders_cross_kept_states():
    _, one, two = both(9, 150)
    assert len(one.rows) // 4 > 3 * 32
    order = one.sorted(one.rank(0, 1.0), -1)
    _, place, start = one.lists(order, b"", 0.0, b"", 0.0, b"", True, False, 0.0)
    turns = one.sorted(start, 1)
    arguments = (place, turns, one.ahead(), 60_000.0, 60_000.0, 0.02, 1e-4, 0.3, 3, 0.0)
    found = one.anneal(*arguments)
    assert found == two.anneal(*arguments)
    assert found[0] < one.simulate(place, turns)
    assert found[0] == one.simulate(found[1], found[2])


def test_the_whole_search_is_the_same():
    for number in range(3):
        problem, _, two = both(number)
        found = search(Context(problem), 0.001, seed=5, timed=False)
        problem.model = two
        again = search(Context(problem), 0.001, seed=5, timed=False)
        assert (found.best, found.bound) == (again.best, again.bound)
