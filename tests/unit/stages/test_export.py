"""Export: dynamic ONNX files of stages and blocks, what is kept, what is read back, and what cannot be."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from codedag.ir.errors import BadFile, CannotWrite
from codedag.ir.verdict import No
from codedag.stages.model import Source
from codedag.stages.onnx_models import export as exporting
from codedag.stages.onnx_models.export import block_file, digest_of, export, load, packed
from codedag.stages.reference import draw
from codedag.stages.torch_models.sage import sage7

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SIZES = {"nodes": 11, "edges": 23}


@pytest.fixture(scope="module")
def model():
    return sage7(features=6, hidden=4)


@pytest.fixture(scope="module")
def place(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export(model, folder)
    return folder


def run(path, outputs, arrays):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(list(outputs), {each.name: arrays[each.name] for each in session.get_inputs()})


def test_there_is_a_file_for_each_stage_with_the_tensors_names(model, place):
    for stage in model.stages:
        proto = onnx.load(place / "exported_models" / f"stage{stage.number}_{stage.name}.onnx")
        onnx.checker.check_model(proto, full_check=True)
        assert [each.name for each in proto.graph.input] == list(stage.inputs)
        assert [each.name for each in proto.graph.output] == list(stage.outputs)
        inner = {name for node in proto.graph.node for name in node.output} - set(stage.outputs)
        assert all(name.startswith(f"s{stage.number}/") for name in inner)


def test_no_size_is_baked_in(model, place):
    proto = onnx.load(place / "exported_models" / "stage3_REDUCE_SUM.onnx")
    shapes = {each.name: [dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim]
              for each in (*proto.graph.input, *proto.graph.output)}  # fmt: skip
    assert shapes == {
        "messages": ["edges", 6],
        "edge_index": [2, "edges"],
        "x": ["nodes", 6],
        "aggregated": ["nodes", 6],
    }
    assert all(np.prod(each.dims) < 16 for each in proto.graph.initializer)


@pytest.mark.parametrize("sizes", [SIZES, {"nodes": 4, "edges": 0}, {"nodes": 1, "edges": 1}])
def test_every_block_computes_what_torch_does(model, place, sizes):
    tensors = model.run(draw(model, sizes))
    for block in model.blocks:
        made = run(block_file(model, block, place), block.outputs, tensors)
        for name, array in zip(block.outputs, made, strict=True):
            np.testing.assert_allclose(array, tensors[name], rtol=1e-5, atol=1e-6)


def test_weights_and_the_example_are_there(model, place):
    with np.load(place / "exported_models" / "weights.npz", allow_pickle=False) as file:
        assert set(file.files) == {"lin_l.weight", "lin_l.bias", "lin_r.weight"}
        np.testing.assert_array_equal(file["lin_l.bias"], model.programs.weights()["lin_l.bias"])
    assert load(place).example.keys() == {"x", "edge_index"}


def test_ir_is_next_to_the_files_or_its_absence_is_told(place):
    facts = json.loads((place / "stages.json").read_text())
    for stage in facts["stages"]:
        xml = stage["onnx"].replace(".onnx", ".xml")
        assert (xml in facts["files"]) != (stage["onnx"] in facts["no_ir"])


def test_what_is_there_is_kept(model, place, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    monkeypatch.setattr(exporting, "_write_stages", None)  # would fail
    export(model, place)
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


def test_a_file_that_was_changed_is_written_again(model, tmp_path):
    export(model, tmp_path)
    file = tmp_path / "exported_models" / "stage7_ACTIVATE.onnx"
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    export(model, tmp_path)
    assert file.read_bytes() == whole


def test_a_loaded_model_is_the_same_model(model, place):
    again = load(place)
    assert (again.stages, again.inputs, again.outputs, again.sizes) == (
        model.stages, model.inputs, model.outputs, model.sizes,
    )  # fmt: skip
    assert dict(again.tensors) == dict(model.tensors)
    assert digest_of(again) == digest_of(model)
    inputs = draw(model, SIZES)
    np.testing.assert_array_equal(again.run(inputs)["out"], model.run(inputs)["out"])
    assert again.reference.runtime == "torch"


def test_a_model_of_a_program_is_read_back_without_torch(model, tmp_path):
    export(replace(model, source=Source("")), tmp_path)
    again = load(tmp_path)
    assert isinstance(again.programs.torch(again.block(1, 1)), No)
    assert isinstance(packed(again, again.block(1, 7)), No)
    inputs = draw(model, SIZES)
    np.testing.assert_allclose(again.run(inputs)["out"], model.run(inputs)["out"], rtol=1e-5, atol=1e-6)
    assert again.reference.runtime == "onnxruntime"


def test_a_source_that_has_changed_is_told(place):
    again = load(place)
    again.programs._digest_of_model = "0"
    assert "has changed" in again.programs.torch(again.block(1, 1)).reason


def test_a_packed_block_is_unpacked_as_the_torch_runner_does(model, place):
    from codedag.stages.runners.torch_ import unpacked

    inputs = draw(model, SIZES)
    block = load(place).block(1, 7)
    module = unpacked(torch, packed(load(place), block))
    made = module(*(torch.from_numpy(inputs[name]) for name in block.inputs))
    np.testing.assert_array_equal(made[0].numpy(), model.run(inputs)["out"])


def test_there_is_no_pickle_in_any_file(place):
    import zipfile

    for path in place.rglob("*.npz"):
        with zipfile.ZipFile(path) as archive:
            assert all(name.endswith(".npy") for name in archive.namelist())
    assert not [path for path in place.rglob("*") if path.suffix in (".pt", ".pt2", ".pkl", ".pth")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "is no codedag/stages file"),
        ('{"format": "codedag/stages", "version": 99}', "has version 99"),
        ('{"format": "codedag/stages", "version": 1}', "field 'tensors'"),
    ],
)
def test_files_that_are_no_model_are_named(tmp_path, text, message):
    (tmp_path / "stages.json").write_text(text)
    with pytest.raises(BadFile, match=message):
        load(tmp_path)


def test_a_directory_without_a_model(tmp_path):
    with pytest.raises(BadFile, match=r"there is no .*stages\.json"):
        load(tmp_path)


def test_a_place_that_cannot_be_written(model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite):
        export(model, tmp_path / "file")


def test_a_runtime_that_fails_costs_only_the_ir(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting.sys, "executable", exporting.sys.executable)
    monkeypatch.setattr(exporting.subprocess, "run", crashed)
    assert exporting.write_ir([tmp_path / "a.onnx"]) == {"a.onnx": "openvino failed: it ended with -11"}


def crashed(command, **options):
    return exporting.subprocess.CompletedProcess(command, -11, "", "")
