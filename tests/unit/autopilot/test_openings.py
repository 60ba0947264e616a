"""Opened functions: those that showed no data in the time that they may be observed are known to have nothing."""

from __future__ import annotations

from types import SimpleNamespace

from codedag.autopilot import openings as openings_module
from codedag.autopilot.applied import Watch
from codedag.autopilot.openings import OBSERVE_SECONDS_MAX, Openings


def test_a_function_that_showed_no_data_is_barren(monkeypatch):
    empty, full, new = ("a.py", "empty"), ("a.py", "full"), ("a.py", "new")
    settled: list[tuple[str, str]] = []
    watches = {key: Watch(0.0) for key in (empty, full, new)}
    watches[full].seen[3] = 5
    observed = SimpleNamespace(watches=watches, barren=set(), settle=settled.append)
    pilot = SimpleNamespace(observed=observed)
    found = Openings(pilot, SimpleNamespace())  # type: ignore[arg-type]
    found.opened = {empty: 0.0, full: 0.0, new: OBSERVE_SECONDS_MAX}
    monkeypatch.setattr(openings_module.time, "perf_counter", lambda: OBSERVE_SECONDS_MAX + 1.0)
    found._end_long_observing()
    assert settled == [empty, full]
    assert observed.barren == {empty}


def test_what_an_earlier_run_found_barren_is_not_opened():
    pilot = SimpleNamespace(left_alone={("a.py", "f")}, observed=SimpleNamespace(is_over=lambda key: False))
    found = Openings(pilot, SimpleNamespace())  # type: ignore[arg-type]
    assert not found._is_new(("a.py", "f"))
    assert found._is_new(("a.py", "g"))
