"""The five lines at the end of a run."""

from __future__ import annotations

from codedag.ir import Change, Declined, Proof, Report
from codedag.view.summary import five_lines, short

PROOF = Proof(identical=True, checked=16, mismatches=0, how="both ran")
CHANGE = Change(
    what="a > b > c > d > e -> one kernel", where="t.py:1-2", reason="3.0x", seconds=1.0, baseline_seconds=3.0
)


def _report(**fields):
    facts = {"verdict": PROOF, "gain": 1.5, "gain_low": 1.4, "gain_high": 1.6, "optimised_seconds": 9.0} | fields
    return Report(**{"changes": [CHANGE], **facts})


def test_five_lines_and_no_more():
    steady = {"steady_gain": 2.0, "steady_low": 1.9, "steady_high": 2.1}
    lines = five_lines(_report(declined=[Declined(what="w", where="t.py:3", reason="why")], **steady), "/run")
    assert lines == [
        "estimated gain: 1.50x [1.40 .. 1.60] over the whole run of 9.0 s, start and end included; "
        "2.00x [1.90 .. 2.10] in the steady state",
        "results identical: 16 of 16 checked calls bit-equal (both ran)",
        "changed: t.py:1-2 a > ... > e (5 operations) -> one kernel, 3.0x",
        "declined: w at t.py:3: why",
        "run directory: /run",
    ]


def test_nothing_to_gain_is_one_line():
    (line,) = five_lines(_report(changes=[]), "/run")
    assert line.startswith("nothing was changed: no operation")


def test_a_run_that_was_too_short_says_so():
    assert "too short" in five_lines(_report(gain=0.9), "/run")[0]


def test_a_void_estimate_is_no_gain():
    line = five_lines(_report(void="calls took from 1 to 9 s"), "/run")[0]
    assert "none can be told" in line
    assert "1.50x" not in line
    assert "codedag compare" in line


def test_near_is_not_called_identical():
    near = Proof(identical=False, checked=16, mismatches=0, how="ulp was allowed: ...")
    assert five_lines(_report(verdict=near), "/run")[1] == (
        "results within tolerance: 16 of 16 checked calls (ulp was allowed: ...)"
    )
    wrong = Proof(identical=False, checked=16, mismatches=1, how="")
    assert "1 of 16 checked calls DIFFERED" in five_lines(_report(verdict=wrong), "/run")[1]


def test_of_many_changes_those_that_bring_most_are_named():
    small = [
        Change(what=f"c{n}", where=f"t.py:{n}", reason="1.1x", seconds=1.0, baseline_seconds=1.1) for n in range(9)
    ]
    line = five_lines(_report(changes=[*small, CHANGE]), "/run")[2]
    assert "a > ... > e" in line
    assert line.endswith("; and 6 more in report.json")


def test_short_names():
    assert short("a > b > c > d -> k") == "a > b > c > d -> k"
    assert short("9 calls of a > b > c > d > e") == "9 calls of a > ... > e"


def test_a_late_difference_says_how_many_results_were_used_unchecked():
    wrong = Proof(identical=False, checked=16, mismatches=1, how="side by side", unverified=40)
    assert five_lines(_report(verdict=wrong), "/run")[1].endswith("; 40 results had been used unchecked before")
