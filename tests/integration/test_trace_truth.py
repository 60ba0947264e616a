"""The recorder on programs with known dataflow: what was found, what was missed, and never a cycle."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedag.instrument import _twin, sites
from codedag.instrument.hook import importing
from codedag.instrument.program import Program
from codedag.ir import Graph, check
from codedag.trace.recorder import Recorder

pytest.importorskip("torch", reason="the truth programs mix numpy, cv2 and torch")
pytest.importorskip("cv2", reason="the truth programs mix numpy, cv2 and torch")

FILE = Path(__file__).resolve().parent.parent / "programs" / "truth.py"
_numbers = itertools.count()


def _load(program: Program) -> Any:
    name = f"truth_{next(_numbers)}"
    with importing(program):
        spec = importlib.util.spec_from_file_location(name, FILE)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        exec(program.load(str(FILE), FILE.read_bytes()), module.__dict__)
    return module


def _trace(module: Any, program: Program, name: str) -> Graph:
    recorder = Recorder(program.names)
    sites.native.start(recorder, program.names)
    getattr(module, name)(np.random.default_rng(1).random((16, 16), dtype=np.float32))
    sites.native.stop()
    assert sites.native.failure() is None
    graph = recorder.graph()
    check(graph)
    return graph


def _pairs(graph: Graph) -> set[tuple[str, str]]:
    short = {op.id: op.name.rpartition(".")[2] for op in graph.ops if op.kind != "source"}
    edges = [(e.src, e.dst) for e in graph.edges if e.kind == "flow"] + [(c.src, c.dst) for c in graph.carried]
    return {(short[s], short[d]) for s, d in edges if s in short and d in short}


@pytest.fixture(scope="module", params=["C", "twin"])
def found(request):
    """For each program the expected pairs, those found among named operations, and those found in all."""
    before = sites.native
    if request.param == "twin":
        sites.use(_twin)
    program = Program([FILE.parent])
    module = _load(program)
    results = {name: (expected, _pairs(_trace(module, program, name))) for name, expected in module.FLOW.items()}
    sites.use(before)
    return results


def test_recall_and_precision(found):
    missed, wrong, right = [], [], 0
    for name, (expected, seen) in found.items():
        named = {op for pair in expected for op in pair}
        missed += [(name, pair) for pair in expected - seen]
        wrong += [(name, pair) for pair in seen - expected if set(pair) <= named]
        right += len(expected & seen)
    assert len(found) >= 50
    assert wrong == []
    assert missed == []
