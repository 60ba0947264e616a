"""`codedag stages show`: the stages of graph, torch and ONNX models, and models that are none."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from codedag.cli.main import main

pytest.importorskip("torch")
pytest.importorskip("onnx")

EXAMPLES = Path(__file__).parents[2] / "examples"

BUILDERS = """
import torch
from torch import nn

def seeded():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval(), torch.randn(3, 4)

def modules():
    module, example = seeded()
    return list(module), example

def open_sizes():
    module, example = seeded()
    return module, example, {"input": {0: "rows"}}

def differs():
    return nn.Linear(4, 4).eval(), torch.randn(2, 4)

def trains():
    torch.manual_seed(0)
    return nn.Linear(4, 4), torch.randn(2, 4)

def no_example():
    return nn.Linear(4, 4).eval()

def no_module():
    return "module", torch.randn(2)

def fails():
    return 1 / 0

number = 7
"""


@pytest.fixture
def builders(tmp_path):
    path = tmp_path / "models.py"
    path.write_text(BUILDERS)
    return path


def show(*arguments, code=0):
    words, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(words), redirect_stderr(errors), pytest.raises(SystemExit) as end:
        main(["stages", "show", *map(str, arguments)])
    assert end.value.code == code, errors.getvalue()
    return words.getvalue() + errors.getvalue()


def facts(*arguments):
    return json.loads(show(*arguments, "--json"))


def test_sage7():
    text = show("sage7")
    for name in ("GATHER", "x_j [edges, 500]", "out [nodes, 256]", "516MFLOP", "next: codedag stages profile sage7"):
        assert name in text
    known = facts("sage7", "--size", "nodes=10,edges=20")
    assert known["at"] == {"nodes": 10, "edges": 20}
    assert known["tensors"]["x_j"]["nbytes"] == 20 * 500 * 4
    assert [stage["flop_at"] for stage in known["stages"]][5] == 512_512 * 10


@pytest.mark.parametrize(("file", "stages"), [("stages_cnn.py:small", 4), ("stages_transformer.py:small", 3)])
def test_examples(file, stages):
    known = facts(EXAMPLES / file, "--stages", stages)
    assert len(known["stages"]) == stages
    assert known["sizes"] == ["batch"]
    assert all(stage["inputs"] and stage["outputs"] for stage in known["stages"])


def test_an_onnx_file(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [info("x", TensorProto.FLOAT, ["n", 4])], [info("y", TensorProto.FLOAT, ["n", 4])]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    known = facts(tmp_path / "m.onnx", "--cuts", "a")
    assert [stage["outputs"] for stage in known["stages"]] == [["a"], ["y"]]
    assert "does not separate" in show(tmp_path / "m.onnx", "--cuts", "y", code=2)


def test_functions_of_a_file(builders):
    assert [stage["name"] for stage in facts(f"{builders}:modules")["stages"]] == ["Linear_1", "ReLU", "Linear_3"]
    assert facts(f"{builders}:open_sizes", "--stages", 2)["sizes"] == ["rows"]
    assert len(facts(f"{builders}:seeded", "--cuts", "0")["stages"]) == 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{}:differs", "gives other weights each time it is called: `0.weight`"),
        ("{}:trains", "training mode"),
        ("{}:no_example", "not (module, example)"),
        ("{}:no_module", "a str was returned where a torch.nn.Module should be"),
        ("{}:fails", "models.py:31: ZeroDivisionError"),
        ("{}:number", "has no function `number`"),
        ("{}:absent", "has no function `absent`"),
        ("{}x:y", "is no model"),
        ("absent.py:y", "there is no file absent.py"),
        ("resnet", "`resnet` is no model"),
        ("absent.onnx", "absent.onnx cannot be read"),
    ],
)
def test_what_is_no_model_is_told(builders, model, message):
    text = show(model.format(builders), code=2)
    assert message in " ".join(text.split())


def test_a_file_that_cannot_be_run(tmp_path):
    (tmp_path / "broken.py").write_text("import nothing_of_the_kind\n")
    text = " ".join(show(tmp_path / "broken.py:f", code=2).split())
    assert "broken.py:1: ModuleNotFoundError" in text


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--stages", "2"), "it is not cut otherwise"),
        (("--cuts", "mean"), "it is not cut otherwise"),
        (("--weights", "absent.npz"), "there is no file absent.npz"),
    ],
)
def test_sage7_has_its_stages_and_its_weights(option, message):
    assert message in show("sage7", *option, code=2)


@pytest.mark.parametrize("size", ["nodes=x", "rows=3", "nodes"])
def test_sizes_that_are_none_are_refused(size):
    assert "the sizes are nodes, edges" in " ".join(show("sage7", "--size", size, code=2).split())
