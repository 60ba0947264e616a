"""The verdict of a run in words: what is not measured is not claimed, and a slower run says so first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from synthetic_reports import GAINS, synthetic

from codedag.ir import Change, Claim, Heat, Proof, Report
from codedag.view.claim import saved_in_all, verdict

PROOF = Proof(identical=True, checked=3, mismatches=0, how="both ran")
CHANGE = Change(what="resize", where="t.py:1", seconds=1.0, baseline_seconds=3.0)


def _claimed(**claim: object) -> Report:
    return Report(verdict=PROOF, changes=[CHANGE], claim=Claim(**claim))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "tone"),
    [("faster", "faster"), ("slower", "slower"), ("same", "slower"), ("unknown", "unknown"), ("start_lost", "slower"),
     ("unchanged", "slower")],
)  # fmt: skip
def test_each_kind_of_run_has_its_word(kind, tone):
    assert kind in GAINS
    assert verdict(synthetic(kind)).tone == tone


def test_a_measured_gain_names_its_interval_and_its_pairs():
    found = verdict(_claimed(known=True, ratio=1.8, low=1.6, high=2.0, pairs=14))
    assert found.sentence == "1.80x [1.60 .. 2.00] faster, from 14 pairs of blocks"
    assert found.detail.startswith("wall time of a turn without the changes over its time with them")


def test_an_interval_that_has_one_in_it_is_no_gain():
    found = verdict(_claimed(known=True, ratio=1.02, low=0.98, high=1.06, pairs=9))
    assert (found.tone, found.sentence) == ("same", "no clear difference: 1.02x [0.98 .. 1.06] from 9 pairs of blocks")


def test_a_slower_run_says_so_and_what_it_does_next_time():
    found = verdict(_claimed(known=True, ratio=0.96, low=0.94, high=0.98, next_run="t.py:1 stays as it is"))
    assert found.sentence == "this run was slower by 4 %; next time t.py:1 stays as it is"


def test_a_gain_that_was_not_measured_is_no_number():
    found = verdict(_claimed(reason="the program ended after 3 pairs of blocks", reason_code="few_blocks"))
    assert found.sentence == "gain not known in this run: the program ended after 3 pairs of blocks"
    assert "x" not in found.figure


def test_a_start_that_took_more_than_was_saved_makes_the_run_slower():
    report = synthetic("start_lost")
    assert saved_in_all(report) < 0
    assert verdict(report).sentence.startswith("this run was slower by ")
    cheap = replace(report, claim=replace(report.claim, start_seconds=0.01))
    assert verdict(cheap).tone == "same"  # its interval begins at 0.997
    cpu = replace(report, claim=replace(report.claim, clock="cpu"))
    assert saved_in_all(cpu) is None


@pytest.mark.parametrize(("own", "tone"), [(0.0, "unchanged"), (0.1, "unchanged"), (0.5, "slower")])
def test_a_run_that_changed_nothing_is_slower_if_codedag_itself_took_much(own, tone):
    heat = Heat(sampled_seconds=10.0, cpu_seconds=10.0, own_seconds=own)
    found = verdict(Report(verdict=PROOF, heat=heat, claim=Claim(reason_code="no_change")))
    assert found.tone == tone
    assert "nothing was changed" in found.sentence
    assert ("CPU time" in found.detail) is (own > 0)


def test_an_estimate_of_an_older_report_is_called_one():
    old = Report(verdict=PROOF, changes=[CHANGE], gain=1.5, gain_low=1.4, gain_high=1.6, optimised_seconds=9.0)
    assert verdict(old).sentence == "estimated gain 1.50x [1.40 .. 1.60] over 9.0 s"
    assert verdict(replace(old, gain=0.9, gain_low=0.8, gain_high=0.95)).tone == "slower"
    assert verdict(replace(old, void="calls took from 1 to 9 s")).tone == "unknown"
    assert "1.50" not in verdict(replace(old, void="calls took from 1 to 9 s")).sentence
