"""`codedag stages profile` as a user runs it, with real runtimes and with broken ones."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from command_line import called

from codedag.stages.measuring.cells import Cells

CASES = {
    "config": {"feature_dim": 12, "num_warmup": 1, "num_iterations": 3},
    "test_cases": [{"nodes": 20, "edges": 50}, {"nodes": 40, "edges": 30}],
}
#: Stands in for the package: what it does goes wrong in one way each.
BROKEN = {
    "crashes on import": "import os; os.abort()",
    "hangs in compile": """
        def get_available_providers(): return ["CPUExecutionProvider"]
        __version__ = "1"
        class SessionOptions:
            def add_session_config_entry(self, *_): pass
        class InferenceSession:
            def __init__(self, *_, **__):
                import time; time.sleep(600)
        """,
    "says that it ran elsewhere": """
        def get_available_providers(): return ["CPUExecutionProvider"]
        __version__ = "1"
        class SessionOptions:
            def add_session_config_entry(self, *_): pass
        class _Name:
            def __init__(self, name): self.name = self.ep_name = name
        class InferenceSession:
            def __init__(self, *_, **__): pass
            def get_inputs(self): return []
            def io_binding(self): return self
            def bind_output(self, *_): pass
            def synchronize_outputs(self): pass
            def run_with_iobinding(self, _): print("done!")
            def get_provider_graph_assignment_info(self): return [_Name("OtherExecutionProvider")]
        """,
    "computes nothing": """
        def get_available_providers(): return ["CPUExecutionProvider"]
        __version__ = "1"
        class SessionOptions:
            def add_session_config_entry(self, *_): pass
        class InferenceSession:
            def __init__(self, *_, **__): pass
            def get_inputs(self): return []
            def io_binding(self): return self
            def bind_output(self, *_): pass
            def synchronize_outputs(self): pass
            def run_with_iobinding(self, _): print("done!")
            def get_provider_graph_assignment_info(self): return []
        """,
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The seven stages, exported once."""
    from codedag.stages.onnx_models.export import export
    from codedag.stages.torch_models.sage import sage7

    folder = tmp_path_factory.mktemp("exported")
    export(sage7(features=12), folder)
    return folder


@pytest.fixture
def cases(tmp_path, exported):
    """Test cases, and a directory `prof` in which the stages are exported already."""
    (tmp_path / "test_cases.json").write_text(json.dumps(CASES))
    shutil.copytree(exported, tmp_path / "prof")
    return "test_cases.json"


@pytest.mark.slow
def test_every_pu_is_measured_and_a_second_run_measures_nothing(codedag, tmp_path, cases):
    done = codedag("stages", "profile", "-o", "prof", "--cases", cases, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert {"ov:cpu", "ort:cpu", "torch:cpu", "inductor:cpu", "numba:cpu"} <= set(facts["pus"])
    assert "ov:npu" in facts["absent"]
    table = json.loads((tmp_path / "prof" / "lookup_table.json").read_text())
    for pu in ("CPU", "ort:cpu", "torch:cpu"):
        assert {f"20,50,{pu},{stage}" for stage in range(1, 8)} <= set(table)
    row = table["40,30,CPU,6"]
    assert row["total_time_ms"] == pytest.approx(row["compute_time_ms"] + row["transfer_time_ms"])
    blocks = json.loads((tmp_path / "prof" / "block_table.json").read_text())
    assert {f"20,50,ort:cpu,{a}-{b}" for a in range(1, 8) for b in range(a + 1, 8)} <= set(blocks)
    raw = json.loads((tmp_path / "prof" / "raw_measurements.json").read_text())
    ran = {cell["ran_on"] for cell in raw if cell["pu"] == "CPU"}
    assert ran == {"CPU"}
    again = json.loads(codedag("stages", "profile", "-o", "prof", "--cases", cases, "--json").stdout)
    assert again["measured"] == 0
    assert again["known"] == facts["known"]


@pytest.mark.slow
def test_the_steps_can_be_taken_one_by_one(codedag, tmp_path, cases):
    folder = tmp_path / "prof"
    shutil.rmtree(folder)
    done = codedag("stages", "profile", "sage7", "-o", "prof", "--export", "--cases", cases)
    assert done.returncode == 0, done.stderr
    models = {path.name for path in (folder / "exported_models").glob("stage*.onnx")}
    names = ("GATHER", "MESSAGE", "REDUCE_SUM", "REDUCE_COUNT", "NORMALIZE", "TRANSFORM", "ACTIVATE")
    assert models == {f"stage{number}_{name}.onnx" for number, name in enumerate(names, 1)}
    assert "--measure" in done.stdout
    assert codedag("view", "prof").returncode == 0, "it can be looked at, and served, from the beginning"
    early = codedag("stages", "profile", "-o", "prof", "--analyze")
    assert early.returncode == 2
    assert "no measured cell" in early.stderr
    pus = ("--pus", "ort:cpu", "--blocks", "none", "--cases", cases)
    assert codedag("stages", "profile", "-o", "prof", "--measure", *pus).returncode == 0
    assert not (folder / "lookup_table.json").exists()
    assert codedag("stages", "profile", "-o", "prof", "--analyze").returncode == 0
    assert len(json.loads((folder / "lookup_table.json").read_text())) == 14
    more = codedag("stages", "profile", "-o", "prof", "--pus", "CPU", "--blocks", "none", "--cases", cases)
    assert more.returncode == 0, more.stderr
    assert len(json.loads((folder / "lookup_table.json").read_text())) == 28
    planned = codedag("plan", "prof")
    assert planned.returncode == 0, planned.stderr
    assert "8 operations" in planned.stdout


@pytest.mark.slow
@pytest.mark.parametrize("how", list(BROKEN))
def test_a_broken_runtime_costs_only_itself(codedag, tmp_path, cases, how):
    import textwrap

    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "onnxruntime.py").write_text(textwrap.dedent(BROKEN[how]))
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "broken"), os.environ.get("PYTHONPATH", "")])}
    done = codedag(
        "stages", "profile", "-o", "prof", "--cases", cases, "--blocks", "none", "--timeout", "5", "--pus",
        "CPU,ort:cpu", env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "prof" / "lookup_table.json").read_text())
    assert "20,50,CPU,1" in table
    assert not any(",ort:cpu," in key for key in table)
    report = (tmp_path / "prof" / "profiling_report.txt").read_text()
    assert "ort:cpu" in report.partition("Not measured")[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--pus", "NPU"), "there is no PU `ov:npu` here"),
        (("--pus", "tpu:0"), "there is no PU `tpu:0` here"),
        (("--cases", "none.json"), "cannot read none.json"),
        (("nothing.onnx",), "nothing.onnx"),
        (("model.txt",), "model.txt"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, options, words):
    done = called("stages", "profile", *options, "-o", "prof", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "prof").exists()


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "prof").mkdir()
    (tmp_path / "prof" / "diary.txt").write_text("mine")
    done = called("stages", "profile", "-o", "prof", cwd=tmp_path)
    assert done.returncode == 2
    assert "not empty" in done.stderr
    assert [path.name for path in (tmp_path / "prof").iterdir()] == ["diary.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_ending_it_at_any_moment_keeps_what_was_measured(codedag, tmp_path, cases, sign):
    command = [sys.executable, "-m", "codedag", "stages", "profile", "-o", "prof", "--measure", "--cases", cases]
    process = subprocess.Popen(
        [*command, "--pus", "ort:cpu", "--repeats", "400", "--blocks", "none"], cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    path = tmp_path / "prof" / "measurements.jsonl"
    deadline = time.monotonic() + 60
    while (not path.exists() or path.read_bytes().count(b"\n") < 40) and time.monotonic() < deadline:
        time.sleep(0.01)
    workers = psutil.Process(process.pid).children()
    process.send_signal(sign)
    assert process.wait(30) != 0
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
    kept = sum(len(cell.total_ms) >= 3 for cell in Cells(tmp_path / "prof").all())
    assert kept >= 1
    done = codedag(
        "stages", "profile", "-o", "prof", "--cases", cases, "--pus", "ort:cpu", "--blocks", "none", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["measured"] == 14 - kept
