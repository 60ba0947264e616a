"""How much faster a run was: the whole process counts, and what is not known widens the interval."""

from __future__ import annotations

import pytest

from codedag.autopilot.report import estimate as estimate_module
from codedag.autopilot.report.estimate import PYTHON, Spans, before_us, estimate

NOTHING = (0.0, 0.0, 0.0)


def test_a_program_that_was_only_run_has_no_gain():
    found = estimate(Spans(program=10.0, python=0.0), NOTHING)
    assert (found.whole, found.steady, found.void) == ((1.0, 1.0, 1.0), None, "")
    assert found.baseline == found.seconds == 10.0


def test_our_start_and_end_count_against_us():
    found = estimate(Spans(program=2.0, python=0.0, starting=0.3, ending=0.2), NOTHING)
    assert found.whole[0] == pytest.approx(0.8)


def test_a_saving_that_only_pays_for_us_is_no_gain():
    spans = Spans(program=2.0, python=0.0, starting=0.3, ending=0.2, observing=0.1, checking=0.2, switched=1.0)
    found = estimate(spans, (0.8, 0.8, 0.8))
    assert found.whole[0] == pytest.approx(1.0)
    assert found.steady is not None
    assert found.steady[0] == pytest.approx(2.0)  # 0.8 s of checking nothing, and 0.8 saved


def test_threads_of_ours_may_have_held_up_the_program():
    middle, low, high = estimate(Spans(program=1.0, python=0.0, beside=0.2), NOTHING).whole
    assert (low, middle, high) == pytest.approx((0.8, 0.9, 1.0))


def test_a_baseline_that_nobody_knows_is_void():
    spans = Spans(program=10.0, python=0.0, switched=5.0)
    assert estimate(spans, (4.0, 2.0, 5.0)).void == ""
    assert estimate(spans, (4.0, 1.0, 5.0)).void == ""  # far apart, but faster at both ends
    assert "from 9.0 to 13.0 s" in estimate(spans, (1.0, -1.0, 3.0)).void
    assert estimate(Spans(program=1.0, python=0.0), (0.0, -9.0, 9.0)).void


def test_python_itself_starts_before_us(monkeypatch):
    monkeypatch.setattr(estimate_module, "perf_counter", lambda: 100.0)
    monkeypatch.setattr(estimate_module, "age", lambda: 0.5)
    assert before_us(99.7) == pytest.approx(0.2)
    assert before_us(100.0 - 0.6) == PYTHON  # it cannot be younger than what we did in it
    monkeypatch.setattr(estimate_module, "age", lambda: 3600.0)
    assert before_us(99.7) == PYTHON  # it was something else before
    monkeypatch.setattr(estimate_module, "age", lambda: None)
    assert before_us(99.7) == PYTHON
