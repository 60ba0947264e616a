"""The record of a change: its transitions are checked, and it survives the way through plain data."""

import itertools

import pytest

from codedag.autopilot.judge.change import LEGAL, Change, IllegalTransition, Place, Reason, State
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
