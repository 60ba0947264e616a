"""The guide's tables from measured cells."""

from __future__ import annotations

import json

import pytest

from codedag.ir import Link, Machine, Pu
from codedag.ir.machine import Copied
from codedag.stages.measuring.cells import Cell
from codedag.stages.measuring.table_files import (
    lookup_row,
    lookup_tables,
    regression,
    transfers,
    winner_of,
    write_tables,
)
from codedag.stages.model import Stage, StagedModel, Tensor


def cell(pu: str = "ov:cpu", block: str = "1", total=(3.0, 4.0, 5.0), transfer=(1.0, 1.0, 1.0), **facts) -> Cell:
    sizes = facts.pop("sizes", {"nodes": 10, "edges": 20})
    return Cell(sizes, pu, block, "k", total_ms=list(total), transfer_ms=list(transfer), **facts)


def model() -> StagedModel:
    tensors = {name: Tensor(name, "float32", ("nodes", 4)) for name in "xyz"}
    stages = (Stage(1, "A", ("x",), ("y",)), Stage(2, "B", ("y",), ("z",)))
    return StagedModel("toy", stages, tensors, ("x",), ("z",), ("nodes", "edges"), programs=None)


def machine() -> Machine:
    pus = [Pu(name=name, memory_nbytes=1, launch_seconds=0.0) for name in ("cpu", "ov:cpu", "ort:cpu")]
    sizes = [Copied(nbytes=64, seconds=1e-6), Copied(nbytes=1 << 20, seconds=1e-3)]
    pairs = [("cpu", "ov:cpu"), ("ov:cpu", "cpu"), ("cpu", "ort:cpu"), ("ort:cpu", "cpu")]
    links = [Link(src=a, dst=b, latency_seconds=1e-6, bytes_per_second=1e9, measured=sizes) for a, b in pairs]
    return Machine(pus=pus, links=links)


def test_a_row_has_medians_and_total_is_compute_and_transfer():
    row = lookup_row(cell())
    assert (row["compute_time_ms"], row["transfer_time_ms"], row["total_time_ms"]) == (3.0, 1.0, 4.0)
    assert row["std_ms"] == pytest.approx(0.8165, abs=1e-4)
    assert row["best_ms"] == 2.0
    assert row["low_ms"] <= row["compute_time_ms"] <= row["high_ms"]
    assert (row["repeats"], row["pu"]) == (3, "ov:cpu")


def test_a_copy_that_took_longer_than_the_rest_leaves_no_negative_compute():
    row = lookup_row(cell(total=(1.0,), transfer=(2.0,)))
    assert (row["compute_time_ms"], row["total_time_ms"]) == (0.0, 2.0)


def test_only_measured_cells_have_rows_and_blocks_have_their_own_table():
    failed = cell("ort:cpu", total=(), transfer=(), status="failed", reason="it crashed")
    stages, blocks = lookup_tables([cell(), cell(block="1-2"), cell("ort:cpu", "2"), failed])
    assert set(stages) == {"10,20,CPU,1", "10,20,ort:cpu,2"}
    assert set(blocks) == {"10,20,CPU,1-2"}


def test_a_block_brings_what_its_first_stage_brings():
    _, blocks = lookup_tables([cell(transfer=(1.0, 1.0, 1.0)), cell(block="1-2", total=(9.0,), transfer=(3.0,))])
    row = blocks["10,20,CPU,1-2"]
    assert (row["compute_time_ms"], row["transfer_time_ms"], row["total_time_ms"]) == (6.0, 1.0, 7.0)


def test_keys_of_other_models_name_their_sizes():
    stages, _ = lookup_tables([cell(sizes={"batch": 8})])
    assert set(stages) == {"batch=8,CPU,1"}


def test_the_regression_is_never_negative():
    assert regression([(100.0, 1.0), (200.0, 2.0), (300.0, 3.0)])[0] == pytest.approx(100.0)
    falling = regression([(100.0, 3.0), (200.0, 2.0), (300.0, 1.0)])
    assert falling[0] > 0
    assert falling[1] >= 0
    assert falling[2] > 0.1
    assert regression([(100.0, 1.0)])[0] == 100.0


def test_transfers_go_through_the_host():
    found = transfers(machine())
    assert found["cpu->ov:cpu"]["measured"][1] == {"nbytes": 1 << 20, "seconds": 1e-3}
    assert found["ov:cpu->ort:cpu"]["latency_seconds"] == pytest.approx(2e-6)
    assert found["ov:cpu->ort:cpu"]["bytes_per_second"] == pytest.approx(5e8)


def test_a_tie_has_no_winner():
    slow, fast = cell(total=[9.0] * 8, transfer=[0.0] * 8), cell("ort:cpu", total=[3.0] * 8, transfer=[0.0] * 8)
    near = cell("torch:cpu", total=[3.05] * 8, transfer=[0.0] * 8)
    assert winner_of([slow, fast]) == "ort:cpu"
    assert winner_of([slow, fast, near]) is None
    assert winner_of([fast]) == "ort:cpu"


def test_all_files_are_there_and_say_what_is_absent(tmp_path):
    cells = [cell(), cell("ort:cpu", total=(), transfer=(), status="failed", reason="it crashed")]
    write_tables(model(), tmp_path, cells, machine(), {"ov:npu": "there is no driver"})
    raw = json.loads((tmp_path / "raw_measurements.json").read_text())
    assert [one["status"] for one in raw] == ["ok", "failed", "unsupported"]
    assert raw[0]["total_ms"] == [3.0, 4.0, 5.0]
    assert raw[0]["guide_bytes"] == raw[0]["in_nbytes"] == 160
    assert raw[2]["absent"] == "there is no driver"
    assert json.loads((tmp_path / "checkpoint_npu.json").read_text()) == raw[2:]
    assert json.loads((tmp_path / "checkpoint_cpugpu.json").read_text()) == raw[:2]
    table = json.loads((tmp_path / "bandwidth_table.json").read_text())
    assert table["CPU_stage1"] > 0
    assert "mean_error" in table["regression"]["CPU_stage1"]
    report = (tmp_path / "profiling_report.txt").read_text()
    assert "it crashed" in report
    assert "ov:npu: absent, there is no driver" in report
