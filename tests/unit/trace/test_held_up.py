"""The share of its time that a thread waited for a processor, as the system counts it."""

from __future__ import annotations

import pytest

from codedag.trace import held_up
from codedag.trace.held_up import Turns


@pytest.fixture
def counted(tmp_path, monkeypatch):
    path = tmp_path / "schedstat"
    monkeypatch.setattr(Turns.so_far.__func__, "__defaults__", (path,))
    return path


def test_what_was_waited_since(counted):
    counted.write_text("1000000000 500000000 7\n")
    before = Turns.so_far()
    counted.write_text("4000000000 1500000000 9\n")
    assert before == Turns(1.0, 0.5)
    assert before.held_up_since() == pytest.approx(0.25)


@pytest.mark.parametrize("content", [None, "", "one two", "5"])
def test_nothing_is_known_where_the_system_does_not_say(counted, content):
    if content is not None:
        counted.write_text(content)
    assert Turns.so_far() == Turns()
    assert Turns.so_far().held_up_since() == 0.0


def test_a_thread_that_has_run_says_so():
    before = Turns.so_far()
    assert held_up.Turns.so_far().ran >= before.ran
