"""Single calls for the timeline: bounded, the first and the longest, in C as in Python."""

from __future__ import annotations

import time

import pytest

from codedag.ir import Events
from codedag.trace import events
from codedag.trace.events import Calls, Log, events_of


def test_the_first_calls_are_kept_and_of_the_others_the_long_ones():
    calls = Calls()
    for count in range(1, 6):
        calls.told(0, count, 1_000, 8)
    calls.told(0, 6, events.LEAST_LONG, 8)
    least, kept = calls.all()
    assert least == events.LEAST_LONG
    assert [call[3] for call in kept] == [1_000, 1_000, events.LEAST_LONG]


def test_a_call_without_time_is_no_call():
    calls = Calls()
    calls.told(0, 1, 0, 8)
    assert calls.all() == (events.LEAST_LONG, [])


def test_there_are_never_too_many_and_the_longest_stay():
    calls = Calls()
    for number in range(3 * events.MOST_EVENTS):
        calls.told(5, number + 10, events.LEAST_LONG + 100 * number, 0)
    least, kept = calls.all()
    assert len(kept) <= events.MOST_EVENTS
    assert min(call[3] for call in kept) >= events.LEAST_LONG
    long_enough = [
        events.LEAST_LONG + 100 * number
        for number in range(3 * events.MOST_EVENTS)
        if events.LEAST_LONG + 100 * number >= least
    ]
    assert sorted(call[3] for call in kept if call[3] >= least) == long_enough


def test_first_calls_of_very_many_operations_do_not_fill_the_room():
    calls = Calls()
    for number in range(10 * events.MOST_EVENTS):
        calls.told(number, 1, 1_000, 0)
    assert len(calls.all()[1]) == events.FIRST_OPERATIONS


def test_the_gatherer_in_c_keeps_what_its_twin_keeps():
    """Both are told the same calls; times of day differ, everything else does not."""
    from codedag.trace.gather import Gatherer
    from codedag.trace.names import Names

    native = pytest.importorskip("codedag.trace._gather")
    gathered = [kind(set(), Names(), None) for kind in (native.Gatherer, Gatherer)]
    site = _Site()
    for one in gathered:
        path = one.path(-1, site)
        for number in range(2 * events.MOST_EVENTS):
            total = (number * 7919) % 300_000
            one.region(path, site, len, (), {}, None, total, total, None)
    kept = [one.events() for one in gathered]
    assert kept[0][0] == kept[1][0]
    assert [(call[0], call[1], *call[3:]) for call in kept[0][1]] == [
        (call[0], call[1], *call[3:]) for call in kept[1][1]
    ]
    assert all(abs(call[2] - time.perf_counter_ns()) < 60e9 for call in kept[0][1])
    for one in gathered:
        one.rebase()
        assert one.events()[1] == []


class _Site:
    """What a gatherer looks at in a site of which it is told a region."""

    calls = nanoseconds = 0


def test_events_are_seconds_of_the_run_on_lanes_of_threads():
    log = Log(process=7, least=50, calls=[(3, 11, 2_000_000_000, 500_000_000, 64), (4, 12, 900_000_000, 10, 0)])
    log.threads, log.memory = {11: "MainThread"}, [(1_500_000_000, 4096)]
    other = Log(process=8, least=70, calls=[(3, 11, 3_000_000_000, 1_000_000_000, 32), (99, 11, 5, 5, 5)])
    made = events_of([log, other], {3: 30, 4: 40}, 1000, 1_000_000_000, 4_000_000_000, {"switched": 2_500_000_000})
    assert isinstance(made, Events)
    assert [(one.process, one.thread, one.name) for one in made.lanes] == [
        (7, 11, "MainThread"),
        (7, 12, ""),
        (8, 11, ""),
    ]
    assert [tuple(getattr(call, name) for name in call.__struct_fields__) for call in made.calls] == [
        (40, 1, 0.0, 0.0, 0),  # ended before the run began: odd, but never negative
        (30, 0, 0.5, 1.0, 64),
        (30, 2, 1.0, 2.0, 32),
    ]
    assert (made.seconds, made.seen, made.least_seconds) == (3.0, 1000, 70e-9)
    assert [(one.process, one.seconds, one.nbytes) for one in made.memory] == [(7, 0.5, 4096)]
    assert [(one.name, one.seconds) for one in made.marks] == [("switched", 1.5)]


def test_memory_is_sampled_and_thinned():
    log = Log()
    for _ in range(2 * events.MOST_SAMPLES):
        log.sample()
    assert events.MOST_SAMPLES // 2 <= len(log.memory) <= events.MOST_SAMPLES
    assert all(nbytes > 1_000_000 for _, nbytes in log.memory)
    assert log.memory == sorted(log.memory)
