"""Single calls of a traced run: what they say where nothing was measured, and beyond what was measured alone."""

from __future__ import annotations

import pytest

from codedag.ir import Graph, Op
from codedag.ir.events import Event, Events, Lane
from codedag.profile.table import calls_of


def op(number, count, total, own=None, signature="float32[4]"):
    return Op(number, "numpy.add", "call", "a.py", 1, "f/numpy.add", count, total if own is None else own, total, 0,
              in_sig=signature)  # fmt: skip


def events(*calls):
    made = [Event(number, 0, 0.0, seconds, 0) for number, durations in calls for seconds in durations]
    return Events(seconds=1.0, seen=len(made), least_seconds=0.0, lanes=[Lane(process=1, thread=1)], calls=made)


def test_a_call_that_was_held_up_does_not_count():
    took = [0.001, 0.001, 0.002, 0.001, 0.5]
    graph = Graph.build([op(0, 5, sum(took))])
    found = calls_of(graph, events((0, took)))
    assert (found[0].fastest, found[0].middle) == (0.001, 0.001)


@pytest.mark.parametrize(
    ("one", "durations"),
    [
        (op(0, 6, 0.06), [0.01] * 5),  # one call was not kept
        (op(0, 4, 0.04), [0.01] * 4),  # too few
        (op(0, 5, 0.05, own=0.02), [0.01] * 5),  # it calls others
        (op(0, 5, 0.05, signature="float32[*]"), [0.01] * 5),  # of many shapes
    ],
)
def test_what_is_not_known_whole_is_left_out(one, durations):
    assert calls_of(Graph.build([one]), events((0, durations))) == {}
