"""`codedag stages run` and `export` as a user runs them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

from command_line import called

CASES = {
    "config": {"feature_dim": 12, "num_warmup": 1, "num_iterations": 3},
    "test_cases": [{"nodes": 20, "edges": 50}, {"nodes": 40, "edges": 90}],
}


def command(*arguments, cwd, **settings):
    environment = {**os.environ, **settings}
    line = [sys.executable, "-m", "codedag", *map(str, arguments)]
    return subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """A profile of a small sage7 on OpenVINO and ONNX Runtime."""
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "cases.json").write_text(json.dumps(CASES))
    few = ("--pus", "CPU,ort:cpu", "--blocks", "whole")
    done = command("stages", "profile", "-o", "made", "--cases", "cases.json", *few, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "made"


@pytest.fixture
def graph(tmp_path):
    random = np.random.default_rng(3)
    arrays = {"x": random.standard_normal((25, 12), dtype=np.float32), "edge_index": random.integers(0, 25, (2, 60))}
    np.savez(tmp_path / "graph.npz", **arrays)
    return arrays


def reference(profiled, arrays):
    """PyG's mean of neighbours, two products and ReLU, in float64."""
    with np.load(profiled / "exported_models" / "weights.npz") as file:
        weights = {name: file[name].astype(np.float64) for name in file.files}
    x, (source, target) = arrays["x"].astype(np.float64), arrays["edge_index"]
    total, count = np.zeros_like(x), np.zeros(len(x))
    np.add.at(total, target, x[source])
    np.add.at(count, target, 1)
    mean = total / np.maximum(count, 1)[:, None]
    return np.maximum(mean @ weights["lin_l.weight"].T + weights["lin_l.bias"] + x @ weights["lin_r.weight"].T, 0)


def test_a_run_without_inputs_draws_them(profiled, tmp_path):
    done = called("stages", "run", profiled, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["outputs"]["out"]["equal"] is True
    assert facts["outputs"]["out"]["worst"] < 1e-5
    assert facts["outputs"]["out"]["first_stage_off"] is None
    assert facts["sizes"] == {"nodes": 40, "edges": 90}
    assert set(facts["pus"]) <= {"ov:cpu", "ort:cpu"}
    assert facts["seconds"] > 0
    assert facts["predicted_seconds"] > 0
    assert facts["left"] == []


@pytest.mark.parametrize("more", [(), ("--parts", "3"), ("--items", "4", "--goal", "throughput")])
def test_a_graph_gives_what_pyg_would(profiled, graph, tmp_path, more):
    done = called("stages", "run", profiled, "--graph", "graph.npz", "-o", "out.npz", *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "out equals the model as given" in done.stdout
    assert "next: codedag view" in done.stdout
    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert file.files == ["out"]
        np.testing.assert_allclose(file["out"], reference(profiled, graph), rtol=1e-4, atol=1e-5)


def test_a_mixed_plan_runs_where_it_says_and_is_drawn(profiled, tmp_path):
    place = tmp_path / "copy"
    shutil.copytree(profiled, place)
    blocks = [{"pus": ["ort:cpu"], "stages": [1, 2]}, {"pus": ["CPU"], "stages": [3, 4, 5, 6, 7]}]
    (tmp_path / "mixed.json").write_text(json.dumps({"blocks": blocks}))
    done = called("stages", "run", place, "--pep", "mixed.json", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pus"] == ["ort:cpu", "ov:cpu"]
    from codedag.ir import load

    events, report = load(place / "events", "events"), load(place / "report.json", "report")
    assert [lane.name for lane in events.lanes] == ["ort:cpu", "ov:cpu"]
    assert [call.op for call in events.calls] == [1, 3]
    assert report.verdict.checked == 1
    assert [change.variant for change in report.changes] == ["ort:cpu", "ov:cpu"]
    viewed = called("view", place, "--html", "page.html", cwd=tmp_path)
    assert viewed.returncode == 0, viewed.stderr


BAD = {
    "no such file": (None, "there is no file"),
    "no array": ({"x": np.zeros((3, 12), np.float32)}, "`edge_index`"),
    "other type": ({"x": np.zeros((3, 12)), "edge_index": np.zeros((2, 1), np.int64)}, "`x` is float64"),
    "other features": (
        {"x": np.zeros((3, 11), np.float32), "edge_index": np.zeros((2, 1), np.int64)}, "`x` has shape (3, 11)"
    ),
    "out of range": (
        {"x": np.zeros((3, 12), np.float32), "edge_index": np.array([[0], [3]])}, "`edge_index[1, 0]` is 3"
    ),
    "negative": ({"x": np.zeros((3, 12), np.float32), "edge_index": np.array([[0], [-1]])}, "is negative"),
    "float ids": ({"x": np.zeros((3, 12), np.float32), "edge_index": np.zeros((2, 1))}, "`edge_index` is float64"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_inputs_are_named(profiled, tmp_path, name):
    arrays, words = BAD[name]
    if arrays is not None:
        np.savez(tmp_path / "in.npz", **arrays)
    done = called("stages", "run", profiled, "--input", "in.npz", "-o", "out.npz", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "in.npz" in done.stderr
    assert not (tmp_path / "out.npz").exists()


def test_unknown_pus_of_a_plan_are_named(profiled, tmp_path):
    (tmp_path / "pep.json").write_text(json.dumps({"blocks": [{"pus": ["tpu:9"], "stages": [1, 2, 3, 4, 5, 6, 7]}]}))
    done = called("stages", "run", profiled, "--pep", "pep.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "tpu:9" in done.stderr


def test_a_crashing_runtime_is_left_and_the_report_says_so(profiled, tmp_path):
    (tmp_path / "onnxruntime.py").write_text("import os; os.abort()")
    (tmp_path / "pep.json").write_text(json.dumps({"blocks": [{"pus": ["ort:cpu"], "stages": [1, 2, 3, 4, 5, 6, 7]}]}))
    done = command(
        "stages", "run", profiled, "--pep", "pep.json", "--json", cwd=tmp_path, PYTHONPATH=str(tmp_path)
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["left"][0]["pu"] == "ort:cpu"
    assert "SIGABRT" in facts["left"][0]["reason"]
    assert facts["outputs"]["out"]["equal"] is True
    assert facts["pus"] == ["ov:cpu"]


def test_workers_of_ours_do_not_report_the_use_of_openvino():
    pytest.importorskip("openvino")
    asked = """
from codedag.profile.orphan import without_telemetry
without_telemetry()
import openvino, sys
print(sys.modules["openvino_telemetry"], "openvino_telemetry.backend" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["None", "False"], done.stderr


def test_ctrl_c_leaves_nothing_behind(profiled, tmp_path):
    line = [sys.executable, "-m", "codedag", "stages", "run", str(profiled), "--items", "2000000", "-o", "out.npz"]
    process = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    children = []
    ends = time.monotonic() + 120
    while (
        not any("codedag.stages.measuring.worker" in " ".join(one.cmdline()) for one in children)
        and time.monotonic() < ends
    ):
        time.sleep(0.2)
        children = _children(process.pid)
    time.sleep(1.0)
    children = _children(process.pid)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert children
    assert not psutil.wait_procs(children, timeout=20)[1]
    assert not (tmp_path / "out.npz").exists()
    assert not list(Path("/dev/shm").glob(f"codedag-stages-{process.pid}-*"))


def _children(pid):
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def test_a_plan_is_shipped(profiled, tmp_path):
    done = called("stages", "export", profiled, "-o", "bundle", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"run.py", "pep.json", "example.npz"} <= set(json.loads(done.stdout)["files"])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "bundle/run.py", "--repeats", "2"], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "time: " in ran.stdout
    again = called("stages", "export", profiled, "-o", "bundle", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "next: python" in again.stdout


def test_a_directory_without_a_profile_is_named(tmp_path):
    for name in ("run", "export"):
        done = called("stages", name, "nothing", *(("-o", "x") if name == "export" else ()), cwd=tmp_path)
        assert done.returncode == 2
        assert "nothing" in done.stderr
