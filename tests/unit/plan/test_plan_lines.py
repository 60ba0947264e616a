"""Lines of stages: overlap against the simulator, cuts against brute force, queues against a line of real events."""

from __future__ import annotations

import heapq
import random
from array import array
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_instances import instance, objects

from codedag.ir import CannotPlan, Carried, Edge, Graph, Link, Op
from codedag.plan.depths import HANDS, SHARE, depths
from codedag.plan.line import line
from codedag.plan.overlap import idle_seconds, overlap
from codedag.plan.pipeline import Work, pipeline
from codedag.plan.problem import Problem
from codedag.plan.solution import Timetable
from codedag.plan.stages import stages
from codedag.plan.strategies import Candidate

seconds = st.floats(0.0, 9.0).map(lambda x: round(x, 3))


# -- 122: overlap ------------------------------------------------------------------------------------------------------


def link(dst, latency, rate, shared=None):
    more = {"shared": shared} if shared else {}
    return Link(src="cpu", dst=dst, latency_seconds=latency, bytes_per_second=rate, **more)


def simulated(own, buckets, links, chosen):
    """What the plan simulator says: steps on cpu, and a reader without work of each bucket where it is sent."""
    n = len(own)
    nbytes = [0] * n + [0] * len(buckets)
    edges = [(i, i + 1, "anti") for i in range(n - 1)]
    for at, (step, size) in enumerate(buckets):
        nbytes[step] = size
        edges.append((step, n + at))
    names = sorted({one.dst for one in links})
    costs = {"cpu": [*own, *[None] * len(buckets)]}
    costs |= {name: [None] * n + [0.0] * len(buckets) for name in names}
    rows = [
        (one.src, one.dst, one.latency_seconds, one.bytes_per_second, *([one.shared] if one.shared else []))
        for one in links
    ]
    problem = Problem(*objects(instance(nbytes, edges, costs, rows)))
    where = [problem.pus.index("cpu")] * n + [problem.pus.index(links[at].dst) for at in chosen]
    place = array("i", (where[row] for row in problem.rows)).tobytes()
    order = array("i", sorted(range(problem.n), key=lambda one: _turn(problem.rows[one], n, buckets))).tobytes()
    return Timetable(problem, Candidate("test", place, order, 0))


def _turn(row, n, buckets):
    return (row, 0) if row < n else (buckets[row - n][0], 1)


def gathered(nbytes, least):
    found, held = [], 0
    for step, size in enumerate(nbytes):
        held += size
        if held and held >= least:
            found.append((step, held))
            held = 0
    return [*found, (len(nbytes) - 1, held)] if held else found


@given(st.integers(0, 10**6))
def test_overlap_is_what_the_simulator_gives(number):
    r = random.Random(number)
    n = r.randint(1, 8)
    own, nbytes = [r.randint(1, 9) / 4 for _ in range(n)], [r.randint(0, 3) for _ in range(n)]
    links = [link("gpu", r.choice((0.0, 0.5)), r.choice((0.5, 1.0, 4.0)), r.choice((None, "bus")))]
    if r.random() < 0.5:
        links.append(link("npu", r.choice((0.0, 0.25)), r.choice((0.5, 2.0)), links[0].shared or None))
    least = r.choice((0, 2, 5))
    found = overlap(own, nbytes, links, least)
    table = simulated(own, gathered(nbytes, least), links, [at for at, _, _ in found.transfers])
    assert found.seconds == pytest.approx(table.makespan, rel=1e-9)
    assert sorted(start for _, start, _ in found.transfers) == pytest.approx(sorted(table.copy_start))
    assert found.exposed_seconds == pytest.approx(found.seconds - sum(own))


def test_what_is_hidden_costs_nothing_and_the_last_bucket_never_hides():
    fast = overlap([1.0, 1.0, 1.0], [1, 1, 1], [link("gpu", 0.0, 4.0)])
    assert (fast.seconds, fast.exposed_seconds) == (3.25, 0.25)
    one = overlap([1.0, 1.0, 1.0], [1, 1, 1], [link("gpu", 0.0, 4.0)], bucket_nbytes=3)
    assert one.transfers == [(0, 3.0, 3.75)]
    assert overlap([], [], []).seconds == 0.0


def test_idle_is_what_no_op_covers():
    assert idle_seconds([(0, 2), (1, 3), (5, 6)], 7) == 3
    assert idle_seconds([], 0) == 0


# -- 189: stages -------------------------------------------------------------------------------------------------------


def least_bottleneck(own, k, between):
    n = len(own)
    ways = [cuts for size in range(min(k, n)) for cuts in combinations(range(1, n), size)]
    return min(_slowest(own, cuts, between) for cuts in ways)


def _slowest(own, cuts, between):
    ends = [0, *cuts, len(own)]
    return max([sum(own[a:b]) for a, b in pairwise(ends)] + [between[cut - 1] for cut in cuts])


@given(st.lists(seconds, min_size=1, max_size=9), st.integers(1, 6), st.data())
def test_stages_equal_brute_force(own, k, data):
    handover = st.one_of(st.just(0.0), seconds, st.just(float("inf")))
    between = data.draw(st.lists(handover, min_size=len(own) - 1, max_size=len(own) - 1))
    found = stages(own, k, between)
    assert found.bottleneck_seconds == pytest.approx(least_bottleneck(own, k, between), rel=1e-9, abs=1e-12)
    assert found.bottleneck_seconds == pytest.approx(_slowest(own, found.begins[1:], between), abs=1e-12)
    assert len(found.begins) <= k


def test_stages_equal_the_usual_dynamic_programme_on_long_chains(seed):
    r = random.Random(seed)
    own = [r.random() for _ in range(120)]
    sums = [sum(own[:end]) for end in range(len(own) + 1)]
    best = [0.0, *[float("inf")] * len(own)]
    for _ in range(7):
        best = [0.0] + [min(max(best[c], sums[e] - sums[c]) for c in range(e)) for e in range(1, len(own) + 1)]
    assert stages(own, 7).bottleneck_seconds == pytest.approx(best[-1], rel=1e-12)


def test_stages_that_bring_nothing_are_merged():
    assert stages([5.0, 1.0, 1.0, 1.0], 4).begins == [0, 1]
    assert stages([], 3).begins == []


# -- 240: depths -------------------------------------------------------------------------------------------------------


def by_events(times, rooms):
    """The end of the last item and the most items that were alive on each edge, by a plain simulation of events."""
    last, items = len(times) - 1, len(times[0])
    queues, alive, peak = [0] * last, [0] * last, [0] * last
    next_item, state = [0] * (last + 1), ["idle"] * (last + 1)
    events, clock = [], 0.0
    while True:
        moved = True
        while moved:
            moved = False
            for s in range(last, -1, -1):
                if state[s] == "full" and (s == last or rooms is None or queues[s] < rooms[s]):
                    if s < last:
                        queues[s] += 1
                    state[s], moved = "idle", True
                if state[s] == "idle" and next_item[s] < items and (s == 0 or queues[s - 1]):
                    if s:
                        queues[s - 1] -= 1
                    heapq.heappush(events, (clock + times[s][next_item[s]], s))
                    next_item[s] += 1
                    state[s], moved = "busy", True
        if not events:
            return clock, peak
        clock, s = heapq.heappop(events)
        state[s] = "full"
        for edge, step in ((s, 1), (s - 1, -1)):
            if 0 <= edge < last:
                alive[edge] += step
                peak[edge] = max(peak[edge], alive[edge])


@st.composite
def lines(draw):
    r = random.Random(draw(st.integers(0, 10**6)))
    stage_count, items = r.randint(2, 5), r.randint(1, 60)
    means = [r.choice((0.5, 1.0, 1.0, 2.0)) for _ in range(stage_count)]
    kinds = [lambda: 1.0, r.random, lambda: r.expovariate(1.0), lambda: 8.0 if r.random() < 0.1 else 0.5]
    draws = [r.choice(kinds) for _ in means]
    return [[mean * each() for _ in range(items)] for mean, each in zip(means, draws, strict=True)]


@given(lines(), st.data())
def test_a_line_is_what_its_events_give(times, data):
    rooms = data.draw(
        st.one_of(st.none(), st.lists(st.integers(1, 4), min_size=len(times) - 1, max_size=len(times) - 1))
    )
    assert line(times, rooms).seconds == pytest.approx(by_events(times, rooms)[0], rel=1e-9)


@given(lines(), st.data())
def test_depths_keep_the_throughput_and_their_memory(times, data):
    nbytes = data.draw(st.lists(st.integers(1, 100), min_size=len(times) - 1, max_size=len(times) - 1))
    found = depths(times, nbytes)
    free, _ = by_events(times, None)
    took, peak = by_events(times, found.depths)
    assert free / took >= SHARE - 1e-9
    assert found.share == pytest.approx(free / took)
    assert sum(most * size for most, size in zip(peak, nbytes, strict=True)) <= found.nbytes
    for edge, depth in enumerate(found.depths):  # none could be smaller by itself
        less = [d - (at == edge) for at, d in enumerate(found.depths)]
        assert depth == 1 or free / by_events(times, less)[0] < SHARE + 1e-9


@given(lines(), st.data())
def test_a_memory_is_kept_and_the_share_says_what_is_left(times, data):
    nbytes = data.draw(st.lists(st.integers(1, 100), min_size=len(times) - 1, max_size=len(times) - 1))
    least = (1 + HANDS) * sum(nbytes)
    most = least + data.draw(st.integers(0, 300))
    found = depths(times, nbytes, most)
    took, peak = by_events(times, found.depths)
    assert sum(each * size for each, size in zip(peak, nbytes, strict=True)) <= found.nbytes <= most
    assert found.share == pytest.approx(by_events(times, None)[0] / took)
    with pytest.raises(CannotPlan, match="queues of one item"):
        depths(times, nbytes, least - 1)


def test_depths_hold_for_items_that_were_not_seen(seed):
    r = random.Random(seed)
    draw = [lambda: r.expovariate(1.0), lambda: 1.0, lambda: r.uniform(0.0, 2.0)]
    seen, unseen = ([[each() for _ in range(4_000)] for each in draw] for _ in range(2))
    found = depths(seen, [1, 1])
    assert line(unseen).seconds / line(unseen, found.depths).seconds > SHARE - 0.02
    assert max(found.depths) < 200  # of the 4000 that unlimited queues would let wait


# -- a loop of a program -----------------------------------------------------------------------------------------------


def an_op(number, count=10, **more):
    facts = {"name": f"f{number}", "kind": "call", "file": "a.py", "line": number + 1, "context": f"f{number}"}
    return Op(
        id=number,
        count=count,
        self_seconds=0.0,
        total_seconds=0.0,
        out_nbytes=80,
        **facts,
        **{"effects": "pure"} | more,
    )


def a_loop(own, carried=(), counts=None, **more):
    ops = [an_op(at, (counts or {}).get(at, 10)) for at in range(len(own))]
    edges = [Edge(src=at, dst=at + 1, kind="flow", nbytes=80) for at in range(len(own) - 1)]
    graph = Graph.build(ops, edges, [Carried(*pair) for pair in carried])
    return Work(graph, own, ["host"] * len(own), **{"units": {"host": 4}} | more)


def test_a_loop_is_cut_where_its_bottleneck_is_least():
    found = pipeline(a_loop([10.0, 20.0, 30.0, 5.0]), 2)
    assert (found.items, found.stages, found.item_seconds) == (10, [[0, 1], [2, 3]], [3.0, 3.5])
    assert found.seconds == found.alone_seconds == pytest.approx(3.0 + 10 * 3.5)
    assert found.queues.nbytes == (found.queues.depths[0] + HANDS) * 8


def test_what_runs_once_stays_outside_and_cores_are_counted():
    once = pipeline(a_loop([10.0, 20.0, 30.0, 5.0], counts={0: 1}), 2)
    assert once.stages == [[1], [2, 3]]
    assert once.seconds == pytest.approx(10.0 + 2.0 + 35.0)
    assert pipeline(a_loop([10.0, 20.0, 30.0, 5.0], units={}), 2).seconds == 65.0
    assert pipeline(a_loop([1.0, 1.0], counts={0: 1, 1: 1}), 2) is None


def test_what_the_next_round_needs_is_not_cut_off():
    assert pipeline(a_loop([10.0, 20.0, 30.0, 5.0], carried=[(2, 0)]), 2).stages == [[0, 1, 2], [3]]
    assert pipeline(a_loop([10.0, 20.0, 30.0, 5.0], carried=[(3, 0)]), 3) is None
    assert pipeline(a_loop([10.0, 20.0, 30.0, 5.0], carried=[(0, 3)]), 2).stages == [[0, 1], [2, 3]]


def test_slowdowns_change_which_choice_is_better():
    """Alone, two stages take half of the time; beside each other, more than one after the other."""
    own = [50.0, 50.0]
    free = pipeline(a_loop(own), 2)
    assert free.seconds == pytest.approx(55.0)
    both = pipeline(a_loop(own, slowdowns={(0, 1): 2.1, (1, 0): 2.1}), 2)
    assert both.alone_seconds == pytest.approx(55.0)
    assert both.seconds > 100.0


def test_calls_that_vary_need_longer_queues():
    even = pipeline(a_loop([50.0, 50.0]), 2)
    r = random.Random(1)
    calls = {op: [r.expovariate(1.0) for _ in range(10)] for op in range(2)}
    varied = pipeline(a_loop([50.0, 50.0], calls=calls), 2)
    assert varied.seconds > even.seconds
    assert varied.queues.depths[0] >= even.queues.depths[0] == 1


def test_operations_whose_order_may_matter_are_named():
    loop = a_loop([50.0, 50.0])
    drawn = Graph.build([an_op(0, effects="draws from a generator"), an_op(1, effects="unknown")], loop.graph.edges)
    assert pipeline(Work(drawn, [50.0, 50.0], ["host"] * 2), 2).ordered == [0, 1]
    assert pipeline(loop, 2).ordered == []
