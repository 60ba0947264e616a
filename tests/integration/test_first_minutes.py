"""What somebody sees who has never used the tool: no arguments, typos, errors, silence after mistakes, SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from codedag.cli.help_ import explanations
from codedag.ir.errors import CodedagError


@pytest.fixture
def command(tmp_path, codedag_home):
    """command("run", "x.py"): as a user gives it, without -v and without synchronous planning."""

    def run(*args, **settings):
        env = {**os.environ, "CODEDAG_HOME": str(codedag_home), **settings.pop("env", {})}
        words = [sys.executable, "-m", "codedag", *map(str, args)]
        return subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, **settings)

    return run


def test_the_name_alone_says_what_to_do(command):
    got = command()
    assert got.returncode == 0
    assert got.stdout.startswith("codedag run SCRIPT")
    assert max(map(len, got.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("rnu", "run"), ("veiw", "view"), ("train.py", "`codedag run train.py`"), ("comapre", "compare")],
)
def test_typos_get_a_suggestion(command, typed, meant):
    got = command(typed)
    assert got.returncode == 2
    assert f"Did you mean {meant}" in got.stderr


def test_what_is_like_nothing_gets_none(command):
    got = command("zzzzzz")
    assert got.returncode == 2
    assert "Did you mean" not in got.stderr


def test_an_error_names_help_that_is_installed(command):
    got = command("run", "nofile.py")
    assert got.returncode == 2
    assert "(more: codedag help bad-script)" in got.stderr
    assert "docs/" not in got.stderr
    assert "not there or cannot be read" in command("help", "bad-script").stdout
    assert command("help", "run").stdout.startswith("Usage: codedag run")
    assert "bad-script" in command("help", "bad-scrip").stderr


def _all_errors(root):
    for each in root.__subclasses__():
        yield each
        yield from _all_errors(each)


def test_every_error_is_explained():
    import importlib
    import pkgutil

    import codedag

    for module in pkgutil.walk_packages(codedag.__path__, "codedag."):
        if (
            ".cli." not in module.name
            and "__main__" not in module.name
            and not module.name.rpartition(".")[2].endswith("_")
        ):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue
    slugs = {each.slug for each in _all_errors(CodedagError) if each.__module__.startswith("codedag.")}
    assert slugs <= set(explanations()), slugs - set(explanations())


def runs_of(home):
    folder = home / "data" / "runs"
    return list(folder.iterdir()) if folder.is_dir() else []


@pytest.mark.parametrize(
    "program",
    [
        "import time; time.sleep(1.2); 1 / 0",
        "import time; time.sleep(1.2); import argparse; argparse.ArgumentParser().parse_args(['--no'])",
        "print(1)",
    ],
)
def test_nothing_is_said_after_a_mistake_or_of_a_short_program(command, plain, tmp_path, codedag_home, program):
    (tmp_path / "main.py").write_text(program)
    expected, got = plain("main.py"), command("run", "main.py")
    assert (got.returncode, got.stdout, got.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    assert not runs_of(codedag_home)


SERVICE = """
import signal
import sys

import numpy as np

print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, signal.signal(signal.SIGTERM, signal.SIG_DFL), flush=True)
try:
    while True:
        np.arange(100_000).astype(np.float32).sum()
finally:
    print("unwound")
"""


def test_sigterm_ends_a_run_that_is_kept(tmp_path, codedag_home):
    (tmp_path / "main.py").write_text(SERVICE)
    env = {**os.environ, "CODEDAG_HOME": str(codedag_home)}
    words = [sys.executable, "-m", "codedag", "run", "main.py"]
    started = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout.readline() == "True 0\n", started.stderr.read()
    time.sleep(2.5)
    started.send_signal(signal.SIGTERM)
    out, err = started.communicate(timeout=60)
    assert started.returncode == -signal.SIGTERM
    assert out == ""  # plain Python runs no `finally` either
    assert "codedag: " in err
    (kept,) = runs_of(codedag_home)
    facts = json.loads((kept / "run.json").read_text())
    assert (facts["status"], facts["exit_code"]) == ("failed", -signal.SIGTERM)
    listed = subprocess.run([*words[:3], "runs"], env=env, capture_output=True, text=True, timeout=60)
    assert "ended by SIGTERM" in listed.stdout


def test_a_handler_of_the_program_is_its_own(command, tmp_path):
    (tmp_path / "main.py").write_text(
        "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('mine'))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\nprint('on', signal.getsignal(signal.SIGTERM).__name__)\n"
    )
    got = command("run", "main.py")
    assert (got.returncode, got.stdout) == (0, "mine\non <lambda>\n")


def test_a_terminated_worker_does_not_end_the_run(command, tmp_path):
    (tmp_path / "main.py").write_text(
        "import multiprocessing, time\n\n\ndef wait():\n    time.sleep(60)\n\n\nif __name__ == '__main__':\n"
        "    one = multiprocessing.get_context('fork').Process(target=wait)\n    one.start()\n    time.sleep(0.3)\n"
        "    one.terminate()\n    one.join()\n    print(one.exitcode)\n"
    )
    got = command("run", "main.py")
    assert (got.returncode, got.stdout) == (0, "-15\n")
