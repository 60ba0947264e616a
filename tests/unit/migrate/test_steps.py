"""The iterator that stands in a loop: what it tells, and that what the program's handlers raise is not lost."""

from __future__ import annotations

import signal

import pytest

_order = pytest.importorskip("codedag.migrate._order")


class Timeout(Exception):
    """What a program raises when a signal comes."""


def at_the_end(act):
    return lambda steps: act() if steps.ended else None


def test_an_error_of_ours_at_the_end_of_a_loop_is_not_the_programs():
    assert list(_order.Steps([1, 2, 3], at_the_end(lambda: 1 / 0))) == [1, 2, 3]


def test_ctrl_c_at_the_end_of_a_loop_is_not_lost():
    steps = _order.Steps([1, 2, 3], at_the_end(lambda: signal.raise_signal(signal.SIGINT)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(steps)
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_a_signals_handler_raises_at_the_end_of_a_loop_is_not_lost():
    def handler(number, frame):
        raise Timeout

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Timeout):
            list(_order.Steps([1, 2, 3], at_the_end(lambda: signal.raise_signal(signal.SIGALRM))))
    finally:
        signal.signal(signal.SIGALRM, before)
