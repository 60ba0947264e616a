"""The difference of two runs: which figure judges, what became slower, and runs that cannot be compared."""

from __future__ import annotations

import json

import msgspec
import pytest
from synthetic_reports import synthetic

from codedag.ir import Block, Graph, HotFunction, Op, RunDirectory, RunInfo, save
from codedag.view import run_diff_text
from codedag.view.run_diff import difference

NASTY = "<script>alert(1)</script>\x1b[31m"


def run(folder, report=None, graph=None, argv=("train.py",), **facts):
    folder.mkdir(parents=True)
    info = {"command": "run", "argv": list(argv), "cwd": ".", "versions": {"numpy": "2"}, "status": "ok", **facts}
    save(RunInfo(**info, script=argv[0]), folder / "run.json")
    if report is not None:
        save(report, folder / "report.json")
    if graph is not None:
        save(graph, folder / "graph.json")
    return RunDirectory(folder)


def slowed(report, factor, function="imread", by=2.0):
    """The same run with every block longer by a factor, and one function slower by some seconds."""
    blocks = [msgspec.structs.replace(b, seconds=b.seconds * factor) for b in report.speed.blocks]
    functions = [
        msgspec.structs.replace(f, self_seconds=f.self_seconds + by) if f.name == function else f
        for f in report.heat.functions
    ]
    heat = msgspec.structs.replace(report.heat, functions=functions, cpu_seconds=report.heat.cpu_seconds + by)
    speed = msgspec.structs.replace(report.speed, blocks=blocks)
    return msgspec.structs.replace(report, speed=speed, heat=heat)


def test_what_became_slower_is_named(tmp_path):
    base = synthetic("faster")
    found = difference(run(tmp_path / "a", base), run(tmp_path / "b", slowed(base, 1.5)))
    assert found.measure is not None
    assert found.measure.name == "turn"
    assert found.measure.ratio == pytest.approx(1.5)
    assert found.measure.low > 1
    assert [(part.name, part.status) for part in found.parts if part.status != "same"] == [("imread", "slower")]
    assert run_diff_text.verdict(found).startswith("50 % slower: 1.50x [")


def test_a_run_is_no_slower_than_itself(tmp_path):
    report = synthetic("faster")
    found = difference(run(tmp_path / "a", report), run(tmp_path / "b", report))
    assert {part.status for part in found.parts} == {"same"}
    assert found.measure.low <= 1 <= found.measure.high
    assert run_diff_text.verdict(found).startswith("no clear difference: 1.00x")
    assert not found.changes_gone + found.changes_new


def test_changes_and_versions_that_differ(tmp_path):
    base = synthetic("faster")
    other = msgspec.structs.replace(base, changes=base.changes[1:])
    found = difference(run(tmp_path / "a", base), run(tmp_path / "b", other, versions={"numpy": "3"}))
    assert found.changes_gone == [f"{base.changes[0].where} {base.changes[0].what}"]
    assert found.versions == {"numpy": ("2", "3")}


def test_traces_are_compared_by_their_operations(tmp_path):
    def graph(seconds, count):
        return Graph.build([Op(id=1, name="cv2.resize", kind="call", file="a.py", line=3, context="f/cv2.resize",
                               count=count, self_seconds=seconds, total_seconds=seconds, out_nbytes=8)])  # fmt: skip

    runs = [
        run(tmp_path / name, graph=graph(*facts), command="trace") for name, facts in (("a", (1, 4)), ("b", (3, 8)))
    ]
    found = difference(*runs)
    assert [(p.name, p.base_calls, p.other_calls, p.status) for p in found.parts] == [("cv2.resize", 4, 8, "slower")]
    assert found.measure.name == "recorded"
    assert "calls 4 -> 8" in "\n".join(run_diff_text.lines(found, 200))


def test_different_programs_are_said_to_be(tmp_path):
    report = synthetic("faster")
    found = difference(run(tmp_path / "a", report), run(tmp_path / "b", report, argv=("other.py",)))
    assert not found.same_program
    assert found.notes[0] == "two different programs: train.py and other.py"


def test_runs_without_a_figure_in_common(tmp_path):
    found = difference(run(tmp_path / "a", synthetic("faster")), run(tmp_path / "b", status="running"))
    assert found.measure is None
    assert run_diff_text.lines(found)[0] == "these runs have no figure in common: nothing can be compared"
    assert "note: other: the program still runs or was killed" in run_diff_text.lines(found)


@pytest.mark.parametrize("width", [40, 80])
def test_lines_fit_the_terminal(tmp_path, width):
    base = synthetic("faster")
    found = difference(run(tmp_path / "a", base), run(tmp_path / "b", slowed(base, 2)))
    assert max(map(len, run_diff_text.lines(found, width))) <= width


def test_the_page_is_inert(tmp_path):
    base = synthetic("faster")
    functions = [HotFunction(name=NASTY, file=NASTY, self_seconds=9.0, total_seconds=9.0)]
    other = msgspec.structs.replace(base, heat=msgspec.structs.replace(base.heat, functions=functions))
    page = run_diff_text.page(difference(run(tmp_path / "a", base), run(tmp_path / "b", other, argv=(NASTY,))))
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert "&lt;script&gt;" in page


def test_few_blocks_have_no_turn(tmp_path):
    base = synthetic("faster")
    few = msgspec.structs.replace(base.speed, blocks=[Block(start=0, seconds=1, turns=2)])
    found = difference(run(tmp_path / "a", base), run(tmp_path / "b", msgspec.structs.replace(base, speed=few)))
    assert found.measure.name == "cpu"
    json.dumps(msgspec.to_builtins(found))
