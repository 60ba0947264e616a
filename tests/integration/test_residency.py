"""Values that stay on a device along a chain of calls: moved once in and once out, and never seen by anybody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cv2")
pytest.importorskip("torch")

HERE = Path(__file__).resolve().parent
CALLS = ("cv2.resize", "cv2.flip", "cv2.cvtColor", "cv2.copyMakeBorder")
PICTURE, PREPARED = 60 * 80 * 3, 34 * 46 * 3


def answered(folder: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", str(HERE / "resident_programs.py"), *arguments]
    environment = {**os.environ, "CODEDAG_HOME": str(folder / "home")}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    return answered(tmp_path_factory.mktemp("resident"))


@pytest.mark.parametrize("name", ["straight", "nested"])
def test_a_chain_of_four_calls_moves_once_in_and_once_out(answer, name):
    found = answer[name]
    assert found["same"]
    assert found["moves"] == {"there": 1, "back": 1}
    stats = found["stats"]
    assert [stats[call]["fast"] for call in CALLS] == [10] * 4
    assert [stats[call]["resident"] for call in CALLS] == [0, 10, 10, 10]
    assert stats["cv2.resize"]["sent_nbytes"] >= 10 * PICTURE
    assert [stats[call]["fetched_nbytes"] for call in CALLS] == [0, 0, 0, 10 * PREPARED]


def test_methods_of_a_picture_are_a_chain(answer):
    pillow = [f"PIL.Image.Image.{name}" for name in ("resize", "transpose", "rotate", "convert", "crop")]
    found, checked = answer["portrait"], answer["checked portrait"]
    assert found["same"]
    assert found["moves"] == {"there": 1, "back": 1}
    assert [found["stats"][name]["resident"] for name in pillow] == [0, 10, 10, 10, 10]
    assert checked["same"]
    assert [checked["stats"][name]["checked"] for name in pillow] == [10] * 5
    assert sum(checked["stats"][name]["mismatches"] for name in pillow) == 0


def test_functions_of_numpy_are_a_chain(answer):
    found = answer["whole"]["stats"]
    assert answer["whole"]["same"]
    assert [found[f"numpy.{name}"]["resident"] for name in ("roll", "sum", "clip")] == [0, 10, 10]
    assert answer["whole"]["moves"] == {"there": 1, "back": 1}


def test_an_unknown_consumer_gets_a_plain_array(answer):
    assert answer["watched"]["same"]
    assert answer["watched"]["moves"] == {"there": 2, "back": 2}


def test_whoever_asks_a_value_anything_gets_a_plain_array(answer):
    assert answer["asked"]["same"]
    assert answer["asked"]["stats"]["cv2.flip"]["resident"] == 10 * 5
    assert answer["asked"]["stats"]["cv2.resize"]["fetched_nbytes"] == 0


def test_a_call_that_the_guard_declines_runs_on_a_plain_array(answer):
    found = answer["declined"]
    assert found["same"]
    assert found["stats"]["cv2.cvtColor"]["fast"] == 0
    assert found["stats"]["cv2.cvtColor"]["declined"] == {"another code": 10}
    assert found["moves"] == {"there": 2, "back": 2}


def test_an_exception_is_the_originals_and_what_is_there_before_it_can_be_used(answer):
    assert answer["raising"]["same"]  # the same exception reached the handler each time
    assert answer["raising"]["stats"]["cv2.flip"]["fast"] == 20


def test_what_happens_to_the_input_later_changes_nothing(answer):
    assert answer["changed"]["same"]


def test_a_value_that_is_used_twice_does_not_stay(answer):
    assert answer["twice"]["same"]
    assert answer["twice"]["stats"]["cv2.flip"]["resident"] == 0


def test_checked_chains_give_the_originals_result(answer):
    sampled, shadow, strict = (answer[name] for name in ("sampled", "shadow", "strict"))
    assert all(one["same"] for one in (sampled, shadow, strict))
    assert [sampled["stats"][call]["checked"] for call in CALLS] == [8] * 4
    assert [shadow["stats"][call]["checked"] for call in CALLS] == [10] * 4
    assert [strict["stats"][call]["checked"] for call in CALLS] == [10] * 4
    assert sum(one["stats"][call]["mismatches"] for one in (sampled, shadow, strict) for call in CALLS) == 0


def test_a_device_that_does_not_give_back_what_it_has_costs_nothing_but_time(answer):
    assert answer["lost"]["same"]


def test_a_substitute_that_fails_in_the_middle_leaves_the_original(answer):
    found = answer["failing"]
    assert found["same"]
    assert (found["stats"]["cv2.flip"]["fast"], found["stats"]["cv2.flip"]["active"]) == (1, False)
    assert "failed 3 times" in found["stats"]["cv2.flip"]["reason"]
    assert found["stats"]["cv2.resize"]["fast"] == 6


def test_a_plan_that_is_taken_back_on_the_way(answer):
    assert answer["restored"]["same"]


def test_a_wrong_result_in_the_middle_is_found_and_not_used(answer):
    found = answer["wrong"]
    assert found["same"]
    assert found["stats"]["cv2.flip"]["mismatches"] == 1
    assert found["verdict"]["verdict"] == "DIFFERENT"


def test_nothing_on_a_device_leaves_a_worker(answer):
    found = answer["workers"]
    assert found["same"]
    assert found["plain"]
    assert [found["stats"][call]["fast"] for call in CALLS] == [12] * 4
    assert found["stats"]["cv2.flip"]["resident"] == 12


@pytest.mark.long
def test_spawned_workers_keep_values_on_the_device_too(tmp_path):
    """Their first call finds the program loaded; those after it move once in and once out."""
    found = answered(tmp_path, "spawn")
    assert (found["same"], found["plain"]) == (True, True)
    assert [found["stats"][call]["fast"] for call in CALLS] == [12] * 4
    assert [found["stats"][call]["resident"] for call in CALLS] == [0, 10, 10, 10]


def test_threads_never_see_a_value_that_is_not_theirs(answer):
    assert answer["threads"]["same"]


def test_functions_of_torch_follow_their_tensors(answer):
    found = answer["followed"]
    assert (found["there"], found["here"]) == ("fakepu", "cpu")
    assert found["reason"] == "a function of torch, which runs where its tensors are"
