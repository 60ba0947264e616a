"""Freed memory is kept where pages come and go, and only there."""

import os
import subprocess
import sys

import pytest

from codedag.migrate.malloc_trim import BLOCK, CHURN, TRIM, FreedMemory, Holding, Reading, churn, keep_freed


def looked(*readings: Reading | None, works: bool = True, most_nbytes: int | None = None):
    kept: list[int] = []

    def keep(nbytes: int) -> bool:
        kept.append(nbytes)
        return works

    heap = FreedMemory(most_nbytes, iter(readings).__next__, keep)
    for _ in readings:
        heap.look()
    return heap, kept


def test_pages_that_come_and_go_are_kept_and_told():
    heap, kept = looked(Reading(0, 0, 100), Reading(1, 5 * CHURN, 100), Reading(2, 5 * CHURN + 30, 100))
    assert kept == [TRIM]
    assert heap.notes() == [
        "freed memory is kept for the next arrays: 50,000 page faults in a second of the processor became 30"
    ]


def test_a_process_that_grows_does_not_churn():
    heap, kept = looked(Reading(0, 0, 0), Reading(1, 5 * CHURN, 5 * CHURN), Reading(2, 10 * CHURN, 9 * CHURN + 1))
    assert (kept, heap.notes()) == ([], [])
    assert churn(Reading(0, 0, 500), Reading(2, 100, 400)) == 50


def test_a_moment_says_nothing():
    assert looked(Reading(0, 0, 0), Reading(0.01, 5 * CHURN, 0), Reading(0.02, 5 * CHURN, 0))[1] == []


def test_a_forked_process_begins_to_count_anew():
    heap, kept = looked(
        Reading(9, 100 * CHURN, 0), Reading(0.2, 0, 0), Reading(1.2, CHURN - 1, 0), Reading(2, 9 * CHURN, 0)
    )
    assert kept == [TRIM]
    assert heap.notes()[0].endswith("and it ended before they were counted again")


def test_nothing_is_said_if_pages_still_come_and_go():
    readings = [Reading(n, n * 2 * CHURN, 0) for n in range(5)]
    heap, kept = looked(*readings)
    assert (len(kept), heap.notes()) == (1, [])


def test_what_cannot_be_kept_is_asked_for_once():
    heap, kept = looked(*[Reading(n, n * 2 * CHURN, 0) for n in range(3)], works=False)
    heap.look()  # reads no more
    assert (len(kept), heap.notes()) == (1, [])


def test_where_the_system_does_not_tell_nothing_happens():
    assert looked(None, None)[1] == []


def test_a_quarter_of_the_budget_at_most():
    churning = Reading(0, 0, 0), Reading(1, 5 * CHURN, 0)
    assert looked(*churning, most_nbytes=100 << 20)[1] == [25 << 20]
    assert not keep_freed(BLOCK - 1)


def test_a_setting_of_the_user_stays(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert not keep_freed(TRIM)


def test_memory_is_kept_until_the_last_plan_is_restored():
    pytest.importorskip("numpy")
    told: list[object] = []
    holding = Holding(lambda nbytes: not told.append(nbytes), lambda: told.append("given back"))
    holding.begin()
    holding.begin()
    holding.end()
    assert told == [TRIM]
    holding.end()
    holding.begin()
    assert told == [TRIM, "given back", TRIM]


#: 30 blocks of 3 MB: the C library keeps 6 MB at most of its own accord.
PROGRAM = """
import resource
import numpy as np
from codedag.migrate.placement.migrator import Migrator
from codedag.migrate.placement.requests import Requests

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [np.full(3 << 17, n, np.float64) for n in range(30)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
assert faults() > 10_000
with Migrator(Requests(())):
    faults()
    assert faults() < 1_000
del np
held = int(open("/proc/self/statm").read().split()[1])
assert held * 4096 < 200 << 20, held
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there the system tells")
def test_a_plan_in_force_keeps_freed_memory():
    pytest.importorskip("numpy")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUN"))}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
