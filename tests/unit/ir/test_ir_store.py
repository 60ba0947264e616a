from __future__ import annotations

import copy
import json
import os
from pathlib import Path

import pytest
from ir_samples import COSTS, PLAN, RUN, diamond, everything, flow, op

from codedag.ir import BadFile, BadGraph, CannotWrite, Graph, RunDirectory, load, save, store

KINDS = sorted(everything())


@pytest.fixture
def saved(tmp_path):
    """The JSON of a file of each kind and a place to write a spoilt one."""
    files = {}
    for kind, one in everything().items():
        save(one, tmp_path / f"good-{kind}.json")
        files[kind] = json.loads((tmp_path / f"good-{kind}.json").read_bytes())
    return files


def refused(path, *words, kind=None):
    with pytest.raises(BadFile) as caught:
        load(path, kind)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert caught.value.hint
    for word in words:
        assert word in text
    return text


def spoil(saved, kind, where, value, tmp_path):
    whole = copy.deepcopy(saved[kind])
    *steps, last = where
    part = whole
    for step in steps:
        part = part[step]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    path = tmp_path / "spoilt.json"
    path.write_text(json.dumps(whole))
    return path


SPOILT = [
    ("graph", ("ops", 1, "line"), "x", "ops[1].line: expected `int`, got `str`"),
    ("graph", ("ops", 1, "line"), 1.5, "ops[1].line"),
    ("graph", ("ops", 1, "line"), True, "ops[1].line"),
    ("graph", ("ops", 1, "line"), 2**70, "ops[1].line"),
    ("graph", ("ops", 1, "line"), ..., "ops[1].line: is missing"),
    ("graph", ("ops", 2, "kind"), "magic", "ops[2].kind: invalid enum value 'magic'"),
    ("graph", ("ops", 3, "count"), 0, "ops[3].count"),
    ("graph", ("ops", 3, "self_seconds"), float("nan"), "ops[3].self_seconds: NaN"),
    ("graph", ("ops", 3, "self_seconds"), float("-inf"), "ops[3].self_seconds: -Infinity"),
    ("graph", ("ops", 3, "extra"), [{"a": float("inf")}], "ops[3].extra[0].a: Infinity"),
    ("graph", ("ops", 0), 7, "ops[0]: expected `object`, got `int`"),
    ("graph", ("ops",), {}, "ops"),
    ("graph", ("ops",), ..., "ops: is missing"),
    ("graph", ("edges",), ..., "edges: is missing"),
    ("graph", ("edges", 4, "nbytes"), -1, "edges[4].nbytes"),
    ("graph", ("edges", 4, "dst"), 99, "edges[4].dst: there is no op 99"),
    ("graph", ("edges", 0, "kind"), "x", "edges[0].kind"),
    ("graph", ("carried", 0), {"src": 0}, "carried[0].dst: is missing"),
    ("graph", ("ops", 1, "id"), 0, "is also the id of"),
    ("costs", ("rows", 0, "seconds"), "x", "rows[0].seconds"),
    ("costs", ("rows", 0, "seconds"), None, "rows[0]: status is `ok` but there are no seconds"),
    ("costs", ("rows", 0, "pu"), "tpu", "rows[0].pu: `tpu` is not in pus"),
    ("costs", ("rows", 0, "alternatives", 0, "status"), "bad", "rows[0].alternatives[0].status"),
    ("machine", ("pus", 1, "name"), "cpu", "pus[1].name: a second PU"),
    ("machine", ("pus", 1, "name"), "a,b", "pus[1].name: `a,b` is empty or has a comma"),
    ("machine", ("links", 0, "bytes_per_second"), 0, "links[0].bytes_per_second"),
    ("plan", ("placement", 0, "op"), -1, "placement[0].op"),
    ("plan", ("makespan_seconds",), ..., "makespan_seconds: is missing"),
    ("plan", ("makespan_seconds",), float("nan"), "makespan_seconds: NaN"),
    ("run", ("status",), "fine", "status: invalid enum value 'fine'"),
    ("run", ("versions",), {"numpy": 2}, "versions"),
    ("report", ("verdict", "identical"), "yes", "verdict.identical"),
]


@pytest.mark.parametrize(("kind", "where", "value", "words"), SPOILT)
def test_a_bad_field_is_named(kind, where, value, words, saved, tmp_path):
    refused(spoil(saved, kind, where, value, tmp_path), words)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (("format",), "codedag/other", "codedag/other"),
        (("format",), "", "format"),
        (("format",), 3, "format"),
        (("format",), ..., "format: is missing"),
        (("version",), 2, "version: this CodeDAG reads version 1, got `2`"),
        (("version",), True, "version"),
        (("version",), "1.5", "version"),
        (("version",), ..., "version: is missing"),
    ],
)
def test_format_and_version(kind, given, where, value, words, saved, tmp_path):
    refused(spoil(saved, kind, where, value, tmp_path), words, kind=kind if given else None)


def test_the_index_is_that_of_the_file_and_not_of_a_batch(tmp_path):
    rows = [{"src": 0, "dst": 1, "kind": "flow", "nbytes": 0} for _ in range(90_000)]
    rows[89_123]["nbytes"] = "many"
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"format": "codedag/graph", "version": 1, "ops": [], "edges": rows}))
    refused(path, "edges[89123].nbytes")


def test_the_kind_that_was_asked_for_must_be_there(tmp_path):
    save(RUN, tmp_path / "run.json")
    refused(tmp_path / "run.json", "format: expected `codedag/plan`, got `codedag/run`", kind="plan")
    refused(tmp_path / "run.json", "format: expected `codedag/graph`, got `codedag/run`", kind="graph")


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"null", "is not a JSON object"),
        (b"[]", "is not a JSON object"),
        (b"\x80\x04\x95pickle", "is not a JSON object"),
        (b"\xff\xfe{\x00", "is not a JSON object"),
        (b"\xef\xbb\xbf{}", "is not a JSON object"),
        (b"\x00" * 5000, "is not a JSON object"),
        (b"{}", "is missing"),
        (b'{"format":', "ends too early"),
        (b'{"x":' + b"[" * 200_000, ""),
        (b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}", ""),
        (b'{"format": "codedag/\xff"}', "format"),
    ],
)
def test_what_is_not_ours(raw, words, kind, tmp_path):
    path = tmp_path / "odd.json"
    path.write_bytes(raw)
    refused(path, words, kind=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_deep_nesting_in_an_unknown_field(kind, saved, tmp_path):
    path = tmp_path / "deep.json"
    path.write_bytes(json.dumps(saved[kind]).encode()[:-1] + b',"z":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    refused(path, "nested too deeply")


def test_a_table_that_appears_twice(saved, tmp_path):
    path = tmp_path / "twice.json"
    path.write_bytes(json.dumps(saved["graph"]).encode()[:-1] + b',"ops":[]}')
    refused(path, "ops: appears twice")


def test_a_cycle_is_found_when_loading(tmp_path):
    path = tmp_path / "graph.json"
    rows = [json.loads(json.dumps({field: getattr(op(i), field) for field in op(i).__struct_fields__})) for i in (0, 1)]
    edges = [{"src": a, "dst": 1 - a, "kind": "flow", "nbytes": 0} for a in (0, 1)]
    path.write_text(json.dumps({"format": "codedag/graph", "version": 1, "ops": rows, "edges": edges}))
    refused(path, "form a cycle", "op 0 numpy.sqrt (train.py:41)")
    assert len(load(path, "graph", checked=False).edges) == 2


def test_missing_files_and_odd_places(tmp_path):
    refused(tmp_path / "none.json", "no such file")
    refused(tmp_path / "none" / "graph.json", "no such file")
    refused(tmp_path, "is a directory", kind="graph")
    refused(Path("a\0b"), "is not a path")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused(pipe, "is not a regular file")
    save(RUN, tmp_path / "run.json")
    refused(tmp_path / "run.json" / "graph.json", "cannot be read")


@pytest.mark.parametrize("kind", [None, "graph", "run"])
def test_a_file_that_may_not_be_read(kind, tmp_path, monkeypatch):
    save(RUN, tmp_path / "run.json")

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)  # the tests may run as root, whom no mode stops
    refused(tmp_path / "run.json", "Permission denied", kind=kind)


def test_a_file_that_is_too_large(tmp_path, monkeypatch):
    save(RUN, tmp_path / "run.json")
    monkeypatch.setattr(store, "LARGEST_NBYTES", 10)
    refused(tmp_path / "run.json", "is too large")


def test_a_run_directory_reads_what_is_asked_for(tmp_path):
    for kind, one in everything().items():
        save(one, tmp_path / f"{kind}.json")
    run = load(tmp_path)
    assert isinstance(run, RunDirectory)
    assert (run.run, run.costs, run.plan, run.graph) == (RUN, COSTS, PLAN, diamond())
    assert run.machine == everything()["machine"]
    assert run.report == everything()["report"]
    assert run.graph is run.graph
    assert str(tmp_path) in repr(run)


def test_a_run_directory_names_the_file_it_lacks(tmp_path):
    save(RUN, tmp_path / "run.json")
    run = load(str(tmp_path))
    assert run.has("run")
    assert not run.has("costs")
    with pytest.raises(BadFile, match=r"costs\.json: this run has no such file\n  `codedag profile"):
        _ = run.costs


def test_a_run_directory_must_hold_a_run(tmp_path):
    refused(tmp_path, "is not a run")


def test_a_run_file_of_another_kind_is_refused(tmp_path):
    save(RUN, tmp_path / "plan.json")
    with pytest.raises(BadFile, match=r"plan\.json: format"):
        _ = load(tmp_path).plan


def test_an_illegal_graph_is_not_saved(tmp_path):
    with pytest.raises(BadGraph):
        save(Graph.build([op(0)], [flow(0, 0)]), tmp_path / "graph.json")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "graph.json"
    save(diamond(), path)
    before = path.read_bytes()
    with pytest.raises(BadGraph):
        save(Graph.build([op(0, count=0)]), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite):
        save(RUN, tmp_path / "file" / "run.json")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_a_file_is_run(kind, saved):
    assert not any(word in json.dumps(saved[kind]) for word in ("__reduce__", "py/object", "pickle"))
