"""Static sizes: few, large enough, and padding changes no result."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedag.stages.measuring.padding import Padded, filling, static_size, static_sizes
from codedag.stages.model import Tensor
from codedag.stages.runners import Program


@given(st.integers(0, 10**7))
def test_a_static_size_holds_its_size_and_adds_at_most_a_third(size):
    found = static_size(size)
    assert size <= found <= max(4, size * 4 // 3 + 1)
    assert static_size(found) == found


def test_there_are_few_static_sizes():
    assert len({static_size(size) for size in range(1000, 100_000)}) < 40


def test_a_graph_has_a_row_for_the_edges_that_are_added():
    found = static_sizes({"nodes": 64, "edges": 100})
    assert found["nodes"] > 64
    assert static_sizes({"batch": 8}) == {"batch": 8}
    assert filling(Tensor("edge_index", "int64", (2, "edges")), found) == found["nodes"] - 1
    assert filling(Tensor("x", "float32", ("nodes", 4)), found) == 0


class _Counts:
    """A runtime that counts the edges that end in each node, and adds the rows of x up."""

    version = "1"

    def load(self, program, sizes, inputs, outputs):
        self.inputs, self.outputs, self.sizes = inputs, outputs, sizes
        return self

    def bring(self):
        pass

    def run(self):
        degree = self.outputs["degree"]
        degree[...] = 0
        np.add.at(degree, self.inputs["edge_index"][1], 1)

    def fetch(self):
        pass

    def ran_on(self):
        return "here"


@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (3, 9), (64, 100), (65, 513)])
def test_no_count_changes_by_padding(nodes, edges):
    tensors = {
        "edge_index": Tensor("edge_index", "int64", (2, "edges")),
        "degree": Tensor("degree", "float32", ("nodes",)),
    }
    program = Program("4", "", ("edge_index",), ("degree",), tensors)
    ids = np.random.default_rng(0).integers(0, nodes, (2, edges))
    degree = np.full(nodes, -1, np.float32)
    runner = _Counts()
    padded = Padded(runner, program, {"nodes": nodes, "edges": edges}, {"edge_index": ids}, {"degree": degree})
    for _ in range(2):
        padded.bring()
        padded.run()
    assert degree.tolist() == np.bincount(ids[1], minlength=nodes).tolist()
    assert runner.inputs["edge_index"].shape == (2, static_size(edges))
    assert padded.ran_on() == "here"
