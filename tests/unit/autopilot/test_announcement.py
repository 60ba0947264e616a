"""The line in the middle of a run: once, and only when the turns have shown a gain worth a word."""

from __future__ import annotations

from types import SimpleNamespace

from codedag.autopilot.judge.change import Interval
from codedag.autopilot.report.announcement import Announcement


def judging(low, middle, high):
    gain = Interval(low=low, middle=middle, high=high)
    return SimpleNamespace(
        judge=SimpleNamespace(gain=gain), source="batch", clock=SimpleNamespace(speeds=[SimpleNamespace(turns=60)] * 2)
    )


def test_it_speaks_once():
    said, now = [], [None]
    call = Announcement(lambda: now[0], said.append)
    call()
    now[0] = judging(1.02, 1.2, 1.4)
    call()
    assert said == []
    now[0] = judging(2.9, 3.2, 3.6)
    call()
    call()
    assert said == ["from here on about 3.2x faster (batch 120)"]
