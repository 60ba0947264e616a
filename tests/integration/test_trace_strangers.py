"""The command line on programs with known dataflow, written by someone who had not read the recorder."""

from __future__ import annotations

import functools
import json
import os
import runpy
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import gather_runs as runs
import pytest

from codedag.trace.names import Names

for library in ("torch", "cv2", "PIL", "scipy"):
    pytest.importorskip(library, reason="the programs mix numpy, cv2, PIL, scipy and torch")

SCRIPT = Path(__file__).resolve().parent.parent / "programs" / "truth_strangers.py"
#: Programs that are not seen as they are, and what is wrong.
OPEN = {
    "loop_into_a_subscript": "for a[0] in ... is not a write of a",
    "tensor_dataset": "tensors behind a Subset do not reach the batch",
    "accumulated": "itertools.accumulate consumes nothing",
    "asyncio_to_thread": "the result of asyncio.to_thread has no producer",
    "process_pool": "what Pool.map took and gave back is not joined with the workers' operations",
    "thread_pool_map": "a library function mapped over four arrays counts as one call",
    "interpolated": "arrays kept by a library object do not reach its call",
    "gradient_descent_by_hand": "gradients that backward leaves are not followed",
    "through_round_and_int": "int() ends the flow where round() and float() carry it",
}


@pytest.fixture(scope="module")
def faults(tmp_path_factory) -> dict[str, Any]:
    """What is wrong with each program: one run of all of them, told apart by the first name of the context."""
    folder = tmp_path_factory.mktemp("strangers")
    command = [sys.executable, "-m", "codedag", "trace", "-o", str(folder / "run"), str(SCRIPT)]
    environment = {**os.environ, "CODEDAG_HOME": str(folder / "home")}
    traced = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert traced.returncode == 0, traced.stderr
    known = runpy.run_path(str(SCRIPT), run_name="strangers")
    return _judged(json.loads((folder / "run" / "graph.json").read_bytes()), known)


def _judged(graph: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    ops = {op["id"]: (_program(op["context"]), op["name"].rpartition(".")[2]) for op in graph["ops"]}
    seen: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for edge in [e for e in graph["edges"] if e["kind"] == "flow"] + graph["carried"]:
        (_, src), (program, dst) = ops[edge["src"]], ops[edge["dst"]]
        seen[program][src, dst] += edge.get("nbytes", 0)
    calls: Counter[tuple[str, str]] = Counter()
    for op in graph["ops"]:
        calls[ops[op["id"]]] += op["count"]
    return {name: _differing(name, seen[name], calls, known) for name in known["FLOW"]}


def _program(context: str) -> str:
    """The program that a context belongs to; a function inside one may be the first of a thread."""
    return context.partition("/")[0].partition(".")[0]


def _differing(name: str, seen: Counter[tuple[str, str]], calls: Counter[tuple[str, str]], known: Any) -> list[Any]:
    expected = known["FLOW"][name]
    named = {op for pair in expected for op in pair}
    missed = [("missed", *pair) for pair in expected - set(seen)]
    wrong = [("wrong", *pair) for pair in set(seen) - expected if set(pair) <= named]
    sizes = [("nbytes", pair, seen[pair]) for pair, size in known["SIZES"][name].items() if seen[pair] != size]
    counts = [("count", op, calls[name, op]) for op, n in known["COUNTS"][name].items() if calls[name, op] != n]
    return sorted(missed) + sorted(wrong) + sizes + counts


def test_programs_are_seen_as_they_are(faults):
    assert len(faults) >= 130
    assert {name: found for name, found in faults.items() if found and name not in OPEN} == {}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.xfail(strict=True, reason=r)) for n, r in OPEN.items()]
)
def test_program_that_is_not_seen_as_it_is(faults, name):
    assert faults[name] == []


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_wraps_a_function_is_called_by_an_importable_name():
    numpy, functional = pytest.importorskip("numpy"), pytest.importorskip("torch.nn.functional")
    wrapped = functools.wraps(numpy.clip)(lambda *args: numpy.clip(*args))
    torch = pytest.importorskip("torch")
    names = Names()
    assert names.of(torch.jit.trace(lambda x: x + 1, torch.ones(1))) == "torch.ScriptFunction.__call__"
    assert names.of(numpy.vectorize(abs)) == "numpy.vectorize.__call__"
    assert names.of(numpy.vectorize(lambda x: x)) == "numpy.vectorize.__call__"
    assert names.of(functional.max_pool2d) == "torch.nn.functional.max_pool2d"
    assert names.of(wrapped) == "numpy.clip"


FLOWS = """
import numpy as np
import torch
from torch import nn

def training():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.ones(2, 4)
    for _ in range(3):
        optimiser.zero_grad()
        net(x).mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
    torch.abs(net[0].weight.data)

def unpacked():
    low, high = np.sqrt(np.array([4.0, 9.0]))
    np.tan(high)

def ambiguous():
    one, two = np.sqrt(np.array([1.0, 4.0]))
    np.exp(np.array([0.0, 3.0]))
    np.tan(one)

def foreach():
    tensors = [torch.ones(2), torch.ones(2)]
    torch._foreach_mul_(tensors, 2.0)
    torch.abs(tensors[1])
"""


@pytest.fixture(scope="module")
def small_flows(tmp_path_factory) -> dict[str, set[tuple[str, str]]]:
    path = tmp_path_factory.mktemp("flows") / "flows.py"
    path.write_text(FLOWS)
    graphs = runs.same_everywhere(path, ["training", "unpacked", "ambiguous", "foreach"])
    return {name: _pairs(graph) for name, graph in graphs.items()}


def _pairs(graph: Any) -> set[tuple[str, str]]:
    names = {op.id: op.name.rpartition(".")[2] for op in graph.ops}
    moved = [(e.src, e.dst) for e in graph.edges if e.kind == "flow"] + [(c.src, c.dst) for c in graph.carried]
    return {(names[src], names[dst]) for src, dst in moved}


def test_steps_of_an_optimiser_read_gradients_and_write_parameters(small_flows):
    found = small_flows["training"]
    expected = {("backward", "clip_grad_norm_"), ("clip_grad_norm_", "step"), ("step", "__call__"), ("step", "abs")}
    assert expected <= found
    assert not found & {("step", "backward"), ("clip_grad_norm_", "__call__"), ("backward", "__call__")}


def test_a_number_comes_from_the_array_that_it_was_unpacked_from_if_only_one_has_it(small_flows):
    assert ("sqrt", "tan") in small_flows["unpacked"]
    assert {src for src, dst in small_flows["ambiguous"] if dst == "tan"} == set()


def test_foreach_writes_its_list(small_flows):
    assert {src for src, dst in small_flows["foreach"] if dst == "abs"} == {"_foreach_mul_"}
