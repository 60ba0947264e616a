"""`--what-if pu=...`: what a device that is not here would bring by stated figures, and the plan for it where it is."""

from __future__ import annotations

import json
import re

import pytest

from codedag.ir import load

pytest.importorskip("cv2")
pytest.importorskip("torch")

PROGRAM = """
import sys
import cv2
import numpy as np

def prepare(image):
    small = cv2.resize(image, (40, 30))
    turned = cv2.flip(small, 1)
    return cv2.copyMakeBorder(turned, 2, 2, 3, 3, cv2.BORDER_REFLECT_101)

def main():
    total = 0
    for number in range(20):
        image = np.full((60, 80, 3), number, np.uint8)
        total += int(prepare(image).sum()) + int(np.sqrt(np.ones((50, 50))).sum())
    print(total)

main()
sys.exit(3)
"""
NAMES = ["cv2.resize", "cv2.flip", "cv2.copyMakeBorder"]
# every figure is a power of ten or so, for sums that one can do by hand
LATENCY, RATE, LAUNCH, FLOP, STREAM = 1e-9, 1e15, 1e-9, 1e15, 1e15


def machine(name="cuda:0", rate=RATE, **more):
    figures = {"launch_seconds": LAUNCH, "flop_per_second": FLOP, "stream_bytes_per_second": STREAM, **more}
    pus = [
        {"name": "cpu", "resource": "host", "memory_nbytes": 1, "launch_seconds": 0.0},
        {"name": name, "memory_nbytes": 10**10, "capability": ["made up"], **figures},
    ]
    links = [
        {"src": src, "dst": dst, "latency_seconds": LATENCY, "bytes_per_second": rate}
        for src, dst in (("cpu", name), (name, "cpu"))
    ]
    return {"format": "codedag/machine", "version": 1, "pus": pus, "links": links}


def here():
    """This machine, as if its peaks had been measured: a tenth of the device's."""
    cpu = {"flop_per_second": FLOP / 10, "stream_bytes_per_second": STREAM / 20}
    pus = [{"name": "cpu", "resource": "host", "memory_nbytes": 1, "launch_seconds": 0.0, **cpu}]
    return {"format": "codedag/machine", "version": 1, "pus": pus, "links": []}


@pytest.fixture
def run(codedag, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    assert codedag("trace", "-o", "run", "program.py").returncode == 3
    (tmp_path / "run" / "machine.json").write_text(json.dumps(here()))
    return tmp_path / "run"


def asked(codedag, run, what, *more):
    got = codedag("plan", run, "--what-if", what, "--json", *more)
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)


def test_figures_are_those_of_the_run_and_of_the_file(codedag, run, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(machine()))
    facts = asked(codedag, run, "pu=cuda:0,machine=m.json")
    graph, costs = load(run).graph, load(run).costs
    ops = {op.name: op for op in graph.ops}
    (chain,) = [each for each in facts["chains"] if each["names"] == NAMES]
    seconds = sum(costs.row(ops[name].id, "cpu").seconds for name in NAMES)
    assert chain["seconds"] == pytest.approx(seconds)
    # a tenth of the time here, a launch for each of 60 calls; the image goes there, what is padded comes back
    assert chain["seconds_there"] == pytest.approx(seconds / 10 + 60 * LAUNCH)
    copied = 20 * (60 * 80 * 3 + 46 * 34 * 3)
    assert chain["copies_seconds"] == pytest.approx(40 * LATENCY + copied / RATE)
    saved = seconds - chain["seconds_there"] - chain["copies_seconds"]
    assert chain["saved_seconds"][0] == pytest.approx(saved)
    assert facts["seconds"] == pytest.approx(sum(op.self_seconds for op in graph.ops))
    saved = sum(each["saved_seconds"][0] for each in facts["chains"])  # a sum of bytes goes there, too
    assert facts["seconds_with"][1] == pytest.approx(facts["seconds"] - saved)
    assert (facts["pu"], facts["simulated"], facts["stated"]) == ("cuda:0", True, "made up")
    reasons = {one["name"]: one["reason"] for one in facts["stays"]}
    assert "ulp" in reasons["numpy.sqrt"]


def test_what_does_not_pay_stays_and_is_said_to(codedag, run, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(machine(rate=1e3)))
    facts = asked(codedag, run, "pu=cuda:0,machine=m.json")
    assert facts["chains"] == []
    assert facts["seconds_with"] == [facts["seconds"]] * 2
    reasons = {one["name"]: one["reason"] for one in facts["stays"]}
    assert [reasons[name] for name in NAMES] == ["it would take longer there, with the copies"] * 3
    (tmp_path / "m.json").write_text(json.dumps(machine(launch_seconds=1.0)))
    assert asked(codedag, run, "pu=cuda:0,machine=m.json")["chains"] == []


def test_what_is_allowed_goes_too(codedag, run, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(machine()))
    facts = asked(codedag, run, "pu=cuda:0,machine=m.json,allow=ulp")
    assert "numpy.sqrt" in [name for chain in facts["chains"] for name in chain["names"]]


@pytest.mark.parametrize("pu", ["cuda:1", "xpu:0", "mps"])
def test_each_line_with_a_figure_of_the_device_says_simulated(codedag, run, pu):
    got = codedag("plan", run, "--what-if", f"pu={pu}")
    assert got.returncode == 0, got.stderr
    lines = got.stdout.splitlines()
    assert f"what if there were {pu}?" in lines[0]
    assert "by its data sheet" in lines[0]
    about = [line for line in lines if re.search(r"would go|with " + pu, line)]
    assert all("simulated" in line for line in (lines[0], *about))
    assert not (run / "plan.json").exists()


def test_a_run_answers_at_its_end_and_changes_nothing(codedag, plain, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    expected = plain("program.py")
    got = codedag("run", "--what-if", "pu=cuda:0", "-o", "run", "program.py")
    assert (got.returncode, got.stdout) == (3, expected.stdout)
    assert "what if there were cuda:0? simulated" in got.stderr
    assert re.search(r"next: codedag plan \S+ --what-if pu=cuda:0 -o plan.json", got.stderr)
    assert load(tmp_path / "run").graph.ops


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("cuda:0", "write pu=cuda:0"), ("pu=tpu:0", "nothing is stated about `tpu:0`"), ("pu=", "write pu=cuda:0"),
        ("machine=m.json", "name the device"), ("pu=cuda:0,allow=half", "allow=half"),
        ("pu=cuda:0,machine=none.json", "none.json"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_refused_before_the_program_starts(codedag, tmp_path, what, said):
    (tmp_path / "program.py").write_text(PROGRAM)
    got = codedag("run", "--what-if", what, "program.py")
    assert (got.returncode, got.stdout) == (2, "")
    assert said in got.stderr


def test_the_plan_drives_the_device_where_it_is_and_declines_where_it_is_not(codedag, plain, tmp_path):
    from pathlib import Path

    program = Path(__file__).resolve().parent / "placed_program.py"
    quiet = {"PYTHONWARNINGS": "ignore"}
    expected = plain(program, env=quiet)
    codedag("trace", "-o", "run", program, env=quiet)
    (tmp_path / "run" / "machine.json").write_text(json.dumps(here()))
    for name in ("fakepu:0", "cuda:0"):
        (tmp_path / "m.json").write_text(json.dumps(machine(name)))
        facts = asked(codedag, tmp_path / "run", f"pu={name},machine=m.json", "-o", "plan.json")
        assert [chain["names"] for chain in facts["chains"]] == [NAMES]
        assert load(tmp_path / "plan.json", "plan").simulated == [name]
        got = codedag("run", "--plan", "plan.json", "-o", "placed", program, "--keep", env=quiet)
        assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
        moved = "moved 1 1" if name == "fakepu:0" else "moved 0 0"
        assert moved in got.stderr
        declined = load(tmp_path / "placed").report.declined
        assert any("cuda:0 is not on this machine" in one.reason for one in declined) == (name == "cuda:0")
