"""ONNX files as stages: equal to the whole file, cut by names or by themselves, and files that are no model."""

from __future__ import annotations

import numpy as np
import pytest

from codedag.stages.model import BadModel, StagedModel
from codedag.stages.onnx_models.onnx_graphs import block_model
from codedag.stages.reference import draw, exact_tensors

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto as Types  # noqa: E402
from onnx import helper  # noqa: E402

WEIGHT = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


def value(name, shape, kind=Types.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def node(kind, reads, makes, **attributes):
    return helper.make_node(kind, reads.split(), makes.split(), **attributes)


def save(path, nodes, inputs, outputs, initializers=None, **options):
    arrays = {"w": WEIGHT} if initializers is None else initializers
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 20), *options.pop("opsets", [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path, **options)
    return path


def skipping(path, **options):
    """x -> a -> b -> y with a skip from a, and a weight that is read twice."""
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "r"), node("MatMul", "r w", "b"), node("Add", "a b", "y")]
    return save(path, nodes, [value("x", ["batch size", 4])], [value("y", ["batch size", 4])], **options)


def branching(path):
    """An If whose branches capture values of the graph around it."""
    then = helper.make_graph([node("Add", "a bias", "t")], "then", [], [value("t", None)])
    other = helper.make_graph([node("Sub", "a b", "e")], "else", [], [value("e", None)])
    nodes = [
        node("Relu", "x", "a"), node("Abs", "x", "b"), node("ReduceSum", "x", "s", keepdims=0),
        helper.make_node("Constant", [], ["zero"], value_float=0.0), node("Greater", "s zero", "c"),
        node("If", "c", "d", then_branch=then, else_branch=other), node("MatMul", "d w", "y"),
    ]  # fmt: skip
    arrays = {"w": WEIGHT, "bias": WEIGHT[0]}
    return save(path, nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], arrays)


def by_the_whole_file(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, inputs), strict=True))


def assert_equal_to_file(model, path, sizes=({},)):
    for each in sizes:
        inputs = draw(model, {**dict.fromkeys(model.sizes, 3), **each})
        tensors, whole = model.run(inputs), by_the_whole_file(path, inputs)
        for name in model.outputs:
            np.testing.assert_allclose(tensors[name], whole[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stages", [1, 2, 3, None])
def test_a_file_is_cut_by_itself(tmp_path, stages):
    path = skipping(tmp_path / "m.onnx")
    model = StagedModel.from_onnx(path, stages=stages)
    assert len(model.stages) == (stages or 2)
    assert model.sizes == ("batch_size",)
    assert_equal_to_file(model, path, [{"batch_size": 1}, {"batch_size": 7}])


def test_cuts_at_names(tmp_path):
    path = skipping(tmp_path / "m.onnx")
    model = StagedModel.from_onnx(path, cuts=["a", "b"])
    assert [stage.outputs for stage in model.stages] == [("a",), ("b",), ("y",)]
    assert model.stage(3).inputs == ("a", "b")
    assert model.stage(1).flop == "32*batch_size"
    assert_equal_to_file(model, path)


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        (["q"], "m.onnx has no tensor `q`"),
        (["x"], "m.onnx: the cut at `x` does not separate"),
        (["y"], "m.onnx: the cut at `y` does not separate"),
        (["b"], "`a` goes around it"),
    ],
)
def test_cuts_that_do_not_exist_or_separate_are_refused(tmp_path, cuts, message):
    with pytest.raises(BadModel, match=message):
        StagedModel.from_onnx(skipping(tmp_path / "m.onnx"), cuts=cuts)


def test_subgraphs_get_what_they_capture(tmp_path):
    path = branching(tmp_path / "m.onnx")
    model = StagedModel.from_onnx(path, stages=4)
    assert_equal_to_file(model, path, [{"n": 2}, {"n": 9}])


def test_a_block_is_the_stages_one_after_the_other(tmp_path):
    path = branching(tmp_path / "m.onnx")
    model = StagedModel.from_onnx(path, stages=4)
    block = model.block(1, 4)
    whole = block_model(block, [model.programs.onnx(stage) for stage in model.stages], model.tensors)
    onnx.checker.check_model(whole, full_check=True)
    assert [each.name for each in whole.graph.initializer].count("w") == 1
    session = onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = draw(model, {"n": 5})
    np.testing.assert_array_equal(session.run(["y"], inputs)[0], by_the_whole_file(path, inputs)["y"])


def test_shapes_that_inference_does_not_find_are_found_by_running(tmp_path):
    nodes = [
        node("Shape", "x", "s"), node("Slice", "s one two", "n"), node("Concat", "n minus", "t", axis=0),
        node("Reshape", "x t", "flat"), node("Concat", "flat flat", "double", axis=0), node("Relu", "double", "y"),
    ]  # fmt: skip
    arrays = {"one": np.array([0]), "two": np.array([1]), "minus": np.array([-1])}
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 2, 3])], [value("y", ["rows", 6])], arrays)
    model = StagedModel.from_onnx(path, cuts=["double"])
    assert model.tensors["double"].shape == ("2*n", 6)
    assert_equal_to_file(model, path)


def test_numbers_of_shapes_are_computed_in_every_stage(tmp_path):
    nodes = [
        node("Shape", "x", "first", end=1), node("Concat", "first minus", "flat", axis=0), node("MatMul", "x w", "a"),
        node("Reshape", "a flat", "b"), node("MatMul", "b v", "c"), node("Reshape", "c flat", "d"),
        node("Relu", "d", "y"),
    ]  # fmt: skip
    arrays = {"w": WEIGHT, "v": np.tile(WEIGHT, (2, 2)), "minus": np.array([-1])}
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 2, 4])], [value("y", ["n", 8])], arrays)
    model = StagedModel.from_onnx(path, cuts=["b", "c"])
    assert [stage.inputs for stage in model.stages] == [("x",), ("b",), ("c",)]
    assert_equal_to_file(model, path, [{"n": 1}, {"n": 6}])
    protos = [model.programs.onnx(stage) for stage in model.stages]
    onnx.checker.check_model(block_model(model.block(1, 3), protos, model.tensors), full_check=True)


def test_a_weight_with_another_name_is_the_same_weight(tmp_path):
    nodes = [
        node("Identity", "w", "w2"),
        node("MatMul", "x w", "a"),
        node("MatMul", "a w2", "b"),
        node("MatMul", "b w2", "y"),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 4])], [value("y", ["n", 4])])
    model = StagedModel.from_onnx(path, stages=3)
    assert [stage.inputs for stage in model.stages] == [("x",), ("a",), ("b",)]
    assert list(model.programs.weights()) == ["w"]
    assert_equal_to_file(model, path)


def test_external_data_is_read_and_missed(tmp_path):
    options = {"save_as_external_data": True, "location": "m.data", "size_threshold": 0}
    path = skipping(tmp_path / "m.onnx", **options)
    assert_equal_to_file(StagedModel.from_onnx(path), path)
    data = (tmp_path / "m.data").read_bytes()
    (tmp_path / "m.data").write_bytes(data[:8])
    with pytest.raises(BadModel, match=r"`w` ends at byte 64 of .*m.data, which is shorter"):
        StagedModel.from_onnx(path)
    (tmp_path / "m.data").unlink()
    with pytest.raises(BadModel, match=r"m.onnx: the data of `w` should be in .*m.data"):
        StagedModel.from_onnx(path)


@pytest.mark.parametrize("content", [b"", b"hello", None])
def test_files_that_are_cut_short_are_refused(tmp_path, content):
    path = skipping(tmp_path / "m.onnx")
    path.write_bytes(path.read_bytes()[:-40] if content is None else content)
    with pytest.raises(BadModel, match=r"m\.onnx"):
        StagedModel.from_onnx(path)


def test_every_truncation_is_told(tmp_path):
    path = skipping(tmp_path / "m.onnx")
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(BadModel, match=r"m\.onnx"):
            StagedModel.from_onnx(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadModel, match="cannot be read: No such file"):
        StagedModel.from_onnx(tmp_path / "m.onnx")


def test_unknown_operators_are_named(tmp_path):
    path = save(tmp_path / "m.onnx", [node("Frobnicate", "x", "y", name="n7")], [value("x", [3])], [value("y", [3])])
    with pytest.raises(BadModel, match=r"m.onnx: node `n7` has the unknown operator `Frobnicate` \(domain `ai.onnx`"):
        StagedModel.from_onnx(path)


@pytest.mark.parametrize(("domain", "match"), [
    ("acme", r"m.onnx: node `n7` has the unknown operator `Frobnicate` \(domain `acme`"),
    ("com.microsoft", "nothing here can compute stage 1"),
])  # fmt: skip
def test_operators_that_no_runtime_has_are_named(tmp_path, domain, match):
    nodes = [node("Frobnicate", "x", "a", domain=domain, name="n7"), node("Relu", "a", "y")]
    opsets = [helper.make_opsetid(domain, 1)]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [3])], [value("y", [3])], opsets=opsets)
    with pytest.raises(BadModel, match=match):
        StagedModel.from_onnx(path, stages=1).run({"x": np.zeros(3, np.float32)})


def test_operators_of_other_domains_are_told(tmp_path):
    nodes = [node("FastGelu", "x", "a", domain="com.microsoft"), node("Relu", "a", "y")]
    opsets = [helper.make_opsetid("com.microsoft", 1)]
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], opsets=opsets)
    model = StagedModel.from_onnx(path, cuts=["a"])
    assert model.notes == ("`FastGelu` is an operator of com.microsoft, which not every runtime has",)
    assert_equal_to_file(model, path)


def test_results_that_are_weights_or_inputs_are_given(tmp_path):
    nodes = [node("Relu", "x", "y")]
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 4])], [value("y", ["n", 4]), value("w", [4, 4])])
    assert_equal_to_file(StagedModel.from_onnx(path, stages=1), path)


@pytest.mark.parametrize("build", [skipping, branching])
def test_float64_is_nearer_to_the_truth(tmp_path, build):
    model = StagedModel.from_onnx(build(tmp_path / "m.onnx"), stages=2)
    inputs = draw(model, dict.fromkeys(model.sizes, 50))
    exact, plain = exact_tensors(model, inputs), model.run(inputs)
    assert exact["y"].dtype == np.float64
    np.testing.assert_allclose(plain["y"], exact["y"], rtol=1e-4, atol=1e-5)
    if build is skipping:
        a = inputs["x"].astype(np.float64) @ WEIGHT.astype(np.float64)
        np.testing.assert_allclose(exact["y"], a + np.maximum(a, 0) @ WEIGHT.astype(np.float64), rtol=1e-12, atol=1e-13)


def test_what_has_no_float64_is_told(tmp_path):
    nodes = [node("FastGelu", "x", "a", domain="com.microsoft"), node("Relu", "a", "y")]
    opsets = [helper.make_opsetid("com.microsoft", 1)]
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], opsets=opsets)
    model = StagedModel.from_onnx(path, cuts=["a"])
    assert "stage 1 has no form in float64" in exact_tensors(model, draw(model, {"n": 3})).reason


def test_torch_has_no_form_of_it(tmp_path):
    model = StagedModel.from_onnx(skipping(tmp_path / "m.onnx"))
    assert "ONNX file" in model.programs.torch(model.block(1, 1)).reason


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("RandomNormalLike", "x", "r", name="noise"), node("Add", "x r", "y")], "node `noise` is random"),
        ([node("Relu", "x", "r"), node("Bernoulli", "r", "y")], "the node that makes `y` is random"),
        ([node("Relu", "x", "r"), node("Dropout", "r half yes", "y")], "the node that makes `y` is in training mode"),
    ],
)
def test_random_operators_and_training_mode_are_refused(tmp_path, nodes, words):
    arrays = {"half": np.float32(0.5), "yes": np.array(True)}
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], arrays)
    with pytest.raises(BadModel, match=words):
        StagedModel.from_onnx(path)


def test_a_dropout_of_inference_is_no_random_operator(tmp_path):
    nodes = [node("Relu", "x", "r"), node("Dropout", "r half no", "y")]
    arrays = {"half": np.float32(0.5), "no": np.array(False)}
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], arrays)
    assert StagedModel.from_onnx(path).outputs == ("y",)
