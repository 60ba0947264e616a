"""The memory of one iteration: results that are alive together, scratch, views, and what an allocator really saw."""

from __future__ import annotations

import tracemalloc

import numpy as np

from codedag.ir import Edge, Graph, Op
from codedag.profile.liveness import peak_of


def op(number, nbytes, kind="call", count=1):
    return Op(
        id=number, name=f"f{number}", kind=kind, file="t.py", line=1, context="f", count=count, self_seconds=0.0,
        total_seconds=0.0, out_nbytes=nbytes * count,
    )  # fmt: skip


def flow(src, dst, nbytes=0):
    return Edge(src, dst, "flow", nbytes)


def test_results_live_until_their_last_reader():
    graph = Graph.build([op(0, 100), op(1, 10), op(2, 10), op(3, 1)], [flow(0, 1), flow(1, 2), flow(2, 3)])
    assert peak_of(graph, {}).nbytes == 110
    held = Graph.build([op(0, 100), op(1, 10), op(2, 10), op(3, 1)], [flow(0, 1), flow(1, 2), flow(2, 3), flow(0, 3)])
    assert peak_of(held, {}).nbytes == 120


def test_scratch_counts_while_an_operation_runs():
    graph = Graph.build([op(0, 100), op(1, 10), op(2, 10)], [flow(0, 1), flow(1, 2)])
    peak = peak_of(graph, {2: 500})
    assert (peak.op, peak.nbytes, peak.scratch_nbytes) == (2, 520, 500)


def test_a_view_keeps_alive_what_it_looks_at_and_has_no_bytes():
    edges = [flow(0, 1, 100), flow(1, 2, 100), flow(2, 3, 100)]
    graph = Graph.build([op(0, 100), op(1, 100), op(2, 100), op(3, 7)], edges)
    assert peak_of(graph, {}, views={1, 2}).nbytes == 107
    assert peak_of(graph, {}).nbytes == 200


def test_bytes_are_those_of_one_call_and_regions_have_none():
    graph = Graph.build([op(0, 100, count=50), op(1, 9_999, kind="region"), op(2, 10)], [flow(0, 2)])
    assert peak_of(graph, {}).nbytes == 110
    assert peak_of(Graph.build([]), {}) is None


def test_it_is_what_the_allocator_sees():
    """x = a + a; y = sqrt(x); z = y.T + a; one after the other, each released when nobody reads it any more."""
    size = 400 * 400 * 8
    tracemalloc.start()
    a = np.ones((400, 400))
    x = a + a
    y = np.sqrt(x)
    del x
    z = y.T + a
    seen = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del a, y, z
    edges = [flow(0, 1, size), flow(1, 2, size), flow(2, 3, size), flow(3, 4, size), flow(0, 4, size)]
    graph = Graph.build([op(0, size), op(1, size), op(2, size), op(3, size), op(4, size)], edges)
    assert abs(peak_of(graph, {}, views={3}).nbytes / seen - 1) < 0.05
