"""Substitutes on other runtimes of the processor: as near as promised, declined where nothing is promised."""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from codedag.backends.proof import prove
from codedag.backends.registry import EXACT, ULP, all_substitutions, attempt, find
from codedag.instrument.guard import Declined

LIBRARIES = {"torch:cpu": "torch", "ov:cpu": "openvino", "ort:cpu": "onnxruntime", "numba:cpu": "numba"}
# Sounds take long, and are the same code as on the accelerators' side, which has tests of its own.
OFFERED = [one for one in all_substitutions() if one.pu in LIBRARIES and not one.source.startswith("librosa.")]
pytestmark = pytest.mark.filterwarnings("ignore")  # libraries and originals may warn; results are compared


def made(source, pu):
    return next(one for one in find(source) if one.pu == pu)


def load(pu, source="numpy."):
    for library in (LIBRARIES[pu], source.partition(".")[0]):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
        importlib.import_module(library)


def test_every_runtime_offers_something():
    counts = {pu: sum(one.pu == pu for one in OFFERED) for pu in LIBRARIES}
    assert min(counts.values()) >= 8, counts
    assert {one.pu for one in OFFERED if one.equivalence is EXACT} == set(LIBRARIES)


@pytest.mark.slow
@pytest.mark.parametrize("pu", LIBRARIES)
def test_random_calls_of_some(pu, seed):
    load(pu)
    mine = [one for one in OFFERED if one.pu == pu and one.source.startswith(("numpy.", "operator."))]
    for one in random.Random(seed).sample(mine, 6):
        proof = prove(
            one, calls=36, seed=seed
        )  # of fewer none may be taken, of these in one of a hundred million seeds
        assert proof.verdict, (one, proof)


@pytest.mark.long
@pytest.mark.parametrize("one", OFFERED, ids=lambda one: one.name.replace(" ", ""))
def test_many_random_calls(one, seed):
    load(one.pu, one.source)
    proof = prove(one, calls=120, seed=seed + 1)
    assert proof.verdict, proof
    assert proof.accepted >= 15  # two in five and more are: no seed in ten million gives so few


@pytest.mark.long
@pytest.mark.parametrize("one", OFFERED, ids=lambda one: one.name.replace(" ", ""))
def test_most_calls_that_do_not_raise_are_taken(one):
    load(one.pu, one.source)
    valid, accepted = 0, 0
    for number in range(100):
        call = one.random_call(random.Random(number))
        if one.accepts(call.args, call.kwargs):
            valid, accepted = valid + 1, accepted + 1
        elif attempt(one.original(), *call.args, **call.kwargs).error is None:
            valid += 1
    assert accepted >= valid // 3


@pytest.mark.parametrize("pu", LIBRARIES)
def test_what_numpy_would_warn_about_is_given_up(pu):
    load(pu)
    add, values = made("numpy.add", pu), np.full(2000, 3e38, np.float32)
    assert add.accepts((values, values.copy()), {})
    with pytest.raises(Declined):
        add.run(values, values.copy())
    values[7] = np.nan
    with pytest.raises(Declined):
        add.run(values, np.zeros_like(values))


@pytest.mark.parametrize("pu", ["torch:cpu", "numba:cpu"])
def test_a_choice_between_two_zeros_is_left_to_numpy(pu):
    load(pu)
    largest, values = made("numpy.maximum", pu), np.full(2000, -0.0, np.float32)
    assert "zeros" in largest.accepts((values, np.zeros(2000, np.float32)), {}).reason
    assert "zeros" in largest.accepts((values, 0.0), {}).reason
    assert np.isnan(values[0] * np.nan)
    values[0] = np.nan
    with pytest.raises(Declined):
        largest.run(values, 0.5)


@pytest.mark.parametrize("source", ["numpy.subtract", "numpy.divide", "operator.add"])
@pytest.mark.parametrize("shape", [(40, 50, 3), (7, 1024), (3, 2000), (1025, 1), (5, 341, 3)])
def test_rows_are_used_again_by_numba(source, shape):
    load("numba:cpu")
    one, draw = made(source, "numba:cpu"), np.random.default_rng(3)
    values, row = (draw.standard_normal(size).astype(np.float32) for size in (shape, shape[-1:]))
    assert one.accepts((values, row), {})
    assert one.run(values, row).tobytes() == one.original()(values, row).tobytes()


def test_what_another_order_of_sums_changes_is_not_exact():
    inexact = {one.source for one in OFFERED if one.equivalence is ULP}
    assert {"numpy.matmul", "operator.matmul", "numpy.mean", "numpy.exp"} <= inexact
    for one in OFFERED:
        if one.source in ("numpy.matmul", "numpy.dot", "operator.matmul", "numpy.sum", "numpy.mean", "numpy.exp"):
            assert one.equivalence is ULP, one


FORKED = """
import os, sys
import numpy as np
import {library}
from codedag.backends.registry import find
one = next(one for one in find("numpy.add") if one.pu == "{pu}")
values = np.ones(5000, np.float32)
assert one.accepts((values, values.copy()), {{}})
one.run(values, values.copy())
child = os.fork()
if not child:
    verdict = one.accepts((values, values.copy()), {{}})
    os._exit(0 if not verdict and "forked" in verdict.reason else 9)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("pu", ["ov:cpu", "ort:cpu", "torch:cpu"])
def test_a_forked_process_runs_as_written(pu, tmp_path):
    load(pu)
    script = FORKED.format(library=LIBRARIES[pu], pu=pu)
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr


GIVEN = """
import sys
import numpy as np
import codedag

def work():
    one = np.arange(6000, dtype=np.float32).reshape(-1, 3)
    return np.add(one, np.float32([1, 2, 3]))

expected = work()
plan = {{"context_device_map": {{"work/numpy.add": "{pu}"}}}}
with codedag.apply(plan, mode="off", demote=False) as migrator:
    assert "is not used by this program" in migrator.get_stats()["numpy.add"]["reason"]
assert "{library}" not in sys.modules
plan["variants"] = {{"work/numpy.add": "{pu}"}}
with codedag.apply(plan, mode="off", demote=False) as migrator:
    found = [work() for _ in range(3)]
    stats = migrator.get_stats()["numpy.add"]
assert "{library}" in sys.modules
assert stats["fast"] == 3, stats
assert all(each.tobytes() == expected.tobytes() for each in found)
"""


@pytest.mark.parametrize("pu", LIBRARIES)
def test_a_plan_that_names_what_runs_there_gets_the_library(pu, tmp_path):
    load(pu)
    script = GIVEN.format(library=LIBRARIES[pu], pu=pu)
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("pu", LIBRARIES)
def test_they_are_found_in_a_process_that_loads_only_what_it_is_asked_for(pu):
    all_substitutions()  # writes down which file has what
    code = f"from codedag.backends.registry import find; print([one.name for one in find('operator.sub', '{pu}')])"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
        assert done.stdout.strip() == f"['operator.sub -> {pu}']"
    assert {one.module.rpartition(".")[2] for one in OFFERED} == {
        "on_torch_cpu_", "on_openvino_", "on_onnx_", "on_numba_",
    }  # fmt: skip
