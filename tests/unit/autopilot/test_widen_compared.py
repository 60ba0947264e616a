"""Batches that were fetched both ways, and could not be compared."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from codedag.autopilot import overlap, widen
from codedag.autopilot.overlap import Course, Overlap
from codedag.autopilot.widen import Lane, Widen
from codedag.migrate.memory import Memory
from codedag.migrate.trial import Trial


def no_memory(left, right):
    raise MemoryError


@pytest.fixture
def widened():
    return Widen(SimpleNamespace(files={}), Memory(0), None, None, None, lambda *said: None)


def test_items(widened, monkeypatch):
    monkeypatch.setattr(widen, "same", no_memory)
    lane = Lane(("a.py", "f"), Trial("items"))
    widened.judge(lane, [1, 2], [1, 2], 1.0, 0.5)
    assert lane.trial.mismatches == 0
    assert lane.declined.startswith("its result could not be compared")


def test_the_next_batch(widened, monkeypatch):
    monkeypatch.setattr(overlap, "same", no_memory)
    lane, course = Lane(("a.py", "f"), Trial("items")), Course(Trial("next", patient=True))
    batch = SimpleNamespace(take_back=lambda: None, indices=[0, 1], results=[5, 6])
    data = Overlap(widened)._compared(lane, course, SimpleNamespace(dataset=[5, 6]), batch)
    assert (data, course.trial.mismatches) == ([5, 6], 0)
    assert course.declined.startswith("its result could not be compared")


class Fetcher:
    """Stands for that of an epoch."""


@pytest.mark.parametrize(
    ("kept", "batches", "again", "waits"),
    [(1, 8, True, True), (0, 8, True, False), (1, 500, True, False), (1, 3, True, False), (1, 8, False, False)],
)
def test_the_next_epoch_is_waited_for_if_it_is_short_and_repeated_and_something_is_kept(
    widened, monkeypatch, kept, batches, again, waits
):
    lane, first, second = Lane(("a.py", "f"), Trial("items")), Fetcher(), Fetcher()
    widened.memory.nbytes = kept
    monkeypatch.setattr(widened.overlap, "batches", lambda: batches)
    monkeypatch.setattr(widened._repeats, "expected", lambda: again)
    assert widened._is_early(lane, first) is waits
    assert widened._is_early(lane, first) is waits
    assert not widened._is_early(lane, second)
    lane.trial.checked = 1
    assert not widened._is_early(lane, first)
