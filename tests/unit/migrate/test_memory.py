"""How much may be kept: a quarter of what is free, whoever limits it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from codedag.devices.cgroup import Cgroup
from codedag.migrate.memo import store as memory

LIMITED = """
import resource
from codedag.migrate.memo.store import budget
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
print(budget())
"""


def group(folder, most, used, dropped):
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {dropped}\n")
    return Cgroup(2, folder, folder)


def test_a_container_may_have_less_than_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(memory.cgroup, "find", lambda: group(tmp_path, 4_000_000, 1_500_000, 500_000))
    assert memory.budget() == 3_000_000 // 4


def test_nothing_is_kept_where_nothing_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr(memory.cgroup, "find", lambda: group(tmp_path, 1_000_000, 1_500_000, 0))
    assert memory.budget() == 0
    assert not memory.Memory().takes(1)


def test_a_container_without_a_limit_has_what_the_machine_has(tmp_path, monkeypatch):
    monkeypatch.setattr(memory.cgroup, "find", lambda: group(tmp_path, "max", 1_500_000, 0))
    assert memory.budget() > 3_000_000 // 4


@pytest.mark.skipif(sys.platform == "win32", reason="a process has no such limits there")
def test_a_process_may_have_less_than_the_machine():
    found = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert 0 < int(found.stdout) < (1 << 30) // 4
