"""The verdict on a change: how often it is looked at, what ends it, what is remembered."""

from __future__ import annotations

import random
import sys
import types

from codedag.backends.same import same
from codedag.ir.verdict import No, Yes
from codedag.migrate import trial as trial_module
from codedag.migrate.guard import Failed
from codedag.migrate.trial import EXCUSED, FIRST, FUTILE, KEPT, NOISY, Trial


def test_checks_come_first_and_then_at_random_distances():
    trial = Trial("x", every=50)
    due = [number for number in range(20_000) if trial.due()]
    assert due[:FIRST] == list(range(FIRST))
    distances = {b - a for a, b in zip(due[FIRST:], due[FIRST + 1 :], strict=False)}
    assert len(distances) > 50
    assert 300 < len(due) < 500


def test_it_is_known_beforehand_whether_the_next_call_is_checked():
    for gain in (0.9, 2.0):
        trial = Trial("x", every=5)
        for _ in range(2000):
            expected = trial.is_next()
            assert trial.is_next() == expected
            assert trial.due() == expected
            if expected and len(trial.pairs) < 20:
                trial.record(gain, 1.0, Yes)


def test_the_programs_random_stream_is_not_touched():
    before = random.getstate()
    trial = Trial("x")
    for _ in range(1000):
        trial.due()
    assert random.getstate() == before


def test_the_first_pair_warms_up_and_does_not_count():
    trial = Trial("x")
    trial.record(1.0, 100.0, Yes)
    for _ in range(10):
        trial.record(2.0, 1.0, Yes)
    assert (trial.gain(), trial.active) == (2.0, True)
    assert trial.saved(10) == 10.0


def test_an_interrupted_call_does_not_count_for_a_hundred_others():
    trial = Trial("x")
    for number in range(40):
        trial.record(2.0 if number != 20 else 500.0, 1.0, Yes)
    assert trial.saved(100) == 100.0


def test_a_change_that_becomes_slow_is_taken_back():
    trial = Trial("x")
    for _ in range(20):
        trial.record(2.0, 1.0, Yes)
    assert trial.active
    for _ in range(60):
        trial.record(1.0, 2.0, Yes)
    assert not trial.active
    assert trial.reason.startswith("not faster here")


def test_a_difference_ends_it_at_once_and_the_first_reason_stays():
    trial = Trial("x")
    trial.record(2.0, 1.0, No("dtype"))
    trial.stop("later")
    assert (trial.mismatches, trial.active, trial.pairs) == (1, False, [])
    assert "(dtype)" in trial.reason


def test_memory_is_bounded():
    trial = Trial("x")
    for _ in range(5 * KEPT):
        trial.record(2.0, 1.0, Yes)
    assert len(trial.pairs) <= KEPT
    assert trial.checked == 5 * KEPT


def test_declines_end_a_change_only_if_it_hardly_ever_runs():
    often, seldom, waiting = Trial("often"), Trial("seldom"), Trial("waiting")
    for _ in range(3 * FUTILE):
        often.due()
        often.decline("a")
        seldom.decline("b")
        waiting.decline("being built", lasting=False)
    assert (often.active, seldom.active, waiting.active) == (True, False, True)
    assert waiting.declined["being built"] == 3 * FUTILE


def test_a_busy_machine_does_not_end_a_change_that_is_fast():
    trial = Trial("x")
    for number in range(FIRST):  # most calls of the variant are interrupted
        trial.record(0.002, 0.003 if number % 3 else 0.001, Yes)
    assert trial.active
    assert trial.gain() < 1
    while trial.active:
        trial.record(0.002, 0.003, Yes)
    assert len(trial.pairs) == NOISY


def test_what_is_much_slower_is_no_matter_of_noise():
    trial = Trial("x")
    for number in range(FIRST):
        trial.record(0.002, 0.02 if number % 3 else 0.001, Yes)
    assert not trial.active


def test_calls_that_take_seconds_are_checked_three_times_and_then_by_samples():
    trial = Trial("x")
    checked = 0
    for _ in range(20):
        if trial.due():
            checked += 1
            trial.record(16.0, 4.0, Yes)
    assert trial.active
    assert 3 <= checked <= 6  # samples may come soon


def test_long_calls_that_gain_nothing_are_taken_back_at_the_third():
    trial = Trial("x")
    for number in range(3):
        assert trial.active, number
        trial.record(2.0, 2.5, Yes)
    assert not trial.active
    assert trial.reason.startswith("not faster here")


def test_short_calls_that_gain_nothing_yet_are_not():
    trial = Trial("x")
    for _ in range(5):
        trial.record(0.0020, 0.0025, Yes)
    assert trial.active


def test_calls_that_make_what_others_copy_say_nothing_about_speed():
    trial = Trial("x")
    for _ in range(EXCUSED):
        assert trial.due()
        trial.record(1.0, 2.0, Yes, excused=trial.excuses(made_before=-1))
    assert trial.active
    assert not trial.pairs
    for _ in range(FIRST):
        assert trial.due()
        trial.record(1.0, 2.0, Yes, excused=trial.excuses(made_before=-1))
    assert not trial.active, "they are not excused for ever"


def test_a_difference_counts_also_where_the_time_does_not():
    trial = Trial("x")
    trial.record(1.0, 2.0, No("other bits"), excused=True)
    assert not trial.active


def test_one_outlier_is_no_figure_of_a_call():
    """Sorted by the original's time the middle pair may be the one call that the machine held up."""
    trial = Trial("x", pairs=[(9.0, 9.0), (1.0, 0.1), (2.0, 20.0), (3.0, 0.2)])
    assert trial.middle() == (2.0, 0.2)
    assert Trial("x").middle() == (0.0, 0.0)


def test_the_call_that_warms_up_is_no_gain():
    assert Trial("x", pairs=[(1.0, 10.0)]).told() == "only its first call was timed, which pays for warming up"
    assert Trial("x", pairs=[(1.0, 10.0), (4.0, 2.0)]).told() == "2.0x on the same calls"


def test_a_comparison_that_failed_is_no_difference():
    trial = Trial("x")
    trial.record(1.0, 0.5, Failed("MemoryError: "))
    assert (trial.active, trial.mismatches, trial.checked, trial.pairs) == (False, 0, 0, [])
    assert trial.reason.startswith("its result could not be compared")


def test_a_result_of_which_nothing_can_be_shown_is_no_difference():
    trial = Trial("x")
    trial.record(1.0, 0.5, same([object()], [object()]))
    assert (trial.active, trial.mismatches, trial.checked) == (False, 0, 0)
    assert trial.reason.startswith("its result could not be compared")


class Number:
    """Objects that say themselves what they are equal to."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value

    def __hash__(self):
        return hash(self.value)


def test_objects_that_say_themselves_that_they_differ_do():
    trial = Trial("x")
    trial.record(1.0, 0.5, same(Number(1), Number(2)))
    assert (trial.active, trial.mismatches, trial.checked) == (False, 1, 1)


def test_a_module_that_another_thread_is_loading_has_made_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "codedag.backends.remembered", types.ModuleType("codedag.backends.remembered"))
    assert trial_module.made() == 0
