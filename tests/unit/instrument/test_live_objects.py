"""Looking through all objects must not disturb what another thread is just making.

Python enlarges a tuple in place while it is being made, and raises SystemError if anybody else holds it then.
"""

from __future__ import annotations

import sys
import threading

import pytest

from codedag.instrument.program import functions_by_file, functions_of
from codedag.migrate.patches import proxies
from codedag.migrate.patches.referrers import Sweep

TUPLES = 4000


def _slowly(count):
    for number in range(count):
        for _ in range(20):
            pass
        yield number


def _while_tuples_are_made(look):
    """What happened to a thread that makes tuples while this one looks around."""
    failures, done = [], threading.Event()

    def make():
        try:
            for _ in range(TUPLES):
                assert len(tuple(_slowly(40))) == 40
        except (SystemError, AssertionError) as error:
            failures.append(error)
        done.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=make)
    try:
        thread.start()
        while not done.is_set():
            look()
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    return failures


def test_finding_functions_leaves_tuples_alone_that_are_being_made():
    pytest.importorskip("codedag.instrument._bind")
    assert _while_tuples_are_made(functions_by_file) == []
    assert _while_tuples_are_made(lambda: functions_of(__file__)) == []


def test_finding_references_leaves_tuples_alone_that_are_being_made():
    pytest.importorskip("codedag.migrate._patch")

    def wanted():
        return None

    stand = proxies.make(wanted)
    assert _while_tuples_are_made(lambda: Sweep((stand,), True).run()) == []


def test_functions_are_found_by_file():
    assert _slowly in functions_by_file()[__file__]
    assert _slowly in functions_of(__file__)
