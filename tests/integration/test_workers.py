"""Worker processes: what they do is recorded, linked to the batches that the program takes, and changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codedag.ir import Graph, RunDirectory, check, load

pytest.importorskip("torch")
pytest.importorskip("cv2")

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
WORK = ("resize", "astype", "truediv", "transpose", "ascontiguousarray", "from_numpy")


def _run(command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=PROGRAMS, check=False, **more)


def _traced(tmp_path: Path, *args: str, script: str = "loader.py", code: int = 0) -> tuple[RunDirectory, str, str]:
    done = _run([sys.executable, "-W", "ignore", "-m", "codedag", "trace", "-o", str(tmp_path / "run"), script, *args])
    assert done.returncode == code, done.stderr
    found = load(tmp_path / "run")
    assert isinstance(found, RunDirectory)
    check(found.graph)
    return found, done.stdout, done.stderr


def _plain(*args: str, script: str = "loader.py") -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, "-W", "ignore", script, *args])


def _op(graph: Graph, name: str) -> Any:
    (found,) = [op for op in graph.ops if op.name.rpartition(".")[2] == name and op.kind != "region"]
    return found


def _pairs(graph: Graph) -> set[tuple[str, str]]:
    short = {op.id: op.name.rpartition(".")[2] for op in graph.ops}
    return {(short[e.src], short[e.dst]) for e in graph.edges if e.kind == "flow"}


CASES = [
    ("--workers", "2", "--method", "fork"),
    pytest.param(("--workers", "2", "--method", "spawn"), marks=pytest.mark.long),
    pytest.param(("--workers", "4", "--method", "fork"), marks=pytest.mark.long),
    pytest.param(("--workers", "4", "--method", "spawn"), marks=pytest.mark.long),
    pytest.param(("--workers", "2", "--method", "forkserver"), marks=pytest.mark.long),
    pytest.param(("--workers", "2", "--method", "fork", "--persistent"), marks=pytest.mark.long),
    pytest.param(("--workers", "2", "--method", "spawn", "--persistent"), marks=pytest.mark.long),
    pytest.param(("--workers", "2", "--method", "fork", "--unordered"), marks=pytest.mark.long),
    pytest.param(("--workers", "2", "--method", "fork", "--persistent", "--break-at", "2"), marks=pytest.mark.long),
]


@pytest.mark.long
@pytest.mark.parametrize("args", CASES, ids=lambda args: "_".join(a.strip("-") for a in args))
def test_workers_are_recorded_and_linked(tmp_path: Path, args: tuple[str, ...]) -> None:
    found, out, said = _traced(tmp_path, *args)
    assert out == _plain(*args).stdout
    assert "not linked" not in said
    graph = found.graph
    batches = _op(graph, "__next__").count
    assert batches == (9 if "--break-at" in args else 12)
    (made,) = [op for op in graph.ops if op.name.endswith("fetch")]
    assert made.kind == "region", "the graph is that of a program without workers"
    assert made.count >= batches
    for name in WORK:
        assert _op(graph, name).count == 4 * made.count
    assert {("resize", "astype"), ("astype", "truediv"), ("from_numpy", "__next__")} <= _pairs(graph)
    taken = (_op(graph, "from_numpy").id, _op(graph, "__next__").id)
    linked = sum(e.nbytes for e in graph.edges if (e.src, e.dst) == taken)
    assert linked == made.count * 4 * 3 * 32 * 32 * 4


@pytest.mark.long
def test_contexts_are_those_of_a_program_without_workers(tmp_path: Path) -> None:
    alone = _traced(tmp_path / "0", "--workers", "0")[0].graph
    workers = _traced(tmp_path / "2", "--workers", "2", "--method", "fork")[0].graph
    for name in WORK:
        assert _op(workers, name).context == _op(alone, name).context
    assert ("add", "resize") in _pairs(workers), "made before the fork, read in the workers"


@pytest.mark.long
def test_streams_that_end_at_different_times(tmp_path: Path) -> None:
    args = ("--workers", "2", "--method", "fork", "--stream")
    found, out, said = _traced(tmp_path, *args)
    assert out == _plain(*args).stdout
    assert "not linked" not in said
    assert {("full", "mul"), ("mul", "from_numpy"), ("from_numpy", "__next__")} <= _pairs(found.graph)


@pytest.mark.slow
def test_an_exception_in_a_worker_reads_as_without_us(tmp_path: Path) -> None:
    args = ("--workers", "1", "--method", "fork", "--raises-at", "9")  # two may answer in another order
    _, out, said = _traced(tmp_path, *args, code=1)
    plain = _plain(*args)
    assert (plain.stdout, plain.returncode) == (out, 1)
    own = "".join(line for line in said.splitlines(keepends=True) if not line.startswith("codedag: "))
    assert own == plain.stderr


def test_a_killed_worker_loses_only_its_last_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDS", str(tmp_path / "run" / "records"))  # the worker waits until they were written
    args = ("--workers", "2", "--method", "fork", "--killed-at", "17")
    found, _, said = _traced(tmp_path, *args, code=1)
    assert "is killed by signal: Killed" in said
    assert _op(found.graph, "resize").count >= 8, "two batches of the worker that is killed in its third"
    assert ("from_numpy", "__next__") in _pairs(found.graph)


FORKS = """
import os, sys, multiprocessing
from concurrent.futures import ProcessPoolExecutor
import numpy as np

def work(n):
    return float(np.sqrt(np.full(1000, float(n))).sum())

def main():
    data = np.arange(100.0)
    child = os.fork()
    if child == 0:
        total = np.cumsum(data).max()
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(sum(pool.map(work, range(10))) > 0)
        pool.close()
        pool.join()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
        print(sum(pool.map(work, range(10))) > 0)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_any_other_process_of_the_program_is_recorded(tmp_path: Path, method: str) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    found, out, _ = _traced(tmp_path, method, script=str(script))
    assert out == _plain(method, script=str(script)).stdout == "3\nTrue\nTrue\n"
    assert sum(op.count for op in found.graph.ops if op.name == "numpy.sqrt") == 20
    assert ("arange", "cumsum") in _pairs(found.graph)
    assert sorted(os.listdir(tmp_path / "run")) == ["costs.json", "events", "graph.json", "run.json", "samples"]


def test_torch_is_put_back(tmp_path: Path) -> None:
    script = tmp_path / "again.py"
    script.write_text(
        "import torch, atexit\n"
        "from torch.utils.data import DataLoader, dataloader\n"
        "owned = [dataloader._BaseDataLoaderIter, dataloader._MultiProcessingDataLoaderIter]\n"
        "def look():\n"
        "    names = ('__next__', '_reset', '_process_data')\n"
        "    kinds = {type(vars(c)[n]).__name__ for c in owned for n in names if n in vars(c)}\n"
        "    print(sorted(kinds))\n"
        "atexit.register(look)\n"
        "for batch in DataLoader(torch.arange(4.0)):\n"
        "    batch.sum()\n"
    )
    _, out, _ = _traced(tmp_path, script=str(script))
    assert out == "['function']\n"
