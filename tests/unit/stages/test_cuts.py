"""Cuts of dataflow graphs: convex, narrow, balanced; at names; against brute force where that is possible."""

from __future__ import annotations

import random
from itertools import pairwise
from math import log2

import pytest

from codedag.stages import cuts
from codedag.stages.cuts import Flow, Line, Unit, ancestors, crossing_of, cut, cut_at, narrow_order
from codedag.stages.model import BadModel


def chain(count, flop=1e9, nbytes=1e5):
    units = [Unit((f"u{at}",), (f"v{at}",), (f"v{at + 1}",), flop) for at in range(count)]
    return Flow(units, {f"v{at}": nbytes for at in range(count + 1)}, (f"v{count}",))


def drawn(count, seed):
    """Units that each read one or two of the last few values."""
    dice = random.Random(seed)
    values, units, nbytes = ["x"], [], {"x": 1e5}
    for at in range(count):
        reads = tuple(dice.sample(values[-5:], min(len(values), dice.randint(1, 2))))
        units.append(Unit((f"u{at}",), reads, (f"v{at}",), dice.random() * 1e9))
        values.append(f"v{at}")
        nbytes[f"v{at}"] = dice.random() * 1e6
    return Flow(units, nbytes, (values[-1],))


def members(groups):
    return [[name for unit in group for name in unit.members] for group in groups]


def test_even_work_is_cut_evenly():
    assert [len(group) for group in cut(chain(12), 4)] == [3, 3, 3, 3]


def test_a_narrow_place_is_preferred_to_an_even_one():
    flow = chain(12)
    wide = {name: 1e8 if name != "v5" else 1e3 for name in flow.nbytes}
    assert [len(group) for group in cut(Flow(flow.units, wide, flow.outputs), 2)] == [5, 7]


def test_a_light_operation_stays_with_the_product_before_it():
    products = [Unit((f"p{at}",), (f"r{at}",), (f"q{at}",), 1e9) for at in range(4)]
    lights = [Unit((f"r{at}",), (f"q{at}",), (f"r{at + 1}",), 1e3) for at in range(4)]
    units = [unit for pair in zip(products, lights, strict=True) for unit in pair]
    flow = Flow(units, {name: 1e4 for unit in units for name in (*unit.reads, *unit.makes)}, ("r4",))
    assert members(cut(flow, 2)) == [["p0", "r0", "p1", "r1"], ["p2", "r2", "p3", "r3"]]


@pytest.mark.parametrize("seed", range(12))
def test_stages_are_convex_and_have_every_unit_once(seed):
    flow = drawn(40, seed)
    groups = cut(flow, 5)
    place = {name: at for at, group in enumerate(groups) for unit in group for name in unit.makes}
    assert sorted(name for group in members(groups) for name in group) == sorted(
        name for unit in flow.units for name in unit.members
    )
    for at, group in enumerate(groups):
        assert all(place.get(name, 0) <= at for unit in group for name in unit.reads)


@pytest.mark.parametrize("seed", range(8))
def test_cuts_of_one_order_cost_least(seed):
    flow = drawn(9, seed)
    line = Line(flow, 3)
    costs = [cost_of(flow, (first, second)) for first in range(1, 8) for second in range(first + 1, 9)]
    assert line.cost == pytest.approx(min(costs))


def cost_of(flow, ends):
    """The cost of given cuts, by the words of the definition."""
    total = sum(flow.seconds(at) for at in range(len(flow.units)))
    share = total / (len(ends) + 1)
    crossing = Line(flow, len(ends) + 1).crossing()
    alive = sorted(value for value in crossing if value > 0)
    middle = (alive[(len(alive) - 1) // 2] + alive[len(alive) // 2]) / 2
    cost = 0.0
    for start, end in pairwise((0, *ends, len(flow.units))):
        cost += sum(flow.seconds(at) for at in range(start, end)) ** 2 / share
    for end in ends:
        cost += crossing[end] * cuts.CROSSING_WEIGHT / cuts.BYTES_PER_SECOND
        cost += log2(1 + crossing[end] / middle) * cuts.WIDTH_WEIGHT * share
        goes_on = not set(flow.units[end - 1].makes).isdisjoint(flow.units[end].reads)
        if goes_on and flow.seconds(end) < cuts.LIGHT_SHARE * share:
            cost += cuts.LIGHT_WEIGHT * share
    return cost


def test_a_narrow_order_is_an_order():
    flow = drawn(60, 3)
    order = narrow_order(flow)
    assert sorted(order) == list(range(60))
    assert all(order.index(before) < order.index(at) for at in range(60) for before in flow.before(at))


def test_constants_belong_to_their_first_reader():
    units = [Unit(("c",), (), ("k",)), *chain(4).units]
    units[2] = Unit(("u1",), ("v1", "k"), ("v2",), 1e9)
    assert members(cut(Flow(units, {**chain(4).nbytes, "k": 1e3}, ("v4",)), 4))[1] == ["c", "u1"]


def test_constants_of_constants_come_before_all_that_read_them():
    units = [
        Unit(("a",), (), ("a",)), Unit(("b",), ("a",), ("b",)), Unit(("early",), ("x", "a"), ("e",), 1e9),
        Unit(("late",), ("e", "b"), ("out",), 1e9),
    ]  # fmt: skip
    groups = cut(Flow(units, dict.fromkeys(("x", "a", "b", "e", "out"), 1e4), ("out",)), 2)
    assert members(groups) == [["a", "b", "early"], ["late"]]


def test_values_that_cannot_pass_are_not_cut():
    flow = chain(6)
    stuck = Flow(flow.units, {**flow.nbytes, "v3": float("inf")}, flow.outputs)
    assert all(group[-1].makes[0] != "v3" for group in cut(stuck, 5)[:-1])
    with pytest.raises(BadModel, match="cannot be cut into 6 stages"):
        cut(stuck, 6)


def test_more_stages_than_operations_are_refused():
    with pytest.raises(BadModel, match="3 operations; it cannot be cut into 4"):
        cut(chain(3), 4)


# -- at names


def skip():
    """x -> a -> b -> out, with a skip from a to out."""
    units = [
        Unit(("A",), ("x",), ("a",), 1e9),
        Unit(("B",), ("a",), ("b",), 1e9),
        Unit(("C",), ("a", "b"), ("out",), 1e9),
    ]
    return Flow(units, dict.fromkeys(("x", "a", "b", "out"), 1e5), ("out",))


def test_a_cut_at_a_name_ends_a_stage_there():
    assert members(cut_at(skip(), ["a"], ["x"], "m")) == [["A"], ["B", "C"]]


def test_values_beside_each_other_are_one_cut_if_both_are_named():
    assert members(cut_at(skip(), ["b", "a"], ["x"], "m")) == [["A"], ["B"], ["C"]]
    units = [Unit(("L",), ("x",), ("l",)), Unit(("R",), ("x",), ("r",)), Unit(("S",), ("l", "r"), ("out",))]
    shared = [Unit(("P",), ("x",), ("p",)), *(Unit(unit.members, ("p",), unit.makes) for unit in units[:2]), units[2]]
    flow = Flow(shared, dict.fromkeys(("x", "p", "l", "r", "out"), 1e5), ("out",))
    assert members(cut_at(flow, ["l", "r"], ["x"], "m")) == [["P", "L", "R"], ["S"]]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["q"], "m has no tensor `q`"),
        (["x"], "`x` does not separate: it is an input"),
        (["out"], "`out` does not separate: nothing comes after it"),
        (["b"], "`b` does not separate: `a` goes around it"),
    ],
)
def test_cuts_that_are_not_there_or_do_not_separate_are_refused(names, message):
    with pytest.raises(BadModel, match=message):
        cut_at(skip(), names, ["x"], "m")


def test_a_number_of_a_shape_goes_around_any_cut():
    flow = skip()
    tiny = Flow(flow.units, {**flow.nbytes, "a": 8.0}, flow.outputs)
    assert members(cut_at(tiny, ["b"], ["x"], "m")) == [["A", "B"], ["C"]]


def test_what_a_unit_needs_and_what_leaves_a_set():
    assert ancestors(skip(), 1) == {0, 1}
    assert crossing_of(skip(), {0, 1}) == ["a", "b"]
