"""Folding: batch norm, scale, bias and neighbouring products become weights, and results stay the same."""

import json

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from codedag.stages.onnx_models.export import block_file, export, load
from codedag.stages.onnx_models.folding import folded
from codedag.stages.onnx_models.from_onnx import from_onnx

RNG = np.random.default_rng(0)


def weight(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def model(nodes, weights, shape, outputs=("y",)):
    """A model of (operator, inputs, output, attributes), from `x`."""
    made = [
        helper.make_node(kind, ins, [out], name=f"n{at}", **more) for at, (kind, ins, out, more) in enumerate(nodes)
    ]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(shape)) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    proto.ir_version = 8
    return proto


def computed(proto, x):
    onnx.checker.check_model(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def same(proto, x, left):
    """The folded model has these operators left, and gives what the model gives."""
    before = proto.SerializeToString()
    found = folded(proto)
    assert proto.SerializeToString() == before, "the model itself is not changed"
    assert [node.op_type for node in found.proto.graph.node] == left
    assert len(found.what) == len(proto.graph.node) - len(left)
    for was, now in zip(computed(proto, x), computed(found.proto, x), strict=True):
        assert np.abs(was - now).max() <= 1e-5 * np.abs(was).max()
    return found


def test_batch_norm_scale_and_bias_become_part_of_a_convolution():
    norm = {"s": weight(4), "b": weight(4), "m": weight(4), "v": np.abs(weight(4)) + 0.5}
    nodes = [
        ("Conv", ["x", "w"], "a", {"pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["a", "s", "b", "m", "v"], "c", {"epsilon": 1e-3}),
        ("Mul", ["f", "c"], "d", {}),
        ("Add", ["d", "g"], "y", {}),
    ]
    weights = {"w": weight(4, 3, 3, 3), **norm, "f": weight(4, 1, 1), "g": weight(1)}
    found = same(model(nodes, weights, ["batch", 3, 8, 8]), weight(2, 3, 8, 8), ["Conv"])
    assert {each.name for each in found.proto.graph.initializer} == set(found.proto.graph.node[0].input[1:])


@pytest.mark.parametrize("turned", [0, 1])
def test_products_without_activation_between_become_one(turned):
    shapes = [(6, 8), (8, 5)]
    first, second = (weight(*(shape[::-1] if turned else shape)) for shape in shapes)
    nodes = [
        ("Gemm", ["x", "w", "b"], "a", {"transB": turned}),
        ("Gemm", ["a", "u", "c"], "d", {"transB": turned}),
        ("Mul", ["d", "f"], "y", {}),
    ]
    weights = {"w": first, "u": second, "b": weight(8), "c": weight(5), "f": weight(5)}
    same(model(nodes, weights, ["rows", 6]), weight(7, 6), ["Gemm"])


def test_matrix_products_of_any_rank_become_one_and_keep_their_scale():
    nodes = [("MatMul", ["x", "w"], "a", {}), ("MatMul", ["a", "u"], "d", {}), ("Mul", ["d", "f"], "y", {})]
    weights = {"w": weight(6, 8), "u": weight(8, 5), "f": np.float32(0.5)}
    same(model(nodes, weights, ["batch", "rows", 6]), weight(2, 7, 6), ["MatMul"])


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        pytest.param([("MatMul", ["x", "w"], "a", {}), ("Relu", ["a"], "d", {}), ("MatMul", ["d", "w"], "y", {})],
                     ("y",), id="an activation between"),
        pytest.param([("MatMul", ["x", "w"], "a", {}), ("Mul", ["a", "f"], "y", {})], ("y", "a"), id="an output"),
        pytest.param([("MatMul", ["x", "w"], "a", {}), ("Mul", ["a", "f"], "d", {}), ("Add", ["a", "d"], "y", {})],
                     ("y",), id="two readers"),
        pytest.param([("MatMul", ["x", "w"], "a", {}), ("Mul", ["a", "x"], "y", {})], ("y",), id="no constant"),
        pytest.param([("MatMul", ["x", "w"], "a", {}), ("Mul", ["a", "rows"], "y", {})], ("y",), id="one for each row"),
        pytest.param([("MatMul", ["x", "thin"], "a", {}), ("MatMul", ["a", "wide"], "y", {})], ("y",), id="more work"),
        pytest.param([("Gemm", ["x", "w"], "a", {"alpha": 0.5}), ("Mul", ["a", "f"], "y", {})], ("y",), id="alpha"),
    ],
)  # fmt: skip
def test_what_would_change_results_or_cost_more_is_left(nodes, outputs):
    known = {"w": weight(6, 6), "f": weight(6), "rows": weight(7, 1), "thin": weight(6, 1), "wide": weight(1, 6)}
    read = {name for _, inputs, _, _ in nodes for name in inputs}
    proto = model(nodes, {name: value for name, value in known.items() if name in read}, [7, 6], outputs)
    same(proto, weight(7, 6), [node.op_type for node in proto.graph.node])


def test_weights_that_others_read_too_stay_as_they_are():
    nodes = [
        ("MatMul", ["x", "w"], "a", {}),
        ("Mul", ["a", "f"], "d", {}),
        ("MatMul", ["x", "w"], "e", {}),
        ("Add", ["d", "e"], "y", {}),
    ]
    same(model(nodes, {"w": weight(6, 6), "f": weight(6)}, [7, 6]), weight(7, 6), ["MatMul", "MatMul", "Add"])


def test_blocks_are_folded_where_results_stay_within_rounding(tmp_path, monkeypatch):
    nodes = [("MatMul", ["x", "w"], "a", {}), ("Mul", ["a", "f"], "d", {}), ("Relu", ["d"], "y", {})]
    onnx.save(model(nodes, {"w": weight(6, 6), "f": weight(6)}, ["batch", 6]), tmp_path / "m.onnx")
    made = from_onnx(tmp_path / "m.onnx", cuts=["a"])
    export(made, tmp_path / "out")
    exported = load(tmp_path / "out")
    block = exported.block(1, len(exported.stages))
    path = block_file(exported, block, tmp_path / "out")
    assert [node.op_type for node in onnx.load(path).graph.node] == ["MatMul", "Relu"]
    told = json.loads((path.parent / "folding.json").read_text())[block.name]
    assert (len(told["folded"]), told["reason"]) == (1, "")
    monkeypatch.setattr("codedag.stages.onnx_models.folding.folded", lambda _: pytest.fail("folded again"))
    assert block_file(exported, block, tmp_path / "out") == path


def test_a_block_whose_results_would_change_is_left_and_that_is_told(tmp_path, monkeypatch):
    nodes = [("MatMul", ["x", "w"], "a", {}), ("Mul", ["a", "f"], "y", {})]
    onnx.save(model(nodes, {"w": weight(6, 6), "f": weight(6)}, ["batch", 6]), tmp_path / "m.onnx")
    export(from_onnx(tmp_path / "m.onnx", cuts=["a"]), tmp_path / "out")
    exported = load(tmp_path / "out")
    monkeypatch.setattr("codedag.stages.onnx_models.folding.ALLOWED", -1.0)
    path = block_file(exported, exported.block(1, 2), tmp_path / "out")
    assert [node.op_type for node in onnx.load(path).graph.node] == ["MatMul", "Mul"]
    told = json.loads((path.parent / "folding.json").read_text())["1-2"]
    assert told["folded"] == []
    assert "differ by" in told["reason"]
