"""A loop that never has anything to run ahead is left alone: asking costs a microsecond each time."""

from types import SimpleNamespace

import pytest

from codedag.autopilot.loops import IN_VAIN, Loop


def watched(here: bool = True) -> tuple[Loop, SimpleNamespace]:
    site = SimpleNamespace(variant=None)
    loop = Loop(SimpleNamespace(is_here=lambda: here), SimpleNamespace(sites=[site], loops_ahead={0: None}), 0)  # type: ignore[arg-type]
    site.variant = loop
    return loop, site


@pytest.mark.parametrize("over", [(1,), [], {1: 2}, (each for each in ())])
def test_what_cannot_run_ahead_is_asked_for_so_often_and_no_more(over):
    loop, site = watched()
    for _ in range(IN_VAIN - 1):
        assert loop(over) is over
    assert site.variant is loop
    assert loop(over) is over
    assert site.variant is None


def test_another_thread_than_the_programs_own_does_not_ask_for_ever():
    loop, site = watched(here=False)
    for _ in range(IN_VAIN):
        loop([1, 2, 3])
    assert site.variant is None


def test_what_can_run_ahead_now_and_then_is_asked_for_again():
    loop, site = watched()
    for number in range(3 * IN_VAIN):
        over = [1, 2, 3] if number % (IN_VAIN - 1) == 0 else [1]
        assert (loop(over) is over) == (len(over) == 1)
    assert site.variant is loop
