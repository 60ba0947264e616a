"""Functions of cv2 by OpenCL: as near as promised, declined where OpenCL is off, never in a forked process."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("cv2")

import cv2

from codedag.backends.proof import prove
from codedag.backends.registry import EXACT, LEVEL1, all_substitutions, attempt
from codedag.devices import opencl
from codedag.devices.present import present

SUBSTITUTIONS = {made.name: made for made in all_substitutions() if made.pu == opencl.CPU}
CALLS = 30
INSIDE = f"""
import random, sys
import cv2
from codedag.devices.opencl import usable
if not usable():
    sys.exit("skip: " + usable().reason)
from codedag.backends.proof import prove
from codedag.backends.registry import all_substitutions
calls, seed, count, least = map(int, sys.argv[1:])
known = [made for made in all_substitutions() if made.pu == "{opencl.CPU}"]
for made in random.Random(seed).sample(known, count):
    proof = prove(made, calls=calls, seed=seed)
    assert proof.verdict, proof
    assert proof.accepted >= least, proof
    print(made.name)
"""


def with_opencl(code, *arguments):
    """What a program that names the processor as OpenCL device prints; OpenCV looks for devices once per process."""
    environment = {**os.environ, "OPENCV_OPENCL_DEVICE": ":CPU:"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode and done.stderr.startswith("skip: "):
        pytest.skip(done.stderr.removeprefix("skip: ").strip())
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_substitutions_of_both_classes():
    classes = [made.equivalence for made in SUBSTITUTIONS.values()]
    assert classes.count(EXACT) >= 5
    assert classes.count(LEVEL1) >= 5


@pytest.mark.slow
def test_random_calls(seed):
    """Of a few functions: the driver compiles each of them at its first use, for seconds.

    More than half of the calls are taken: of 30, not one in one of a hundred million seeds.
    """
    proven = set(with_opencl(INSIDE, CALLS, seed, 3, 1).split("\n")) - {""}
    assert len(proven) == 3
    assert proven <= set(SUBSTITUTIONS)


@pytest.mark.long
def test_many_random_calls(seed):
    every = with_opencl(INSIDE, 400, seed + 1, len(SUBSTITUTIONS), 100)
    assert set(every.split("\n")) - {""} == set(SUBSTITUTIONS)


@pytest.mark.parametrize("name", sorted(SUBSTITUTIONS))
def test_half_of_the_valid_calls_are_accepted(name, monkeypatch):
    monkeypatch.setattr(opencl, "usable", lambda: True)
    made, valid, accepted = SUBSTITUTIONS[name], 0, 0
    for number in range(100):
        call = made.random_call(random.Random(number))
        if made.accepts(call.args, call.kwargs):
            valid, accepted = valid + 1, accepted + 1
        elif attempt(made.original(), *call.args, **call.kwargs).error is None:
            valid += 1
    assert accepted >= valid // 2


@pytest.mark.parametrize("name", sorted(SUBSTITUTIONS))
def test_calls_are_declined_where_opencl_is_off(name, monkeypatch):
    monkeypatch.setattr(cv2.ocl, "useOpenCL", lambda: False)
    made = SUBSTITUTIONS[name]
    calls = [made.random_call(random.Random(number)) for number in range(20)]
    assert not any(made.accepts(call.args, call.kwargs) for call in calls)
    assert any(attempt(made.original(), *call.args, **call.kwargs).error is None for call in calls)
    assert not present(opencl.CPU)


def test_the_reason_says_what_to_set(monkeypatch):
    monkeypatch.setattr(cv2.ocl, "haveOpenCL", lambda: True)
    monkeypatch.setattr(cv2.ocl, "useOpenCL", lambda: False)
    assert "OPENCV_OPENCL_DEVICE=:CPU:" in present(opencl.CPU).reason


def test_another_kind_of_device_is_not_the_processor(monkeypatch):
    monkeypatch.setattr(cv2.ocl, "haveOpenCL", lambda: True)
    monkeypatch.setattr(cv2.ocl, "useOpenCL", lambda: True)
    monkeypatch.setattr(opencl, "kind_of", lambda cv2: "gpu")
    assert "is a gpu" in present(opencl.CPU).reason
    monkeypatch.setattr(opencl, "kind_of", lambda cv2: "cpu")
    assert present(opencl.CPU)


def test_a_forked_process_does_not_use_it(monkeypatch):
    monkeypatch.setattr(cv2.ocl, "haveOpenCL", lambda: True)
    monkeypatch.setattr(cv2.ocl, "useOpenCL", lambda: True)
    monkeypatch.setattr(opencl, "kind_of", lambda cv2: "cpu")
    picture = np.zeros((80, 80, 3), np.uint8)
    assert SUBSTITUTIONS["cv2.flip -> cv2.UMat"].accepts((picture, 1), {})
    monkeypatch.setattr(opencl, "_born", os.getpid() + 1)
    verdict = SUBSTITUTIONS["cv2.flip -> cv2.UMat"].accepts((picture, 1), {})
    assert "forked" in verdict.reason


def test_a_wrong_promise_is_found_out(monkeypatch):
    made = SUBSTITUTIONS["cv2.flip -> cv2.UMat"]
    monkeypatch.setattr(opencl, "usable", lambda: True)
    monkeypatch.setattr(made, "run", lambda src, flipCode, dst=None: src.copy())
    assert not prove(made, calls=40).verdict
