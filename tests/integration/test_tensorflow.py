"""TensorFlow: Python inside a pipeline is traced and changed, its graph is one operation, and AutoGraph is left alone.

Run by `make test-tensorflow`, in an environment of its own.
"""

from __future__ import annotations

import pytest

from codedag.ir import load

pytest.importorskip("tensorflow")
pytest.importorskip("cv2")

IN_PYTHON = {"load", "items", "scaled"}
OF_AUTOGRAPH = {"read", "total", "helper", "by_hand"}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the program prints as Python runs it."""
    import os
    import subprocess
    import sys
    from pathlib import Path

    folder = tmp_path_factory.mktemp("pipelines")
    program = Path(__file__).resolve().parent.parent / "programs" / "tensorflow_pipelines.py"
    done = subprocess.run(
        [sys.executable, program, folder], capture_output=True, text=True, timeout=600, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "child 10"
    return folder, done.stdout


def _owner(op):
    return op.context.split("/")[-2] if "/" in op.context else ""


def test_a_trace_sees_python_inside_a_pipeline_and_its_graph_as_one_operation(expected, programs, codedag, tmp_path):
    folder, stdout = expected
    got = codedag("trace", "-o", tmp_path / "run", programs / "tensorflow_pipelines.py", folder)
    assert (got.returncode, got.stdout) == (0, stdout), got.stderr
    graph = load(tmp_path / "run").graph
    counts = {}
    for op in graph.ops:
        counts[_owner(op), op.name] = counts.get((_owner(op), op.name), 0) + op.count
    assert counts["load", "cv2.imread"] == counts["load", "cv2.resize"] == 160
    assert counts["items", "numpy.sqrt"] == 10
    assert counts["scaled", "numpy.cumsum"] == 6
    batches = {op.name.rpartition(".")[2]: op for op in graph.ops if op.name.endswith(("get_next", "__next__"))}
    assert batches["get_next"].count == 40
    assert batches["get_next"].out_nbytes == 40 * 4 * 120 * 160 * 3 * 4
    assert not OF_AUTOGRAPH & {_owner(op) for op in graph.ops}
    assert not [op.name for op in graph.ops if "ag__" in op.name or "autograph" in op.file]


def test_runs_change_what_threads_of_tensorflow_call(expected, programs, codedag, tmp_path):
    folder, stdout = expected
    for name in ("first", "second"):
        got = codedag("run", "-o", tmp_path / name, programs / "tensorflow_pipelines.py", folder)
        assert (got.returncode, got.stdout) == (0, stdout), got.stderr
        report = load(tmp_path / name).report
        assert report.verdict.identical
    served = {change.kind: change.calls for change in report.changes}
    assert served.get("fuse", 0) > 8, (served, report.declined)
    assert served.get("remember", 0) > 8, (served, report.declined)


@pytest.mark.parametrize("at_once", ["0", "1"])
def test_observing_leaves_the_program_as_it_is(expected, programs, codedag, tmp_path, at_once):
    folder, stdout = expected
    program = programs / "tensorflow_pipelines.py"
    got = codedag(
        "run", "--observe-only", "-o", tmp_path / "run", program, folder, env={"CODEDAG_SYNCHRONOUS": at_once}
    )
    assert (got.returncode, got.stdout) == (0, stdout), got.stderr


def test_generated_source_below_the_program_is_not_rewritten(expected, programs, codedag, tmp_path):
    """AutoGraph writes what it makes of a function to the folder for temporary files, which may be the program's."""
    folder, stdout = expected
    program = tmp_path / "pipelines.py"
    program.write_text((programs / "tensorflow_pipelines.py").read_text())
    (tmp_path / "tmp").mkdir()
    got = codedag("trace", "-o", tmp_path / "run", program, folder, env={"TMPDIR": str(tmp_path / "tmp")})
    assert (got.returncode, got.stdout) == (0, stdout), got.stderr
    assert not [op.file for op in load(tmp_path / "run").graph.ops if "autograph" in op.file]
    assert "autograph" not in got.stderr
