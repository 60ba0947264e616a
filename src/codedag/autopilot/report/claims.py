"""Claims of a run: the gain that blocks of the program's turns with and without the changes have shown, or why none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codedag.autopilot.judge.change import State
from codedag.ir.events import Mark
from codedag.ir.report import Block, Claim, Speed

if TYPE_CHECKING:
    from codedag.autopilot.judge.change import Interval
    from codedag.autopilot.judge.judging import Judging
    from codedag.autopilot.report.spans import Spans

#: Transitions that are marks in the curve of speed.
SHOWN_STATES = (State.ON_TRIAL, State.TAKEN_BACK)
Gain = tuple[float, float, float]  # middle, low, high


def claim_of(judging: Judging, start_seconds: float) -> Claim:
    """The gain of a turn as the judge measured it, or why it is not known."""
    interval, contrast = judging.judge.gain, judging.judge.contrast()
    if interval is None or contrast is None:
        code, why = _why_unknown(judging)
        return Claim(reason_code=code, reason=why, start_seconds=start_seconds)
    slower = interval.high < 1
    return Claim(
        known=True, ratio=interval.middle, low=interval.low, high=interval.high, pairs=2 * contrast.rounds,
        start_seconds=start_seconds, next_run="it leaves the slower change out" if slower else "",
    )  # fmt: skip


def _why_unknown(judging: Judging) -> tuple[str, str]:
    if not judging.made:
        return "not_timed", "its changes are made too rarely to be timed with and without"
    if not judging.judge.active:
        return "no_change", "no change is in use"
    if not judging.source:
        return "no_turns", "no repeated work was found to time"
    if judging.clock.failure is not None:
        return "failed", f"counting turns failed: {judging.clock.failure.reason}"
    return "few_blocks", "the program ended before enough of its turns were timed with and without the changes"


def whole_gain(interval: Interval, spans: Spans, with_changes_seconds: float) -> Gain:
    """The gain over the whole process: what its turns would have taken more without the changes, less our own time.

    Our threads hold up the program by none or all of their time: nobody can say, so the interval has both.
    """
    own = spans.starting + spans.ending
    beside = spans.observing + spans.beside

    def gain(ratio: float, held_up: float) -> float:
        return max(spans.whole - own - held_up + with_changes_seconds * (ratio - 1), 0.0) / spans.whole

    return gain(interval.middle, beside / 2), gain(interval.low, beside), gain(interval.high, 0.0)


def speed_of(judging: Judging) -> Speed:
    """The speed of the program over time, with a mark at each transition of a change."""
    blocks = [
        Block(start=max(each.at - each.seconds, 0.0), seconds=each.seconds, turns=each.turns, changed=each.on)
        for each in judging.clock.speeds
    ]
    marks = [
        Mark(name=f"{change.what}: {state.value}", seconds=max(seconds, 0.0))
        for change, _ in judging.made.values()
        for seconds, state, _ in change.log
        if state in SHOWN_STATES
    ]
    return Speed(unit=judging.source or "turn", blocks=blocks, marks=sorted(marks, key=lambda mark: mark.seconds))
