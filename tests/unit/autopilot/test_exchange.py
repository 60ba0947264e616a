"""The exchange between worker processes: how much each may keep, and what a spawned one reports that cannot begin."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from codedag.autopilot.processes import worker_report
from codedag.autopilot.processes.exchange import WORKERS_MAX, WorkerExchange
from codedag.devices import cgroup
from codedag.migrate.memo.store import Memory


class Container:
    """A control group with a limit of 800 MB, of which 160 MB are used."""

    def memory_limit(self) -> int | None:
        return 800_000_000

    def memory_nbytes(self) -> int:
        return 160_000_000


@pytest.mark.parametrize(("most", "each"), [(None, 160_000_000 // WORKERS_MAX), (1_600_000, 100_000)])
def test_a_worker_may_keep_its_part_of_what_the_container_leaves(monkeypatch, most, each):
    monkeypatch.setattr(cgroup, "find", Container)
    monkeypatch.setattr("os.sysconf", lambda name: 1 << 20)
    pilot = SimpleNamespace(memory=Memory(most), program=None)
    WorkerExchange(pilot)._share_memory()
    assert pilot.memory.most_nbytes == each


def test_a_spawned_process_that_cannot_begin_says_why(tmp_path):
    WorkerExchange.stay_away({"folder": str(tmp_path), "parent": 7}, "LookupError: no")
    (report,), bad = worker_report.read(Path(tmp_path).iterdir())
    assert (report.failure, report.ended, report.parent, bad) == ("LookupError: no", True, 7, [])
    WorkerExchange.stay_away({"folder": None, "parent": 7}, "no")
