"""The table of operations: namesakes are told apart, and what the recorder cannot measure is not ranked."""

from __future__ import annotations

import pytest

from codedag.ir import Change, Declined, Events, Graph, Op, Placement, Plan, Proof, Report
from codedag.ir.events import Lane
from codedag.view import text


def _op(id_: int, seconds: float, context: str = "main", count: int = 1, name: str = "np.std", **more: object) -> Op:
    facts = {"kind": "call", "file": "a.py", "line": 6, "out_nbytes": 8, **more}
    return Op(id=id_, name=name, context=f"{context}/{name}", count=count, self_seconds=seconds,
              total_seconds=seconds, **facts)  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"context": "main/norm"}, {"context": "main/block/norm"}, ["(in norm)", "(in block/norm)"]),
        ({"context": "main/norm"}, {"context": "main"}, ["(in main/norm)", "(in main)"]),
        ({"in_sig": "f8[3]"}, {"in_sig": "f8[4]"}, ["(f8[3])", "(f8[4])"]),
        ({"out_sig": "f8[3]"}, {"out_sig": "f8[4]"}, ["(-> f8[3])", "(-> f8[4])"]),
        ({"col": 4}, {"col": 9}, ["(column 4)", "(column 9)"]),
        ({}, {}, ["(op 0)", "(op 1)"]),
        ({"line": 5}, {"line": 6}, ["", ""]),
    ],
)
def test_namesakes_say_what_tells_them_apart(one, other, words):
    graph = Graph.build([_op(0, 2.0, **one), _op(1, 1.0, **other)])
    assert text.ranking(graph, 9).which == words
    assert [line.where.partition(" ")[2] for line in text.hot_ops(graph, 9)] == words


def test_three_namesakes_are_three_different_lines():
    ops = [_op(0, 3.0, in_sig="x"), _op(1, 2.0, in_sig="x"), _op(2, 1.0, in_sig="y")]
    assert text.ranking(Graph.build(ops), 9).which == ["(x, op 0)", "(x, op 1)", "(y)"]


def test_what_is_faster_than_the_recorder_is_not_ranked():
    """The mean per call decides, not the sum: a million fast calls say nothing either."""
    ops = [_op(0, 1e-6 * 10**6, count=10**6), _op(1, 4e-6, line=7), _op(2, 2.9e-6, line=8), _op(3, 0.0, kind="region")]
    graph = Graph.build(ops)
    lines = text.hottest(graph, 10, floor_seconds=3e-6)
    assert [line.split()[0] for line in lines[1:-1]] == ["np.std"]
    assert "a.py:7" in lines[1]
    assert lines[-1] == "2 operations faster than 3 us are not ranked (the recorder's own cost)"
    assert len(text.hot_ops(graph, 10)) == 3
    assert not any("not ranked" in line for line in text.hottest(graph, 10))


def test_if_everything_is_faster_than_the_recorder_some_is_shown_and_marked():
    graph = Graph.build([_op(n, n * 1e-7, line=n + 1) for n in range(8)])
    lines = text.hottest(graph, 10, floor_seconds=3e-6)
    assert [line.split()[-1] for line in lines[1:6]] == ["a.py:8", "a.py:7", "a.py:6", "a.py:5", "a.py:4"]
    assert lines[6:] == [
        "... and 3 more",
        "all operations are faster than 3 us (the recorder's own cost): their order may be chance",
    ]
    assert len(text.hottest(graph, 2, floor_seconds=3e-6)) == 5


def test_a_floor_of_a_busy_machine_is_told_in_its_unit():
    lines = text.below(text.Ranking([0], [""], 1.0, 0, 1, doubtful=True), 0.0185)
    assert lines == ["all operations are faster than 18.5 ms (the recorder's own cost): their order may be chance"]


def test_a_run_that_says_what_the_recorder_cost_sets_the_bar():
    class Info:
        recorder_seconds = 2e-6

    assert text.floor(Info()) == pytest.approx(6e-6)
    assert text.floor(object()) == 0.0


def test_the_last_lines_say_how_many_are_left():
    graph = Graph.build([_op(n, float(n + 1), line=n + 1) for n in range(5)])
    assert text.hottest(graph, 2)[-1] == "... and 3 more"
    assert text.hottest(graph, 5)[-1].endswith("a.py:1")
    assert text.hottest(Graph.build([])) == ["no operation that moves data was seen"]


def test_there_is_a_column_of_peaks_only_if_one_was_measured():
    graph = Graph.build([_op(0, 1.0)])
    assert "peak" not in text.hottest(graph)[0]
    table = [text.HEADINGS, text.HotOp("f", "1", "1 s", "1%", "8 B", "5.0 kB", "a.py:1")]
    assert text.has_peaks(table)
    assert not text.has_peaks([text.HEADINGS])


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"gain": 2.0, "gain_low": 1.5, "gain_high": 2.5, "optimised_seconds": 3.0}, "2.00x [1.50 .. 2.50] over 3.0 s"),
        ({"gain": 2.0}, "estimated gain 2.00x"),
        ({"steady_gain": 4.0, "steady_low": 3.0, "steady_high": 5.0}, "gain 4.00x [3.00 .. 5.00] in the steady state"),
        ({"gain": 2.0, "void": "the machine was busy"}, "the gain cannot be told: the machine was busy"),
    ],
)
def test_the_gain_is_told_as_far_as_it_is_known(facts, line):
    proof = Proof(identical=False, checked=3, mismatches=0, how="x")
    made = Change(what="resize", where="a.py:1")
    first, second = [line for line in text.report(Report(verdict=proof, changes=[made], **facts)) if line[0] != " "][:2]
    assert line in first
    assert second.startswith("results within tolerance: 3 checked")


@pytest.mark.parametrize(("seconds", "lanes", "share"), [(7.0, 1, 0.5), (2.0, 1, 1.0), (0.0, 1, None), (7.0, 2, None)])
def test_how_much_of_the_time_was_recorded(seconds, lanes, share):
    graph = Graph.build([_op(0, 2.0), _op(1, 1.0), _op(2, 0.5, parent=0)])
    places = [Lane(process=1, thread=number) for number in range(lanes)]
    events = Events(seconds=seconds, seen=3, least_seconds=0.0, lanes=places, calls=[])
    assert text.coverage(graph, events) == share


def _plan(*variants: str) -> Plan:
    placed = [
        Placement(op=at, name="lib.f", context="f", file="a.py", line=at + 1, pu="cpu", variant=variant)
        for at, variant in enumerate(variants)
    ]
    return Plan(
        sources=[], placement=placed, moves=[], schedule=[], transfers=[], decisions=[],
        makespan_seconds=0.05, lower_bound_seconds=0.05, baseline_seconds=1.5,
    )  # fmt: skip


def test_a_plan_that_rewrites_no_lines_says_what_it_does():
    assert text.elsewhere(_plan("original", "original")) == []
    (line,) = text.elsewhere(_plan("original", "f -> cv2"))
    assert line.startswith("planned: 1 operation runs in another way (50.0 ms simulated, 1.5 s as written)")


def test_a_plan_is_told_in_a_few_lines():
    assert text.planned(_plan("original")) == [
        "plan of 1 operation: 50.0 ms simulated, 1.5 s as written; no plan can be below 50.0 ms",
        "every operation runs as written",
    ]
    lines = text.planned(_plan("original", *["f -> cv2"] * 30))
    assert lines[1] == "lib.f at a.py:2 -> cpu/f -> cv2"
    assert len(lines) == 22
    assert lines[-1] == "and 10 more"


@pytest.mark.parametrize(
    ("command", "workers", "lanes", "rest"),
    [
        ("trace", 0, 1, "imports and code outside them"),
        ("run", 0, 1, "imports, code outside them and calls that ran unobserved"),
        ("run", 2, 1, ""),
        ("trace", 0, 2, ""),
    ],
)
def test_what_is_not_recorded_is_not_said_to_be_outside_the_operations(command, workers, lanes, rest):
    """Under `codedag run` operations run unobserved after a while; what workers did is no share of the clock."""
    places = [Lane(process=1, thread=number) for number in range(lanes)]
    events = Events(seconds=4.0, seen=1, least_seconds=0.0, lanes=places, calls=[])
    found = text.covered(Graph.build([_op(0, 1.0)]), events, command, workers)
    assert found == (f"recorded calls cover 25% of 4 s; the rest is start-up, {rest}" if rest else "")


def test_equal_arguments_are_counted_and_no_more_is_said_than_tells_apart():
    many = ",".join(["float32[64,64,3]"] * 16)
    other = ",".join(["float32[32,32,3]"] * 16)
    assert text.signature_text(many) == "16 x float32[64,64,3]"
    assert text.signature_text("u8[3],i4,f4[2,2],f8,f8,c8,str") == "u8[3], i4, f4[2,2], 2 x f8, ..."
    assert text.signature_text("") == ""
    ops = [_op(0, 2.0, in_sig=many, out_sig="f[16]"), _op(1, 1.0, in_sig=other, out_sig="f[8]")]
    assert text.ranking(Graph.build(ops), 9).which == ["(16 x float32[64,64,3])", "(16 x float32[32,32,3])"]


def test_one_operation_several_times_in_a_line_is_declined_once():
    declined = [Declined(what=f"operator.getitem ({n}% of the time)", where="a.py:5", reason="none") for n in (32, 25)]
    proof = Proof(identical=True, checked=0, mismatches=0, how="nothing was changed")
    lines = text.report(Report(verdict=proof, declined=[*declined, Declined(what="f", where="a.py:6", reason="why")]))
    assert [line for line in lines if line.startswith("declined")] == [
        "declined a.py:5  operator.getitem (2 times in this line): none",
        "declined a.py:6  f: why",
    ]
