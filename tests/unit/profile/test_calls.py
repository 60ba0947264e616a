"""Single calls of a traced run: what they say where nothing was measured, and beyond what was measured alone."""

from __future__ import annotations

import pytest

from codedag.ir import Graph, Machine, Op, Pu
from codedag.ir.events import Event, Events, Lane
from codedag.profile.figures import Batches
from codedag.profile.profiler import Contest
from codedag.profile.store import Cell
from codedag.profile.table import LONG_SECONDS, Calls, Tabulator, calls_of
from codedag.profile.variants import Variant


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
    assert found[0].mean == pytest.approx(0.101)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (Calls(0.001, 0.001, 0.004), 0.001),  # few of many short calls were held up
        (Calls(0.001, 0.003, 0.008), 0.002),  # more than half of them were
        (Calls(0.001, 0.001, 0.001), 0.001),  # none of them was
        (Calls(0.10, 0.4, 0.4), 0.1),  # all of the long ones were
        (Calls(0.05, 0.1, 0.1), 0.025),  # the fastest one too
    ],
)
def test_what_a_call_takes_if_it_is_let_run(calls, expected):
    assert calls.undisturbed(0.75) == pytest.approx(expected)
    assert calls.undisturbed(0.0) == calls.mean or calls.fastest <= LONG_SECONDS


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


class OneSample:
    """The samples of a run with one captured call."""

    key = "k"

    def of(self, one):
        return self


def tabulated(calls, original=10e-6, other=4e-6, nbytes=10**6):
    batches = [Batches([seconds] * 6, [True] * 6, [0.0] * 6) for seconds in (original, other)]
    variants = [Variant("cpu"), Variant("numba:cpu", "numpy.add -> numba:cpu")]
    cells = {
        variant: Cell(
            variant.pu,
            "numpy.add",
            "",
            variant.pu,
            variant.name,
            "ok",
            {"moved_nbytes": nbytes, "out_nbytes": nbytes // 2},
            found,
        )
        for variant, found in zip(variants, batches, strict=True)
    }
    peaks = {"flop_per_second": 1e10, "stream_bytes_per_second": 2e10, "fresh_bytes_per_second": 1e10}
    pus = [
        Pu(name=name, memory_nbytes=1, launch_seconds=0.0, resource="host", **peaks) for name in ("cpu", "numba:cpu")
    ]
    sample = OneSample()
    made = Tabulator(
        Graph.build([op(0, 10, 1.0)]), sample, {"k": Contest(sample, cells)}, Machine(pus=pus), ["cpu", "numba:cpu"],
        calls=calls,
    )  # fmt: skip
    table = made.table()
    return [table.row(0, pu).seconds for pu in ("cpu", "numba:cpu")]


def test_what_a_call_pays_at_its_place_is_paid_by_every_variant():
    assert tabulated({}) == pytest.approx([100e-6, 40e-6])
    assert tabulated({0: Calls(30e-6, 34e-6, 34e-6)}) == pytest.approx([340e-6, 280e-6])
    assert tabulated({0: Calls(30e-6, 1.0, 1.0)}) == pytest.approx([1100e-6, 1040e-6])  # not more than its bytes cost
    assert tabulated({0: Calls(9e-6, 10.5e-6, 11e-6)}) == pytest.approx([100e-6, 40e-6])  # no clear difference
    assert tabulated({0: Calls(4e-6, 4e-6, 4e-6)}, 1e-6, 1e-6) == pytest.approx([10e-6, 10e-6])  # the recorder's cost
    assert tabulated({0: Calls(30e-6, 34e-6, 34e-6)}, nbytes=50_000) == pytest.approx([150e-6, 90e-6])  # few bytes
