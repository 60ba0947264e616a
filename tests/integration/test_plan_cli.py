"""`codedag plan` and `codedag explain` as a user runs them, and the guides' optimiser programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "plan"))

from plan_instances import instance, random_instance
from plan_judge import judge

from codedag.ir import load


def codedag(*arguments, cwd=None):
    command = [sys.executable, "-m", "codedag", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=cwd, env=dict(os.environ))


def written(made, folder):
    for name in ("graph", "costs", "machine"):
        (folder / f"{name}.json").write_text(json.dumps(made[name]))
    return ["--graph", folder / "graph.json", "--costs", folder / "costs.json", "--machine", folder / "machine.json"]


def planned(made, folder, *more):
    done = codedag("plan", *written(made, folder), "-o", folder / "plan.json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "plan.json").read_text()), done


def a_run(folder, made):
    written(made, folder)
    info = {
        "format": "codedag/run", "version": 1, "command": "trace", "argv": ["a.py"], "cwd": str(folder), "versions": {},
        "status": "ok",
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(info))
    (folder / "a.py").write_text("pass\n")


def test_a_plan_from_files_is_what_the_judge_finds(tmp_path):
    made = random_instance(11, 40)
    plan, done = planned(made, tmp_path, "--budget", 0.2, "--seed", 3)
    makespan = judge(made["graph"], made["costs"], made["machine"], plan)
    assert plan["makespan_seconds"] == pytest.approx(makespan, rel=1e-9)
    assert load(tmp_path / "plan.json", "plan").strategy == plan["strategy"]
    assert "next: codedag run --plan" in done.stdout
    assert plan["strategy"] in done.stdout


def test_the_same_seed_gives_the_same_bytes_and_more_budget_is_never_worse(tmp_path):
    made = random_instance(14, 60)
    first, _ = planned(made, tmp_path, "--budget", 0.05, "--seed", 1)
    again, _ = planned(made, tmp_path, "--budget", 0.05, "--seed", 1)
    longer, _ = planned(made, tmp_path, "--budget", 0.4, "--seed", 1)
    if not first["truncated"] and not again["truncated"]:  # else the clock cut the path, and the plan says so
        assert first == again
    if not first["truncated"] and not longer["truncated"]:
        assert longer["makespan_seconds"] <= first["makespan_seconds"]


def test_a_faster_variant_on_the_same_unit_is_a_gain(tmp_path):
    made = instance([0], [], {"cpu": [1.0]})
    made["costs"]["rows"][0] |= {
        "variant": "cv2",
        "alternatives": [{"variant": "original", "seconds": 4.0, "status": "ok"}],
    }
    plan, done = planned(made, tmp_path)
    assert (plan["strategy"], plan["makespan_seconds"], plan["baseline_seconds"]) == ("stay", 1.0, 4.0)
    assert "4.00 times as fast as the program as written (4 s)" in done.stdout
    same, done = planned(instance([0], [], {"cpu": [1.0]}), tmp_path)
    assert same["baseline_seconds"] == 1.0
    assert "nothing that was found is faster than the program as written" in done.stdout


def test_json_says_the_same_as_the_file(tmp_path):
    made = random_instance(12, 20)
    plan, done = planned(made, tmp_path, "--json", "--budget", 0.01)
    assert done.stderr == ""
    facts = json.loads(done.stdout)
    assert facts["makespan_seconds"] == plan["makespan_seconds"]
    assert sum(facts["ops_per_pu"].values()) == len(plan["placement"])


def test_a_run_is_planned_in_place_and_explained(tmp_path):
    a_run(tmp_path, instance([8, 0], [(0, 1)], {"cpu": [2.0, 9.0], "gpu": [None, 1.0]}, [("cpu", "gpu", 0.0, 8.0)]))
    done = codedag("plan", tmp_path, "--budget", 0.01)
    assert done.returncode == 0, done.stderr
    assert f"next: codedag explain {tmp_path}" in done.stdout
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["makespan_seconds"] == 4.0
    assert [source["file"] for source in plan["sources"]] == ["a.py"]
    text = codedag("explain", tmp_path, "1").stdout
    assert "op 1 f1 (a.py:2): gpu/original in a plan of 4 s" in text
    assert "cpu/original: 9 s; the plan would take 11 s" in text
    assert "copies its input from op 0 cpu -> gpu: 1 s" in text
    assert "cpu would do as well if it took at most 2 s instead of 9 s" in text
    only = json.loads(codedag("explain", tmp_path, "f0@a.py:1", "--json").stdout)
    assert only["runner_up"] == ""
    assert only["change"] == "nothing: no other PU supports it"


def test_what_cannot_be_explained_is_named(tmp_path):
    a_run(tmp_path, instance([0, 0], [], {"cpu": [1.0, 1.0]}))
    assert "codedag plan" in codedag("explain", tmp_path, "0").stderr
    codedag("plan", tmp_path, "--budget", 0)
    done = codedag("explain", tmp_path, "nothing@a.py:9")
    assert (done.returncode, "there is no op `nothing@a.py:9`" in done.stderr) == (2, True)


def _cycle():
    return instance([0, 0], [(0, 1), (1, 0)], {"cpu": [1.0, 1.0]})


def _changed(part, change):
    made = instance([0, 0], [(0, 1)], {"cpu": [1.0, 1.0]})
    change(made[part])
    return made


def _set(rows, at, **fields):
    rows[at].update(fields)


BAD = {
    "cycle": (_cycle(), ["the edges form a cycle: op ", "op 0 f0 (a.py:1) -> op 1 f1"]),
    "self loop": (instance([0], [(0, 0)], {"cpu": [1.0]}), ["op 0 f0 (a.py:1) depends on itself"]),
    "unknown op in an edge": (
        _changed("graph", lambda graph: _set(graph["edges"], 0, dst=9)), ["edges[0].dst: there is no op 9"],
    ),
    "unknown op in a row": (_changed("costs", lambda costs: _set(costs["rows"], 1, op=9)), ["rows[1].op", "no op 9"]),
    "unknown PU in a row": (_changed("costs", lambda costs: _set(costs["rows"], 1, pu="npu")), ["rows[1].pu", "npu"]),
    "PU that the machine lacks": (
        _changed("machine", lambda machine: _set(machine["pus"], 0, name="gpu")), ["pus[0]", "`cpu`"],
    ),
    "negative cost": (_changed("costs", lambda costs: _set(costs["rows"], 0, seconds=-1.0)), ["rows[0].seconds"]),
    "NaN": (
        _changed("costs", lambda costs: _set(costs["rows"], 0, seconds=float("nan"))), ["rows[0].seconds", "NaN"],
    ),
    "infinite": (
        _changed("costs", lambda costs: _set(costs["rows"], 0, seconds=float("inf"))), ["rows[0].seconds", "Infinity"],
    ),
    "ok without seconds": (
        _changed("costs", lambda costs: _set(costs["rows"], 0, seconds=None)), ["rows[0]", "no seconds"],
    ),
    "unsupported": (instance([0], [], {"cpu": [None]}), ["op 0 f0", "no PU supports it"]),
    "no link": (
        instance([1, 0], [(0, 1)], {"cpu": [1.0, None], "gpu": [None, 1.0]}, []), ["op 0 f0", "op 1 f1", "no link"],
    ),
    "too little memory": (
        instance([100, 0], [(0, 1)], {"cpu": [1.0, 1.0]}, None, cpu={"memory_nbytes": 99}),
        ["op 0 f0", "100 bytes", "99"],
    ),
    "second row": (
        _changed("costs", lambda costs: costs["rows"].append(dict(costs["rows"][0]))), ["rows[2]", "second row"],
    ),
    "no PU": (_changed("machine", lambda machine: machine["pus"].clear()), ["pus"]),
    "unknown link end": (
        _changed("machine", lambda machine: machine["links"].append(
            {"src": "cpu", "dst": "moon", "latency_seconds": 0.0, "bytes_per_second": 1.0})), ["links[0].dst", "moon"],
    ),
    "rate of zero": (
        _changed("machine", lambda machine: machine["links"].append(
            {"src": "cpu", "dst": "cpu", "latency_seconds": 0.0, "bytes_per_second": 0.0})), ["bytes_per_second"],
    ),
}  # fmt: skip


# One process for all cases: each prints its exit code and what it says.
ALL_BAD = """
import io, json, sys
from contextlib import redirect_stderr
from codedag.cli.main import main
said = {}
for name, arguments in json.load(open(sys.argv[1])).items():
    words = io.StringIO()
    with redirect_stderr(words):
        try:
            main(arguments)
        except SystemExit as left:
            said[name] = [left.code, words.getvalue()]
print(json.dumps(said))
"""


def test_bad_input_exits_with_2_and_names_the_culprit(tmp_path):
    arguments = {}
    for at, (name, (made, _)) in enumerate(BAD.items()):
        folder = tmp_path / str(at)
        folder.mkdir()
        arguments[name] = ["plan", *map(str, written(made, folder)), "-o", str(folder / "plan.json")]
    (tmp_path / "cases.json").write_text(json.dumps(arguments))
    command = [sys.executable, "-c", ALL_BAD, str(tmp_path / "cases.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    said = json.loads(done.stdout)
    assert set(said) == set(BAD)
    for name, (code, words) in said.items():
        assert code == 2, (name, words)
        for culprit in BAD[name][1]:
            assert culprit in words, (name, words)
    assert not list(tmp_path.rglob("plan.json"))


@pytest.mark.parametrize("name", ["graph", "costs", "machine"])
def test_truncated_and_missing_files_are_named(name, tmp_path):
    arguments = written(random_instance(3, 10), tmp_path)
    file = tmp_path / f"{name}.json"
    file.write_bytes(file.read_bytes()[:-20])
    done = codedag("plan", *arguments, "-o", tmp_path / "plan.json")
    assert (done.returncode, f"{name}.json" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    file.unlink()
    done = codedag("plan", *arguments, "-o", tmp_path / "plan.json")
    assert (done.returncode, f"{name}.json" in done.stderr) == (2, True)
    assert not (tmp_path / "plan.json").exists()


def test_what_is_missing_on_the_command_line_is_said(tmp_path):
    assert codedag("plan").returncode == 2
    assert "Name a RUN" in codedag("plan", "--graph", "x", "-o", "y").stderr
    assert "-o FILE" in codedag("plan", "--graph", "x", "--costs", "x", "--machine", "x").stderr
    done = codedag("plan", tmp_path / "nothing")
    assert (done.returncode, "no such file" in done.stderr) == (2, True)


@pytest.mark.slow
def test_simulated_units_are_labelled(tmp_path):
    made = instance([0, 0], [], {"cpu": [1.0, 1.0], "gpu": [0.1, 0.1]}, None, gpu={"simulated": True})
    plan, done = planned(made, tmp_path, "--budget", 2.5)
    assert done.stderr == ""  # a bar is for people, and the optimum ends the search at once
    assert plan["simulated"] == ["gpu"]
    assert "simulated, not measured here: gpu" in done.stdout


# The guides' programs with only their import lines changed; `cv2` is an import that the listing forgot.
GUIDE = """
import json
from pathlib import Path
import cv2
from codedag import EnhancedTracer, OptimizerManager

def image_pipeline(images):
    results = []
    for img in images:
        resized = cv2.resize(img, (224, 224))
        rgb = cv2.cvtColor(resized, cv2.COLOR_BGR2RGB)
        normalized = resized / 255.0
        results.append(normalized)
    return results

tracer = EnhancedTracer(max_depth=8, track_memory=True)

import numpy as np
test_images = [np.random.rand(100, 100, 3).astype(np.float32) for _ in range(10)]

with tracer.tracing_context():
    result = image_pipeline(test_images)

output_dir = Path("output")
output_dir.mkdir(exist_ok=True)

dag = tracer.dag_builder.dag

optimizer = OptimizerManager(
    k=2,
    coarsen_max_depth=5,
    max_iterations=100
)

result = optimizer.optimize(dag, export_dir=str(output_dir))

stats = result['statistics']
print(f"coarsening: {stats['coarsening']}")
print(f"partitioning: {stats['partitioning']}")
print(f"iteration: {stats['iteration']}")

migration_plan = optimizer.get_migration_plan(
    partitions=result['optimized_partitions'],
    dag=result['coarsened_dag'],
    gpu_count=1
)

with open(output_dir / "migration_plan.json", "w") as f:
    json.dump(migration_plan, f, indent=2)

for partition in result['optimized_partitions']:
    print(f"Partition {partition.id}:")
    print(f"  Center: {partition.center}")
    print(f"  Nodes: {len(partition.nodes)}")
    print(f"  Load: {partition.total_compute}")

print(f"Load balance: {result['statistics']['partitioning']['load_balance']}")
"""

MIGRATION = """
from codedag import PipelineMigrator
migrator = PipelineMigrator.from_plan(migration_plan)
stats = migrator.apply()
print(f"state: {stats}")
with migrator:
    gpu_result = image_pipeline(test_images)
print(f"results: {len(gpu_result)}")
"""

# Workflow guide, 6.2, and experiment guide, 3.1 and 5.2.
LOADER = """
from torch.utils.data import Dataset, DataLoader
from codedag import EnhancedTracer, OptimizerManager

class ImageDataset(Dataset):
    def __init__(self, size=100):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, idx):
        image = self.load_image(idx)
        image = self.preprocess(image)
        return image

    def load_image(self, idx):
        import numpy as np
        return np.random.rand(256, 256, 3).astype(np.float32)

    def preprocess(self, image):
        import cv2
        image = cv2.resize(image, (224, 224))
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        return image

tracer = EnhancedTracer(max_depth=10)
dataset = ImageDataset(size=16)
dataloader = DataLoader(dataset, batch_size=4, num_workers=0)

with tracer.tracing_context():
    for batch in dataloader:
        break

dag = tracer.dag_builder.dag
optimizer = OptimizerManager(k=2, coarsen_max_depth=5, max_iterations=50)
opt_result = optimizer.optimize(dag, export_dir="./results")
partitions = opt_result['optimized_partitions']
coarsened_dag = opt_result['coarsened_dag']
plan = optimizer.get_migration_plan(partitions, coarsened_dag, gpu_count=1)
import json
print("PLAN", json.dumps(plan))
"""


def _script(source, folder):
    (folder / "script.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=600, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_workflow_guide_plans_its_pipeline(tmp_path):
    pytest.importorskip("cv2")
    out = _script(GUIDE, tmp_path)
    assert re.search(r"^Load balance: (0\.\d+|1\.0)$", out, re.M)
    assert "'edge_cut': " in out
    plan = json.loads((tmp_path / "output" / "migration_plan.json").read_text())
    assert {"image_pipeline/cv2.resize", "image_pipeline/cv2.cvtColor"} <= set(plan["context_device_map"])
    assert plan["reason"]
    for name in ("coarsening_result", "kway_partition", "optimized_partition"):
        assert (tmp_path / "output" / f"{name}.json").is_file()


@pytest.mark.skipif(find_spec("codedag.api.migrator") is None, reason="there is no migrator in this build")
def test_the_workflow_guide_runs_to_its_end(tmp_path):
    pytest.importorskip("cv2")
    assert "results: 10" in _script(GUIDE + MIGRATION, tmp_path)


@pytest.mark.slow
def test_the_guides_plan_a_loader(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("cv2")
    plan = json.loads(_script(LOADER, tmp_path).partition("PLAN ")[2])
    assert "ImageDataset.__getitem__/ImageDataset.preprocess/cv2.resize" in plan["context_device_map"]
    assert (tmp_path / "results" / "optimized_partition.json").is_file()


@pytest.mark.parametrize("budget", ["nan", "inf"])
def test_a_budget_is_a_number_of_seconds(budget, tmp_path):
    done = codedag("plan", *written(random_instance(11, 5), tmp_path), "-o", tmp_path / "p.json", "--budget", budget)
    assert (done.returncode, "--budget" in done.stderr) == (2, True)
    assert not (tmp_path / "p.json").exists()
