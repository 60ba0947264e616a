"""Passes over the graph: they need the graph and the source to agree, and the graph without what they find is legal."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codedag.ir import Edge, Graph, Op
from codedag.ir.checks import check
from codedag.ir.findings import Written
from codedag.plan.passes import PASSES, critical_path, findings, without

ARRAY = "float64[100]"


def op(number, name, **more):
    kind = "operator" if name.startswith("operator.") else "call"
    facts = {"in_sig": ARRAY, "out_sig": ARRAY, "effects": "pure", "site": number, **more}
    return Op(number, name, kind, "t.py", number, f"f/{name}", 4, 0.5, 0.5, 3200, **facts)


def flow(src, dst, nbytes=3200):
    return Edge(src, dst, "flow", nbytes)


def places(**facts):
    """What is known of the sites of t.py; `_3=...` is about site 3."""
    found = {("t.py", site): Written(site, 0, positional=1) for site in range(10)}
    return found | {
        ("t.py", int(k[1:])): msgspec.structs.replace(found["t.py", int(k[1:])], **v) for k, v in facts.items()
    }


#: load -> sqrt (1), load -> sqrt (2), both -> add (3) -> print (4)
REPEATED = [op(0, "m.load"), op(1, "m.sqrt"), op(2, "m.sqrt"), op(3, "operator.add", in_sig=f"{ARRAY},{ARRAY}"),
            op(4, "print", effects="unknown", out_sig="")]  # fmt: skip
FLOWS = [flow(0, 1), flow(0, 2), flow(1, 3), flow(2, 3), flow(3, 4)]


def found_in(ops, edges, facts, carried=()):
    return [(one.kind, one.op, one.other) for one in findings(Graph.build(ops, edges, carried), facts)]


def changed(ops, number, **facts):
    return [msgspec.structs.replace(one, **facts) if one.id == number else one for one in ops]


def test_an_operation_that_comes_again_is_found_and_goes():
    graph = Graph.build(REPEATED, FLOWS)
    found = findings(graph, places(_2={"again": 1}))
    assert [(one.kind, one.op, one.other, one.seconds) for one in found] == [("twice", 2, 1, 0.5)]
    left = without(graph, found)
    check(left)
    assert list(left.op_columns.id) == [0, 1, 3, 4]
    assert [(e.src, e.dst, e.nbytes) for e in left.edges] == [(0, 1, 3200), (1, 3, 6400), (3, 4, 3200)]
    assert sum(left.op_columns.self_seconds) == sum(graph.op_columns.self_seconds) - 0.5


@pytest.mark.parametrize(
    ("ops", "edges", "carried"),
    [
        (changed(REPEATED, 2, effects="unknown"), FLOWS, ()),
        (changed(REPEATED, 2, effects="pure, not the same each time"), FLOWS, ()),
        (changed(REPEATED, 2, effects="draws from a generator"), FLOWS, ()),
        (changed(REPEATED, 1, effects="pure, writes argument 1 if given"), FLOWS, ()),
        (changed(REPEATED, 2, in_sig="float64[99]"), FLOWS, ()),
        (changed(REPEATED, 2, in_sig="Mine"), FLOWS, ()),
        (changed(REPEATED, 2, count=3), FLOWS, ()),
        (changed(REPEATED, 2, parent=0), FLOWS, ()),
        (REPEATED, [flow(0, 1), *FLOWS[2:]], ()),  # what the second one was given is not known
        (REPEATED, [flow(0, 1), flow(0, 2, 99), *FLOWS[2:]], ()),
        (changed(REPEATED, 3, effects="writes its first operand"), FLOWS, ()),
        (changed(REPEATED, 3, name="m.take", kind="call", effects="unknown"), FLOWS, ()),
        (REPEATED, FLOWS, [(1, 0)]),  # a later round has it
        (REPEATED, FLOWS, [(3, 2)]),  # an earlier round gives it something
    ],
)  # fmt: skip
def test_an_operation_that_only_looks_like_another(ops, edges, carried):
    assert found_in(ops, edges, places(_2={"again": 1}), carried) == []


def test_something_unseen_or_unknown_in_between_forbids_it():
    ops = [one if one.id < 2 else msgspec.structs.replace(one, site=one.site + 2) for one in REPEATED]
    assert found_in(ops, FLOWS, places(_4={"again": 1})) == []
    between = op(9, "m.free", effects="unknown", site=2)
    assert found_in([*ops, between], FLOWS, places(_4={"again": 1})) == []
    harmless = [op(8, "m.abs", site=2), op(9, "m.abs", site=3)]
    assert found_in([*ops, *harmless], FLOWS, places(_4={"again": 1})) == [("twice", 2, 1)]


def test_views_of_a_result_that_are_written_forbid_it():
    view = op(5, "m.flat")
    writer = op(6, "operator.iadd", effects="writes its first operand")
    edges = [*FLOWS, flow(1, 5), flow(5, 6)]
    assert found_in([*REPEATED, view], [*FLOWS, flow(1, 5)], places(_2={"again": 1})) == [("twice", 2, 1)]
    assert found_in([*REPEATED, view, writer], edges, places(_2={"again": 1})) == []


def test_what_is_unused_takes_its_operands_along():
    ops = [op(0, "m.load"), op(1, "m.sqrt"), op(2, "m.exp")]
    facts = places(_1={"passes_on": 2}, _2={"unused": True})
    graph = Graph.build(ops, [flow(0, 1), flow(1, 2)])
    found = findings(graph, facts)
    assert {(one.kind, one.op) for one in found} == {("unused", 1), ("unused", 2)}
    assert list(without(graph, found).op_columns.id) == [0]
    assert found_in(ops, [flow(0, 1), flow(0, 2)], facts) == [("unused", 2, -1)]  # the graph saw no such flow
    assert found_in(changed(ops, 2, effects="unknown"), [flow(0, 1), flow(1, 2)], facts) == []
    assert found_in([*ops, op(3, "m.take")], [flow(0, 1), flow(1, 2), flow(2, 3)], facts) == []  # it was seen in use


def test_what_is_unused_is_nobodys_first():
    facts = places(_1={"unused": True}, _2={"again": 1})
    assert found_in(REPEATED, [flow(0, 1), flow(0, 2), flow(2, 3), flow(3, 4)], facts) == [("unused", 1, -1)]


def test_what_is_made_of_literals_is_computed_once():
    ops = [op(0, "m.window", in_sig=""), op(1, "m.outer", in_sig=f"{ARRAY},{ARRAY}"), op(2, "operator.mul")]
    facts = places(_0={"fixed": ()}, _1={"fixed": (0, 0)})
    graph = Graph.build(ops, [flow(0, 1), flow(1, 2)])
    found = findings(graph, facts)
    assert [(one.kind, one.op, one.seconds) for one in found] == [("constant", 0, 0.375), ("constant", 1, 0.375)]
    left = without(graph, found)
    assert list(left.op_columns.count) == [1, 1, 4]
    assert left.op_columns.self_seconds[0] == pytest.approx(0.125)
    assert found_in(changed(ops, 2, effects="writes its first operand"), [flow(0, 1), flow(1, 2)], facts) == []
    assert found_in([op(0, "m.window")], [], {}) == []


def test_a_fresh_operand_could_be_written_over():
    ops = [op(0, "m.load"), op(1, "operator.add"), op(2, "operator.mul")]
    facts, edges = places(_1={"feeds": 2}), [flow(0, 1), flow(1, 2)]
    assert found_in(ops, edges, facts) == [("in place", 2, 1)]
    assert found_in(changed(ops, 2, out_sig="float32[100]"), edges, facts) == []
    assert found_in(changed(ops, 2, name="operator.floordiv"), edges, facts) == []
    assert found_in(changed(ops, 1, kind="call"), edges, facts) == []
    assert found_in([*ops, op(3, "m.backward")], edges, facts) == []  # it may be kept for the way back
    assert found_in([*ops, op(3, "m.abs")], [*edges, flow(1, 3)], facts) == []
    assert found_in(ops, edges, facts, [(1, 1)]) == []


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 9))
    seconds = draw(st.lists(st.floats(0, 10), min_size=n, max_size=n))
    ops = [op(k, f"m.f{draw(st.integers(0, 2))}", site=draw(st.integers(0, 9))) for k in range(n)]
    ops = [msgspec.structs.replace(one, self_seconds=s) for one, s in zip(ops, seconds, strict=True)]
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    edges = [flow(a, b) for a, b in (draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])]
    return Graph.build(ops, edges)


def slowest(graph, at):
    """The seconds of the longest path that begins at an operation, by going along all of them."""
    return graph.op(at).self_seconds + max((slowest(graph, one) for one in graph.successors(at)), default=0.0)


@given(graphs())
def test_the_critical_path_is_the_longest_of_all(graph):
    found = critical_path(graph)
    assert found.seconds == pytest.approx(max(slowest(graph, one.id) for one in graph.ops))
    assert sum(graph.op(one).self_seconds for one in found.ops) == pytest.approx(found.seconds)
    assert all(b in graph.successors(a) for a, b in zip(found.ops, found.ops[1:], strict=False))
    assert found.seconds <= found.total_seconds + 1e-9


facts_of = st.builds(
    Written, st.just(0), st.just(0), unused=st.booleans(), feeds=st.integers(-1, 9), passes_on=st.integers(-1, 9),
    again=st.integers(-1, 9), fixed=st.none() | st.lists(st.integers(0, 9), max_size=2).map(tuple),
)  # fmt: skip


@settings(max_examples=200)
@given(graphs(), st.lists(facts_of, min_size=10, max_size=10))
def test_whatever_the_source_says_the_graph_that_is_left_is_legal(graph, facts):
    found = findings(graph, {("t.py", site): fact for site, fact in enumerate(facts)})
    assert len({one.op for one in found}) == len(found)
    left = without(graph, found)
    check(left)
    saved = sum(one.seconds for one in found)
    assert sum(left.op_columns.self_seconds) == pytest.approx(sum(graph.op_columns.self_seconds) - saved)
    assert {one.kind for one in found} <= {"unused", "twice", "constant", "in place"}
    assert len(PASSES) == 4
