"""`codedag stages plan` as a user runs it: tables with the guide's fields alone, machines from elsewhere, errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "stages"))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "plan"))

import stage_tables
from command_line import called as codedag
from plan_judge import judge

from codedag.ir import load


def planned(*arguments, code=0):
    done = codedag("stages", "plan", *arguments, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def tables(tmp_path):
    """Two PUs of which each is better at some stages; one size, the guide's fields alone."""
    times = {"CPU": (2, 4, 9, 9, 1, 8, 1), "GPU": (6, 6, 3, 3, 5, 2, 5)}
    rows = {}
    for pu, computes in times.items():
        for stage, compute in enumerate(computes, 1):
            rows[f"1000,2000,{pu},{stage}"] = {
                "compute_time_ms": compute, "transfer_time_ms": 1.0, "total_time_ms": compute + 1.0, "std_ms": 0.1,
            }  # fmt: skip
    return stage_tables.write(tmp_path / "tables", rows)


@pytest.fixture
def profile(tmp_path):
    """A directory of this machine: our PUs on one resource, blocks measured, stages named."""
    names = ["GATHER", "MESSAGE", "REDUCE_SUM", "REDUCE_COUNT", "NORMALIZE", "TRANSFORM", "ACTIVATE"]
    place = stage_tables.write(tmp_path / "profile", stage_tables.lookup(stage_tables.PUS[:3]), {})
    pus = [
        {"name": name, "memory_nbytes": 1 << 34, "launch_seconds": 1e-6, "resource": "host"}
        for name in ("cpu", "ov:cpu", "torch:cpu", "ort:cpu")
    ]
    machine = {"format": "codedag/machine", "version": 1, "pus": pus, "links": []}
    (place / "machine.json").write_text(json.dumps(machine))
    stages = [
        {"number": at, "name": name, "inputs": [f"t{at - 1}"], "outputs": [f"t{at}"], "flop": 0, "kind": "", "onnx": ""}
        for at, name in enumerate(names, 1)
    ]
    facts = {
        "format": "codedag/stages", "version": 1, "name": "chain", "sizes": ["nodes", "edges"], "inputs": ["t0"],
        "outputs": ["t7"], "tensors": {f"t{at}": {"dtype": "float32", "shape": ["nodes"]} for at in range(8)},
        "stages": stages, "source": {"model": "", "cuts": []}, "digest": "",
    }  # fmt: skip
    (place / "stages.json").write_text(json.dumps(facts))
    return place


def test_tables_with_the_guides_fields_alone_are_planned(tables, tmp_path):
    out = tmp_path / "out"
    pep = planned("--tables", tables, "-o", out)
    assert pep == json.loads((out / "pep.json").read_text())
    assert (pep["format"], pep["version"], pep["goal"]) == ("codedag/pep", 1, "latency")
    assert [(block["pus"], block["stages"]) for block in pep["blocks"]] == [
        (["CPU"], [1, 2]), (["GPU"], [3, 4]), (["CPU"], [5]), (["GPU"], [6]), (["CPU"], [7]),
    ]  # fmt: skip
    assert pep["seconds"] == pytest.approx(0.021)  # 1+2+4, 1+3+3, 1+1, 1+2, 1+1
    assert sum(block["seconds"] for block in pep["blocks"]) == pytest.approx(pep["seconds"])
    assert pep["baseline"]["pu"] == "GPU"
    assert pep["baseline"]["seconds"] == pytest.approx(0.031)
    assert pep["exact"] is True
    assert pep["simulated"] is True
    assert pep["candidates"] == 2 * 3**6
    assert pep["runner_up"]["seconds"] >= pep["seconds"]
    files = {name: json.loads((out / f"{name}.json").read_text()) for name in ("graph", "costs", "machine", "plan")}
    assert judge(*files.values()) == pytest.approx(pep["seconds"])
    assert files["plan"]["simulated"] == ["CPU", "GPU"]
    viewed = codedag("view", out)
    assert viewed.returncode == 0, viewed.stderr
    assert codedag("explain", out, 3).returncode == 0


def test_the_terminal_says_what_runs_where_against_one_runtime(tables):
    done = codedag("stages", "plan", "--tables", tables / "lookup_table.json", "--top", 2)
    assert done.returncode == 0, done.stderr
    assert "1.48 times as fast as the best single runtime (GPU, 31 ms)" in done.stdout
    assert "simulated, not measured here: CPU, GPU" in done.stdout
    assert "plans; simulated, from the tables: one item" in done.stdout
    assert "top 2:" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("next: ")
    assert not (tables / "pep.json").exists(), "nothing is written unasked"


def test_a_size_that_cannot_be_planned_does_not_cost_the_plan_of_another(tables):
    rows = json.loads((tables / "lookup_table.json").read_text())
    rows["10,20,CPU,1"] = rows["1000,2000,CPU,1"]  # as a profile that was ended early has it
    (tables / "lookup_table.json").write_text(json.dumps(rows))
    done = codedag("stages", "plan", "--tables", tables)
    assert done.returncode == 0, done.stderr
    assert "no plan: stage 2" in next(line for line in done.stdout.splitlines() if "nodes=10," in line)


def test_throughput_counts_items_through_the_line(tables):
    pep = planned("--tables", tables, "--goal", "throughput", "--items", 10, "--queue", 1)
    times = [block["seconds"] for block in pep["blocks"]]
    assert pep["seconds"] == pytest.approx(sum(times) + 9 * max(times))
    assert pep["seconds_per_item"] == pytest.approx(pep["seconds"] / 10)
    assert (pep["items"], pep["queue"]) == (10, 1)
    assert len({pu for block in pep["blocks"] for pu in block["pus"]}) == len(pep["blocks"])


def test_a_deadline_that_no_plan_meets_is_exit_code_1(tables):
    assert planned("--tables", tables, "--deadline", 21.1)["meets_deadline"] is True
    assert planned("--tables", tables, "--deadline", 20, code=1)["meets_deadline"] is False


def test_pus_are_chosen_by_either_name(tables):
    assert planned("--tables", tables, "--pus", "ov:cpu")["blocks"][0]["pus"] == ["CPU"]
    done = codedag("stages", "plan", "--tables", tables, "--pus", "TPU")
    assert done.returncode == 2
    assert "TPU" in done.stderr


def test_a_profile_is_planned_in_its_own_directory(profile):
    done = codedag("stages", "plan", profile)
    assert done.returncode == 0, done.stderr
    assert "simulated" not in done.stdout
    assert "GATHER" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"next: codedag stages run {profile}")
    pep = json.loads((profile / "pep.json").read_text())
    assert pep["sizes"] == {"nodes": 10_000, "edges": 10_000}, "the largest size"
    assert pep["simulated"] is False
    assert {pu for block in pep["blocks"] for pu in block["pus"]} <= {"ov:cpu", "torch:cpu", "ort:cpu"}
    plan = load(profile / "plan.json", "plan")
    assert plan.makespan_seconds == pytest.approx(pep["seconds"])
    assert plan.simulated == []
    files = [json.loads((profile / f"{name}.json").read_text()) for name in ("graph", "costs", "machine", "plan")]
    assert judge(*files) == pytest.approx(pep["seconds"])
    assert codedag("view", profile).returncode == 0


def test_a_size_without_a_row_is_predicted(profile):
    pep = planned(profile, "--size", "edges=7000,nodes=4000")
    assert pep["sizes"] == {"nodes": 4000, "edges": 7000}
    assert pep["measured_size"] is False
    assert pep["item_low_seconds"] < pep["seconds"] < pep["item_high_seconds"]


def test_a_machine_from_elsewhere_is_simulated_and_its_memory_counts(profile, tmp_path):
    rows = json.loads((profile / "lookup_table.json").read_text())
    for row in rows.values():
        row["peak_nbytes"] = 1000
    (profile / "lookup_table.json").write_text(json.dumps(rows))
    pus = [
        {"name": "ov:cpu", "memory_nbytes": 10, "launch_seconds": 0.0},
        {"name": "torch:cpu", "memory_nbytes": 2000, "launch_seconds": 0.0},
    ]
    file = tmp_path / "other.json"
    file.write_text(json.dumps({"format": "codedag/machine", "version": 1, "pus": pus, "links": []}))
    before = sorted(profile.iterdir())
    pep = planned(profile, "--machine", file)
    assert [block["pus"] for block in pep["blocks"]] == [["torch:cpu"]]
    assert pep["simulated"] is True
    assert sorted(profile.iterdir()) == before, "a plan for another machine stays out of this one's profile"
    done = codedag("stages", "plan", profile, "--machine", file, "-o", tmp_path / "out")
    assert "simulated, not measured here: ov:cpu, torch:cpu" in done.stdout
    assert load(tmp_path / "out" / "plan.json", "plan").simulated


def test_a_graph_is_planned_in_parts(profile, tmp_path):
    pytest.importorskip("pymetis")
    np = pytest.importorskip("numpy")
    random = np.random.default_rng(0)
    graph = tmp_path / "graph.npz"
    edges = random.integers(0, 4000, (2, 16_000))
    np.savez(graph, edge_index=edges, x=np.zeros((4000, 8), np.float32))
    pep = planned(profile, "--graph", graph, "--parts", 4)
    assert len(pep["parts"]) == 4
    assert sum(part["nodes"] for part in pep["parts"]) == 4000
    assert sum(part["edges"] for part in pep["parts"]) == 16_000
    assert sorted(at for cluster in pep["clusters"] for at in cluster["parts"]) == [0, 1, 2, 3]
    assert pep["seconds"] <= pep["baseline"]["seconds"]
    assert planned(profile, "--graph", graph)["sizes"] == {"nodes": 4000, "edges": 16_000}


def test_a_training_step_is_simulated(tables):
    step = planned("--tables", tables, "--schedule", "1f1b", "--microbatches", 4)["training"]
    assert step["simulated"] is True
    assert 0 <= step["bubble"] < 1
    assert step["seconds"] > 0


def test_top_and_front_are_in_pep_json(tables):
    pep = planned("--tables", tables, "--top", 3, "--front")
    assert len(pep["top"]) == 3
    assert [one["seconds"] for one in pep["top"]] == sorted(one["seconds"] for one in pep["top"])
    assert min(one["seconds"] for one in pep["front"]) == pytest.approx(pep["seconds"])
    assert min(one["seconds_per_item"] for one in pep["front"]) < pep["seconds"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rows: rows["1000,2000,CPU,3"].update(compute_time_ms=-1), "1000,2000,CPU,3.compute_time_ms"),
        (lambda rows: rows["1000,2000,GPU,1"].update(transfer_time_ms=float("nan")), "transfer_time_ms"),
        (lambda rows: rows["1000,2000,GPU,1"].pop("compute_time_ms"), "1000,2000,GPU,1.compute_time_ms"),
        (lambda rows: [rows.pop(f"1000,2000,{pu},4") for pu in ("CPU", "GPU")], "stage 4"),
    ],
)
def test_bad_tables_are_exit_code_2_and_leave_nothing(tables, tmp_path, change, told):
    rows = json.loads((tables / "lookup_table.json").read_text())
    change(rows)
    (tables / "lookup_table.json").write_text(json.dumps(rows))
    done = codedag("stages", "plan", "--tables", tables, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert told in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_pu_that_devices_does_not_know_is_refused_in_a_profile(profile):
    rows = json.loads((profile / "lookup_table.json").read_text())
    rows["1000,1000,TPU,1"] = next(iter(rows.values()))
    (profile / "lookup_table.json").write_text(json.dumps(rows))
    done = codedag("stages", "plan", profile)
    assert done.returncode == 2
    assert "TPU" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [[], ["--tables", "T", "DIR"], ["--tables", "{tables}", "--size", "nodes=3"],
     ["--tables", "{tables}", "--parts", "4"], ["--tables", "{tables}", "--deadline", "nan"],
     ["--tables", "{tables}", "--size", "nodes=1000000,edges=2000"], ["nowhere"]],
)  # fmt: skip
def test_wrong_calls_are_exit_code_2(arguments, tables):
    done = codedag("stages", "plan", *(str(one).format(tables=tables) for one in arguments))
    assert done.returncode == 2
    assert done.stderr
