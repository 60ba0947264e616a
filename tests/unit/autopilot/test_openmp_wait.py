"""Threads that rest: how it is decided, that the team comes and goes, and that the loader is put back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from codedag.autopilot.settings import openmp_wait as rest
from codedag.autopilot.settings.openmp_wait import BLOCK, EVERY, PAIRS, Block, OpenMPWait, SleepingThreads, WaitTrial


def run(course: WaitTrial, plain: tuple[float, float], resting: tuple[float, float], blocks: int) -> list[bool]:
    """Whether threads rested in each of so many blocks, whose batches take so long either way."""
    found = []
    for _ in range(blocks):
        block = Block(course.rests())
        seconds, cpu = resting if block.resting else plain
        block.batches, block.seconds, block.cpu = BLOCK, BLOCK * seconds, BLOCK * cpu
        found.append(block.resting)
        course.took(block)
    return found


def test_a_clear_gain_is_decided_after_two_pairs():
    course = WaitTrial()
    assert run(course, (2.0, 3.0), (1.0, 1.0), 4) == [True, False, False, True]
    assert course.decided is True
    assert course.gains() == (2.0, 3.0)
    assert all(run(course, (2.0, 3.0), (1.0, 1.0), 40))


def test_a_tie_that_saves_nothing_stays_as_written():
    course = WaitTrial()
    run(course, (1.0, 1.0), (1.0, 1.0), 2 * PAIRS)
    assert course.decided is False
    assert not any(run(course, (1.0, 1.0), (1.0, 1.0), 5))


def test_what_saves_cpu_time_and_takes_longer_stays_as_written():
    course = WaitTrial()
    run(course, (1.0, 3.0), (1.1, 1.0), 2 * PAIRS)
    assert course.decided is False


def test_what_becomes_slower_later_is_given_up():
    course = WaitTrial()
    run(course, (2.0, 2.0), (1.0, 1.0), 4)
    assert course.decided is True
    later = run(course, (1.0, 2.0), (1.2, 1.0), 6 * EVERY)
    assert course.decided is False
    assert not any(later[-EVERY:])


class Library:
    """Stands for OpenMP: counts the teams that are there."""

    def __init__(self) -> None:
        self.teams: list[int] = []

    def omp_get_num_procs(self) -> int:
        return 2

    def GOMP_parallel(self, function, data, threads, flags):
        self.teams.append(threads.value)


class Loader:
    """Something that gives batches."""


@pytest.fixture
def resting(monkeypatch):
    """A OpenMPWait with a library that stands for OpenMP."""
    made, library = OpenMPWait(), Library()
    monkeypatch.setattr(made, "_library", library)
    monkeypatch.setattr(made, "_can", lambda: True)
    yield made, library
    made.pause()


def test_it_rests_in_turns_and_a_fork_ends_it(resting):
    made, library = resting
    loader = Loader()
    made.batch(loader)
    assert library.teams == [2]
    assert made._team is not None
    made.pause()
    assert made._team is None
    for _ in range(BLOCK + 1):
        made.batch(loader)
    assert library.teams == [2, 2]
    assert made.course.blocks == 1
    assert made._team is None, "the second block runs as written"


def test_another_loader_begins_anew(resting):
    made, _ = resting
    loaders = [Loader() for _ in range(5 * BLOCK)]
    for loader in loaders:
        made.batch(loader)
    assert made.course.blocks == 0


def test_it_ends_with_the_loader(resting):
    made, _ = resting
    loader = Loader()
    made.batch(loader)
    assert made._team is not None
    del loader
    assert made._team is None


def test_nothing_is_done_in_a_worker(resting):
    made, library = resting
    made.forget()
    made.batch(Loader())
    assert library.teams == []
    assert made.notes() == []


def test_a_program_that_says_how_threads_wait_is_left_alone(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.setattr(rest, "library", lambda: Library())
    made = OpenMPWait()
    made.batch(Loader())
    assert made._team is None


def tasks() -> set[str]:
    return {each.name for each in Path("/proc/self/task").iterdir()}


def test_a_real_team_is_there_until_it_is_stopped():
    pytest.importorskip("torch")
    library = rest.library()
    if library is None:
        pytest.skip("torch has no GNU OpenMP here, or one core")
    before, threads = tasks(), library.omp_get_num_procs()
    team = SleepingThreads(library, threads)
    team.start()
    new = tasks() - before
    assert len(new) >= threads
    team.stop()
    until = time.monotonic() + 60  # threads of OpenMP end by themselves, a little later
    while len(new & tasks()) > len(new) - threads and time.monotonic() < until:
        time.sleep(0.01)
    assert len(new & tasks()) <= len(new) - threads


def test_the_loader_is_put_back():
    pytest.importorskip("torch.utils.data")
    from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter as Iterator

    original = vars(Iterator)["_process_data"]
    made = OpenMPWait()
    made.enter()
    assert vars(Iterator)["_process_data"] is not original
    made.restore()
    assert vars(Iterator)["_process_data"] is original
