"""METIS parts: rows, halos and local graphs that together are the graph."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sage_reference import close, tensors_of, weights_of

from codedag.ir.errors import CodedagError
from codedag.stages.graph.graphs import synthetic_flickr
from codedag.stages.graph.parts import PartSize, parts_of
from codedag.stages.model import BadInput

pytest.importorskip("pymetis")


def check(parts, edges, nodes, count):
    """What holds of all parts of all graphs."""
    assert len(parts) == len(parts.sizes) == count
    assert sorted(parts.order.tolist()) == list(range(nodes))
    assert parts.order[parts.position].tolist() == list(range(nodes))
    assert parts.order[parts.edge_index].tolist() == edges.tolist()
    assert sum(size.nodes for size in parts.sizes) == nodes
    assert sum(size.edges for size in parts.sizes) == edges.shape[1]
    for part, size in enumerate(parts.sizes):
        check_part(parts, part, size)


def check_part(parts, part, size):
    own, local, (sources, targets) = parts.rows(part), parts.local(part), parts.edges(part)
    assert (parts.membership[parts.order[own]] == part).all()
    assert own.stop - own.start == local.owned == size.nodes
    assert len(local.rows) == size.rows == size.nodes + size.halo
    assert local.rows[: local.owned].tolist() == list(range(own.start, own.stop))
    assert set(parts.halo(part).tolist()) == set(sources.tolist()) - set(range(own.start, own.stop))
    assert ((targets >= own.start) & (targets < own.stop)).all()
    assert local.edge_index.dtype == np.int64
    assert local.rows[local.edge_index].tolist() == [sources.tolist(), targets.tolist()]
    assert (local.edge_index[1] < local.owned).all()


@settings(max_examples=80, deadline=None)
@given(nodes=st.integers(0, 12), edges=st.integers(0, 40), count=st.integers(1, 15), seed=st.integers(0, 999))
def test_parts_are_the_graph(nodes, edges, count, seed):
    ids = np.random.default_rng(seed).integers(0, max(nodes, 1), (2, edges if nodes else 0))
    check(parts_of(ids, nodes, count), ids, nodes, count)


def test_parts_of_a_larger_graph_are_balanced_and_cut_few_edges():
    graph = synthetic_flickr(0.05, features=3)
    parts = parts_of(graph.edge_index, graph.nodes, 8)
    check(parts, graph.edge_index, graph.nodes, 8)
    assert max(size.nodes for size in parts.sizes) < 1.1 * graph.nodes / 8
    random = np.random.default_rng(0).integers(0, 8, graph.nodes)
    assert parts.cut_edges < (random[graph.edge_index[0]] != random[graph.edge_index[1]]).sum() * 0.85
    again = parts_of(graph.edge_index, graph.nodes, 8)
    assert np.array_equal(parts.membership, again.membership)


def test_a_graph_of_two_halves_is_cut_between_them():
    ring = np.arange(10)
    half = np.stack([ring, (ring + 1) % 10])
    edges = np.concatenate([half, half + 10, [[0], [10]]], axis=1)
    parts = parts_of(edges, 20, 2)
    assert parts.cut_edges == 1
    assert sorted((size.nodes, size.halo) for size in parts.sizes) == [(10, 0), (10, 1)]


@pytest.mark.parametrize(
    ("nodes", "count", "sizes"),
    [(0, 2, [(0, 0, 0)] * 2), (2, 4, [(1, 0, 0)] * 2 + [(0, 0, 0)] * 2), (4, 2, [(2, 0, 0)] * 2)],
)
def test_without_edges(nodes, count, sizes):
    parts = parts_of(np.zeros((2, 0), np.int64), nodes, count)
    assert parts.sizes == tuple(PartSize(*size) for size in sizes)
    assert parts.cut_edges == 0


def test_results_of_parts_come_back_in_the_original_order():
    pytest.importorskip("numba")
    from codedag.stages.graph.kernels import GraphKernels, LayerWeights

    graph, arrays, kernels = synthetic_flickr(0.005, features=6), weights_of((6, 4)), GraphKernels(2)
    weights = LayerWeights.of(*(arrays[name] for name in ("lin_l.weight", "lin_l.bias", "lin_r.weight")))
    want = tensors_of(graph.x, graph.edge_index, arrays)["out"]
    parts = parts_of(graph.edge_index, graph.nodes, 5)
    x, csr = parts.arranged(graph.x), kernels.csr(parts.edge_index, graph.nodes)
    shared, copied = np.zeros((graph.nodes, 4), np.float32), np.zeros((graph.nodes, 4), np.float32)
    for part in range(5):
        rows, local = parts.rows(part), parts.local(part)
        kernels.layer_rows(csr, x, weights, shared, rows.start, rows.stop)
        out = np.empty((len(local.rows), 4), np.float32)
        kernels.layer(kernels.csr(local.edge_index, len(local.rows)), x[local.rows], weights, out)
        copied[rows] = out[: local.owned]
    assert close(parts.restored(shared), want)
    assert close(parts.restored(copied, out=np.empty_like(copied)), want)


def test_no_parts_are_refused():
    with pytest.raises(BadInput, match="0 parts"):
        parts_of(np.zeros((2, 0), np.int64), 3, 0)


def test_without_pymetis_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    ring = np.stack([np.arange(9), (np.arange(9) + 1) % 9])
    with pytest.raises(CodedagError, match=r"codedag\[stages\]"):
        parts_of(ring, 9, 2)
    assert len(parts_of(ring, 9, 1)) == 1
