"""The judge on simulated programs, with a clock that the test holds: demotion, retry, the end of a trial, claims."""

import importlib.util
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from codedag.autopilot.judge.change import Change, Place, Reason, State
from codedag.autopilot.judge.judge import Block, Decision, Judge
from codedag.autopilot.judge.policy import POLICY, Policy
from codedag.ir.verdict import Code


def loaded(path):
    """A module by its file: on sys.path, `bench` would hide modules of Python such as `profile`."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


programs = loaded(Path(__file__).resolve().parents[3] / "bench" / "judge_programs.py")
SHAPES, Program, change, simulate = programs.SHAPES, programs.Program, programs.change, programs.simulate

STEADY = {"turn_seconds": 0.02, "noise": 0.03}


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def run(judge, clock, turn_seconds, blocks, dirty=False):
    """Blocks of three turns; `turn_seconds(enabled)` is the time of a turn.  All verdicts that are not OPEN."""
    verdicts = []
    for _ in range(blocks):
        on = judge.begins()
        seconds = 3 * turn_seconds(judge.enabled())
        clock.seconds += seconds
        verdict = judge.block(Block(on, 3, seconds, seconds, dirty))
        if verdict.decision is not Decision.OPEN:
            verdicts.append(verdict)
    return verdicts


def decided_by_accounts(judge):
    """The verdicts on all changes that their accounts take back now."""
    verdicts = [judge.decide_by_account(judge.changes[each]) for each in sorted(judge.active)]
    return [verdict for verdict in verdicts if verdict.decision is not Decision.OPEN]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def judge(clock):
    return Judge(POLICY, clock, seed=3)


# -- verdicts


def test_a_slower_change_is_taken_back_and_remembered(judge, clock):
    judge.add(one := change(1))
    (verdict,) = run(judge, clock, lambda enabled: 0.03 if enabled else 0.02, 40)
    assert (verdict.decision, verdict.changes) == (Decision.SLOWER, {1})
    assert verdict.rememberable
    assert one.state is State.TAKEN_BACK
    assert one.reason.code is Code.SLOWER
    assert one.evidence.blocks >= 16
    assert judge.enabled() == frozenset()
    assert clock.seconds < 5


def test_a_faster_change_is_kept_and_its_gain_claimed(judge, clock):
    judge.add(one := change(1))
    verdicts = run(judge, clock, lambda enabled: 0.02 if enabled else 0.03, 400)
    assert verdicts[0].decision is Decision.KEEP
    assert one.state is State.IN_USE
    assert one.reason.code is Code.FASTER
    assert judge.gain.low <= 1.5 + 1e-9
    assert judge.gain.high >= 1.5 - 1e-9


def test_a_kept_change_is_demoted_when_the_program_changes(judge, clock):
    judge.add(one := change(1))
    assert run(judge, clock, lambda enabled: 0.02 if enabled else 0.03, 100)[0].decision is Decision.KEEP
    later = run(judge, clock, lambda enabled: 0.03 if enabled else 0.02, 12000)
    assert [each.decision for each in later] == [Decision.SLOWER]
    assert [state for _, state, _ in one.log] == [State.ON_TRIAL, State.IN_USE, State.TAKEN_BACK]


def test_a_loss_in_noise_is_retried_and_a_second_one_in_quiet_is_final(clock):
    judge = Judge(POLICY, clock, seed=1)
    judge.add(one := change(1))
    busy = iter(math.exp(0.4 * math.sin(37.0 * at * at)) for at in range(10**6))
    noisy = run(judge, clock, lambda enabled: next(busy) * (0.05 if enabled else 0.02), 120)
    assert [each.decision for each in noisy] == [Decision.RETRY]
    assert not noisy[0].rememberable
    assert one.reason.code is Code.NOISY
    assert judge.enabled() == frozenset()
    clock.seconds = noisy[0].retry_at - 0.1
    judge.begins()
    assert one.state is State.TAKEN_BACK
    clock.seconds = noisy[0].retry_at
    assert judge.begins() in (True, False)
    assert one.state is State.ON_TRIAL
    assert one.reason.code is Code.RETRIED
    final = run(judge, clock, lambda enabled: 0.05 if enabled else 0.02, 60)
    assert [each.decision for each in final] == [Decision.SLOWER]
    assert final[0].rememberable


def test_retries_end(clock):
    judge = Judge(POLICY, clock, seed=1)
    judge.add(one := change(1))
    busy = iter(math.exp(0.4 * math.sin(37.0 * at * at)) for at in range(10**6))
    found = []
    for _ in range(10):
        found += run(judge, clock, lambda enabled: next(busy) * (0.05 if enabled else 0.02), 120)
        clock.seconds += 200
    assert [each.decision for each in found] == [Decision.RETRY, Decision.RETRY, Decision.SLOWER]
    assert not found[-1].rememberable
    assert one.state is State.TAKEN_BACK


@pytest.mark.parametrize(
    ("net", "decision", "code"), [(1.0, Decision.KEEP, Code.SAVED), (0.0, Decision.NO_GAIN, Code.NO_GAIN)]
)
def test_at_the_end_of_a_trial_the_account_decides(judge, clock, net, decision, code):
    judge.add(one := change(1, net=net))
    verdicts = run(judge, clock, lambda enabled: 0.02, 1200)
    assert [each.decision for each in verdicts] == [decision]
    assert one.reason.code is code
    assert judge.policy.trial_seconds_max <= one.log[-1][0] < judge.policy.trial_seconds_max + 1


def test_a_trial_that_saves_cpu_time_is_kept(judge, clock):
    judge.add(one := change(1, "settings"))
    while one.state is State.ON_TRIAL:
        on = judge.begins()
        clock.seconds += 0.06
        judge.block(Block(on, 3, 0.06, 0.06 if on else 0.09))
    assert one.state is State.IN_USE


def test_a_result_that_differed_takes_the_change_out_at_once(judge, clock):
    judge.add(one := change(1))
    run(judge, clock, lambda enabled: 0.02, 3)
    judge.remove(one, Reason(Code.MISMATCH, "differs"))
    assert (one.state, one.reason.code) == (State.TAKEN_BACK, Code.MISMATCH)
    assert judge.enabled() == frozenset()
    assert judge.gain is None
    assert not run(judge, clock, lambda enabled: 0.02, 10)


# -- which block runs with what


def test_rounds_are_abba_in_random_order(judge, clock):
    judge.add(change(1))
    orders = set()
    for _ in range(20):
        order = []
        for _ in range(4):
            order.append(judge.begins())
            clock.seconds += 0.06
            judge.block(Block(order[-1], 3, 0.06, 0.06))
        orders.add(tuple(order))
    assert orders == {(True, False, False, True), (False, True, True, False)}


def test_without_changes_there_is_nothing_to_compare(judge, clock):
    assert not run(judge, clock, lambda enabled: 0.02, 50)
    assert judge.begins()
    assert judge.gain is None


def test_a_new_change_is_compared_alone_beside_those_in_use(judge, clock):
    judge.add(one := change(1))
    run(judge, clock, lambda enabled: 0.02 if enabled else 0.03, 100)
    assert one.state is State.IN_USE
    judge.add(change(2))
    seen = set()
    for _ in range(20):
        on = judge.begins()
        seen.add(judge.enabled())
        clock.seconds += 0.06
        judge.block(Block(on, 3, 0.06, 0.06))
    assert seen == {frozenset({1, 2}), frozenset({1})}


def test_the_off_share_is_bounded():
    outcome = simulate(Program("steady", 1, **STEADY), {1: 0.99}, 1200.0, net=1.0)

    def share(start, end):
        return sum(seconds for at, seconds in outcome.off_seconds if start <= at < end) / (end - start)

    assert share(0, 20) > 0.2
    assert 0.005 < share(80, 600) <= 0.021
    assert 0.001 < share(620, 1200) <= 0.0055


def test_a_large_gain_is_hardly_given_away():
    outcome = simulate(Program("steady", 1, **STEADY), {1: 0.5}, 60.0)
    assert sum(seconds for _, seconds in outcome.off_seconds) < 6


def test_blocks_have_at_least_three_turns_and_fifty_milliseconds(judge, clock):
    judge.add(change(1))
    for _ in range(8):
        on = judge.begins()
        turns = judge.block_turns()
        clock.seconds += 0.001 * turns
        judge.block(Block(on, turns, 0.001 * turns, 0.001 * turns))
    judge.begins()
    assert judge.block_turns() == 50
    assert Judge().block_turns() == 3


# -- the culprit by halves


@pytest.mark.parametrize("culprit", [1, 2, 3, 4, 5])
def test_the_culprit_is_found_by_halves(culprit):
    factors = {each: 1.1 if each == culprit else 1.0 for each in range(1, 6)}
    outcome = simulate(Program("steady", culprit, **STEADY), factors, 45.0, net=1.0)
    back = [each for each in factors if outcome.taken_back(each) is not None]
    assert back == [culprit]
    assert outcome.taken_back(culprit) < 45


def test_the_culprit_beside_a_change_that_gains():
    outcome = simulate(Program("steady", 5, **STEADY), {1: 0.9, 2: 1.25}, 45.0)
    assert outcome.taken_back(1) is None
    assert outcome.taken_back(2) is not None
    assert outcome.judge.changes[1].state is State.IN_USE


def test_two_that_are_slower_only_together_are_both_taken_back(judge, clock):
    judge.add(one := change(1))
    judge.add(two := change(2))
    run(judge, clock, lambda enabled: 0.02 if len(enabled) < 1 else 0.03, 2000)
    assert (one.state, two.state) == (State.TAKEN_BACK, State.TAKEN_BACK)


# -- what must not count


def test_dirty_blocks_decide_nothing(judge, clock):
    judge.add(change(1))
    assert not run(judge, clock, lambda enabled: 0.05 if enabled else 0.02, 200, dirty=True)


@pytest.mark.parametrize("seconds", [0.0, -3.0, math.inf, math.nan])
def test_a_clock_that_jumps_voids_the_block(judge, clock, seconds):
    judge.add(change(1))
    run(judge, clock, lambda enabled: 0.02, 8)
    on = judge.begins()
    assert judge.block(Block(on, 3, seconds, 0.06)).decision is Decision.OPEN
    assert not run(judge, clock, lambda enabled: 0.02, 200)


def test_a_suspended_process_voids_the_block(judge, clock):
    judge.add(change(1))
    hours = iter([0.02] * 40 + [3600.0] + [0.02] * 400)
    assert not run(judge, clock, lambda enabled: next(hours), 60)
    assert judge.gain.high < 1.01


def test_a_program_that_changes_its_speed_gives_no_false_verdict(judge, clock):
    judge.add(change(1))
    speeds = iter([0.02] * 50 + [0.2] * 50 + [0.05] * 100)
    assert not run(judge, clock, lambda enabled: next(speeds), 200)


def test_a_gain_that_begins_later_is_claimed_for_the_later_phase(judge, clock):
    judge.add(change(1, net=1.0))
    run(judge, clock, lambda enabled: 0.02, 400)
    assert judge.gain.high < 1.01
    began = clock.seconds
    verdicts = run(judge, clock, lambda enabled: 0.02 if enabled else 0.03, 200)
    assert verdicts[0].decision is Decision.KEEP
    assert judge.gain.low <= 1.5 + 1e-6
    assert judge.gain.middle == pytest.approx(1.5)
    assert judge.contrast().since > began


def test_rounds_that_are_kept_are_bounded():
    outcome = simulate(
        Program("steady", 2, turn_seconds=0.02, noise=0.04), {1: 1.0}, 49.0, replace(POLICY, rounds_kept=40)
    )
    assert outcome.judge.contrast().rounds == 40
    assert not outcome.verdicts


# -- memos and accounts


def memo(clock, move="remember"):
    policy = replace(POLICY)
    judge = Judge(policy, clock)
    one = Change(1, move, Place("a.py"), "imread")
    judge.add(one)
    return judge, one


def test_a_memo_is_not_compared_before_its_first_hits(clock):
    judge, one = memo(clock)
    assert not run(judge, clock, lambda enabled: 0.021 if enabled else 0.02, 500)
    assert one.state is State.ON_TRIAL
    one.account.served = 8
    verdicts = run(judge, clock, lambda enabled: 0.01 if enabled else 0.02, 100)
    assert verdicts[0].decision is Decision.KEEP


@pytest.mark.parametrize("move", ["remember", "recall"])
def test_a_memo_that_never_hits_is_gone_within_two_seconds(clock, move):
    judge, one = memo(clock, move)
    while one.is_in_program:
        clock.seconds += 0.1
        one.account.spent += 0.045  # 0.55x
        one.account.calls += 10
        judge.decide_by_account(one)
        assert clock.seconds <= 2
    assert one.reason.code is Code.NEVER_HIT
    assert one.evidence.rememberable


def test_a_memo_may_fill_within_its_budget(clock):
    judge, one = memo(clock)
    for _ in range(600):
        clock.seconds += 0.1
        one.account.spent += 0.0015  # 1.5 %
        assert judge.decide_by_account(one).decision is Decision.OPEN
    assert one.is_in_program


@pytest.mark.parametrize(
    ("saved", "spent", "decision"), [(1.0, 0.5, Decision.OPEN), (1.0, 1.5, Decision.SLOWER), (0.0, 0.02, Decision.OPEN)]
)
def test_accounts_decide_where_there_are_no_turns(judge, clock, saved, spent, decision):
    judge.add(one := change(1))
    clock.seconds = 10.0
    one.account.saved, one.account.spent = saved, spent
    assert judge.decide_by_account(one).decision is decision
    assert one.is_in_program is (decision is Decision.OPEN)
    if decision is Decision.SLOWER:
        assert one.reason.code is Code.LOSS
        assert judge.decide_by_account(one).decision is Decision.OPEN  # once is enough


def test_turns_overrule_an_account_and_are_asked_again(judge, clock):
    judge.add(one := change(1))
    run(judge, clock, lambda enabled: 0.02 if enabled else 0.03, 200)
    one.account.spent = 100.0
    assert judge.decide_by_account(one).decision is Decision.OPEN
    assert one.state is State.IN_USE
    assert judge.decide_by_account(one).decision is Decision.OPEN  # once is enough
    verdicts = run(judge, clock, lambda enabled: 0.02 if enabled else 0.03, 40)
    assert verdicts[0].decision is Decision.KEEP  # measured as often as at first
    one.account.spent = 200.0
    judge.decide_by_account(one)
    asked = clock.seconds
    verdicts = run(judge, clock, lambda enabled: 0.03 if enabled else 0.02, 40)
    assert [each.decision for each in verdicts] == [Decision.SLOWER]
    assert one.log[-1][0] - asked < 3


def test_a_loss_counts_from_the_best_moment_of_the_account(judge, clock):
    """What a change saved in an earlier phase does not pay for what it loses now."""
    judge.add(one := change(1))
    for _ in range(100):
        clock.seconds += 0.5
        one.account.saved += 0.4
        one.account.served += 1
        assert not decided_by_accounts(judge)
    lost = clock.seconds
    while one.is_in_program:
        clock.seconds += 0.5
        one.account.spent += 0.2
        found = decided_by_accounts(judge)
        assert clock.seconds <= lost + 2
    assert [each.changes for each in found] == [{1}]
    assert one.reason.code is Code.LOSS
    assert not found[0].rememberable


def test_a_lower_estimate_of_what_a_call_saves_is_no_loss(judge, clock):
    """What is saved is estimated from few compared calls: 0.07 s spent beside 0.69 s saved were called a loss."""
    judge.add(one := change(1))
    for served, by_call in ((100, 0.01), (200, 0.01), (210, 0.0033)):
        clock.seconds += 0.5
        one.account.served, one.account.saved = served, served * by_call
        one.account.spent = 0.07 * served / 210
        assert not decided_by_accounts(judge)
    assert one.is_in_program


def test_a_memo_that_an_earlier_run_kept_may_fill_first(judge, clock):
    """A memo that had brought 1000x on its calls was taken back for 0.02 s, before any argument had come again."""
    for number, is_known in enumerate((True, False), 1):
        one = change(number)
        one.move, one.is_known = "recall", is_known
        judge.add(one)
        one.account.spent = 0.1
    clock.seconds += 0.5
    assert [each.changes for each in decided_by_accounts(judge)] == [{2}]
    judge.changes[1].account.spent = 0.3
    assert [each.changes for each in decided_by_accounts(judge)] == [{1}]


def test_accounts_are_believed_only_in_part(judge):
    assert judge.losses.believed_net(change(1, net=1.0)) == pytest.approx(POLICY.saved_share_believed)


# -- how often it is wrong (bench/judge.py has the full numbers)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_change_that_does_nothing_is_left_alone(shape):
    wrong = 0
    for seed in range(12):
        outcome = simulate(Program(shape, seed), {1: 1.0}, 30.0, net=1.0)
        reasons = [reason.code for _, _, reason in outcome.judge.changes[1].log if reason is not None]
        wrong += bool({Code.SLOWER, Code.NOISY, Code.FASTER} & {*reasons})
    assert wrong <= 1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_change_that_costs_three_percent_is_gone_within_a_minute(shape):
    for seed in range(6):
        outcome = simulate(Program(shape, seed, **STEADY), {1: 1.03}, 60.0)
        assert outcome.taken_back(1) is not None


def test_a_change_that_gains_five_percent_is_kept_and_claimed():
    held, errors = 0, []
    for seed in range(30):
        outcome = simulate(Program(SHAPES[seed % len(SHAPES)], seed), {1: 0.95}, 60.0, net=1.0)
        assert outcome.judge.changes[1].state is State.IN_USE
        if (gain := outcome.judge.gain) is not None:
            held += gain.low <= 1 / 0.95 <= gain.high
            errors.append(abs(gain.middle * 0.95 - 1))
    assert len(errors) >= 24
    assert held >= 0.9 * len(errors)
    assert sum(errors) / len(errors) < 0.05


def test_too_few_blocks_give_no_claim(judge, clock):
    judge.add(change(1))
    run(judge, clock, lambda enabled: 0.02 if enabled else 0.03, 4 * (POLICY.gain_rounds_min - 1))
    assert judge.gain is None


def test_the_policy_of_an_unknown_kind_is_that_of_a_substitution():
    assert Policy().kind("unheard of") == Policy().kind("substitute")
