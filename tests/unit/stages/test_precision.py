"""PUs that compute in float16: labelled in every file, judged by their own error, used only where that is allowed."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import stage_tables

from codedag.ir import CannotPlan
from codedag.stages.measuring.cells import Cell
from codedag.stages.measuring.measure import Measurer
from codedag.stages.measuring.table_files import lookup_row, report_lines
from codedag.stages.planning.pep_file import pep_facts
from codedag.stages.planning.peps import plans
from codedag.stages.planning.tables import Tables
from codedag.stages.runners.openvino_ import _Loaded

SIZES = {"nodes": 10, "edges": 20}


def row(compute, **more):
    return {"compute_time_ms": compute, "transfer_time_ms": 0.0, "total_time_ms": compute, "std_ms": 0.0, **more}


@pytest.fixture
def tables(tmp_path):
    """An NPU that is faster and computes in float16."""
    rows = {f"10,20,CPU,{stage}": row(2.0) for stage in (1, 2)}
    rows |= {f"10,20,NPU,{stage}": row(1.0, precision="f16") for stage in (1, 2)}
    return Tables.load(stage_tables.write(tmp_path, rows))


def test_a_plan_uses_float16_only_where_it_is_allowed(tables):
    assert tables.seconds(pu="NPU", stage=1, **SIZES) == 0.001
    assert plans(tables.within(()), SIZES).chosen.pus == ("CPU",)
    assert tables.within(()).left_out == {"NPU": "f16"}
    allowed = plans(tables.within(("f16",)), SIZES)
    assert allowed.chosen.pus == ("NPU",)
    assert [block["precision"] for block in pep_facts(allowed)["blocks"]] == ["f16"]


def test_tables_of_float16_alone_say_so(tmp_path):
    place = stage_tables.write(tmp_path, {"10,20,NPU,1": row(1.0, precision="f16")})
    with pytest.raises(CannotPlan, match="no row of a PU that computes in float32"):
        Tables.load(place).within(())


def test_the_command_says_what_it_left_out(tables, tmp_path):
    from click.testing import CliRunner

    from codedag.cli.stages.plan import command

    given = ["--tables", str(tmp_path)]
    assert "left out: NPU computes in f16" in CliRunner().invoke(command, given).output
    assert "NPU f16" in CliRunner().invoke(command, [*given, "--allow", "f16"]).output
    wrong = CliRunner().invoke(command, [*given, "--allow", "f16,f8"])
    assert (wrong.exit_code, "`f8` is none of int8, f16" in wrong.output) == (2, True)
    refused = CliRunner().invoke(command, [*given, "--pus", "NPU"])
    assert "`NPU` computes in f16" in str(refused.exception)


def test_a_planned_block_of_float16_has_its_own_tolerance(tmp_path):
    pytest.importorskip("torch")
    from small_sage import small

    from codedag.ir import BadFile
    from codedag.stages.execution.execution_plan import read_pep

    block = {"pus": ["ov:npu"], "stages": list(range(1, 8)), "precision": "f16"}
    path = tmp_path / "pep.json"
    path.write_text(json.dumps({"blocks": [block]}))
    found = read_pep(path, small())
    assert found.tolerance == 1e-2
    assert found.precisions == {"ov:npu": "f16"}
    path.write_text(json.dumps({"blocks": [{**block, "precision": "f4"}]}))
    with pytest.raises(BadFile, match="precision"):
        read_pep(path, small())


@pytest.mark.parametrize(
    ("precision", "off", "status"),
    [("f32", 1e-6, "ok"), ("f32", 5e-3, "failed"), ("f16", 5e-3, "ok"), ("f16", 5e-2, "failed")],
)
def test_a_cell_is_judged_by_the_precision_of_its_pu(precision, off, status):
    cell = Cell({}, "ov:npu", "1", precision=precision)
    tensors = SimpleNamespace(arrays={"y": np.ones(4, np.float32)})
    Measurer._compare(None, cell, tensors, {"y": np.full(4, 1 - off, np.float32)})
    assert cell.status == status
    assert ("f16" in cell.reason) == (status == "failed" and precision == "f16")
    assert (cell.error is None) == (precision == "f32" or status == "failed")


def test_cells_of_float16_are_labelled():
    cell = Cell(dict(SIZES), "ov:npu", "1", total_ms=[1.0], transfer_ms=[0.0], precision="f16", error=0.004)
    assert lookup_row(cell)["precision"] == "f16"
    model = SimpleNamespace(name="m", stages=(), sizes=("nodes", "edges"))
    lines = report_lines(model, [cell], {"regression": {}}, {})
    assert "  NPU computes in f16, not in float32: error 0.004 of the largest value" in lines


@pytest.mark.parametrize(
    ("device", "said", "precision"),
    [("CPU", "f32", "f32"), ("GPU", "f16", "f16"), ("NPU", None, "f16"), ("CPU", None, "f32")],
)
def test_openvino_is_asked_for_its_precision(device, said, precision):
    def get_property(name):
        if said is None:
            raise RuntimeError("unsupported property")
        return SimpleNamespace(to_string=lambda: said)

    loaded = object.__new__(_Loaded)
    loaded._compiled, loaded._device = SimpleNamespace(get_property=get_property), device
    assert loaded.precision == precision
