"""The page as a file: inert data, one script, nothing from outside, and small enough."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex

import pytest

from codedag.ir import CostRow, CostTable, Decision, Graph, Move, Op, Placement, Plan, RunDirectory, RunInfo, Step, save
from codedag.view.html import facts as facts_module
from codedag.view.html.page import assets, data_of, page, write_page

NAMES = (
    "</script><script>alert(1)</script>",
    "<!--",
    "]]>",
    "&lt;",
    "\u2028\u2029",
    "\x00\x1f",
    '"',
    "\\u003c",
    "名前",
)


def _op(number: int, name: str, **more: object) -> Op:
    facts: dict[str, object] = {"kind": "call", "file": "a.py", "line": number + 1, "context": f"main/{name}"}
    facts |= {"count": 2, "self_seconds": 0.5, "total_seconds": 0.5, "out_nbytes": 8}
    return Op(id=number, name=name, **{**facts, **more})  # type: ignore[arg-type]


def _run(folder, ops, edges=()) -> RunDirectory:
    folder.mkdir(exist_ok=True)
    save(Graph.build(ops, edges), folder / "graph.json")
    info = RunInfo(command="trace", argv=["a.py"], cwd="/", versions={}, status="ok", script="a.py")
    save(info, folder / "run.json")
    return RunDirectory(folder)


def _data(html: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert found
    return json.loads(found[1])


def test_the_data_is_whole_and_is_only_text(tmp_path):
    html = page(_run(tmp_path / "run", [_op(at, name) for at, name in enumerate(NAMES)]))
    data = _data(html)
    texts = data["ops"]["texts"]
    shown = [texts[number] for number in data["ops"]["name"]]
    assert [name for name in shown if "\\" not in name] == [
        name for name in NAMES if name.isprintable() and "\\" not in name
    ]
    assert all(name.isprintable() for name in shown)
    assert "\\u2028\\u2029" in shown
    assert "\\x00\\x1f" in shown
    assert html.count("<script") == 2
    assert html.count("</script") == 2
    raw = html.split('id="data">')[1].split("</script>")[0]
    assert not set(raw) & set("<>&\u2028\u2029")


def test_controls_that_hide_text_or_turn_it_around_are_seen(tmp_path):
    name = "invoice\u202egpj.exe\u200b"
    data = _data(page(_run(tmp_path / "run", [_op(0, name)])))
    assert data["ops"]["texts"][data["ops"]["name"][0]] == "invoice\\u202egpj.exe\\u200b"
    assert data["picture"]["units"][0][0].isprintable()


def test_names_that_are_no_unicode_are_spelled_out(tmp_path):
    """A graph and its files spell such names out themselves; a notice about a path may still have one."""
    folder = tmp_path / "odd\udc80"
    try:
        run = _run(folder, [_op(0, "a\udc80b")])
    except OSError:
        pytest.skip("this file system has no such names")
    assert "odd\\udc80" in json.loads(data_of(run))["path"]


def test_only_the_script_of_the_page_may_run_and_nothing_is_loaded(tmp_path):
    html = page(_run(tmp_path / "run", [_op(0, "x")]))
    script, style = assets()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    assert f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "connect-src" not in policy[1]
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in style
    assert "url(" not in style


def test_no_text_of_a_run_is_ever_markup():
    script, _ = assets()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in script


def test_a_page_of_two_thousand_operations_is_small(tmp_path):
    from codedag.ir import Edge

    ops = [
        _op(at, f"library.module.operation_{at % 97}", context=f"main/stage_{at // 50}/x", line=at)
        for at in range(2000)
    ]
    edges = [Edge(at, at + 1, "flow", 1000) for at in range(1999)]
    run = _run(tmp_path / "run", ops, edges)
    size = write_page(run, tmp_path / "page.html")
    assert size == (tmp_path / "page.html").stat().st_size < 2_500_000


def test_of_very_many_operations_the_hottest_and_those_in_moves_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(facts_module, "MOST_OPS", 10)
    monkeypatch.setattr(facts_module, "MOST_PLANNED", 20)
    ops = [_op(at, f"f{at}", self_seconds=float(at)) for at in range(50)]
    run = _run(tmp_path / "run", ops)
    save(_plan(ops, [Move(kind="fuse", ops=[0, 1])]), run.path / "plan.json")
    rows = [CostRow(op=at, pu="cpu", variant="original", seconds=1.0, status="ok") for at in range(50)]
    save(CostTable(pus=["cpu"], rows=rows), run.path / "costs.json")
    data = json.loads(data_of(run))
    assert data["ops"]["id"] == [0, 1, *range(42, 50)]
    assert data["whole"]["operations"] == 50
    assert data["whole"]["listed_seconds"] == sum([0, 1, *range(42, 50)])
    assert data["edges"] is None
    assert [one[0] for one in data["plan"]["placement"]] == data["ops"]["id"]
    assert [one[0] for one in data["costs"]["rows"]] == data["ops"]["id"]
    assert data["costs"]["measured"] == 50


def _plan(ops, moves=()) -> Plan:
    return Plan(
        sources=[],
        placement=[
            Placement(op=o.id, name=o.name, context=o.context, file=o.file, line=o.line, pu="cpu", variant="original")
            for o in ops
        ],
        moves=list(moves),
        schedule=[Step(op=o.id, start=float(at), end=float(at + 1)) for at, o in enumerate(ops)],
        makespan_seconds=1.0,
        lower_bound_seconds=1.0,
        baseline_seconds=1.0,
        decisions=[Decision(op=o.id, chosen="cpu/original", why="only choice") for o in ops],
    )


def test_what_is_not_there_or_cannot_be_read_is_said(tmp_path):
    run = _run(tmp_path / "run", [_op(0, "x")])
    (run.path / "costs.json").write_text("[")
    (run.path / "plan.json").write_text('{"format": "codedag/plan", "version": 7}')
    files = json.loads(data_of(run))["files"]
    assert files["graph"]["nbytes"] > 0
    assert files["graph"]["why"] == ""
    assert files["report"]["nbytes"] is None
    assert "JSON" in files["costs"]["why"]
    assert "version" in files["plan"]["why"]


def test_commands_on_the_page_can_be_given_to_a_shell(tmp_path):
    run = _run(tmp_path / "my $run", [_op(0, "x")])
    info = RunInfo(command="trace", argv=["a b.py", "--name", "it's"], cwd="/", versions={}, status="ok")
    save(info, run.path / "run.json")
    data = json.loads(data_of(run))
    program, place = data["commands"]["program"], data["commands"]["run"]
    assert shlex.split(program) == ["a b.py", "--name", "it's"]
    assert shlex.split(place) == [str(run.path)]
    assert data["files"]["plan"]["made_by"] == f"codedag plan {place}"
    assert data["files"]["report"]["made_by"] == f"codedag run {program}"


def test_why_a_file_cannot_be_read_is_told_in_sentences(tmp_path):
    run = _run(tmp_path / "run", [_op(0, "x")])
    (run.path / "costs.json").write_bytes(b"")
    why = json.loads(data_of(run))["files"]["costs"]["why"]
    assert why.startswith("is empty. The file is incomplete or damaged: ")
    assert str(run.path) not in why


def test_anti_and_flow_between_two_operations_are_one_flow(tmp_path):
    from codedag.ir import Edge

    ops = [_op(0, "a"), _op(1, "b"), _op(2, "c")]
    edges = [Edge(0, 1, "anti", 0), Edge(0, 1, "flow", 8), Edge(1, 2, "anti", 0)]
    run = _run(tmp_path / "run", ops, edges)
    save(_plan(ops), run.path / "plan.json")
    assert json.loads(data_of(run))["edges"] == [[0, 1, 1], [1, 2, 0]]
