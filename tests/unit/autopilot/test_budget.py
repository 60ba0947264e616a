"""The price list: what may be spent by when, what is worth its price, and how long a run is expected to be."""

import pytest

from codedag.autopilot import budget
from codedag.autopilot.budget import Budget


class Clock:
    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


def test_nothing_may_be_spent_before_time_has_passed(clock):
    assert not Budget(clock).may(0.001)
    assert Budget(clock, advance_seconds=0.1).may(0.1)


def test_two_percent_of_the_time_that_has_passed(clock):
    plan = Budget(clock)
    clock.seconds += 10
    assert plan.allowed() == pytest.approx(0.2)
    assert plan.may(0.19)
    assert not plan.may(budget.COMPILER_PROCESS_SECONDS)
    plan.spend(0.15, "proof")
    assert not plan.may(0.1)
    clock.seconds += 10
    assert plan.may(0.1)
    assert plan.spent_by == {"proof": 0.15}


def test_a_fifth_of_what_was_saved(clock):
    plan = Budget(clock)
    clock.seconds += 10
    plan.saved_seconds = 5.0
    assert plan.allowed() == pytest.approx(0.2 + 1.0)


def test_a_candidate_may_cost_more_the_more_it_could_save(clock):
    plan = Budget(clock)
    clock.seconds += 10
    assert plan.allowed(potential_share=0.5) == pytest.approx(0.2 + 0.3)
    assert plan.may(0.45, potential_share=0.5, factor=1.0)
    assert not plan.may(0.45, potential_share=0.1, factor=1.0)


def test_what_is_not_spent_is_left_to_later_runs(clock):
    plan = Budget(clock, advance_seconds=0.25)
    clock.seconds += 10
    plan.spend(0.15, "proof")
    assert plan.credit() == pytest.approx(0.25 + 0.2 - 0.15)
    plan.spend(1.0, "proof")
    assert plan.credit() == 0.0
    clock.seconds += 10_000
    assert plan.credit() == budget.CREDIT_SECONDS_MAX


def test_an_unlimited_budget_refuses_nothing(clock):
    assert Budget(clock, advance_seconds=float("inf")).may(1000.0, potential_share=0.0)


def test_cpu_time_of_our_threads_counts(clock):
    cpu = Clock()
    cpu.seconds = 0.0
    plan = Budget(clock, cpu)
    clock.seconds += 10
    cpu.seconds += 0.15
    plan.spend(0.04, "helper")
    assert plan.spent() == pytest.approx(0.19)
    assert not plan.may(0.02)
    assert plan.may(0.005)


def test_a_run_is_expected_to_take_as_long_again(clock):
    plan = Budget(clock)
    clock.seconds += 7
    assert plan.remaining_expected() == pytest.approx(7)


def test_earlier_runs_say_how_long_this_one_is(clock):
    plan = Budget(clock, run_seconds=[2.0, 30.0, 40.0, 50.0])
    clock.seconds += 10
    assert plan.remaining_expected() == pytest.approx(30)
    clock.seconds += 50  # longer than all of them
    assert plan.remaining_expected() == pytest.approx(60)


def test_a_candidate_must_promise_three_times_its_price(clock):
    plan = Budget(clock, run_seconds=[110.0])
    clock.seconds += 10
    assert plan.is_worth(1.0, 0.1)  # 0.1 * 100 s * 0.4 = 4 s
    assert not plan.is_worth(1.0, 0.05)
    assert plan.is_worth(1.0, 0.05, chance=0.9)
    assert plan.may(0.1, potential_share=0.1)
    assert not plan.may(0.1, potential_share=0.001)  # it may, and is not worth it
    assert not plan.may(1.0, potential_share=0.1)  # it is worth it, and may not yet


def test_a_short_program_pays_for_nothing(clock):
    plan = Budget(clock)
    clock.seconds += 2
    assert not plan.may(budget.COMPILER_PROCESS_SECONDS, potential_share=0.9)
    assert plan.may(budget.SWAP_SECONDS, potential_share=0.9)


def test_a_clock_that_goes_back_gives_no_credit(clock):
    plan = Budget(clock)
    clock.seconds -= 50
    assert plan.elapsed() == 0
    assert not plan.may(0.001)


def test_what_later_runs_gain_counts_where_the_price_is_a_small_part_of_a_run(clock):
    plan, first = Budget(clock, run_seconds=[6.0], runs=2), Budget(clock, run_seconds=[6.0])
    clock.seconds += 5.9
    assert plan.is_worth(0.15, 0.3)
    assert not plan.is_worth(0.2, 0.3), "more than 3 % of a run"
    assert not first.is_worth(0.15, 0.3), "there was no run before"


def test_a_fixed_number_of_later_runs_is_expected_at_most(clock):
    assert Budget(clock, run_seconds=[10.0], runs=50).later_expected(0.1) == pytest.approx(30)
