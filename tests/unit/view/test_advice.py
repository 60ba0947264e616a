"""What passes have found, in words."""

from __future__ import annotations

from codedag.ir import Graph, Op
from codedag.ir.findings import ChainBytes, Finding
from codedag.view.advice import advice, chains, lines_of


def op(number, name, line):
    return Op(number, name, "call", "t.py", line, name, 4, 0.5, 0.5, 4_000_000, in_sig="", out_sig="")


GRAPH = Graph.build([op(0, "m.sqrt", 3), op(1, "m.sqrt", 4), op(2, "m.exp", 5), op(3, "m.window", 6)])


def test_each_finding_is_a_line_with_what_it_saves():
    found = [Finding("twice", 1, 0, 0.5, 8), Finding("unused", 2, -1, 0.5, 8), Finding("constant", 3, -1, 0.375, 8),
             Finding("in place", 1, 0, 0.0, 4_000_000)]  # fmt: skip
    assert advice(GRAPH, found, 1.0) == [
        "to save by hand: 1.4 s of 2.0 s in 3 operations",
        "  m.sqrt at t.py:4 computes again what line 3 has computed (500.0 ms)",
        "  m.exp at t.py:5: nothing reads its result (500.0 ms)",
        "  m.window at t.py:6 gives the same in each of 4 calls (375.0 ms)",
        "  m.sqrt at t.py:4 could be written over the result of line 3 (4.0 MB less allocated)",
        "longest chain within an iteration: 1.0 s, 50% of all operations",
    ]


def test_what_is_too_fast_to_be_measured_is_not_advised():
    assert advice(GRAPH, [Finding("unused", 2, -1, 0.5, 8)], 0.0, floor_seconds=1.0) == []
    assert advice(Graph.build([]), [], 0.0) == []


def test_chains_are_told_by_their_lines():
    rows = [ChainBytes([1, 0], 4_000_000, 2_000_000, 1.8), ChainBytes([2], 200, 100)]
    assert chains(GRAPH, rows) == [
        "  2 operations in a row at t.py:3-4 move 4.0 MB in each call, 2.0 MB in one walk, predicted 1.8x"
    ]


def test_what_was_changed_over_several_lines_is_done_in_each_of_them():
    assert lines_of(["a.py:3", "b:c.py:9-11", "odd"]) == {"a.py:3", "b:c.py:9", "b:c.py:10", "b:c.py:11"}
