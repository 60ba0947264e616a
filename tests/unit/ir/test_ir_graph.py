from __future__ import annotations

import copy

import pytest
from ir_samples import diamond, flow, op

from codedag.ir import BadGraph, Edge, Graph, Op
from codedag.ir.columns import OpColumns


def test_rows_are_views_of_the_columns():
    graph = diamond()
    assert len(graph) == len(graph.ops) == 4
    assert graph.ops[1] == op(1, in_sig="uint8[2,2]", effects="pure", site=3, col=7)
    assert graph.ops[-1].id == 5
    assert [one.id for one in graph.ops] == [0, 1, 2, 5]
    assert [one.id for one in graph.ops[1:3]] == [1, 2]
    assert graph.edges[3] == Edge(2, 5, "anti", 0)
    assert graph.edges == [flow(0, 1), flow(0, 2), flow(1, 5), Edge(2, 5, "anti", 0), flow(2, 5)]
    assert list(graph.carried) == [(5, 0), (5, 5)]
    with pytest.raises(IndexError):
        graph.ops[4]


def test_an_op_cannot_be_changed_and_says_where_it_is():
    one = diamond().op(5)
    assert (one.where, one.label) == ("train.py:41", "op 5 numpy.sqrt (train.py:41)")
    with pytest.raises(AttributeError):
        one.line = 3


def test_the_columns_are_the_fields_of_an_op():
    assert list(OpColumns.__dataclass_fields__) == list(Op.__struct_fields__)


def test_equal_texts_are_stored_once():
    parts = ["train", ".py"]
    graph = Graph.build([op(0, file="".join(parts)), op(1, file="".join(parts))])
    assert graph.op_columns.file[0] is graph.op_columns.file[1]


def test_neighbours_are_named_once_though_edges_repeat():
    graph = diamond()
    assert graph.successors(0) == (1, 2)
    assert graph.successors(2) == (5,)
    assert graph.predecessors(5) == (1, 2)
    assert graph.predecessors(0) == ()
    assert graph.edges_from(2) == [Edge(2, 5, "anti", 0), flow(2, 5)]
    assert [edge.src for edge in graph.edges_to(5)] == [1, 2, 2]


@pytest.mark.parametrize("scale", [1, 10**15])
def test_order_with_dense_and_with_sparse_ids(scale):
    graph = Graph.build([op(i * scale) for i in (3, 1, 2, 0)], [flow(0, scale), flow(scale, 2 * scale)])
    order = list(graph.topological())
    assert sorted(order) == [0, scale, 2 * scale, 3 * scale]
    assert order.index(0) < order.index(scale) < order.index(2 * scale)
    assert [graph.op_columns.id[row] for row in graph.topological_rows()] == order
    assert graph.op(2 * scale).id == 2 * scale


def test_an_empty_graph_is_a_graph():
    graph = Graph.build([], [], [])
    assert graph
    assert (len(graph), list(graph.topological()), list(graph.ops), list(graph.carried)) == (0, [], [], [])


@pytest.mark.parametrize("id_", [4, -1, 10**30])
def test_an_unknown_op_is_named(id_):
    with pytest.raises(BadGraph, match=f"no op {id_} "):
        diamond().op(id_)


def test_equality_compares_every_column():
    assert diamond() == diamond()
    assert copy.deepcopy(diamond()) == diamond()
    assert diamond() != Graph.build(diamond().ops, diamond().edges, [])
    assert diamond() != 3


def test_a_file_name_that_is_not_utf8_is_escaped():
    graph = Graph.build([op(0, file="a\udc80é.py")])
    assert graph.ops[0].file == "a\\udc80é.py"


@pytest.mark.parametrize("wrong", [{"line": 2**63}, {"line": "3"}, {"name": 3}, {"self_seconds": None}])
def test_a_value_that_no_column_holds_is_refused(wrong):
    (field,) = wrong
    with pytest.raises(BadGraph, match=f"`{field}`"):
        Graph.build([op(0, **{"name": "x", **wrong})])
