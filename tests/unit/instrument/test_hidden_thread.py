"""Threads that the program does not see."""

from __future__ import annotations

import threading

from codedag.instrument.hidden_thread import HiddenThread


def test_a_hidden_thread_is_not_listed_and_can_be_joined():
    go, seen = threading.Event(), []

    def work():
        go.wait(60)
        seen.append(threading.get_ident())

    before = threading.enumerate()
    thread = HiddenThread(work)
    thread.start()
    assert thread.is_alive()
    assert threading.enumerate() == before
    assert not thread.join(0.01)
    go.set()
    assert thread.join(60)
    assert not thread.is_alive()
    assert seen == [thread.ident] != [threading.get_ident()]
    assert threading.enumerate() == before


def test_an_error_in_it_ends_it(capsys):
    thread = HiddenThread(lambda: 1 / 0)
    thread.start()
    assert thread.join(60)
