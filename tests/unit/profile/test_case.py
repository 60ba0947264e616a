"""Batches of calls under clocks that the test moves."""

from __future__ import annotations

import pytest

from codedag.profile import case as case_module
from codedag.profile.case import Case
from codedag.trace.held_up import Turns


class Machine:
    """A machine on which calls take a time, and some of them are held up for longer."""

    def __init__(self, seconds, held_up):
        self.seconds, self.held_up, self.now, self.waited = seconds, held_up, 0.0, 0.0

    def call(self):
        self.now += self.seconds + self.held_up
        self.waited += self.held_up

    def perf_counter(self):
        return self.now


@pytest.mark.parametrize(
    ("seconds", "held_up", "expected"), [(0.01, 0.03, 0.01), (0.01, 0.0, 0.01), (1e-5, 2e-5, 3e-5)]
)
def test_what_a_long_call_waited_is_taken_off(monkeypatch, seconds, held_up, expected):
    machine = Machine(seconds, held_up)
    monkeypatch.setattr(case_module, "time", machine)
    monkeypatch.setattr(Turns, "so_far", classmethod(lambda cls: cls(machine.now, machine.waited)))
    assert Case(machine.call, (), {}).batch().seconds == pytest.approx(expected)
