"""Profile, plan, run and export of a staged model need no call that only Linux has: users of the guide have Windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

#: Hides from CodeDAG's own modules, in every process, what Windows lacks; other libraries see the machine as it is.
WITHOUT_LINUX = """
import builtins, os, pathlib, select, signal, sys

MODULES = {"resource", "fcntl", "termios", "pwd", "grp", "posix"}
CALLS = {"fork", "forkpty", "sched_setaffinity", "sched_getaffinity", "setpriority", "getpriority", "nice", "killpg",
         "getpgid", "setsid", "mkfifo", "memfd_create", "eventfd", "pidfd_open", "waitid", "wait3", "wait4", "sysconf"}


def ours(depth=2):
    return sys._getframe(depth).f_globals.get("__name__", "").startswith("codedag")


imported = builtins.__import__


def importing(name, globals=None, *rest, **keywords):
    if name in MODULES and (globals or {}).get("__name__", "").startswith("codedag"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return imported(name, globals, *rest, **keywords)


def hidden(name, call):
    def calling(*args, **keywords):
        if ours():
            raise AttributeError(f"module 'os' has no attribute {name!r}")
        return call(*args, **keywords)

    return calling


builtins.__import__ = importing
for name in CALLS:
    if hasattr(os, name):
        setattr(os, name, hidden(name, getattr(os, name)))
is_dir = pathlib.Path.is_dir
pathlib.Path.is_dir = lambda self, *rest, **keywords: str(self) != "/dev/shm" and is_dir(self, *rest, **keywords)
"""
CASES = {"config": {"feature_dim": 8, "num_warmup": 0, "num_iterations": 2}, "test_cases": [{"nodes": 12, "edges": 30}]}


@pytest.fixture
def without_linux(tmp_path):
    folder = tmp_path / "hidden"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WITHOUT_LINUX)
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def test_what_is_hidden_is_hidden(without_linux):
    program = "__name__ = 'codedag.x'\nimport os\n"
    program += "try:\n    os.sched_getaffinity(0)\nexcept AttributeError:\n    import resource"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **without_linux}, capture_output=True, text=True
    )
    assert "No module named 'resource'" in done.stderr


def test_the_whole_way_without_linux(codedag, tmp_path, without_linux):
    (tmp_path / "cases.json").write_text(json.dumps(CASES))
    pus = ("--pus", "CPU,ort:cpu,numba:cpu", "--cases", "cases.json", "--blocks", "whole")
    for command in (
        ("profile", "-o", "prof", *pus),
        ("plan", "prof"),
        ("run", "prof", "-o", "out.npz"),
        ("export", "prof", "-o", "bundle"),
    ):
        done = codedag("stages", *command, env=without_linux)
        assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "out.npz").exists()
    measured = {key.split(",")[2] for key in json.loads((tmp_path / "prof" / "lookup_table.json").read_text())}
    assert measured == {"CPU", "ort:cpu", "numba:cpu"}
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "run.py"], cwd=tmp_path / "bundle", env=plain, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
