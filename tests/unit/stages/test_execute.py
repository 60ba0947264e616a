"""The executor: plans over real runtimes equal the reference, whatever a PU does."""

import json
import os
from pathlib import Path

import numpy as np
import psutil
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

from small_sage import SIZES, exported, plan, small, tables

from codedag.ir.errors import BadFile
from codedag.stages.execution import execute, pu_pool
from codedag.stages.execution.execute import REFERENCE, Executor
from codedag.stages.execution.execution_plan import nearest, read_pep
from codedag.stages.planning.divisible import divisible_size
from codedag.stages.reference import draw

MIXED = ((1, 2, "ort:cpu"), (3, 5, "ov:cpu"), (6, 7, "ort:cpu"))
LINE = ((1, 5, "ov:cpu"), (6, 7, "ort:cpu"))


def items(count=1, sizes=SIZES):
    return [draw(small(), sizes, seed) for seed in range(count)]


def is_right(execution, given):
    for item, outputs in zip(given, execution.outputs, strict=True):
        np.testing.assert_allclose(outputs["out"], small().reference.outputs(item)["out"], rtol=1e-4, atol=1e-5)
    return execution.is_right


@pytest.fixture
def executor():
    with Executor(small(), exported()) as made:
        yield made


@pytest.fixture
def fault(monkeypatch):
    """fault("ort:cpu crashes 2"): the processes of PUs have a runtime that goes wrong."""

    def inject(text):
        here = str(Path(__file__).parent)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))
        monkeypatch.setenv("FAULT", text)
        monkeypatch.setattr(pu_pool, "WORKER", "faulty_worker")

    return inject


@pytest.mark.parametrize(
    "blocks",
    [
        MIXED,
        ((1, 7, "ov:cpu"),),
        ((1, 2, "torch:cpu"), (3, 7, "ort:cpu")),
        ((1, 2, ("ort:cpu", "ov:cpu"), (0.4, 0.6)), (3, 5, "ort:cpu"), (6, 7, ("ov:cpu", "ort:cpu"), (0.7, 0.3))),
        ((1, 5, "ort:cpu"), (6, 7, ("ov:cpu", "ort:cpu"), (0.001, 0.999))),
    ],
)
def test_a_plan_gives_what_the_model_gives(executor, blocks):
    given = items()
    done = executor.run(plan(*blocks), given)
    assert is_right(done, given)
    assert not done.left
    assert done.seconds > 0
    assert done.setup_seconds > 0
    assert set(done.pus) == set(plan(*blocks).pus)


def test_items_of_a_pipeline_keep_their_order(executor):
    given = items(9)
    cores = {"ov:cpu": (0,), "ort:cpu": (1,)} if (os.cpu_count() or 1) > 1 else {}
    done = executor.run(plan(*LINE, cores=cores), given)
    assert is_right(done, given)
    assert len(done.calls) == 18
    assert sorted({call.item for call in done.calls}) == list(range(9))
    for call in done.calls:
        assert call.end >= call.start


@pytest.mark.parametrize("sizes", [{"nodes": 5, "edges": 0}, {"nodes": 1, "edges": 3}])
def test_graphs_without_edges_or_with_one_node(executor, sizes):
    given = items(sizes=sizes)
    assert is_right(executor.run(plan(*MIXED), given), given)


def test_nan_of_an_input_is_no_fault(executor):
    given = items()
    given[0]["x"][3, 2] = np.nan
    done = executor.run(plan(*MIXED), given)
    assert done.is_right
    assert not done.left
    assert np.isnan(done.outputs[0]["out"]).any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ort:cpu crashes 0", "SIGABRT"),
        ("ort:cpu crashes 3", "SIGABRT"),
        ("ort:cpu memory 3", "no memory of the device"),
        ("ort:cpu nan 0", "NaN"),
        ("ort:cpu lies 0", "is off by"),
        ("ort:cpu lies 3", "is off by"),
    ],
)
def test_a_faulty_pu_is_left_and_nothing_is_lost(executor, fault, text, reason):
    fault(text)
    executor.tables = tables({"ort:cpu": 1e-3, "ov:cpu": 2e-3})
    given = items(4)
    done = executor.run(plan(*LINE), given)
    assert is_right(done, given)
    assert [each.pu for each in done.left] == ["ort:cpu"]
    assert reason in done.left[0].reason
    assert ("ort:cpu" in done.pus) == text.endswith("3")  # its first results were right, and are kept


def test_a_pu_that_prints_is_no_fault(executor, fault):
    fault("ort:cpu prints 0")
    given = items(2)
    done = executor.run(plan(*LINE), given)
    assert is_right(done, given)
    assert not done.left


def test_a_pu_that_hangs_is_left(executor, fault, monkeypatch):
    fault("ort:cpu hangs 1")
    monkeypatch.setattr(pu_pool, "ANSWER_SECONDS", 1.0)
    given = items(2)
    done = executor.run(plan(*LINE), given)
    assert is_right(done, given)
    assert "no answer in 1 seconds" in done.left[0].reason
    assert done.left[0].replaced_by == "the model as given"
    assert done.pus == [REFERENCE]


def test_the_first_stage_that_is_off_is_named(executor, fault):
    fault("ort:cpu lies 0 REDUCE_COUNT")
    done = executor.run(plan((1, 2, "ov:cpu"), (3, 5, "ort:cpu"), (6, 7, "ov:cpu")), items())
    assert (done.left[0].pu, done.left[0].stage) == ("ort:cpu", 4)
    assert done.is_right


def test_the_runner_up_takes_over(executor, fault):
    fault("ort:cpu memory 0")
    second = plan((1, 7, "ov:cpu"))
    done = executor.run(plan(*LINE, runner_up=second), items())
    assert done.left[0].replaced_by == str(second)
    assert done.pus == ["ov:cpu"]


def test_a_plan_that_stays_slow_is_made_anew(executor):
    executor.tables = tables({"ort:cpu": 1e-9, "ov:cpu": 1.01e-9})
    slow = execute.planned_near(small(), executor.tables, SIZES)
    assert slow.pus == ("ort:cpu",)
    given = items(8)
    done = executor.run(slow, given)
    assert is_right(done, given)
    assert "times its prediction" in done.left[0].reason
    assert set(done.pus) == {"ort:cpu", "ov:cpu"}


def test_no_process_and_no_file_is_left_behind(executor):
    executor.run(plan(*MIXED), items())
    folder = executor._arena.path
    children = psutil.Process().children(recursive=True)
    assert folder.is_dir()
    executor.close()
    assert not folder.exists()
    assert not psutil.wait_procs(children, timeout=10)[1]


def test_rows_that_depend_on_each_other_are_not_split(executor):
    model = small()
    names = {(a, b): divisible_size(model, model.block(a, b)) for a, b in ((1, 2), (1, 5), (3, 3), (4, 4), (5, 7))}
    assert names == {(1, 2): "edges", (1, 5): None, (3, 3): None, (4, 4): None, (5, 7): "nodes"}
    done = executor.run(plan((1, 5, ("ort:cpu", "ov:cpu"), (0.5, 0.5)), (6, 7, "ort:cpu")), items())
    assert done.is_right
    assert not done.left
    assert "block 1-5 is not split" in done.notes[0]


GOOD = {
    "blocks": [{"pus": ["CPU"], "stages": [1, 2, 3, 4, 5]}, {"pus": ["ort:cpu"], "stages": [6, 7], "ratios": [1.0]}]
}


def test_a_pep_file_is_read(tmp_path):
    (tmp_path / "pep.json").write_text(json.dumps({**GOOD, "cores": {"CPU": [0]}, "runner_up": GOOD}))
    found = read_pep(tmp_path / "pep.json", small())
    assert found.assignment == (("1-5", "ov:cpu"), ("6-7", "ort:cpu"))
    assert found.cores == {"ov:cpu": (0,)}
    assert found.runner_up is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "codedag/plan"}, "format"),
        ({"version": 2}, "version"),
        ({"blocks": []}, "blocks"),
        ({"blocks": GOOD["blocks"][:1]}, "stages [1, 2, 3, 4, 5]"),
        ({"blocks": [{"pus": [], "stages": [1]}]}, "blocks[0].pus"),
        ({"blocks": [{"pus": ["a"], "stages": [1, 3]}]}, "blocks[0].stages"),
        ({"blocks": [{"pus": ["a"], "stages": [1, 9]}]}, "blocks[0].stages"),
        ({"blocks": [{"pus": ["a", "b"], "stages": [1], "ratios": [0.5, 0.4]}]}, "blocks[0].ratios"),
        ({"seconds": -1}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"cores": {"a": "0"}}, "cores.a"),
    ],
)
def test_a_pep_file_that_is_wrong_names_its_field(tmp_path, change, words):
    path = tmp_path / "pep.json"
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(BadFile) as error:
        read_pep(path, small())
    assert str(path) in str(error.value)
    assert words in str(error.value)


def test_a_simulated_plan_stays_labelled(tmp_path):
    block = {"stages": list(range(1, 8)), "pus": ["ort:cpu"], "ratios": [1.0]}
    pep = {"format": "codedag/pep", "version": 1, "blocks": [block], "seconds": 0.5, "simulated": True}
    (tmp_path / "pep.json").write_text(json.dumps(pep))
    assert read_pep(tmp_path / "pep.json", small()).simulated
    assert not read_pep(_written(tmp_path, {**pep, "simulated": False}), small()).simulated
    with pytest.raises(BadFile, match="simulated: 'no' is not true or false"):
        read_pep(_written(tmp_path, {**pep, "simulated": "no"}), small())


def _written(folder, facts):
    (folder / "pep.json").write_text(json.dumps(facts))
    return folder / "pep.json"


def test_the_nearest_measured_size_is_taken():
    measured = [{"nodes": 10, "edges": 10}, {"nodes": 1000, "edges": 1000}]
    assert nearest(measured, {"nodes": 90_000, "edges": 5}) == measured[1]
