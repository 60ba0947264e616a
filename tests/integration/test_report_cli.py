"""The report from the command line: of runs, of traces, of what was left of them, and where it cannot be written."""

from __future__ import annotations

import json
import os
import re

import pytest

from codedag.ir import load


def _data(path) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)
    assert found
    return json.loads(found[1])


@pytest.fixture
def traced(codedag, programs, tmp_path):
    assert codedag("trace", "-o", "run", programs / "numpy_loop.py", 10).returncode == 0
    return tmp_path / "run"


def test_every_run_has_a_report_with_everything_in_it(codedag, programs, tmp_path):
    said = codedag("run", "-o", "run", programs / "numpy_loop.py", 60)
    assert said.returncode == 0
    assert f"next: open {tmp_path / 'run' / 'report.html'}" in said.stderr
    data = _data(tmp_path / "run" / "report.html")
    assert data["run"]["status"] == "ok"
    assert data["report"]["verdict"]["mismatches"] == 0
    assert {"ops", "picture", "plan", "costs", "events", "edges", "machine"} <= data.keys()
    assert not (tmp_path / "run" / "records").exists()


def test_a_run_without_a_change_has_a_page_unless_it_was_short(codedag, codedag_home, tmp_path):
    (tmp_path / "waits.py").write_text("import sys, time\ntime.sleep(float(sys.argv[1]))\n")
    assert "report.html" not in codedag("run", "waits.py", 0).stderr
    assert "report.html" in codedag("run", "waits.py", 2.1).stderr
    pages = [page.parent.name for page in codedag_home.rglob("report.html")]
    assert len(pages) == 1


def test_a_trace_has_its_calls_and_memory_over_time(traced):
    run = load(traced)
    ids = {op.id: op for op in run.graph.ops}
    events = run.events
    assert events.calls
    assert events.seen == sum(op.count for op in run.graph.ops if op.kind != "source")
    for call in events.calls:
        assert call.op in ids
        assert 0 <= call.start <= call.end <= events.seconds
    seen = {call.op for call in events.calls}
    assert {op.id for op in run.graph.ops if op.kind not in ("source", "region")} <= seen
    assert all(lane.process > 0 for lane in events.lanes)
    assert [lane.name for lane in events.lanes] == ["MainThread"]
    assert all(sample.nbytes > 10**6 for sample in events.memory)


def test_what_is_known_of_the_effects_of_operations_is_in_a_trace_and_its_page(codedag, traced, tmp_path):
    effects = {op.name: op.effects for op in load(traced).graph.ops}
    assert effects["numpy.clip"] == "pure, writes out or argument 4 if given"
    assert effects["operator.truediv"] == "pure"
    assert codedag("view", "run", "--html", "page.html").returncode == 0
    ops = _data(tmp_path / "page.html")["ops"]
    assert {ops["texts"][a]: ops["texts"][b] for a, b in zip(ops["name"], ops["effects"], strict=True)} == effects


def test_calls_of_workers_are_on_lanes_of_their_own(codedag, programs, tmp_path):
    assert codedag("trace", "-o", "run", programs / "loader.py", "--workers", 2).returncode == 0
    run = load(tmp_path / "run")
    processes = {lane.process for lane in run.events.lanes}
    assert len(processes) >= 3
    names = {op.id: op.name for op in run.graph.ops}
    main = run.events.lanes[run.events.calls[0].lane].process
    elsewhere = {names[c.op] for c in run.events.calls if run.events.lanes[c.lane].process != main}
    assert "cv2.resize" in elsewhere


def test_the_page_is_written_and_its_facts_told(codedag, traced, tmp_path):
    said = codedag("view", "run", "--html", "page.html")
    assert said.returncode == 0
    assert said.stderr in ("", "codedag: writing the report ...\n")  # said after 2 seconds
    size = (tmp_path / "page.html").stat().st_size
    assert said.stdout.startswith(f"report: page.html ({size:,} bytes)")
    assert "next: " in said.stdout
    facts = json.loads(codedag("view", "run", "--html", "page.html", "--json").stdout)
    assert (facts["html"], facts["html_nbytes"]) == ("page.html", size)
    assert _data(tmp_path / "page.html")["whole"]["operations"] == len(load(traced).graph)


def test_a_killed_run_has_a_report_of_what_was_kept(codedag, tmp_path):
    kept = "'operator.add' in ''.join(map(pathlib.Path.read_text, pathlib.Path('run/records').glob('*.json')))"
    loop = f"for _ in range(6000):\n    b = a + a\n    time.sleep(0.01)\n    if {kept}: break\n"
    script = f"import os, pathlib, time, numpy as np\na = np.ones(9)\n{loop}os.kill(os.getpid(), 9)\n"
    (tmp_path / "dies.py").write_text(script)
    codedag("trace", "-o", "run", "dies.py")
    said = codedag("view", "run", "--html", "page.html")
    assert said.returncode == 0
    data = _data(tmp_path / "page.html")
    assert data["recovered"] is True
    assert data["run"]["status"] == "running"
    texts = data["ops"]["texts"]
    assert "operator.add" in [texts[number] for number in data["ops"]["name"]]


def test_an_old_page_stays_where_the_new_one_cannot_be_written(codedag, traced, tmp_path):
    said = codedag("view", "run", "--html", "nowhere/page.html")
    assert said.returncode == 2
    assert "there is no directory" in said.stderr
    assert sorted(os.listdir(tmp_path)) == ["run"]
