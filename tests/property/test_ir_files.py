"""Random graphs and spoilt files: what is saved is loaded, and nothing but BadFile comes of a bad file."""

from __future__ import annotations

import json
import re
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import given as given_quickly
from hypothesis import strategies as st

from codedag.ir import BadFile, BadGraph, Edge, Graph, Op, check, load, save
from codedag.ir.fields import EDGE_KINDS, LARGEST, OP_KINDS

texts = st.text(max_size=12) | st.sampled_from(["}],{", '"', "\\", "[", "é\x00", '":{"'])
naturals = st.integers(0, LARGEST)
seconds = st.floats(0, allow_nan=False, allow_infinity=False)


def given(*strategies):
    """`given` without a clock: a busy machine must not fail a test."""
    calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    return lambda test: calm(given_quickly(*strategies)(test))


@st.composite
def graphs(draw):
    """A legal graph: ids in any order, edges only from earlier to later in a hidden order."""
    ids = draw(st.lists(st.integers(0, 40) | naturals, unique=True, max_size=12))
    ops = [draw(_ops(id_)) for id_ in ids]
    hidden = draw(st.permutations(ids))
    pairs = st.tuples(*[st.integers(0, max(len(ids) - 1, 0))] * 2)
    picked = draw(st.lists(pairs, max_size=20)) if ids else []
    ends = [(hidden[min(pair)], hidden[max(pair)]) for pair in picked if pair[0] != pair[1]]
    edges = [Edge(src, dst, draw(st.sampled_from(sorted(EDGE_KINDS))), draw(naturals)) for src, dst in ends]
    carried = [(ids[a], ids[b]) for a, b in (draw(st.lists(pairs, max_size=4)) if ids else [])]
    return Graph.build(ops, edges, carried)


def _ops(id_):
    return st.builds(
        Op,
        id=st.just(id_),
        name=texts,
        kind=st.sampled_from(sorted(OP_KINDS)),
        file=texts,
        line=naturals,
        context=texts,
        count=st.integers(1, LARGEST),
        self_seconds=seconds,
        total_seconds=seconds,
        out_nbytes=naturals,
        parent=st.just(-1),
        in_sig=texts,
        out_sig=texts,
        effects=texts,
        site=st.integers(-1, LARGEST),
        col=st.integers(-1, LARGEST),
    )


def saved_bytes(graph):
    with tempfile.TemporaryDirectory() as folder:
        save(graph, Path(folder) / "graph.json")
        return (Path(folder) / "graph.json").read_bytes()


def load_bytes(raw, kind=None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        path.write_bytes(raw)
        return load(path, kind)


@given(graphs())
def test_what_is_saved_is_loaded(graph):
    check(graph)
    assert load_bytes(saved_bytes(graph)) == graph


@given(graphs(), st.booleans(), st.booleans())
def test_other_writers_are_read_the_same(graph, ordered, indented):
    whole = json.loads(saved_bytes(graph))
    again = json.dumps(whole, sort_keys=ordered, indent=2 if indented else None)
    assert load_bytes(again.encode()) == graph


@given(graphs())
def test_the_order_respects_all_edges(graph):
    place = {id_: at for at, id_ in enumerate(graph.topological())}
    assert sorted(place) == sorted(graph.op_columns.id)
    assert all(place[edge.src] < place[edge.dst] for edge in graph.edges)


@given(graphs())
def test_neighbours_are_those_of_the_edges(graph):
    pairs = {(edge.src, edge.dst) for edge in graph.edges}
    ids = list(graph.op_columns.id)
    assert {(id_, dst) for id_ in ids for dst in graph.successors(id_)} == pairs
    assert {(src, id_) for id_ in ids for src in graph.predecessors(id_)} == pairs


@given(graphs(), st.data())
def test_a_planted_cycle_is_found_and_named(graph, data):
    assume(len(graph.edges))
    back = data.draw(st.sampled_from(list(graph.edges)))
    edges = [*graph.edges, Edge(back.dst, back.src, "anti", 0)]
    planted = Graph.build([Op(**_plain(op)) for op in graph.ops], edges, graph.carried)
    with pytest.raises(BadGraph, match="cycle") as caught:
        check(planted)
    named = [int(id_) for id_ in re.findall(r"op (\d+) f \(a:1\)", caught.value.message)]
    pairs = {(edge.src, edge.dst) for edge in edges}
    assert len(named) > 2
    assert all(pair in pairs for pair in pairwise(named))


def _plain(op):
    return {field: getattr(op, field) for field in op.__struct_fields__} | {
        "name": "f",
        "file": "a",
        "line": 1,
    }


@given(graphs(), st.data())
def test_a_truncated_file_is_a_bad_file(graph, data):
    raw = saved_bytes(graph)
    cut = data.draw(st.integers(0, len(raw) - 1))
    for kind in (None, "graph"):
        with pytest.raises(BadFile):
            load_bytes(raw[:cut], kind)


@given(graphs(), st.data())
def test_a_damaged_file_is_read_or_refused(graph, data):
    raw = bytearray(saved_bytes(graph))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        check(load_bytes(bytes(raw), "graph"))
    except BadFile:
        pass


@given(st.binary(max_size=200), st.sampled_from([None, "graph", "plan"]))
def test_noise_is_a_bad_file(raw, kind):
    for start in (b"", b'{"format":"codedag/graph",', b'{"ops":['):
        with pytest.raises(BadFile):
            load_bytes(start + raw, kind)
