"""The memory of one iteration: results that are alive together, scratch, views, and what an allocator really saw."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np

from codedag.ir import Edge, Graph, Op
from codedag.profile.liveness import peak_of, training_peak


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


def test_training_keeps_results_until_their_op_is_gone_back_through():
    chain = Graph.build([op(0, 100), op(1, 10), op(2, 1)], [flow(0, 1), flow(1, 2)])
    # back through 2: all results (111), gradients of 2 (1) and 1 (10); then through 1: 110 + gradients 10 + 100
    assert training_peak(chain) == 220
    assert training_peak(chain, views={1}) == 210
    assert training_peak(Graph.build([])) == 0


def test_training_peaks_equal_those_of_sets_that_are_kept_by_hand(seed):
    for case in range(200):
        rng = random.Random(f"{seed} {case}")
        count = rng.randint(1, 9)
        ops = [op(number, rng.randint(0, 50)) for number in range(count)]
        pairs = {(a, b) for b in range(count) for a in range(b) if rng.random() < 0.4}
        graph = Graph.build(ops, [flow(a, b) for a, b in sorted(pairs)])
        size = {each.id: each.out_nbytes for each in ops}
        order = list(graph.topological())
        results, gradients, peaks = set(order), set(), [sum(size.values())]
        for one in reversed(order):
            gradients |= {one, *(a for a, b in pairs if b == one)}
            peaks.append(sum(size[each] for each in results) + sum(size[each] for each in gradients))
            results.discard(one)
            gradients.discard(one)
        assert training_peak(graph) == max(peaks), case
