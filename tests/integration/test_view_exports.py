"""`codedag view` writes for other tools: every file at once, and clear errors where there is nothing to write."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import msgspec
import pytest

from codedag.ir import load, save
from codedag.ir.events import Event, Events, Lane


def _view(*arguments, cwd, code=0):
    command = [sys.executable, "-m", "codedag", "view", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def run(tmp_path):
    (tmp_path / "program.py").write_text("import numpy as np\nx = np.sqrt(np.ones((50, 50)))\nprint(x.sum())\n")
    command = [sys.executable, "-m", "codedag", "-q", "trace", "-o", "run", "program.py"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_all_files_of_one_run(run):
    op = load(run / "run" / "graph.json", "graph").ops[0]
    lanes = [Lane(process=1, thread=1)]
    save(
        Events(seconds=1.0, seen=1, least_seconds=0.0, lanes=lanes, calls=[Event(op.id, 0, 0.0, 0.5, 8)]),
        run / "run" / "events",
    )
    done = _view("run", "--perfetto", "a.json", "--csv", "a.csv", "--dot", "a.dot", "--json", cwd=run)
    facts = json.loads(done.stdout)
    assert (facts["perfetto"], facts["csv"], facts["dot"]) == ("a.json", "a.csv", "a.dot")
    blocks = [each for each in json.loads((run / "a.json").read_text())["traceEvents"] if each["ph"] == "X"]
    assert [each["name"] for each in blocks] == [op.name]
    with (run / "a.csv").open(newline="") as table:
        assert {"numpy.ones", "numpy.sqrt"} <= {row["name"] for row in csv.DictReader(table)}
    assert (run / "a.dot").read_text().startswith("digraph dataflow {")
    assert "next: codedag view run" in _view("run", "--csv", "b.csv", cwd=run).stdout


def test_errors_leave_nothing_behind(run):
    (run / "run" / "events").unlink(missing_ok=True)
    assert "no time line" in _view("run", "--perfetto", "a.json", cwd=run, code=2).stderr
    assert "no directory" in _view("run", "--csv", "none/a.csv", cwd=run, code=2).stderr
    assert {each.name for each in run.iterdir()} == {"program.py", "run"}


def test_every_file_that_was_asked_for_is_told(run):
    done = _view("run", "--html", "a.html", "--svg", "a.svg", "--csv", "a.csv", cwd=run)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["report", "picture", "csv", "next"]
    assert all((run / name).stat().st_size for name in ("a.html", "a.svg", "a.csv"))


def test_a_missing_package_is_told_before_anything_is_written(run):
    script = "import sys; sys.modules['pyarrow'] = None; from codedag.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", script, "view", "run", "--html", "a.html", "--csv", "a.csv", "--parquet", "a.pq"]
    done = subprocess.run(command, cwd=run, capture_output=True, text=True)
    assert done.returncode == 2
    assert "codedag[parquet]" in done.stderr
    assert {each.name for each in run.iterdir()} == {"program.py", "run"}


def test_the_first_line_is_a_command_line(run):
    info = load(run / "run" / "run.json", "run")
    save(msgspec.structs.replace(info, argv=["my program.py", "--name", "a b"]), run / "run" / "run.json")
    assert _view("run", cwd=run).stdout.startswith("'my program.py' --name 'a b'  (trace, ")
