"""Items in threads in use: when batches are fetched as written, and what is decided from the time between batches."""

from __future__ import annotations

import pytest

from codedag.autopilot import used
from codedag.autopilot.used import BLOCK, PAIRS, Use


class Epoch:
    """Stands for the fetcher of an epoch."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(used, "time", made)
    return made


class Program:
    """Takes batches that last so long either way, until a use is found to be slower."""

    def __init__(self, use: Use, clock: Clock) -> None:
        self.use, self.clock, self.number = use, clock, 0

    def epoch(self, batches: int, plain: float, threads: float) -> list[bool]:
        of, ways = Epoch(), []
        for _ in range(batches):
            if self.use.is_in_vain():
                break
            ways.append(self.use.plain)
            self.clock.now += plain if ways[-1] else threads
            self.number += 1
            self.use.batch(of, self.number)
        return ways


def test_a_clear_gain_costs_one_block_as_written(clock):
    program = Program(Use(), clock)
    ways = program.epoch(60, 2.0, 1.0)
    assert ways.count(True) == BLOCK
    assert program.use.decided
    assert not program.use.is_in_vain()
    assert program.use.trial.gain() == 2.0


def test_what_is_slower_in_use_is_found_after_two_pairs(clock):
    program = Program(Use(), clock)
    ways = program.epoch(60, 1.0, 1.2)
    assert program.use.is_in_vain()
    assert len(program.use.trial.pairs) == 2
    assert len(ways) == 1 + 4 * BLOCK


def test_what_was_faster_and_is_slower_once_more_is_kept_is_found_in_the_next_epoch(clock):
    program = Program(Use(), clock)
    assert program.epoch(60, 2.0, 1.0).count(True) == BLOCK
    program.epoch(60, 1.0, 1.2)
    assert program.use.is_in_vain()


def test_a_small_gain_is_asked_four_times_and_again_in_some_later_epochs(clock):
    program = Program(Use(), clock)
    asked = [program.epoch(200, 1.0, 1 / 1.04).count(True) for _ in range(8)]
    assert asked == [PAIRS * BLOCK, PAIRS * BLOCK, 0, PAIRS * BLOCK, 0, 0, 0, PAIRS * BLOCK]
    assert not program.use.is_in_vain()


def test_a_tie_is_no_gain(clock):
    program = Program(Use(), clock)
    assert program.epoch(200, 1.0, 1.0).count(True) == PAIRS * BLOCK
    assert program.use.is_in_vain()


def test_epochs_of_few_batches_are_not_asked_all_the_time(clock):
    program, batches = Program(Use(), clock), 0
    while not program.use.decided:
        program.epoch(8, 1.0, 1 / 1.04)
        batches += 8
    asked = program.use.asked
    assert 2 * PAIRS * BLOCK <= asked <= batches
    later = [program.epoch(8, 1.0, 1 / 1.04).count(True) for _ in range(4 * asked // 8)]
    assert sum(later) == 0
    assert sum(program.epoch(8, 1.0, 1 / 1.04).count(True) for _ in range(64)) > 0


def test_what_is_much_slower_is_found_after_one_pair(clock):
    program = Program(Use(), clock)
    assert len(program.epoch(60, 1.0, 2.0)) == 1 + 2 * BLOCK
    assert program.use.is_in_vain()


def test_batches_that_were_made_twice_or_do_not_follow_each_other_are_not_timed(clock):
    use, of = Use(), Epoch()
    for number in range(0, 40, 2):
        clock.now += 1.0
        use.batch(of, number)
    for number in range(40, 60):
        clock.now += 1.0
        use.batch(of, number, timed=False)
    assert use.trial.pairs == []
