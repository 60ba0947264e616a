"""Graph inputs: what is read, what is refused and how it is named, and the synthetic graph."""

import numpy as np
import pytest

from codedag.stages.graph.graphs import read_graph, synthetic_flickr
from codedag.stages.model import BadInput


def save(tmp_path, **arrays):
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays)
    return path


def good(**changes):
    return {"edge_index": np.array([[0, 1], [1, 2]]), "x": np.ones((3, 4), np.float32), **changes}


def test_a_file_is_read(tmp_path):
    graph = read_graph(save(tmp_path, **good()), features=4)
    assert graph.sizes == {"nodes": 3, "edges": 2}
    assert (graph.nodes, graph.edges) == (3, 2)
    assert graph.edge_index.dtype == np.int64
    assert set(graph.arrays) == {"x", "edge_index"}


def test_shorter_whole_numbers_are_ids_too(tmp_path):
    graph = read_graph(save(tmp_path, **good(edge_index=np.array([[0], [2]], np.uint8))))
    assert graph.edge_index.dtype == np.int64
    assert graph.edge_index.tolist() == [[0], [2]]


def test_graphs_without_edges_and_without_nodes_are_graphs(tmp_path):
    none = np.zeros((2, 0), np.int64)
    assert read_graph(save(tmp_path, **good(edge_index=none))).sizes == {"nodes": 3, "edges": 0}
    empty = good(edge_index=none, x=np.zeros((0, 4), np.float32))
    assert read_graph(save(tmp_path, **empty)).sizes == {"nodes": 0, "edges": 0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"edge_index": np.array([[0, 1], [1, 3]])}, ["edge_index[1, 1]", "3", "out of range"]),
        ({"edge_index": np.array([[0, -2], [1, 2]])}, ["edge_index[0, 1]", "-2", "negative"]),
        ({"edge_index": np.array([[0.0, 1.0], [1.0, 2.0]])}, ["edge_index", "float64"]),
        ({"edge_index": np.array([[True], [False]])}, ["edge_index", "bool"]),
        ({"edge_index": np.array([0, 1])}, ["edge_index", "(2,)"]),
        ({"edge_index": np.zeros((3, 2), np.int64)}, ["edge_index", "(3, 2)"]),
        ({"x": np.ones((3, 4))}, ["`x`", "float64", "float32"]),
        ({"x": np.ones(3, np.float32)}, ["`x`", "(3,)"]),
        ({"x": np.ones((3, 5), np.float32)}, ["`x`", "5 features", "4"]),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, changes, words):
    path = save(tmp_path, **good(**changes))
    with pytest.raises(BadInput) as told:
        read_graph(path, features=4)
    assert all(word in str(told.value) for word in [*words, "graph.npz"])


def test_an_id_beyond_int64_is_out_of_range(tmp_path):
    edges = np.array([[0], [2**63]], np.uint64)
    with pytest.raises(BadInput, match="out of range"):
        read_graph(save(tmp_path, **good(edge_index=edges)))


@pytest.mark.parametrize("missing", ["x", "edge_index"])
def test_a_missing_array_is_named(tmp_path, missing):
    arrays = good()
    del arrays[missing]
    with pytest.raises(BadInput, match=f"no array `{missing}`"):
        read_graph(save(tmp_path, **arrays))


def test_files_that_are_no_npz_are_refused(tmp_path):
    text = tmp_path / "text.npz"
    text.write_text("nodes and edges")
    cut = save(tmp_path, **good())
    cut.write_bytes(cut.read_bytes()[:-200])
    array = tmp_path / "array.npz"
    with array.open("wb") as file:
        np.save(file, np.ones(3))
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, edge_index=np.array([[object()], [1]], object), x=np.ones((1, 1), np.float32))
    for path in (text, cut, array, pickled, tmp_path / "absent.npz", tmp_path):
        with pytest.raises(BadInput) as told:
            read_graph(path)
        assert path.name in str(told.value)


def test_the_synthetic_graph_has_its_sizes_and_is_always_the_same():
    graph = read_graph("synthetic:flickr:0.02")
    assert graph.sizes == {"nodes": 1785, "edges": 17_996}
    assert graph.x.shape == (1785, 500)
    assert graph.x.dtype == np.float32
    again = synthetic_flickr(0.02)
    assert np.array_equal(graph.edge_index, again.edge_index)
    assert np.array_equal(graph.x, again.x)
    assert not np.array_equal(synthetic_flickr(0.02, seed=1).edge_index, again.edge_index)


def test_the_synthetic_graph_is_symmetric_simple_and_skewed():
    graph = synthetic_flickr(0.05, features=4)
    pairs = {tuple(pair) for pair in graph.edge_index.T.tolist()}
    assert len(pairs) == graph.edges
    assert all((b, a) in pairs and a != b for a, b in pairs)
    degrees = np.bincount(graph.edge_index[1], minlength=graph.nodes)
    assert degrees.mean() == pytest.approx(10.1, abs=0.1)
    assert degrees.max() > 20 * np.median(degrees)


@pytest.mark.parametrize(
    "text", ["synthetic:cora", "synthetic:flickr:big", "synthetic:flickr:0", "synthetic:flickr:nan"]
)
def test_synthetic_graphs_that_do_not_exist_are_refused(text):
    with pytest.raises(BadInput):
        read_graph(text)
