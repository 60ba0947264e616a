"""Single calls of a traced run: what they say where nothing was measured, and beyond what was measured alone."""

from __future__ import annotations

import pytest

from codedag.ir import Graph, Machine, No, Op, Pu
from codedag.ir.events import Event, Events, Lane
from codedag.profile.figures import Batches
from codedag.profile.profiler import Contest
from codedag.profile.store import Cell
from codedag.profile.table import OWN_CODE, Tabulator
from codedag.profile.traced import LONG_SECONDS, Calls, calls_of, own_code, usual
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
    assert found[0].fastest == 0.001
    assert found[0].usual == pytest.approx(0.004 / 3)  # without the first and the one that was held up
    assert found[0].mean == pytest.approx(0.101)


def test_of_calls_that_were_not_kept_the_sum_is_known():
    graph = Graph.build([op(0, 12, 0.5 + 0.003 + 10 * 0.002)])
    found = calls_of(graph, events((0, [0.5, 0.003])))  # the first, which loads things, and a long one
    assert found[0].usual == pytest.approx((0.003 + 10 * 0.002) / 11)
    assert found[0].fastest == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (([5.0, 1.0, 3.0], 0, 0.0), 2.0),  # the first loads things
        (([1.0], 0, 0.0), 1.0),
        (([1.0, 1.0, 1.0, 90.0], 0, 0.0), 1.0),  # one was held up
        (([], 4, 2.0), 0.5),
        (([9.0, 1.0, 30.0], 6, 3.0), 4 / 7),
    ],
)
def test_the_usual_call(told, expected):
    assert usual(*told) == pytest.approx(expected)


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


def tabulated(calls, original=10e-6, other=4e-6, nbytes=10**6, held_up=0.0):
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
        calls=calls, held_up=held_up,
    )  # fmt: skip
    table = made.table()
    return [table.row(0, pu).seconds for pu in ("cpu", "numba:cpu")]


def test_what_a_call_pays_at_its_place_is_paid_by_every_variant():
    assert tabulated({}) == pytest.approx([100e-6, 40e-6])
    assert tabulated({0: Calls(30e-6, 34e-6, 34e-6)}) == pytest.approx([340e-6, 280e-6])
    assert tabulated({0: Calls(9e-6, 10.5e-6, 11e-6)}) == pytest.approx([100e-6, 40e-6])  # no clear difference
    assert tabulated({0: Calls(4e-6, 4e-6, 4e-6)}, 1e-6, 1e-6) == pytest.approx([10e-6, 10e-6])  # the recorder's cost


def test_what_is_beyond_the_bytes_of_a_call_is_work_unless_the_machine_was_busy():
    memory, calls = 100e-6, {0: Calls(200e-6, 210e-6, 210e-6)}  # alone 10 microseconds
    assert tabulated(calls) == pytest.approx([2100e-6, 10 * (4e-6 * 11 + memory)])
    assert tabulated(calls, held_up=0.5) == pytest.approx([1100e-6, 1040e-6])
    few = {0: Calls(30e-6, 34e-6, 34e-6)}
    assert tabulated(few, nbytes=50_000, held_up=0.5) == pytest.approx([150e-6, 90e-6])


def test_long_calls_of_a_busy_machine_say_nothing():
    calls = {0: Calls(30e-3, 34e-3, 34e-3)}
    assert tabulated(calls, 10e-3, 4e-3, held_up=0.5) == pytest.approx([100e-3, 40e-3])
    assert tabulated(calls, 10e-3, 4e-3)[0] == pytest.approx(340e-3)


def test_a_call_that_took_less_in_the_program_than_alone_has_less_work():
    calls = {0: Calls(5e-6, 5e-6, 6e-6)}
    assert tabulated(calls) == pytest.approx([50e-6, 20e-6])
    assert tabulated(calls, held_up=0.5) == pytest.approx([50e-6, 40e-6])  # or it was measured while others ran


def region(count, seconds):
    return Op(1, "a.f", "region", "a.py", 1, "f", count, 0.0, seconds, 0)


def inner(count, seconds, number=2):
    return Op(number, "numpy.add", "call", "a.py", 2, "f/numpy.add", count, seconds, seconds, 0, parent=1)


def timeline(*calls):
    made = [Event(number, lane, end - seconds, end, 0) for number, lane, end, seconds in calls]
    lanes = [Lane(process=1, thread=lane) for lane in range(2)]
    return Events(seconds=1.0, seen=len(made), least_seconds=0.0, lanes=lanes, calls=made)


def test_what_functions_take_between_operations_leaves_out_their_first_call():
    """The first one loads something for two seconds, outside of any operation."""
    took = [2.5, 0.5, 0.5, 0.5, 0.5]
    outer = [(1, 0, 10.0 + at, seconds) for at, seconds in enumerate(took)]
    inside = [(2, 0, 9.9 + at, 0.3) for at in range(5)]
    graph = Graph.build([region(5, sum(took)), inner(5, 1.5)])
    assert own_code(graph, timeline(*outer, *inside), 0.0, 0.0) == {1: pytest.approx(5 * 0.2)}
    assert own_code(graph, timeline(*outer, *inside), 0.01, 0.0) == {1: pytest.approx(5 * 0.19)}  # of recording
    assert own_code(graph, timeline(*outer), 0.0, 0.0) == {1: pytest.approx(5 * 0.2)}  # only the sum of the inner ones
    assert own_code(graph, timeline(*outer[1:], *inside), 0.0, 0.25) == {1: pytest.approx(3.0 * 0.75)}


def test_long_code_of_a_function_is_held_up_as_much_as_the_run():
    outer = [(1, 0, 10.0 + at, 0.5) for at in range(5)]
    graph = Graph.build([region(5, 2.5), inner(5, 0.0)])
    assert own_code(graph, timeline(*outer), 0.0, 0.75) == {1: pytest.approx(5 * 0.125)}


def test_calls_in_another_thread_are_those_of_another_call():
    outer = [(1, lane, 10.0 + at, 1.0) for at in range(3) for lane in range(2)]
    inside = [(2, 1, 9.9 + at, 0.5) for at in range(3)]
    graph = Graph.build([region(6, 6.0), inner(3, 1.5)])
    assert own_code(graph, timeline(*outer, *inside), 0.0, 0.0)[1] == pytest.approx(6 * (2 * 1.0 + 3 * 0.5) / 5)


def test_functions_without_time_of_their_own_have_no_row():
    graph = Graph.build([region(5, 1.0), inner(5, 1.0)])
    assert own_code(graph, timeline(), 0.0, 0.0) == {}


def test_the_program_s_own_code_is_a_row():
    class Nothing:
        def of(self, one):
            return No("nothing was kept")

    graph = Graph.build([region(5, 1.0), inner(5, 0.5)])
    row = Tabulator(graph, Nothing(), {}, Machine(pus=[]), [], own_code={1: 0.25}).table().row(1, "cpu")
    assert (row.seconds, row.source, row.reason, row.variant) == (0.25, "traced", OWN_CODE, "original")
