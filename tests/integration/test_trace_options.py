"""`codedag trace` and its options, on real scripts: depth, filters, packages, peak bytes, and runs that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedag.ir import Graph, load
from codedag.trace.live import Live

SCRIPT = """
import numpy as np

def work(n):
    a = np.ones(n)
    return inner(a + 1.0)

def inner(b):
    c = np.sort(b)
    return deepest(c)

def deepest(c):
    return np.sqrt(c).sum()

print(work(100_000))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def _graph(codedag: Any, script: Path, tmp_path: Path, *options: object) -> Graph:
    done = codedag("trace", "-o", tmp_path / "run", *options, script)
    assert done.returncode == 0, done.stderr
    found: Any = load(tmp_path / "run")
    return found.graph  # type: ignore[no-any-return]


def _names(graph: Graph) -> set[str]:
    return {op.name.rpartition(".")[2] for op in graph.ops if op.kind not in ("region", "source")}


def _pairs(graph: Graph) -> set[tuple[str, str]]:
    short = {op.id: op.name.rpartition(".")[2] for op in graph.ops}
    return {(short[e.src], short[e.dst]) for e in graph.edges if e.kind == "flow"}


def test_calls_below_the_deepest_level_are_one_operation(codedag: Any, script: Path, tmp_path: Path) -> None:
    whole = _graph(codedag, script, tmp_path)
    assert {"ones", "add", "sort", "sqrt", "sum"} <= _names(whole)
    shallow = _graph(codedag, script, tmp_path, "--max-depth", 1)
    assert _names(shallow) & {"ones", "add", "inner", "sort", "sqrt", "sum"} == {"ones", "add", "inner"}
    assert ("add", "inner") in _pairs(shallow)
    (inner,) = [op for op in shallow.ops if op.name.endswith("inner")]
    assert (inner.kind, inner.count) == ("call", 1)
    two = _graph(codedag, script, tmp_path, "--max-depth", 2)
    assert {("sort", "deepest"), ("add", "sort")} <= _pairs(two)


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        (("--function", "inner"), {"sort"}),
        (("--no-function", "inner"), {"ones", "add", "sqrt", "sum"}),
        (("--exclude", "__main__"), set()),
    ],
)
def test_filters(codedag: Any, script: Path, tmp_path: Path, options: tuple[str, ...], seen: set[str]) -> None:
    graph = _graph(codedag, script, tmp_path, *options)
    assert _names(graph) & {"ones", "add", "sort", "sqrt", "sum"} == seen


def test_a_package_is_looked_into(codedag: Any, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import numpy as np\nprint(np.polyval([1.0, 2.0], np.ones(3)))\n")
    assert "polyval" in _names(_graph(codedag, script, tmp_path))
    inside = _graph(codedag, script, tmp_path, "--drill", "numpy.lib._polynomial_impl")
    assert {"add", "mul"} <= _names(inside) or {"iadd", "imul"} <= _names(inside)
    assert any("polyval" in op.context and op.name != "numpy.polyval" for op in inside.ops)


def test_peak_bytes_are_measured_in_a_run_of_their_own(codedag: Any, script: Path, tmp_path: Path) -> None:
    plain = _graph(codedag, script, tmp_path)
    assert all(op.peak_nbytes == 0 for op in plain.ops)
    peaks = {op.name: op.peak_nbytes for op in _graph(codedag, script, tmp_path, "--memory").ops}
    for name in ("numpy.ones", "operator.add", "numpy.sort"):
        assert 800_000 <= peaks[name] < 900_000
    assert peaks["__main__.work"] >= 1_600_000, "the array, and what is made of it while it lives"
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert any("the times of this run are too long" in note for note in info["notes"])


def test_the_recorder_says_what_it_costs(codedag: Any, script: Path, tmp_path: Path) -> None:
    _graph(codedag, script, tmp_path)
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert 0 < info["recorder_seconds"] < 1e-3


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_program_leaves_what_was_recorded(codedag: Any, tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "endless.py"
    script.write_text(
        "import numpy as np, time\nwhile True:\n    x = np.sqrt(np.ones(1000))\n    y = x + 1\n    time.sleep(0.001)\n"
    )
    run = tmp_path / "run"
    command = [sys.executable, "-m", "codedag", "trace", "-o", str(run), str(script)]
    program = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while (
            not any("numpy.sqrt" in f.read_text() for f in run.glob("records/*.json")) and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        os.kill(program.pid, how)
        assert program.wait(60) == -how
    finally:
        program.kill()
        program.wait()
    shown = codedag("view", run)
    assert shown.returncode == 0, shown.stderr
    assert "numpy.sqrt" in shown.stdout
    assert "did not get to its end" in shown.stderr
    assert codedag("view", run, "--svg", tmp_path / "picture.svg").returncode == 0
    assert "numpy.sqrt" in json.dumps(json.loads(codedag("view", run, "--json").stdout)["hottest"])


def test_code_that_rested_is_given_back_identical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "resting_numbers.py"
    path.write_text("def step(x):\n    return x + 1\n\n\ndef drive(n):\n    for i in range(n):\n        step(i)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import resting_numbers as module

    before = module.step.__code__, module.drive.__code__
    with Live(roots=[tmp_path]) as live:
        module.drive(60_000)
        assert live._family is not None
        assert live._family.idle.seen
        module.step(np.ones(3))
    assert (module.step.__code__, module.drive.__code__) == before
    assert module.step.__code__ is before[0]
    assert module.drive.__code__ is before[1]


def test_a_batch_that_an_unobserved_block_takes_is_an_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "dataset_of_numbers.py"
    path.write_text(
        "import numpy as np\nclass Numbers:\n    def __len__(self):\n        return 8\n"
        "    def __getitem__(self, i):\n        return np.sqrt(np.full(4, float(i)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import dataset_of_numbers

    loader = torch.utils.data.DataLoader(dataset_of_numbers.Numbers(), batch_size=4)
    with Live(roots=[tmp_path]) as live:
        for _ in loader:
            pass
    graph = live.recorded().graph
    assert ("sqrt", "__next__") in _pairs(graph)
    (taken,) = [op for op in graph.ops if op.name.endswith("__next__")]
    assert taken.count == 2
