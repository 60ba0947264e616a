"""The record of a change: its transitions are checked, and it survives the way through plain data."""

import itertools
import json

import msgspec
import pytest

from codedag.autopilot.change import LEGAL, Account, Change, Evidence, IllegalTransition, Interval, Place, Reason, State
from codedag.ir.verdict import Code


def made(*states: State) -> Change:
    change = Change(7, "substitute", Place("a.py", "ab", "f", (3, 4), 10, 12), "scipy.ndimage.zoom", "cv2")
    for at, state in enumerate(states):
        change.move_to(state, float(at))
    return change


def test_a_new_change_is_proposed():
    assert made().state is State.PROPOSED
    assert not made().is_in_program


def test_the_log_is_the_life_of_the_change():
    change = made(State.PROVING, State.ON_TRIAL)
    change.move_to(State.IN_USE, 5.0, Reason(Code.FASTER, "turns are faster"))
    assert [state for _, state, _ in change.log] == [State.PROVING, State.ON_TRIAL, State.IN_USE]
    assert change.state is State.IN_USE
    assert change.reason == Reason(Code.FASTER, "turns are faster")
    assert change.is_in_program


PATHS = {
    State.PROPOSED: (),
    State.PROVING: (State.PROVING,),
    State.ON_TRIAL: (State.ON_TRIAL,),
    State.IN_USE: (State.ON_TRIAL, State.IN_USE),
    State.TAKEN_BACK: (State.ON_TRIAL, State.TAKEN_BACK),
    State.DECLINED: (State.DECLINED,),
}


@pytest.mark.parametrize(("before", "after"), [*itertools.product(State, State)])
def test_only_legal_transitions_are_noted(before, after):
    change = made(*PATHS[before])
    length = len(change.log)
    if after in LEGAL[before]:
        change.move_to(after, 9.0)
        assert change.state is after
    else:
        with pytest.raises(IllegalTransition, match="change 7"):
            change.move_to(after, 9.0)
        assert len(change.log) == length


def test_plain_data_gives_the_same_change_again():
    change = made(State.ON_TRIAL)
    change.account = Account(1.5, 0.25, 100, 90, 8, 0, 4096)
    change.evidence = Evidence(Interval(1.1, 1.2, 1.3), 28, 0.02, True)
    change.move_to(State.TAKEN_BACK, 3.5, Reason(Code.SLOWER, "slower"))
    again = Change.from_builtins(json.loads(json.dumps(change.to_builtins())))
    assert again == change
    assert again.key == change.key
    assert again.reason is not None
    assert again.reason.code is Code.SLOWER


def test_damaged_data_is_refused_by_name():
    data = made(State.ON_TRIAL).to_builtins()
    data["log"] = [[0.0, "happy", None]]
    with pytest.raises(msgspec.ValidationError, match="log"):
        Change.from_builtins(data)


def test_accounts_of_several_processes_add_up():
    account = Account(1.0, 0.5, 10, 8, 2, 0, 100)
    account.add(Account(2.0, 1.0, 20, 16, 4, 1, 50))
    assert account == Account(3.0, 1.5, 30, 24, 6, 1, 150)
    assert account.net == 1.5
