"""From when on the changes of a run were made, and what they saved since then."""

from __future__ import annotations

import pytest

from codedag.autopilot.applied import Applied
from codedag.autopilot.report import steady_state as room
from codedag.autopilot.report.estimate import Late, Spans, estimate
from codedag.autopilot.report.steady_state import Settled, since
from codedag.migrate.trial import Trial


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(room, "perf_counter", lambda: now[0])
    return now


def change(calls=0, pairs=()):
    trial = Trial("f", calls=calls + len(pairs), checked=len(pairs), pairs=list(pairs))
    return Applied("substitute", "t.py", "f", [0], ["f"], trial, "v")


def test_the_last_change_that_leaves_a_quarter_of_the_run(clock):
    settled = Settled()
    for clock[0] in (2.0, 4.0, 7.0, 9.0):
        settled.mark([])
    assert settled.first == 2.0
    assert settled.last(0.0, 10.0)[0] == 7.0
    assert settled.last(0.0, 5.0)[0] == 2.0
    assert settled.last(0.0, 2.5) is None
    assert Settled().last(0.0, 10.0) is None


def test_what_was_saved_before_does_not_count(clock):
    settled, one, other = Settled(), change(100, [(2.0, 1.0)] * 3), change(0, [])
    clock[0] = 5.0
    settled.mark([one])
    one.trial.calls += 12
    one.trial.checked += 2
    one.trial.pairs += [(2.0, 1.0)] * 2
    mark = settled.last(0.0, 10.0)
    saved, checking = since(mark, one.trial)
    assert saved == pytest.approx((10.0, 10.0, 10.0))  # ten calls, a second each
    assert checking == pytest.approx(2.0)
    other.trial.pairs, other.trial.checked, other.trial.calls = [(3.0, 1.0)] * 4, 4, 9
    assert since(mark, other.trial)[0] == pytest.approx((10.0, 10.0, 10.0))  # made after the mark: all of it


def test_the_steady_state_is_that_of_the_last_part():
    spans = Spans(program=10.0, python=0.0, switched=9.0)
    found = estimate(spans, (9.0, 9.0, 9.0), Late(1.0, 0.2, (7.2, 7.2, 7.2)))
    assert found.whole[0] == pytest.approx(1.9)
    assert found.steady == pytest.approx((10.0, 10.0, 10.0))
