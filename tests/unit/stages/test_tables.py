"""Tables: reading, checking and asking them."""

from __future__ import annotations

import json

import pytest
import stage_tables

from codedag.ir import BadFile, No
from codedag.stages.planning.tables import Tables, parsed_size

ROW = {"compute_time_ms": 2.0, "transfer_time_ms": 0.5, "total_time_ms": 2.5, "std_ms": 0.1}


def written(folder, rows, **more):
    stage_tables.write(folder, rows)
    for name, content in more.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def machine(*names, resource="host"):
    pus = [{"name": name, "memory_nbytes": 1 << 30, "launch_seconds": 0.0, "resource": resource} for name in names]
    return {"format": "codedag/machine", "version": 1, "pus": pus, "links": []}


def test_a_cell_is_given_as_measured_under_both_names(tmp_path):
    row = {**ROW, "low_ms": 1.8, "high_ms": 2.6}
    tables = Tables.load(written(tmp_path, {"1000,2000,CPU,3": row}))
    for pu in ("CPU", "ov:cpu"):
        found = tables.seconds(pu=pu, stage=3, nodes=1000, edges=2000)
        assert found == pytest.approx(0.002)
        assert (found.seconds, found.low, found.high) == pytest.approx((0.002, 0.0018, 0.0026))
        assert found.measured
    assert tables.transfer(pu="CPU", stage=3, nodes=1000, edges=2000) == pytest.approx(0.0005)


def test_our_names_are_asked_by_the_guides(tmp_path):
    tables = Tables.load(written(tmp_path, {"1000,2000,GPU,3": {**ROW, "pu": "ov:gpu"}}))
    assert tables.pus == ("ov:gpu",)
    assert tables.seconds(pu="GPU", stage=3, nodes=1000, edges=2000)


def test_zero_seconds_are_a_figure_and_no_is_none(tmp_path):
    tables = Tables.load(written(tmp_path, {"8,9,X,1": {**ROW, "compute_time_ms": 0}}))
    assert tables.seconds(pu="X", stage=1, nodes=8, edges=9)
    unknown = tables.seconds(pu="Y", stage=1, nodes=8, edges=9)
    assert isinstance(unknown, No)
    assert not unknown
    assert "Y has no row" in unknown.reason
    assert "stage 2" in tables.seconds(pu="X", stage=2, nodes=8, edges=9).reason
    assert "block 1-2" in tables.seconds(pu="X", stage="1-2", nodes=8, edges=9).reason


def test_other_models_are_asked_by_the_names_of_their_sizes(tmp_path):
    rows = {f"batch={n},ort:cpu,1": {**ROW, "compute_time_ms": float(n)} for n in (1, 2, 4, 8)}
    tables = Tables.load(written(tmp_path, rows))
    assert tables.seconds(pu="ort:cpu", stage=1, batch=4) == pytest.approx(0.004)
    assert tables.seconds(pu="ort:cpu", stage=1, batch=6) == pytest.approx(0.006, rel=0.05)
    with pytest.raises(TypeError, match="batch"):
        tables.seconds(pu="ort:cpu", stage=1, nodes=4)


def test_a_model_without_sizes_has_static_keys(tmp_path):
    tables = Tables.load(written(tmp_path, {"static,ort:cpu,1": ROW}))
    assert tables.seconds(pu="ort:cpu", stage=1) == pytest.approx(0.002)


def test_blocks_are_asked_by_their_range(tmp_path):
    stage_tables.write(tmp_path, {"1,1,X,1": ROW, "1,1,X,2": ROW}, {"1,1,X,1-2": {**ROW, "compute_time_ms": 3}})
    assert Tables.load(tmp_path).seconds(pu="X", stage="1-2", nodes=1, edges=1) == pytest.approx(0.003)


def test_one_measured_size_says_nothing_of_others(tmp_path):
    tables = Tables.load(written(tmp_path, {"1000,2000,X,1": ROW}))
    assert "one size" in tables.seconds(pu="X", stage=1, nodes=1100, edges=2000).reason


def test_the_memory_of_a_size_without_a_row_is_never_below_a_smaller_one(tmp_path):
    rows = {f"{n},{n},X,1": {**ROW, "peak_nbytes": n * 100} for n in (1000, 2000)}
    tables = Tables.load(written(tmp_path, rows))
    assert tables.peak_nbytes(pu="X", stage=1, nodes=2000, edges=2000) == 200_000
    assert tables.peak_nbytes(pu="X", stage=1, nodes=1500, edges=1500) == 150_000
    assert tables.peak_nbytes(pu="X", stage=1, nodes=4000, edges=4000) == 400_000


@pytest.mark.parametrize(
    ("key", "fields", "told"),
    [
        ("1000,1000,CPU,1", {**ROW, "compute_time_ms": -1.0}, "1000,1000,CPU,1.compute_time_ms"),
        ("1000,1000,CPU,1", {**ROW, "transfer_time_ms": float("nan")}, "transfer_time_ms"),
        ("1000,1000,CPU,1", {**ROW, "std_ms": "fast"}, "std_ms"),
        ("1000,1000,CPU,1", {**ROW, "compute_time_ms": True}, "compute_time_ms"),
        ("1000,1000,CPU,1", {"latency": 3.0}, "compute_time_ms"),
        ("1000,1000,CPU,1", 3.0, "1000,1000,CPU,1"),
        ("1000,1000,CPU", ROW, "1000,1000,CPU"),
        ("1000,1000,CPU,0", ROW, "1000,1000,CPU,0"),
        ("1000,x,CPU,1", ROW, "1000,x,CPU,1"),
        ("-5,10,CPU,1", ROW, "-5,10,CPU,1"),
        ("batch=2,CPU,1", ROW, "batch"),
        ("version", 2, "version"),
        ("format", "codedag/graph", "format"),
    ],
)
def test_a_wrong_field_is_named_with_its_file(tmp_path, key, fields, told):
    written(tmp_path, {"10,20,CPU,1": ROW, key: fields})
    with pytest.raises(BadFile) as error:
        Tables.load(tmp_path)
    assert "lookup_table.json" in error.value.message
    assert told in error.value.message
    assert error.value.hint


@pytest.mark.parametrize("content", ["", "[]", "{", '{"1,1,CPU,1": ', "no json"])
def test_a_file_that_is_no_table_is_refused(tmp_path, content):
    (tmp_path / "lookup_table.json").write_text(content)
    with pytest.raises(BadFile, match=r"lookup_table.json"):
        Tables.load(tmp_path)


def test_a_missing_or_empty_table_is_refused(tmp_path):
    with pytest.raises(BadFile, match="no such file"):
        Tables.load(tmp_path)
    with pytest.raises(BadFile, match="no row"):
        Tables.load(written(tmp_path, {}))


def test_a_block_must_go_forward(tmp_path):
    stage_tables.write(tmp_path, {"1,1,X,1": ROW}, {"1,1,X,3-2": ROW})
    with pytest.raises(BadFile, match=r"block_table.json: 1,1,X,3-2"):
        Tables.load(tmp_path)


def test_a_pu_that_this_machine_does_not_know_is_refused_in_its_own_directory_only(tmp_path):
    rows = {"1,1,TPU,1": ROW}
    assert Tables.load(written(tmp_path / "a", rows)).pus == ("TPU",)
    written(tmp_path / "b", rows, machine=machine("cpu", "ov:cpu"))
    with pytest.raises(BadFile, match="TPU"):
        Tables.load(tmp_path / "b")
    assert Tables.load(tmp_path / "b" / "lookup_table.json").pus == ("TPU",)


def test_in_its_own_directory_a_pu_has_our_name(tmp_path):
    written(tmp_path, {"1,1,CPU,1": ROW}, machine=machine("cpu", "ov:cpu"))
    assert Tables.load(tmp_path).pus == ("ov:cpu",)


def test_bandwidth_is_checked_too(tmp_path):
    link = {"latency_seconds": 1e-5, "bytes_per_second": 1e9}
    written(tmp_path, {"1,1,X,1": ROW}, bandwidth_table={"X_stage1": 900.0, "transfers": {"X->Y": link}})
    assert Tables.load(tmp_path).transfers["X", "Y"].bytes_per_second == 1e9
    written(tmp_path, {"1,1,X,1": ROW}, bandwidth_table={"X_stage1": -1})
    with pytest.raises(BadFile, match=r"bandwidth_table.json: X_stage1"):
        Tables.load(tmp_path)
    written(tmp_path, {"1,1,X,1": ROW}, bandwidth_table={"transfers": {"X->Y": {"latency_seconds": 1.0}}})
    with pytest.raises(BadFile, match=r"transfers.X->Y.bytes_per_second"):
        Tables.load(tmp_path)


def test_stages_have_their_names_and_bytes(tmp_path):
    tensor = {"dtype": "float32", "shape": ["nodes", 4]}
    stage = {"number": 1, "name": "GATHER", "inputs": ["x"], "outputs": ["a"], "flop": 0, "kind": "", "onnx": ""}
    index = {
        "format": "codedag/stages", "version": 1, "name": "m", "sizes": ["nodes", "edges"], "inputs": ["x"],
        "outputs": ["a"], "tensors": {"x": tensor, "a": tensor}, "stages": [stage],
        "source": {"model": "", "cuts": []}, "digest": "",
    }  # fmt: skip
    tables = Tables.load(written(tmp_path, {"10,20,X,1": ROW}, stages=index))
    assert tables.name_of(1) == "stage 1 GATHER"
    assert tables.made_nbytes(1, {"nodes": 10, "edges": 20}) == 160


def test_sizes_of_an_option():
    assert parsed_size("edges=5, nodes=3", ("nodes", "edges")) == {"nodes": 3, "edges": 5}
    for wrong in ("nodes=3", "nodes=3,edges=-1", "3,5", "nodes=a,edges=1", "nodes=3,edges=5,batch=1"):
        assert isinstance(parsed_size(wrong, ("nodes", "edges")), No), wrong


def test_rows_of_other_pus_can_be_left_out(tmp_path):
    tables = Tables.load(written(tmp_path, {"1000,2000,CPU,3": ROW, "1000,2000,ort:cpu,3": ROW}))
    assert tables.only(["CPU"]).pus == tables.only(["ov:cpu"]).pus
    assert len(tables.only(["CPU"]).pus) == 1
    assert not tables.only(["CPU"]).seconds(pu="ort:cpu", stage=3, nodes=1000, edges=2000)
    assert tables.only([]) is tables
