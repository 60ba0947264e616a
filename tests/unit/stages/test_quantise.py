"""Int8 variants: calibration data, quantised files, the error on data that did not calibrate, plans under a budget."""

import itertools
import json
import random

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import shutil

import onnx
import stage_tables
from small_sage import exported, small

from codedag.ir import BadFile, No
from codedag.stages.execution.execution_plan import read_pep
from codedag.stages.measuring.calibration import read_calibration
from codedag.stages.measuring.cells import Cell
from codedag.stages.measuring.quantise import Quantiser, error_of, int8_file, quantised, variant_file
from codedag.stages.measuring.table_files import int8_lines, int8_table, lookup_tables
from codedag.stages.model import BadInput
from codedag.stages.onnx_models.export import load
from codedag.stages.planning.peps import LATENCY, THROUGHPUT, Goal, plans
from codedag.stages.planning.prices import Int8
from codedag.stages.planning.tables import Tables

SIZE = {"batch": 8}


def graph(nodes=80, edges=600, seed=0):
    """A graph whose halves have edges each."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.uniform(-1, 1, (nodes, 12)).astype(np.float32),
        "edge_index": rng.integers(0, nodes, (2, edges)),
    }


def saved(folder, **arrays):
    """The path of a file with these arrays."""
    np.savez(folder / "calibration.npz", **arrays)
    return folder / "calibration.npz"


@pytest.fixture
def sage(tmp_path):
    """A copy of the small model that may be written to."""
    shutil.copytree(exported(), tmp_path / "sage")
    return load(tmp_path / "sage"), tmp_path / "sage"


# -- calibration data


def test_half_of_the_nodes_calibrate_and_the_others_measure(tmp_path):
    arrays = graph()
    found = read_calibration(saved(tmp_path, **arrays), small())
    (first,), (second,) = found.calibrating, found.held_out
    assert np.array_equal(np.concatenate([first["x"], second["x"]]), arrays["x"])
    edges = arrays["edge_index"]
    assert first["edge_index"].shape[1] == int((edges < 40).all(axis=0).sum())
    assert np.array_equal(second["edge_index"], edges[:, (edges >= 40).all(axis=0)] - 40)


def test_inputs_of_any_size_come_from_data_that_did_not_calibrate(tmp_path):
    arrays = graph()
    made = read_calibration(saved(tmp_path, **arrays), small()).at({"nodes": 50, "edges": 70})
    assert made["x"].shape == (50, 12)
    assert np.array_equal(made["x"][:40], arrays["x"][40:])
    assert np.array_equal(made["x"][40:], arrays["x"][40:50])
    assert made["edge_index"].shape == (2, 70)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda a: a.pop("x"), "there is no array `x`"),
        (lambda a: a.update(x=a["x"][:, :5]), "`x` has shape"),
        (lambda a: a.update(x=a["x"].astype(np.float64)), "float64"),
        (lambda a: a.update(x=a["x"][:0]), "`x` is empty"),
        (lambda a: a.update(edge_index=a["edge_index"] + 1000), "edge_index"),
        (lambda a: a.update(x=a["x"][:2], edge_index=np.array([[0, 1], [1, 0]])), "too few"),
    ],
)
def test_data_that_does_not_fit_is_refused_by_name(tmp_path, change, told):
    arrays = graph()
    change(arrays)
    path = saved(tmp_path, **arrays)
    with pytest.raises(BadInput, match=r"calibration.npz") as error:
        read_calibration(path, small())
    assert told in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"nothing.npz"):
        read_calibration(tmp_path / "nothing.npz", small())


# -- files


def test_a_block_with_products_is_quantised_and_its_error_is_small(sage, tmp_path):
    model, folder = sage
    data = read_calibration(saved(tmp_path, **graph(400, 4000)), model)
    found = Quantiser(model, folder, data).of(model.block(6, 6))
    assert found.path == folder / "exported_models" / "stage6_TRANSFORM.int8.onnx"
    proto = onnx.load(found.path)
    assert any(node.op_type == "QuantizeLinear" for node in proto.graph.node)
    assert any(each.data_type == onnx.TensorProto.INT8 and len(each.dims) == 2 for each in proto.graph.initializer)
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "nodes", "no size is baked in"
    assert 1e-5 < found.error < 0.05
    assert found.error == error_of(model.block(6, 6), found.path.read_bytes(), data.held_out_tensors)


def test_what_was_quantised_from_the_same_data_is_kept(sage, tmp_path, monkeypatch):
    model, folder = sage
    block = model.block(5, 7)
    first = Quantiser(model, folder, read_calibration(saved(tmp_path, **graph()), model)).of(block)
    monkeypatch.setattr("codedag.stages.measuring.quantise.quantised", lambda *_: pytest.fail("made again"))
    data = read_calibration(saved(tmp_path, **graph()), model)
    assert Quantiser(model, folder, data).of(block) == first
    other = read_calibration(saved(tmp_path, **graph(seed=1)), model)
    with pytest.raises(pytest.fail.Exception):
        Quantiser(model, folder, other).of(block)


def test_the_thresholds_with_the_least_error_are_taken(sage, tmp_path):
    model, folder = sage
    arrays = graph(400, 4000)
    arrays["x"][::97] *= 30  # a few values that are far off: clipping them may pay or not
    data = read_calibration(saved(tmp_path, **arrays), model)
    block = model.block(6, 6)
    found = Quantiser(model, folder, data).of(block)
    source = folder / "exported_models" / "stage6_TRANSFORM.onnx"
    feeds = [{name: each[name] for name in block.inputs} for each in data.calibrating_tensors]
    errors = {
        method: error_of(block, quantised(source, feeds, method), data.calibrating_tensors)
        for method in ("MinMax", "Percentile", "Entropy")
    }
    assert errors[found.method] == min(errors.values())


def test_a_stage_without_products_has_nothing_to_quantise(sage, tmp_path):
    model, folder = sage
    found = Quantiser(model, folder, read_calibration(saved(tmp_path, **graph()), model)).of(model.block(7, 7))
    assert isinstance(found, No)
    assert "nothing to quantise" in found.reason
    assert not int8_file(model, model.block(7, 7), folder).exists()


def test_an_int8_file_that_was_not_made_is_named(sage):
    model, folder = sage
    with pytest.raises(BadFile, match=r"block1-7.int8.onnx"):
        variant_file(model, model.block(1, 7), folder, "int8")


# -- tables


def cell(status="ok", **facts):
    times = {"total_ms": [1.0, 2.0, 3.0], "transfer_ms": [0.0] * 3} if status == "ok" else {}
    return Cell({"nodes": 30, "edges": 80}, "ort:cpu", "6", status=status, **times, **facts)


def test_a_newer_cell_says_whether_int8_has_a_row():
    good, bad = cell(variant="int8", error=0.01), cell("failed", variant="int8", error=0.5, reason="its int8 error")
    assert int8_table([bad, good])["30,80,ort:cpu,6"]["error"] == 0.01
    assert int8_table([good, bad]) == {}


def test_the_report_tells_error_and_speed():
    rows, _ = lookup_tables([cell()])
    lines = int8_lines(small(), [cell(variant="int8", error=0.0123)], rows)
    assert any("stage 6" in line and "error 0.012" in line and "1.00 to 1.00 times" in line for line in lines)
    refused = int8_lines(small(), [cell("unsupported", variant="int8", reason="nothing to quantise")], rows)
    assert any("unsupported: nothing to quantise" in line for line in refused)


# -- plans


def row(compute, transfer=0.0, **more):
    return {"compute_time_ms": compute, "transfer_time_ms": transfer, **more}


def written(folder, draw):
    """Tables of three stages on two PUs, with int8 rows of each stage and of the whole."""
    pus, names = ("A", "B"), ("1", "2", "3", "1-3")
    float32 = {(pu, name): (draw.uniform(1, 9), draw.uniform(0, 2)) for pu in pus for name in names}
    int8 = {key: (times[0] * draw.uniform(0.3, 1.2), times[1], draw.uniform(0.001, 0.05)) for key, times in
            float32.items()}  # fmt: skip
    rows = {f"batch=8,{pu},{name}": row(*times) for (pu, name), times in float32.items() if "-" not in name}
    blocks = {f"batch=8,{pu},{name}": row(*times) for (pu, name), times in float32.items() if "-" in name}
    stage_tables.write(folder, rows, blocks)
    table = {f"batch=8,{pu},{name}": row(*times[:2], error=times[2]) for (pu, name), times in int8.items()}
    (folder / "int8_table.json").write_text(json.dumps(table))
    return float32, int8


def least(float32, int8, allowed):
    """The least milliseconds of all plans whose errors add up to what is allowed, by counting all of them."""
    best = np.inf
    blocks = [((1, 3),), ((1, 1), (2, 3)), ((1, 2), (3, 3)), ((1, 1), (2, 2), (3, 3))]
    for cuts in blocks:
        for choice in itertools.product(itertools.product("AB", (False, True)), repeat=len(cuts)):
            best = min(best, milliseconds(float32, int8, allowed, cuts, choice))
    return best


def milliseconds(float32, int8, allowed, cuts, choice):
    total, errors, before = 0.0, 0.0, None
    for (first, last), (pu, small_) in zip(cuts, choice, strict=True):
        name = str(first) if first == last else f"{first}-{last}"
        if small_:
            if (pu, name) not in int8:
                return np.inf
            compute, transfer, error = int8[pu, name]
            errors += error
        elif (pu, name) in float32:
            compute, transfer = float32[pu, name]
        else:
            compute = sum(float32[pu, str(at)][0] for at in range(first, last + 1))
            transfer = float32[pu, str(first)][1]
        total += compute + (transfer if pu != before else 0.0)
        before = pu
    return total if errors <= allowed else np.inf


@pytest.mark.parametrize("seed", range(12))
def test_the_plan_under_a_budget_of_errors_is_the_best_there_is(tmp_path, seed):
    draw = random.Random(seed)
    float32, int8 = written(tmp_path, draw)
    tables = Tables.load(tmp_path)
    for allowed in (0.002, 0.02, 0.05, 0.1, 0.2):
        found = plans(tables, SIZE, Goal(LATENCY), int8=Int8(Tables.load_int8(tmp_path), allowed))
        assert found.chosen.error <= allowed * (1 + 1e-6)
        assert 1e3 * found.seconds[0] == pytest.approx(least(float32, int8, allowed))


@pytest.mark.parametrize("goal", [LATENCY, THROUGHPUT])
def test_more_error_is_never_slower_and_none_of_it_is_used_unless_allowed(tmp_path, goal):
    written(tmp_path, random.Random(3))
    tables, rows = Tables.load(tmp_path), Tables.load_int8(tmp_path)
    without = plans(tables, SIZE, Goal(goal))
    assert all(not block.variant for block in without.chosen.blocks)
    found = [plans(tables, SIZE, Goal(goal), int8=Int8(rows, allowed)) for allowed in (0.01, 0.03, 0.06, 0.2)]
    seconds = [without.seconds[0], *(one.seconds[0] for one in found)]
    assert seconds == sorted(seconds, reverse=True)
    assert all(one.baseline_seconds == without.baseline_seconds for one in found), "compared with the model as given"


def test_an_int8_table_that_is_not_there_is_named(tmp_path):
    written(tmp_path, random.Random(0))
    (tmp_path / "int8_table.json").unlink()
    with pytest.raises(BadFile, match=r"int8_table.json"):
        Tables.load_int8(tmp_path)


@pytest.mark.parametrize(
    ("block", "facts", "told"),
    [
        ({"variant": "int4"}, {"max_error": 0.1}, "variant"),
        ({"variant": "int8"}, {}, "max_error: it is missing"),
        ({"variant": "int8"}, {"max_error": 2}, "not between 0 and 1"),
    ],
)
def test_wrong_fields_of_a_plan_are_named(tmp_path, block, facts, told):
    pep = tmp_path / "pep.json"
    stages = [{"pus": ["ort:cpu"], "stages": [1, 2, 3, 4, 5, 6, 7], **block}]
    pep.write_text(json.dumps({"blocks": stages, **facts}))
    with pytest.raises(BadFile) as error:
        read_pep(pep, small())
    assert told in str(error.value)
