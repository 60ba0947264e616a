"""What was tried in vain is told by the last trial of each change; a lane that is known to be in vain is not begun."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from codedag.autopilot.applied import LOOP, Applied
from codedag.autopilot.vain import MOST_RUNS, RUNS, Entry, Tried, Vain, in_vain, is_open
from codedag.autopilot.widen import FREE, SHARE, Lane, Widen
from codedag.migrate.trial import Trial

NOT_FASTER = "not faster here: 0.90x over 6 interleaved batches"


def applied(reason="", kind="widen", names=("Photos.__getitem__",), pairs=((2.0, 1.0),)):
    trial = Trial("items", checked=len(pairs), pairs=list(pairs))
    if reason:
        trial.stop(reason)
    return Applied(kind, "a.py", "Photos.__getitem__", [3], list(names), trial, "2 threads")


def pilot(*changes):
    return SimpleNamespace(applied=list(changes), unplanned=[], refused=[])


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([applied(NOT_FASTER)], [-1]),
        ([applied(NOT_FASTER, names=[LOOP])], [3]),
        ([applied(NOT_FASTER), applied()], []),
        ([applied(), applied(NOT_FASTER)], [-1]),
        ([applied("its result differed from the original's")], []),
        ([applied(NOT_FASTER, kind="fuse")], []),
    ],
)
def test_what_was_not_faster_the_last_time_it_was_tried(changes, found):
    assert [tried.site for tried in in_vain(pilot(*changes))] == found


def test_a_run_that_ended_before_a_change_was_judged_says_nothing():
    assert is_open(pilot(applied(pairs=())))
    assert not is_open(pilot(applied(), applied(NOT_FASTER)))
    assert not is_open(pilot(applied(kind="recall", pairs=())))
    assert is_open(SimpleNamespace(applied=[], unplanned=[("a.py", "f")], refused=[]))


@pytest.fixture
def widen():
    said = []
    made = Widen(
        SimpleNamespace(files={}), None, said.append, lambda _: True, lambda *_: None, lambda *each: said.append(each)
    )
    return made, said


@pytest.mark.parametrize("known", [True, False])
def test_a_lane_that_was_in_vain_is_not_prepared(widen, known):
    made, said = widen
    lane = Lane(("a.py", "f"), Trial("items"), batches=9)
    if known:
        made.in_vain = {Tried("widen", "a.py", "f", -1, "").key: "an earlier run found it not faster here"}
    made.prepare_later(lane)
    assert lane.waiting is not known
    assert bool(lane.declined) is known
    assert len(said) == 1


def test_batches_are_compared_as_far_as_that_costs_little_until_there_is_a_gain(widen, monkeypatch):
    made, _ = widen
    now = [100.0]
    monkeypatch.setattr("codedag.autopilot.widen.time", SimpleNamespace(perf_counter=lambda: now[0]))
    lane = Lane(("a.py", "f"), Trial("items"), batches=4, began=100.0 - 3 * FREE)
    assert not made.waits(lane)  # the first one takes less than is free
    lane.trial.record(1.0, 1.0, True)
    lane.twice = 0.75 * FREE
    assert made.waits(lane)
    now[0] = 100.0 + 2 * FREE / SHARE
    assert not made.waits(lane)
    now[0] = 100.0
    lane.trial.record(1.5, 1.0, True)
    assert not made.waits(lane)  # it is faster
    long = Lane(("a.py", "f"), Trial("items"), batches=4, began=96.0)
    assert made.waits(long)
    made.frugal = False
    assert not made.waits(long)


@pytest.mark.parametrize(
    ("pairs", "gain", "reason"),
    [
        (1, 0.5, "not faster here: 0.50x"),
        (3, 0.5, "not faster here: 0.50x"),
        (1, 2.0, "the program ended before"),
        (3, 2.0, ""),
    ],
)
def test_a_lane_that_was_hardly_compared_or_slow_is_not_used_by_the_next_run(widen, pairs, gain, reason):
    made, _ = widen
    lane = Lane(("a.py", "f"), Trial("items", checked=pairs, pairs=[(gain, 1.0)] * pairs))
    made.every.append(lane)
    made.restore()
    assert lane.trial.reason.startswith(reason)
    assert lane.trial.active is not bool(reason)


@pytest.mark.parametrize(
    ("before", "runs"), [(None, RUNS), ((["f"], RUNS), 2 * RUNS), ((["f"], MOST_RUNS), MOST_RUNS), ((["g"], 8), RUNS)]
)
def test_what_is_in_vain_again_is_remembered_for_longer(monkeypatch, before, runs):
    def tried(*names):
        return [Tried("widen", "a.py", name, -1, NOT_FASTER) for name in names]

    entry = None
    if before is not None:
        names, count = before
        facts = {"program": "a.py", "arguments": [], "machine": "m", "versions": {}, "sources": {}, "seconds": 2.0}
        entry = Entry(**facts, left=0, runs=count, tried=tried(*names))
    vain = Vain(None)
    monkeypatch.setattr(Vain, "_read", lambda self: entry)
    monkeypatch.setattr(Vain, "_holds", lambda self, _: True)
    assert vain._runs({each.key for each in tried("f")}, nothing=False) == runs
