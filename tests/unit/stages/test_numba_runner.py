"""Blocks of graph stages by our kernels: every block of one layer and of a stack, and what the runner refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sage_reference import KINDS, close, stages_of, tensors_of, weights_of

from codedag.stages.model import BadInput
from codedag.stages.runners import Program, Unsupported, runner_of

numba = pytest.importorskip("numba")


@pytest.fixture(scope="module")
def runner():
    return runner_of("numba:cpu", 2)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Weight files by their widths."""
    folder, files = tmp_path_factory.mktemp("weights"), {}

    def file(widths):
        if widths not in files:
            files[widths] = str(folder / f"{'-'.join(map(str, widths))}.npz")
            np.savez(files[widths], **weights_of(widths))
        return files[widths]

    return file


def block_of(stages, first, last):
    """Kinds, inputs and outputs of the stages first to last, from 1, as `StagedModel.block` finds them."""
    inside = stages[first - 1 : last]
    made = [output for _, _, output in inside]
    reads = dict.fromkeys(name for _, inputs, _ in inside for name in inputs if name not in made)
    wanted = {name for _, inputs, _ in (*stages[: first - 1], *stages[last:]) for name in inputs} | {"out"}
    return tuple(kind for kind, _, _ in inside), tuple(reads), tuple(name for name in made if name in wanted)


def run(runner, path, tensors, block, first, extra=()):
    kinds, inputs, outputs = block
    outputs = (*outputs, *extra)
    program = Program(
        f"{first}-{first + len(kinds) - 1}", "", inputs, outputs, {}, kinds, path, layer=(first - 1) // len(KINDS)
    )
    given = {name: np.ascontiguousarray(tensors[name], None if name == "edge_index" else np.float32) for name in inputs}
    made = {name: np.full(tensors[name].shape, 7, np.float32) for name in outputs}
    loaded = runner.load(program, {}, given, made)
    loaded.bring()
    loaded.run()
    loaded.run()  # nothing is left of the first one
    loaded.fetch()
    assert loaded.ran_on() == f"cpu by numba {numba.__version__}"
    return made


def some_graph(widths, nodes=40, edges=150, seed=0):
    random = np.random.default_rng(seed)
    x = random.standard_normal((nodes, widths[0])).astype(np.float32)
    return x, random.integers(0, max(nodes, 1), (2, edges))


@pytest.mark.parametrize("widths", [(9, 4), (4, 9)])
def test_all_28_blocks_of_a_layer(runner, saved, widths):
    tensors, stages = tensors_of(*some_graph(widths), weights_of(widths)), stages_of(1)
    for first in range(1, 8):
        for last in range(first, 8):
            made = run(runner, saved(widths), tensors, block_of(stages, first, last), first)
            assert made
            assert all(close(made[name], tensors[name]) for name in made), (first, last)


@pytest.mark.parametrize("widths", [(9, 4, 4, 4), (4, 9, 3, 3), (5, 5, 8, 8)])
def test_all_blocks_of_a_stack(runner, saved, widths):
    layers = len(widths) - 1
    tensors, stages = tensors_of(*some_graph(widths), weights_of(widths)), stages_of(layers)
    for first in range(1, 7 * layers + 1):
        for last in range(first, 7 * layers + 1):
            made = run(runner, saved(widths), tensors, block_of(stages, first, last), first)
            assert all(close(made[name], tensors[name]) for name in made), (first, last)


def test_tensors_inside_a_block_are_made_if_they_are_asked_for(runner, saved):
    widths = (6, 4)
    tensors, stages = tensors_of(*some_graph(widths), weights_of(widths)), stages_of(1)
    inner = ("x_j", "messages", "aggregated", "degree", "mean", "transformed")
    for extra in (*((name,) for name in inner), inner):
        made = run(runner, saved(widths), tensors, block_of(stages, 1, 7), 1, extra)
        assert set(made) == {"out", *extra}
        assert all(close(made[name], tensors[name]) for name in made)


@settings(max_examples=40, deadline=None)
@given(nodes=st.integers(0, 5), edges=st.integers(0, 12), seed=st.integers(0, 999), nan=st.booleans(), data=st.data())
def test_blocks_on_degenerate_graphs(runner, saved, nodes, edges, seed, nan, data):
    widths = (3, 5, 2)
    x, ids = some_graph(widths, nodes, edges if nodes else 0, seed)
    if nan and nodes:
        x[0, 0] = np.nan
    first = data.draw(st.integers(1, 14))
    last = data.draw(st.integers(first, 14))
    with np.errstate(invalid="ignore"):
        tensors = tensors_of(x, ids, weights_of(widths))
    made = run(runner, saved(widths), tensors, block_of(stages_of(2), first, last), first)
    assert all(close(made[name], tensors[name]) for name in made)


def test_a_block_sees_what_its_arrays_have_when_it_runs(runner, saved):
    widths = (4, 3)
    (x, ids), (other_x, other_ids) = some_graph(widths), some_graph(widths, seed=1)
    out = np.empty((40, 3), np.float32)
    program = Program("1-7", "", ("x", "edge_index"), ("out",), {}, KINDS, saved(widths))
    loaded = runner.load(program, {"nodes": 40, "edges": 150}, {"x": x, "edge_index": ids}, {"out": out})
    loaded.run()
    x[...], ids[...] = other_x, other_ids
    loaded.run()
    assert close(out, tensors_of(other_x, other_ids, weights_of(widths))["out"])
    ids[1, 5] = 40
    with pytest.raises(BadInput, match=r"edge_index\[1, 5\]"):
        loaded.run()


def test_new_weights_in_the_same_file_are_seen(runner, tmp_path):
    path, (x, ids) = tmp_path / "weights.npz", some_graph((4, 3))
    for seed in (0, 1):
        weights = weights_of((4, 3), seed)
        np.savez(path, **weights)
        tensors = tensors_of(x, ids, weights)
        made = run(runner, str(path), tensors, block_of(stages_of(1), 1, 7), 1)
        assert close(made["out"], tensors["out"])


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (("GATHER", "CONV"), "stage 2 of block b is CONV"),
        (("",), "stage 1 of block b"),
        ((), "stage 1 of block b"),
        (("GATHER", "NORMALIZE"), "NORMALIZE after GATHER"),
    ],
)
def test_stages_without_a_kernel_are_named(runner, kinds, words):
    with pytest.raises(Unsupported, match=words):
        runner.load(Program("b", "", ("x",), ("y",), {}, kinds), {}, {}, {})


def test_weights_that_do_not_fit_are_named(runner, saved, tmp_path):
    x, ids = some_graph((4, 3))
    given, made = {"x": x, "edge_index": ids}, {"out": np.empty((40, 3), np.float32)}
    for path, layer, words in (
        (saved((5, 3)), 0, "reads 5 features; there are 4"),
        (saved((4, 3)), 1, "1.lin_l.weight"),
        (str(tmp_path / "absent.npz"), 0, "absent.npz"),
    ):
        program = Program("1-7", "", ("x", "edge_index"), ("out",), {}, KINDS, path, layer)
        with pytest.raises(BadInput, match=words):
            runner.load(program, {}, given, made)
