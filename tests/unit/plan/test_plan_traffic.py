"""The bytes of chains, counted by hand, and what they predict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedag.ir import Edge, Graph, Op
from codedag.ir.machine import Copied, Pu
from codedag.plan.traffic import Traffic, candidates, predicted, rate, sizes, traffic

CACHE, MEMORY = 50e9, 10e9
PU = Pu(
    name="cpu", memory_nbytes=1 << 34, launch_seconds=1e-6, stream_bytes_per_second=MEMORY,
    stream_levels=[Copied(nbytes=n, seconds=n / r) for n, r in ((1 << 20, CACHE), (1 << 27, MEMORY))],
)  # fmt: skip


def op(number, name, in_sig, out_sig, **more):
    return Op(number, name, "operator", "t.py", 1, name, 5, 0.1, 0.1, 0, in_sig=in_sig, out_sig=out_sig, **more)


def line(n=1000, mean=True):
    """x * 2, - mean (an array), / 3 as float64 arrays of n elements."""
    x = f"float64[{n}]"
    ops = [op(0, "operator.mul", x, x), op(1, "operator.sub", f"{x},{x}" if mean else x, x),
           op(2, "operator.truediv", x, x)]  # fmt: skip
    return Graph.build(ops, [Edge(0, 1, "flow", 5 * 8 * n), Edge(1, 2, "flow", 5 * 8 * n)])


def test_bytes_are_those_that_one_counts_by_hand():
    assert traffic(line(), [0, 1, 2]) == Traffic((16000, 24000, 16000), 8000 + 8000 + 8000)
    assert traffic(line(mean=False), [0, 1, 2]) == Traffic((16000, 16000, 16000), 16000)
    assert traffic(line(), [1]) == Traffic((24000,), 24000)
    assert traffic(line(), []) is None


@pytest.mark.parametrize(
    ("signature", "nbytes"),
    [("uint8[4,3]", [12]), ("float32[2],int16[5]", [8, 10]), ("bool[7]", [7]), ("float", []), ("", []),
     ("float64[]", [8]), ("uint8[*,3]", None), ("object[3]", None), ("complex128[2]", [32])],
)  # fmt: skip
def test_sizes_of_signatures(signature, nbytes):
    assert sizes(signature) == nbytes


def test_a_cache_is_as_fast_as_it_is_large():
    assert rate(PU, 1000) == pytest.approx(CACHE)
    assert rate(PU, 1 << 22) == pytest.approx(MEMORY)
    assert rate(PU, 1 << 30) == pytest.approx(MEMORY)


def test_small_arrays_gain_launches_and_large_ones_bytes():
    moved = traffic(line(1, mean=False), [0, 1, 2])
    assert predicted(moved, PU) == pytest.approx(3.0, rel=0.01)
    moved = traffic(line(10_000_000, mean=False), [0, 1, 2])
    assert predicted(moved, PU) == pytest.approx(3.0, rel=0.01)
    fits = traffic(line(60_000, mean=False), [0, 1, 2])  # each operation in the cache
    assert predicted(fits, PU) <= 3.01


@given(st.lists(st.integers(1, 1 << 30), min_size=1, max_size=6), st.floats(1e-9, 1e-3))
def test_one_kernel_that_moves_less_is_predicted_to_be_slower_only_if_it_starts_slower(each, launch):
    moved = Traffic(tuple(each), min(each))
    assert predicted(moved, PU) >= 1.0 - 1e-9
    assert predicted(moved, PU, launch) <= predicted(moved, PU, launch / 2)


def test_chains_end_where_somebody_else_reads():
    graph = line()
    assert candidates(graph, lambda op: True) == [[0, 1, 2]]
    assert candidates(graph, lambda op: op.id != 1) == []
    assert candidates(graph, lambda op: op.id != 2) == [[0, 1]]
    other = op(3, "operator.neg", "float64[1000]", "float64[1000]")
    forked = Graph.build([*graph.ops, other], [*graph.edges, Edge(1, 3, "flow", 8)])
    assert candidates(forked, lambda op: True) == [[0, 1]]
    carried = Graph.build(graph.ops, graph.edges, [(1, 0)])
    assert candidates(carried, lambda op: True) == [[0, 1]]
