"""How much time may go into fetching batches twice."""

from __future__ import annotations

import pytest

from codedag.autopilot import widen
from codedag.autopilot.widen import FREE, Lane
from codedag.ir.verdict import Yes
from codedag.migrate.trial import Trial


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> Lane:
    made = Lane(("a.py", "Data.__getitem__"), Trial("x"))
    made.began = 0.0
    monkeypatch.setattr(widen.time, "perf_counter", lambda: clock["now"])
    clock["now"] = 0.0
    return made


clock = {"now": 0.0}


def test_a_batch_that_costs_little_is_compared_at_once(lane: Lane) -> None:
    clock["now"], lane.batches = 1.0, 10
    assert lane.affords()


def test_long_batches_wait_until_they_are_a_small_share(lane: Lane) -> None:
    clock["now"], lane.batches = 3 * FREE, 2
    assert not lane.affords()
    clock["now"], lane.batches = 100 * FREE, 100  # each of FREE seconds, of which a tenth may be spent
    assert lane.affords()


def test_what_was_compared_counts(lane: Lane) -> None:
    clock["now"], lane.batches = 2.0, 4
    lane.trial.record(FREE, FREE, Yes)
    lane.twice += FREE
    assert not lane.affords()
