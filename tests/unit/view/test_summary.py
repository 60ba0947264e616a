"""The lines at the end of a run: the verdict first, at most twelve, each within the terminal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from synthetic_reports import GAINS, synthetic

from codedag.cli.styled import address, rendered
from codedag.ir import Change, Declined, OwnCosts, Proof, Report
from codedag.view.summary import Screen, Span, end_lines, end_text, every_line, net_seconds, plain, short

PROOF = Proof(identical=True, checked=16, mismatches=0, how="both ran")
CHANGE = Change(
    what="a > b > c > d > e -> one kernel", where="t.py:1-2", reason="3.0x", seconds=1.0, baseline_seconds=3.0
)
DECLINED = Declined(what="w", where="t.py:3", reason="why")


def _report(**fields):
    facts = {"verdict": PROOF, "gain": 1.5, "gain_low": 1.4, "gain_high": 1.6, "optimised_seconds": 9.0} | fields
    return Report(**{"changes": [CHANGE], **facts})


@pytest.mark.parametrize("kind", GAINS)
@pytest.mark.parametrize("width", [31, 71, 120])
def test_at_most_twelve_lines_that_fit(kind, width):
    notes = [f"note {at} of this run" for at in range(9)]
    lines = end_text(synthetic(kind), "page: /run/report.html", Screen(width, notes=notes))
    assert len(lines) <= 12
    assert lines[-1] == "page: /run/report.html"
    assert [line for line in lines[:-1] if len(line) > width] == []
    assert all(line.isprintable() for line in lines)  # no colour codes


@pytest.mark.parametrize("kind", ["slower", "start_lost", "unchanged"])
def test_a_slower_run_says_so_in_its_first_line_whole(kind):
    first = end_text(synthetic(kind), "/run")[0]
    assert first.startswith("this run was slower by ")
    assert not first.endswith("...")


def test_a_run_with_turns_shows_its_speed():
    lines = end_text(synthetic("faster"), "/run")
    assert lines[0] == "1.80x [1.71 .. 1.89] faster, from 14 pairs of blocks"
    assert lines[1].startswith("speed ")
    assert "│" in lines[1]
    assert lines[1].endswith(" batches/s")
    assert lines[2] == "results identical (59 calls compared)"
    assert [line.split() for line in lines[3:5]] == [
        ["where", "what", "saved"], ["train.py:36", "cv2.resize", "->", "torch", "6.3", "s"],
    ]  # fmt: skip
    assert lines[-3] == "biggest thing left: 23% of the run: Normalize.apply (transforms.py:812)"
    assert lines[-2] == "  no faster variant was found for it"
    assert end_text(synthetic("faster"), "/run", Screen(71, ascii_only=True))[1].isascii()


def test_a_run_without_turns_names_its_changes():
    steady = {"steady_gain": 2.0, "steady_low": 1.9, "steady_high": 2.1}
    lines = end_text(_report(declined=[DECLINED], **steady), "page: /run", Screen(100))
    assert lines == [
        "estimated gain 1.50x [1.40 .. 1.60] over 9.0 s, 2.00x [1.90 .. 2.10] in the steady state",
        "results identical (16 calls compared)",
        "  where     what                                      saved",
        "  t.py:1-2  a > ... > e (5 operations) -> one kernel  2.0 s",
        "biggest thing left: w at t.py:3: why",
        "page: /run",
    ]


def test_where_there_is_little_room_whole_clauses_are_left_out():
    steady = {"steady_gain": 2.0, "steady_low": 1.9, "steady_high": 2.1}
    assert end_text(_report(**steady), "/run")[0] == "estimated gain 1.50x [1.40 .. 1.60] over 9.0 s"
    assert end_text(synthetic("slower"), "/run", Screen(40))[0] == "this run was slower by 4 %"


def test_nothing_to_gain_is_one_line():
    line, page = end_text(_report(changes=[], verdict=replace(PROOF, checked=0)), "/run")
    assert (line, page) == ("nothing was changed: no proven faster variant was seen", "/run")


def test_notes_take_the_lines_that_are_left():
    nothing = _report(changes=[], verdict=replace(PROOF, checked=0))
    assert end_text(nothing, "/run", Screen(notes=["a"]))[1:] == ["a", "/run"]
    assert end_text(nothing, "/run", Screen(notes=["a", "b"]))[1:] == ["2 notes: codedag view shows them", "/run"]


def test_a_void_estimate_is_no_gain():
    line = end_text(_report(void="calls took from 1 to 9 s"), "/run")[0]
    assert line == "the gain cannot be told: calls took from 1 to 9 s"


def test_near_is_not_called_identical():
    near = Proof(identical=False, checked=16, mismatches=0, how="ulp was allowed: ...")
    assert end_text(_report(verdict=near), "/run")[1] == "results within tolerance (16 calls compared)"
    assert "results within tolerance: 16 of 16 checked calls (ulp was allowed: ...)" in every_line(
        _report(verdict=near), "/run"
    )
    wrong = Proof(identical=False, checked=16, mismatches=1, how="", unverified=40)
    assert end_text(_report(verdict=wrong), "/run")[1] == (
        "results: 1 of 16 compared calls DIFFERED; taken back, 40 used unchecked"
    )
    assert any("40 results had been used unchecked before" in line for line in every_line(_report(verdict=wrong), "/"))


def test_of_many_changes_those_that_bring_most_are_named():
    small = [
        Change(what=f"c{n}", where=f"t.py:{n}", reason="1.1x", seconds=1.0, baseline_seconds=1.1) for n in range(9)
    ]
    report = _report(changes=[*small, CHANGE])
    lines = end_text(report, "/run")
    assert lines[3].split()[0] == "t.py:1-2"
    assert lines[-2].strip() == "and 7 more"


def test_what_is_kept_and_spent_is_said_where_it_is_known():
    own = OwnCosts(kept_nbytes=21_000_000, cpu_seconds=0.8)
    lines = end_text(_report(changes=[replace(CHANGE, kept_nbytes=21_000_000)], own=own), "/run")
    assert lines[2].split() == ["where", "what", "saved", "kept"]
    assert lines[3].endswith("2.0 s  21.0 MB")
    assert "price: 0.8 s of CPU time, 21.0 MB kept in memory" in lines


def test_places_lead_to_their_files_and_colours_are_a_matter_of_the_terminal():
    lines = end_lines(_report(), "page: /run/report.html", Screen(folder="/home/me"))
    assert [span.link for line in lines for span in line if span.link] == ["/home/me/t.py:1-2", "/run/report.html"]
    shown = rendered(lines)
    assert "\x1b]8;" in shown
    assert "file:///home/me/t.py" in shown
    assert "\x1b" not in "".join(map(plain, lines))
    hostile = rendered([[Span("a\x1b[2Jb", "bold", "/x\x1b]8;;:3")]])
    assert "\x1b[2J" not in hostile
    assert "%1B" in hostile


def test_an_editor_can_be_named(monkeypatch):
    monkeypatch.setenv("CODEDAG_EDITOR", "vscode://file/{file}:{line}")
    assert address("/a b/t.py:12-14") == "vscode://file//a%20b/t.py:12"
    assert address("/a/report.html") == "file:///a/report.html"


def test_the_long_form_has_everything():
    report = synthetic("faster")
    lines = every_line(report, "/run", Screen(notes=["a note"]))
    assert lines[0].startswith("1.80x")
    assert sum(line.startswith("changed: ") for line in lines) == len(report.changes)
    assert any("saved 6.40 s, spent " in line for line in lines)
    assert "declined: jitter at train.py:52: it draws random numbers" in lines
    assert any("hot places" in line for line in lines)
    assert lines[-2:] == ["a note", "run directory: /run"]


def test_the_account_comes_before_the_calls():
    assert net_seconds(CHANGE) == pytest.approx(2.0)
    assert net_seconds(replace(CHANGE, saved_seconds=1.5, spent_seconds=2.0)) == pytest.approx(-0.5)
    assert net_seconds(Change(what="w", where="t.py:1")) is None


def test_short_names():
    assert short("a > b > c > d -> k") == "a > b > c > d -> k"
    assert short("9 calls of a > b > c > d > e") == "9 calls of a > ... > e"
