"""A run for other tools: trace events, tables and Graphviz text, true to the run and legal whatever its names are."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from codedag.ir import CostRow, CostTable, Edge, Graph, Op, Placement, Plan, Step, Transfer
from codedag.ir.events import DeviceValue, Event, Events, Lane, Mark
from codedag.view import dot, perfetto, tables

HOSTILE = ('a"b', "a\\", "a\\n{b}", "<script>", "日本", "a\nb", "a,b;c", "\u202e", "-> n0", "")


def _op(id_: int, name: str, seconds: float = 1.0, **more: object) -> Op:
    facts = {"kind": "call", "file": "a.py", "line": id_ + 1, "count": 2, "out_nbytes": 100, **more}
    return Op(id=id_, name=name, context=f"main/{name}", self_seconds=seconds, total_seconds=seconds, **facts)  # type: ignore[arg-type]


@pytest.fixture
def graph():
    ops = [_op(7, "cv2.imread", 3.0), _op(9, "numpy.sqrt", 1.0, kind="operator")]
    return Graph.build(ops, [Edge(7, 9, "flow", 2_000_000)], [(9, 7)])


@pytest.fixture
def plan():
    where = {"context": "c", "file": "a.py", "line": 1}
    return Plan(
        sources=[],
        moves=[],
        placement=[
            Placement(op=7, name="cv2.imread", pu="cpu", variant="original", **where),
            Placement(op=9, name="numpy.sqrt", pu="cuda:0", variant="torch", **where),
        ],
        schedule=[Step(op=7, start=0.0, end=3.0), Step(op=9, start=3.5, end=4.0)],
        transfers=[Transfer(op=7, src="cpu", dst="cuda:0", start=3.0, end=3.5)],
        makespan_seconds=4.0, lower_bound_seconds=3.0, baseline_seconds=4.0,
    )  # fmt: skip


EVENTS = Events(
    seconds=5.0,
    seen=9,
    least_seconds=0.0,
    lanes=[Lane(process=11, thread=1, name="main"), Lane(process=12, thread=5)],
    calls=[Event(7, 0, 0.5, 1.5, 100), Event(9, 1, 2.0, 2.25, 0), Event(999, 1, 3.0, 3.0, 0)],
    memory=[DeviceValue(11, 1.0, 4096)],
    marks=[Mark(name="switched", seconds=2.5)],
)


ONE_CALL = [Event(0, 0, 0, 1, 0)]


def _events(graph, events, plan=None):
    return json.loads(b"".join(perfetto.trace_events(graph, events, plan)))["traceEvents"]


def test_calls_are_blocks_on_the_lane_they_ran_on(graph):
    found = _events(graph, EVENTS)
    first, second, unknown = [each for each in found if each["ph"] == "X"]
    assert (first["name"], first["ts"], first["dur"], first["pid"]) == ("cv2.imread", 0.5e6, 1e6, 11)
    assert first["args"] == {"op": 7, "nbytes": 100, "where": "a.py:8", "context": "main/cv2.imread"}
    assert (second["pid"], second["cat"]) == (12, "operator")
    assert unknown["name"] == "op 999"
    lanes = {(each["pid"], each["tid"]): each["args"]["name"] for each in found if each["name"] == "thread_name"}
    assert lanes == {(11, 0): "main", (12, 1): "thread 5"}
    assert {each["tid"] for each in (first, second)} == {0, 1}
    (memory,) = [each for each in found if each["ph"] == "C"]
    assert (memory["args"], memory["ts"]) == ({"bytes": 4096}, 1e6)
    (mark,) = [each for each in found if each["ph"] == "i"]
    assert (mark["name"], mark["ts"]) == ("switched", 2.5e6)


def test_a_plan_is_a_process_of_its_own_and_labelled_simulated(graph, plan):
    found = [each for each in _events(graph, EVENTS, plan) if each["pid"] == perfetto.PLAN_PROCESS]
    names = {each["tid"]: each["args"]["name"] for each in found if each["name"] == "thread_name"}
    assert sorted(names.values()) == ["cpu", "cpu to cuda:0", "cuda:0"]
    blocks = {each["name"]: each for each in found if each["ph"] == "X"}
    assert names[blocks["numpy.sqrt"]["tid"]] == "cuda:0"
    assert blocks["transfer"]["ts"] == 3e6
    (process,) = [each for each in found if each["name"] == "process_name"]
    assert "simulated" in process["args"]["name"]
    assert _events(graph, None, plan) == found


def test_an_empty_run_is_an_empty_trace():
    empty = Graph.build([])
    assert _events(empty, Events(seconds=0.0, seen=0, least_seconds=0.0, lanes=[], calls=[])) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_survives(name):
    graph = Graph.build([_op(0, name or "x", file=name or "f")])
    events = Events(
        seconds=1.0, seen=1, least_seconds=0.0, lanes=[Lane(process=1, thread=1)], calls=[Event(0, 0, 0, 1, 0)]
    )
    (block,) = [each for each in _events(graph, events) if each["ph"] == "X"]
    assert block["name"] == (name or "x")
    (row,) = csv.DictReader(io.StringIO(b"".join(tables.csv_table(graph)).decode(), newline=""))
    assert (row["name"], row["file"]) == (name or "x", name or "f")
    _check_dot("\n".join(dot.digraph(graph, name)))


def test_names_that_are_no_text_are_escaped():
    graph = Graph.build([_op(0, "f\udc80")])
    events = Events(
        seconds=1.0, seen=1, least_seconds=0.0, lanes=[Lane(process=1, thread=1)], calls=[Event(0, 0, 0, 1, 0)]
    )
    assert any(each["name"] == "f\\udc80" for each in _events(graph, events))
    assert b"f\\udc80" in b"".join(tables.csv_table(graph))


COSTS = CostTable(
    pus=["cpu", "cuda:0"],
    rows=[
        CostRow(op=7, pu="cpu", variant="original", seconds=3.0, status="ok"),
        CostRow(op=9, pu="cpu", variant="original", seconds=1.0, status="ok"),
        CostRow(op=9, pu="cuda:0", variant="torch", seconds=0.25, status="ok"),
    ],
)


def test_the_table_has_a_row_per_operation(graph, plan):
    text = b"".join(tables.csv_table(graph, COSTS, plan)).decode()
    first, second = csv.DictReader(io.StringIO(text))
    assert tuple(first) == tables.COLUMNS
    assert (first["op"], first["name"], first["share"], first["best_pu"]) == ("7", "cv2.imread", "0.75", "cpu")
    assert (second["best_pu"], second["best_variant"], second["best_seconds"]) == ("cuda:0", "torch", "0.25")
    assert (second["planned_pu"], second["planned_variant"]) == ("cuda:0", "torch")
    bare = list(csv.DictReader(io.StringIO(b"".join(tables.csv_table(graph)).decode())))
    assert bare[0]["best_pu"] == bare[0]["planned_pu"] == ""


def test_a_large_table_comes_in_pieces(monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 10)
    graph = Graph.build([_op(number, "f") for number in range(25)])
    pieces = list(tables.csv_table(graph))
    assert len(pieces) == 3
    assert len(list(csv.DictReader(io.StringIO(b"".join(pieces).decode())))) == 25


def test_parquet_holds_the_same_table(graph, plan):
    parquet = pytest.importorskip("pyarrow.parquet")
    found = parquet.read_table(io.BytesIO(tables.parquet_table(graph, COSTS, plan))).to_pydict()
    assert tuple(found) == tables.COLUMNS
    assert list(zip(*found.values(), strict=True)) == list(tables.rows(graph, COSTS, plan))
    assert parquet.read_table(io.BytesIO(tables.parquet_table(Graph.build([])))).num_rows == 0


def test_without_pyarrow_the_error_names_it(graph, monkeypatch):
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(tables.MissingPackage, match="pyarrow"):
        tables.parquet_table(graph)


def _check_dot(text: str) -> None:
    """Legal as far as quotes and brackets go: outside quoted text there is nothing but what we write."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "T", text)
    assert '"' not in bare
    assert bare.count("{") == bare.count("}")
    for line in bare.splitlines():
        assert re.fullmatch(
            r"\s*(digraph \w+ \{|\}|(graph|node|edge) \[[^\[\]]*\];|subgraph cluster_\d+ \{|\w+=T;|n\d+ \[[^\[\]]*\];"
            r"|n\d+ -> n\d+ \[[^\[\]]*\];)",
            line,
        ), line


def test_graphviz_text_has_the_boxes_and_links(graph):
    text = "\n".join(dot.digraph(graph, "a.py"))
    _check_dot(text)
    assert 'label="2.0 MB"' in text
    assert len(re.findall(r"^  n\d -> n\d", text, re.M)) == 2
    assert 'style="dotted", constraint="false"' in text  # what a later iteration needs
    assert "subgraph cluster_0" in text


def test_an_empty_run_is_an_empty_picture():
    _check_dot("\n".join(dot.digraph(Graph.build([]))))
    assert b"".join(tables.csv_table(Graph.build([]))).decode() == ",".join(tables.COLUMNS) + "\n"
