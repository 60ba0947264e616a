"""The guides' small faces: the graph builder, the filter, the monitors, and the names of results."""

from __future__ import annotations

import json

import pytest

from codedag import EnhancedTracer, FilterConfig, FunctionFilter, MemoryProfiler, PerformanceMonitor
from codedag.api.dag import DAGBuilder
from codedag.instrument.numbering import number
from codedag.ir import CostTable, Edge, Graph, Op
from codedag.trace.live import Recorded
from codedag.trace.targets import targets


def _op(id_: int, name: str, kind: str, **facts: object) -> Op:
    base = {"file": "x.py", "line": id_ + 1, "context": f"f/{name}", "count": 2, "self_seconds": 0.5}
    return Op(id=id_, name=name, kind=kind, **{**base, "total_seconds": 1.0, "out_nbytes": 80, **facts})


RECORDED = Recorded(
    Graph.build(
        [
            _op(0, "numpy.sqrt", "call", in_sig="float64[5]", out_sig="float64[5]"),
            _op(1, "source:ndarray", "source", in_sig="float64[5]"),
            _op(2, "operator.mul", "operator", out_sig="float64[5]"),
            _op(3, "x.f", "region", out_nbytes=0),
            _op(4, "numpy.save", "call", out_nbytes=0),
            _op(5, "operator.getitem", "subscript", out_sig="float64[2]"),
        ],
        [Edge(1, 0, "flow", 80), Edge(0, 2, "flow", 80), Edge(2, 4, "flow", 80), Edge(0, 4, "anti", 0)],
        [(2, 0)],
    ),
    CostTable(pus=["cpu"], rows=[]),
    names={0: "y", 1: "a", 2: "y"},
    callers={0: 3, 1: 3, 2: 3, 4: 3, 3: 3},
)


def test_the_graph_of_a_trace():
    builder = DAGBuilder()
    builder.add_trace(RECORDED)
    nodes = [(node.name, node.node_type, node.version) for node in builder.dag.nodes.values()]
    assert nodes == [
        ("a", "variable", 0),
        ("numpy.sqrt", "function_call", None),
        ("y", "variable", 0),
        ("operator.mul", "operator", None),
        ("y", "variable", 1),
        ("x.f", "function_call", None),
        ("numpy.save", "function_call", None),
        ("operator.getitem", "operator", None),
        ("getitem_return", "variable", 0),
    ]
    assert set(builder.dag.edges) == {
        (1, 2, "produces"), (3, 4, "produces"), (7, 8, "produces"),
        (0, 1, "uses"), (2, 3, "uses"), (4, 6, "uses"),
        (5, 1, "calls"), (5, 3, "calls"), (5, 6, "calls"),
    }  # fmt: skip
    assert builder.carried == [(3, 1)]
    assert builder.order_only == [(1, 6)]
    sqrt = builder.dag.nodes[1]
    assert sqrt.performance == {"execution_time": 1.0, "self_time": 0.5, "memory_usage": 80}
    assert sqrt.attributes == {
        "context": "f/numpy.sqrt", "file": "x.py", "line": 1, "kind": "call", "count": 2, "out_nbytes": 80,
        "in_signature": "float64[5]", "out_signature": "float64[5]", "op": 0,
    }  # fmt: skip
    assert builder.dag.nodes[0].attributes["signature"] == "float64[5]"


def test_a_second_trace_goes_on_with_ids_and_versions():
    builder = DAGBuilder()
    builder.add_trace(RECORDED)
    builder.add_trace(RECORDED)
    assert list(builder.dag.nodes) == list(range(18))
    assert [n.version for n in builder.dag.nodes.values() if n.name == "y"] == [0, 1, 2, 3]
    assert (10, 11, "produces") in builder.dag.edges
    assert (9, 10, "uses") in builder.dag.edges


def test_nodes_can_be_added_by_hand():
    builder = DAGBuilder()
    call = builder.add_function_node("load", context="main/load")
    first, second = builder.add_variable_node("x"), builder.add_variable_node("x")
    again = builder.add_variable_node("x", version=1)
    later = builder.add_variable_node("x", version=7)
    assert again == second != first
    assert [builder.dag.nodes[n].version for n in (first, second, later)] == [0, 1, 7]
    assert builder.dag.nodes[builder.add_variable_node("x")].version == 8
    builder.add_edge(call, first, "produces")
    assert builder.dag.edges == [(call, first, "produces")]
    assert builder.dag.nodes[call].attributes["context"] == "main/load"
    with pytest.raises(ValueError, match="no node 99"):
        builder.add_edge(call, 99, "uses")


def test_the_export_is_json_and_pictures_are_svg(tmp_path):
    tracer = EnhancedTracer(max_depth=3)
    tracer.dag_builder.add_trace(RECORDED)
    told = json.loads(json.dumps(tracer.export_dataflow_graph()))
    assert len(told["nodes"]) == told["statistics"]["node_count"] == 9
    assert {"source": 0, "target": 1, "type": "uses"} in told["edges"]
    assert told["statistics"]["node_types"] == {"variable": 4, "function_call": 3, "operator": 2}
    assert told["statistics"]["memory_usage"] == 240
    assert told["metadata"]["carried"] == [[3, 1]]
    with pytest.raises(ValueError, match=r"\.svg"):
        tracer.export_visualization(tmp_path / "picture.png")
    assert not list(tmp_path.iterdir())


def test_the_filter():
    chosen = FunctionFilter(FilterConfig(include_modules=("mine*",), exclude_functions=("skip",)))
    assert chosen.should_trace("load", "mine.data")
    assert not chosen.should_trace("load", "theirs")
    assert not chosen.should_trace("skip", "mine")
    assert FunctionFilter().should_trace("anything", "anywhere")


def test_the_memory_of_this_process():
    profiler = MemoryProfiler()
    assert profiler.get_peak() == 0
    first = profiler.take_snapshot()
    held = bytearray(64 << 20)
    held[::4096] = b"x" * len(held[::4096])
    second = profiler.take_snapshot()
    assert second.rss_nbytes - first.rss_nbytes > 48 << 20
    assert profiler.get_peak() == max(first.rss_nbytes, second.rss_nbytes)
    assert profiler.get_memory_usage() > 48 << 20


def test_named_stretches(monkeypatch):
    clock = iter([0.0, 1.0, 10.0, 13.0, 20.0, 21.0, 50.0, 52.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    monitor = PerformanceMonitor()
    monitor.start("load")
    assert monitor.stop("load") == 1.0
    with monitor.measure("load"):
        pass
    with pytest.raises(KeyError), monitor.measure("fails"):
        raise KeyError
    with monitor as same:
        assert same is monitor
    metrics = monitor.get_metrics()
    assert metrics["load"] == {"count": 2, "total_time": 4.0, "average_time": 2.0, "min_time": 1.0, "max_time": 3.0}
    assert metrics["fails"]["count"] == 1
    assert metrics["total"]["total_time"] == 2.0


def test_a_stretch_is_started_once_and_stopped_once():
    monitor = PerformanceMonitor()
    with pytest.raises(ValueError, match="was not started"):
        monitor.stop("x")
    monitor.start("x")
    with pytest.raises(ValueError, match="already"):
        monitor.start("x")
    assert monitor.get_metrics() == {}


SOURCE = b"""
import cv2, numpy as np
resized = cv2.resize(img, (2, 2))
a, b = np.split(resized, 2)
self.x = np.sqrt(a) + 1
out[3] = b
out += a
y: int = f(a, b)
if (n := g(a)): pass
z = p(a) if n else q(b)
for row in loader(z): use(row)
w = v = h(z)[0]
plain(z.mean())
"""


def test_what_the_program_calls_its_results():
    import ast

    infos, _ = number(ast.parse(SOURCE), "x.py")
    known = targets(SOURCE, "x.py")
    lines = SOURCE.decode().splitlines()
    found = [(lines[i.line - 1][i.column : i.end_column], known.of(i), known.argument(i)) for i in infos]
    expected = [
        ("cv2.resize(img, (2, 2))", "resized", "img"),
        ("np.split(resized, 2)", "a, b", "resized"),
        ("np.sqrt(a)", "", "a"),
        ("np.sqrt(a) + 1", "self.x", ""),
        ("out[3] = b", "out", ""),
        ("out += a", "out", ""),
        ("f(a, b)", "y", ""),
        ("g(a)", "n", "a"),
        ("p(a)", "z", "a"),
        ("q(b)", "z", "b"),
        ("loader(z)", "", "z"),
        ("loader(z)", "row", ""),
        ("use(row)", "", "row"),
        ("h(z)", "", "z"),
        ("h(z)[0]", "w", ""),
        ("z.mean()", "", "z"),
        ("plain(z.mean())", "", ""),
    ]
    assert sorted(found) == sorted(expected)
