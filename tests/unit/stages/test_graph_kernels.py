"""Kernels of graph stages against float64 and against PyG, on graphs of all sorts."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sage_reference import close, tensors_of, weights_of

from codedag.stages.model import BadInput

pytest.importorskip("numba")

import itertools

from codedag.stages.graph import kernels as kernels_module
from codedag.stages.graph import loops
from codedag.stages.graph.kernels import Csr, GraphKernels, LayerWeights, Threads, csr_of


def layer_weights(arrays, layer=0):
    here = "" if layer == 0 else f"{layer}."
    return LayerWeights.of(*(arrays[f"{here}{name}"] for name in ("lin_l.weight", "lin_l.bias", "lin_r.weight")))


@st.composite
def graphs(draw):
    nodes = draw(st.integers(0, 9))
    edges = draw(st.integers(0, 40)) if nodes else 0
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = random.standard_normal((nodes, draw(st.integers(1, 7)))).astype(np.float32)
    if nodes and draw(st.booleans()):
        x[random.integers(nodes), random.integers(x.shape[1])] = np.nan
    return x, random.integers(0, max(nodes, 1), (2, edges))


@pytest.fixture(scope="module")
def kernels():
    return GraphKernels(2)


@pytest.fixture(params=[1 << 20, 1], ids=["serial", "shared"])
def threshold(request, monkeypatch):
    """Small work on the calling thread, as it is; and shared by threads, as large work is."""
    share(monkeypatch, request.param == 1)


def share(patch, small):
    patch.setattr(kernels_module, "RANGE_NBYTES", 1 if small else 1 << 20)
    patch.setattr(kernels_module, "CHUNK_ROWS", 2 if small else 2048)
    patch.setattr(kernels_module, "ROWS_SHARED", 1 if small else 128)


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), outputs=st.integers(1, 8), shared=st.booleans())
def test_all_kernels_equal_the_definition(kernels, graph, outputs, shared):
    with pytest.MonkeyPatch.context() as patch:
        share(patch, shared)
        check_all_kernels(kernels, *graph, outputs)


def check_all_kernels(kernels, x, edges, outputs):
    nodes, features = x.shape
    arrays = weights_of([features, outputs])
    with np.errstate(invalid="ignore"):
        want = tensors_of(x, edges, arrays)
    weights, csr = layer_weights(arrays), kernels.csr(edges, nodes)
    made = {name: np.full(want[name].shape, 7, np.float32) for name in want if name not in ("x", "edge_index")}
    kernels.gather(csr, x, made["x_j"])
    kernels.copy(made["x_j"], made["messages"])
    kernels.reduce(csr, made["messages"], made["aggregated"])
    kernels.count(csr, made["degree"])
    kernels.divide(made["aggregated"], made["degree"], made["mean"])
    kernels.transform(made["mean"], x, weights, made["transformed"])
    kernels.relu(made["transformed"], made["out"])
    assert all(close(made[name], want[name]) for name in made)
    mean, total, averaged = (np.full((nodes, features), 7, np.float32) for _ in range(3))
    kernels.aggregate(csr, x, mean)
    kernels.aggregate(csr, x, total, mean=False)
    kernels.reduce(csr, made["messages"], averaged, mean=True)
    assert close(mean, want["mean"])
    assert close(averaged, want["mean"])
    assert close(total, want["aggregated"])
    for relu, name in ((True, "out"), (False, "transformed")):
        fused, first = (np.full((nodes, outputs), 7, np.float32) for _ in range(2))
        kernels.layer(csr, x, weights, fused, relu)
        kernels.layer_rows(csr, x, weights, first, 0, nodes, relu)
        assert close(fused, want[name])
        assert close(first, want[name])


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize("widths", [(20, 8, 8), (5, 16, 12)])
def test_a_stack_equals_pyg(kernels, widths):
    torch, geometric = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.nn")
    random = np.random.default_rng(1)
    x, edges = random.standard_normal((300, widths[0])).astype(np.float32), random.integers(0, 250, (2, 2000))
    x[3, 1], arrays, value = np.nan, weights_of(widths), torch.from_numpy(x)
    with torch.no_grad():
        for layer in range(2):
            here = "" if layer == 0 else f"{layer}."
            conv = geometric.SAGEConv(widths[layer], widths[layer + 1])
            names = ("lin_l.weight", "lin_l.bias", "lin_r.weight")
            conv.load_state_dict({name: torch.from_numpy(arrays[here + name]) for name in names})
            value = conv(value, torch.from_numpy(edges)).relu()
    csr = kernels.csr(edges, len(x))
    hidden, out = (np.empty((300, width), np.float32) for width in widths[1:])
    kernels.layer(csr, x, layer_weights(arrays), hidden)
    kernels.layer(csr, hidden, layer_weights(arrays, 1), out)
    assert close(out, value.numpy())


def test_a_layer_may_overwrite_its_features(kernels):
    x, edges = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32), np.arange(98).reshape(2, 49) % 50
    arrays, csr = weights_of([6, 6]), kernels.csr(edges, 50)
    want = tensors_of(x, edges, arrays)["out"]
    kernels.layer(csr, x, layer_weights(arrays), x)
    assert close(x, want)


@pytest.mark.usefixtures("threshold")
def test_rows_of_a_layer_need_no_other_rows_of_its_result(kernels):
    random = np.random.default_rng(2)
    x, edges = random.standard_normal((90, 10)).astype(np.float32), random.integers(0, 90, (2, 700))
    arrays = weights_of([10, 4])
    weights, csr, want = layer_weights(arrays), kernels.csr(edges, 90), tensors_of(x, edges, arrays)["out"]
    products, out, first = np.empty((90, 8), np.float32), np.zeros((90, 4), np.float32), np.zeros((90, 4), np.float32)
    for begin, end in ((0, 40), (40, 40), (40, 90)):
        kernels.transform_rows(x, weights, products, begin, end)
    kernels.finish_rows(csr, products, weights, out, 40, 90)
    kernels.layer_rows(csr, x, weights, first, 40, 90)
    assert close(out[40:], want[40:])
    assert close(first[40:], want[40:])
    assert not out[:40].any()
    assert not first[:40].any()


def test_edges_are_sorted_once_and_again_when_they_change(kernels, monkeypatch):
    made = []
    monkeypatch.setattr(kernels_module, "csr_of", lambda edges, nodes: made.append(nodes) or csr_of(edges, nodes))
    edges = np.array([[0, 1, 2, 2], [3, 3, 0, 3]])
    first = kernels.csr(edges, 4)
    assert kernels.csr(edges.copy(), 4) is first
    assert kernels.csr(edges, 5) is not first
    edges[0, 3] = 1
    changed = kernels.csr(edges, 4)
    assert changed.sources[changed.indptr[3] : changed.indptr[4]].tolist() == [0, 1, 1]
    assert first.sources[first.indptr[3] : first.indptr[4]].tolist() == [0, 1, 2]
    assert made == [4, 5, 4]


def test_few_graphs_are_kept(kernels):
    for last in range(3 * kernels_module.GRAPHS_KEPT):
        kernels.csr(np.array([[0], [last]]), 100)
    assert len(kernels._graphs) == kernels_module.GRAPHS_KEPT


@pytest.mark.parametrize(("edges", "words"), [([[0, 4], [1, 1]], "[0, 1]` is 4"), ([[0], [-1]], "[1, 0]` is -1")])
def test_ids_that_are_no_rows_are_refused(kernels, edges, words):
    with pytest.raises(BadInput) as told:
        kernels.csr(np.array(edges), 4)
    assert words in str(told.value)


def test_ranges_cover_all_rows_and_share_the_work():
    random = np.random.default_rng(0)
    targets = np.concatenate([random.integers(0, 3000, 20_000), np.zeros(30_000, np.int64)])  # one node with most edges
    csr = csr_of(np.stack([random.integers(0, 3000, 50_000), targets]), 3000)
    ranges = csr.ranges(Threads(2), 500)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 3000
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    light = [int(csr.indptr[b] - csr.indptr[a]) for a, b in ranges if a > 0]
    assert max(light) < 6000
    assert csr.ranges(Threads(2), 500, 7, 7) == []


def test_every_row_is_done_once_by_the_threads():
    done = np.zeros(1000, np.int64)

    def mark(values, first, last):
        values[first:last] += 1

    Threads(3).over([(at, at + 10) for at in range(0, 1000, 10)], mark, done)
    assert (done == 1).all()


def test_an_error_in_a_thread_reaches_the_caller():
    def fail(first, last):
        raise ValueError(f"row {first}")

    with pytest.raises(ValueError, match="row"):
        Threads(2).over([(0, 1), (1, 2), (2, 3)], fail)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_threads_work_in_a_fork():
    threads, done = Threads(2), np.zeros(4)
    threads.over([(0, 1), (1, 2)], lambda first, last: None)
    child = os.fork()
    if child == 0:
        threads.over([(0, 2), (2, 4)], lambda first, last: done.__setitem__(slice(first, last), 1))
        os._exit(0 if done.all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_loop_whose_code_cannot_be_kept_runs_all_the_same():
    calls = []

    def loop(value):
        calls.append(value)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        return value

    assert loops.call(loop, 5) == 5


def test_a_full_disk_only_costs_the_code_that_would_be_kept(monkeypatch):
    caching = pytest.importorskip("numba.core.caching")
    tried = []

    def no_space(self, key, data):
        tried.append(key)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", no_space)
    monkeypatch.setattr(caching.IndexDataCacheFile, "load", lambda self, key: None)
    assert loops.call(loops._compiled(double), 21) == 42
    assert tried


def test_without_a_place_for_compiled_code_it_is_compiled_in_memory(monkeypatch):
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert loops.call(loops._compiled(double), 4) == 8


def double(value):
    return 2 * value


def test_buffers_are_used_again():
    kernels = GraphKernels(1)
    large = kernels.buffer("a", 10, 4)
    assert np.shares_memory(large, kernels.buffer("a", 3, 5))
    assert not np.shares_memory(large, kernels.buffer("b", 3, 5))
    assert kernels.buffer("a", 100, 4).shape == (100, 4)


def test_products_leave_the_threads_of_blas_as_they_were():
    controls = pytest.importorskip("codedag.stages.graph.blas")
    found = controls._openblas()
    if found is None:
        pytest.skip("numpy has another BLAS")
    before = found[1]()
    with controls.one_blas_thread(), controls.one_blas_thread():
        assert found[1]() == 1
    assert found[1]() == before


def test_a_graph_is_its_edges_sorted_by_target():
    csr = csr_of(np.array([[5, 4, 3, 2], [1, 0, 1, 1]]), 6)
    assert isinstance(csr, Csr)
    assert csr.nodes == 6
    assert csr.indptr.tolist() == [0, 1, 4, 4, 4, 4, 4]
    assert csr.sources.tolist() == [4, 5, 3, 2]
    assert csr.edges.tolist() == [1, 0, 2, 3]
