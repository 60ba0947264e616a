"""Where the seconds of a process went: what was there before us is asked of the system."""

from __future__ import annotations

import pytest

from codedag.autopilot.report import spans as spans_module
from codedag.autopilot.report.spans import PYTHON, Spans, before_us


def test_the_whole_process_counts():
    assert Spans(program=2.0, python=0.1, starting=0.3, ending=0.2, beside=9.0).whole == pytest.approx(2.6)


def test_python_itself_starts_before_us(monkeypatch):
    monkeypatch.setattr(spans_module, "perf_counter", lambda: 100.0)
    monkeypatch.setattr(spans_module, "age", lambda: 0.5)
    assert before_us(99.7) == pytest.approx(0.2)
    assert before_us(100.0 - 0.6) == PYTHON  # it cannot be younger than what we did in it
    monkeypatch.setattr(spans_module, "age", lambda: 3600.0)
    assert before_us(99.7) == PYTHON  # it was something else before
    monkeypatch.setattr(spans_module, "age", lambda: None)
    assert before_us(99.7) == PYTHON
