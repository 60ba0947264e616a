"""The command line on good and bad input: clear words, the right exit code, nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codedag import __version__


def test_version(codedag):
    assert codedag("--version").stdout == f"codedag {__version__}\n"


def test_doctor_names_what_works_here(codedag):
    short = codedag("doctor")
    assert short.stdout.splitlines()[0] in ("all is well", "1 thing to fix:", "2 things to fix:")
    assert len(short.stdout.splitlines()) <= 8
    assert "never tried on real hardware, only on stand-ins: cuda, xpu, mps" in short.stdout
    said = codedag("-v", "doctor")
    assert said.returncode == 0
    for word in ("recorder", "compiler", "cpu", "numpy", "scipy.ndimage.median_filter -> cv2", "cache"):
        assert word in said.stdout
    assert json.loads(codedag("doctor", "--json").stdout)["codedag"] == __version__


@pytest.mark.parametrize("command", ["run", "trace"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.py"], "there is no script 'missing.py'"),
        (["cells.ipynb"], "'cells.ipynb' is a notebook"),
        ([], "Name the script"),
        (["-m", "no_such_module_anywhere"], "no module 'no_such_module_anywhere'"),
        (["."], "directory without __main__.py"),
    ],
)
def test_a_program_that_cannot_be_started_is_an_error(codedag, tmp_path, command, arguments, words):
    (tmp_path / "cells.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4}')
    got = codedag(command, *arguments)
    assert got.returncode == 2
    assert words in got.stderr
    assert "Traceback" not in got.stderr
    assert got.stdout == ""


@pytest.mark.parametrize("command", ["run", "trace"])
@pytest.mark.parametrize(
    "source",
    [
        "print('out')\nraise ValueError('own')\n",
        "import sys\nprint('out')\nsys.exit(7)\n",
        "import sys\nsys.exit('text')\n",
        "def f(:\n",
        "import os\nprint('out', flush=True)\nos._exit(5)\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "import sys\nprint(sys.argv, __name__, __file__.rsplit('/')[-1])\n",
        "",
    ],
)
def test_the_program_keeps_its_own_behaviour(plain, codedag, tmp_path, command, source):
    (tmp_path / "own.py").write_text(source)
    expected = plain("own.py", "--plan", "-o", "x")
    got = codedag("-q", command, "own.py", "--plan", "-o", "x")
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout)
    assert got.stderr == expected.stderr
    assert os.listdir(tmp_path) == ["own.py"]


def test_disabled_means_the_program_alone(plain, codedag, programs):
    script = programs / "numpy_loop.py"
    got = codedag("run", script, 50, env={"CODEDAG_DISABLE": "1"})
    assert (got.stdout, got.stderr) == (plain(script, 50).stdout, "")


def test_trace_writes_a_run_that_view_shows(codedag, programs, tmp_path):
    said = codedag("trace", "-o", "run", programs / "numpy_loop.py", 30)
    assert said.returncode == 0
    assert sorted(os.listdir(tmp_path / "run")) == ["costs.json", "events", "graph.json", "run.json", "samples"]
    assert f"next: codedag view {tmp_path / 'run'}" in said.stderr
    shown = codedag("view", "run")
    assert shown.returncode == 0
    assert "operator.isub" in shown.stdout
    assert "numpy.ndarray.astype" in shown.stdout
    facts = json.loads(codedag("view", "run", "--json").stdout)
    assert facts["run"]["status"] == "ok"
    assert facts["hottest"][0]["count"] >= 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("graph.json", b""),
        ("graph.json", b"{"),
        ("run.json", b'{"format": "codedag/run", "version": 99}'),
        ("run.json", b"\0\1"),
    ],
)
def test_view_names_the_file_that_is_broken(codedag, programs, tmp_path, name, content):
    codedag("trace", "-o", "run", programs / "numpy_loop.py", 10)
    (tmp_path / "run" / name).write_bytes(content)
    got = codedag("view", "run")
    assert got.returncode == 2
    assert name in got.stderr
    assert "Traceback" not in got.stderr


def test_a_version_that_is_text_is_called_text(codedag, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"format": "codedag/run", "version": "1"}')
    assert "this CodeDAG reads version 1, got the text `1`, not a number" in codedag("view", "run").stderr


def test_a_picture_needs_a_directory_that_is_there(codedag, programs, tmp_path):
    codedag("trace", "-o", "run", programs / "numpy_loop.py", 10)
    got = codedag("view", "run", "--svg", "no/such/x.svg")
    assert (got.returncode, got.stdout) == (2, "")
    assert f"there is no directory {tmp_path / 'no' / 'such'}" in got.stderr
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("most", ["0", "-3"])
def test_view_shows_at_least_one_operation(codedag, most):
    got = codedag("view", "run", "--most", most)
    assert got.returncode == 2
    assert "--most" in got.stderr


def test_the_next_command_can_be_copied(codedag, tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "s.py").write_text("")
    assert "next: codedag view '" in codedag("trace", "-o", "a b/run", "a b/s.py").stderr
    assert codedag("view", "a b/run").stdout.endswith("next: codedag run 'a b/s.py'\n")
    codedag("trace", "-o", "module", "-m", "json.tool", "--help")
    assert codedag("view", "module").stdout.endswith("next: codedag run -m json.tool --help\n")


def test_view_of_nothing(codedag):
    got = codedag("view", "nowhere")
    assert got.returncode == 2
    assert "nowhere" in got.stderr


@pytest.mark.parametrize("plan", ["missing.json", "broken.json"])
def test_a_plan_that_cannot_be_read_stops_before_the_program_starts(codedag, tmp_path, plan):
    (tmp_path / "broken.json").write_text('{"format": "codedag/plan", "version": 1, "moves": 3}')
    (tmp_path / "own.py").write_text("print('started')\n")
    got = codedag("run", "--plan", plan, "own.py")
    assert got.returncode == 2
    assert plan in got.stderr
    assert got.stdout == ""


def test_an_output_that_cannot_be_written_stops_before_the_program_starts(codedag, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "own.py").write_text("print('started')\n")
    got = codedag("run", "-o", "file/run", "own.py")
    assert got.returncode == 2
    assert "cannot write" in got.stderr
    assert got.stdout == ""


def _start(home: Path, *command: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "CODEDAG_HOME": str(home)}
    full = [sys.executable, "-u", "-m", "codedag", *map(str, command)]
    return subprocess.Popen(
        full, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever runs the tests may ignore it
    )  # fmt: skip


FOREVER = """
import time
import numpy as np
print("ready", flush=True)
x = np.zeros(9)
while True:
    x = x + 1
    time.sleep(0.01)
"""


def test_interrupt_is_the_programs_own(codedag_home, tmp_path):
    (tmp_path / "forever.py").write_text(FOREVER)
    process = _start(codedag_home, "run", "-o", tmp_path / "run", tmp_path / "forever.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in stderr
    assert "codedag/" not in stderr.split("KeyboardInterrupt")[0]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"


def test_kill_leaves_a_run_that_says_so(codedag, codedag_home, tmp_path):
    (tmp_path / "forever.py").write_text(FOREVER)
    process = _start(codedag_home, "run", "-o", tmp_path / "run", tmp_path / "forever.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate(timeout=600)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "running"
    shown = codedag("view", tmp_path / "run")
    assert shown.returncode == 0
    assert "still running, or killed" in shown.stdout
    assert not [name for name in os.listdir(tmp_path / "run") if name.startswith(".")]


def test_a_closed_stderr_does_not_disturb_the_program(codedag_home, programs, plain):
    script = programs / "numpy_loop.py"
    command = f"{sys.executable} -m codedag run {script} 50 2>&-"
    environment = {**os.environ, "CODEDAG_HOME": str(codedag_home)}
    got = subprocess.run(["sh", "-c", command], env=environment, stdout=subprocess.PIPE, text=True, timeout=600)
    assert got.stdout == plain(script, 50).stdout
    assert got.returncode == 0


def test_our_words_stay_on_our_stderr(plain, codedag, tmp_path):
    """A program that sends its stderr elsewhere or closes it keeps its stdout and exit code to itself."""
    (tmp_path / "redirects.py").write_text("import sys\nsys.stderr = sys.stdout\nprint('own')\n")
    (tmp_path / "closes.py").write_text("import sys\nprint('own', flush=True)\nsys.stderr.close()\n")
    for name in ("redirects.py", "closes.py"):
        expected, got = plain(name), codedag("run", name)
        assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout)
        assert "nothing was changed" in got.stderr


def test_a_program_that_changes_its_directory_leaves_the_run_where_it_was_asked_for(codedag, tmp_path):
    (tmp_path / "goes.py").write_text("import os\nos.chdir('/')\n")
    assert codedag("run", "-o", "run", "goes.py").returncode == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "ok"
