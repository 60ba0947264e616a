"""Verdict of a run in words: faster, slower, no difference, not known or nothing changed, and what it is of."""

from __future__ import annotations

from typing import Literal

import msgspec

from codedag.ir import Claim, Report

Tone = Literal["faster", "slower", "same", "unknown", "unchanged"]

#: Share of the process's CPU time from which CodeDAG's own time makes a run that changed nothing a slower one.
OWN_SHARE_SLOWER = 0.03
OWN_SECONDS_SLOWER = 0.1  # and from which on anyone minds
START_SECONDS_SAID = 0.05  # what was added before and after the program is said from here on


class Verdict(msgspec.Struct, frozen=True):
    """How the run went: one word for programs, the figure alone, a sentence, and what the figure is of."""

    tone: Tone
    figure: str
    sentence: str
    detail: str = ""


def verdict(report: Report) -> Verdict:
    """The verdict; a report without a claim has an estimate, and is called so."""
    if report.claim is not None:
        return _claimed(report, report.claim)
    return _estimated(report)


def interval(middle: float | None, low: float | None, high: float | None) -> str:
    """A ratio with its bounds, if there are any."""
    return f"{middle or 0.0:.2f}x" + ("" if low is None or high is None else f" [{low:.2f} .. {high:.2f}]")


def saved_in_all(report: Report) -> float | None:
    """Wall seconds that the changes saved in this run by its claim, less what CodeDAG added; None = not known."""
    claim = report.claim
    if claim is None or claim.ratio is None or not claim.known or report.speed is None or claim.clock != "wall":
        return None
    if claim.low is not None and claim.high is not None and claim.low <= 1 <= claim.high:
        return -claim.start_seconds  # an interval that holds 1 shows neither a gain nor a loss
    changed = sum(block.seconds for block in report.speed.blocks if block.changed)
    return changed * (claim.ratio - 1) - claim.start_seconds


def _claimed(report: Report, claim: Claim) -> Verdict:
    if claim.known and claim.ratio is not None and claim.low is not None and claim.high is not None:
        return _known(report, claim, (claim.ratio, claim.low, claim.high))
    if not report.changes:
        return _unchanged(report)
    why = claim.reason or "too few blocks of turns were timed"
    return Verdict("unknown", "not known", f"gain not known in this run: {why}", "codedag compare measures it")


def _known(report: Report, claim: Claim, ratio: tuple[float, float, float]) -> Verdict:
    middle, low, high = ratio
    unit = report.speed.unit if report.speed is not None else "turn"
    pairs = f"from {claim.pairs} pair{'' if claim.pairs == 1 else 's'} of blocks"
    clock = "CPU" if claim.clock == "cpu" else "wall"
    detail = f"{clock} time of a {unit} without the changes over its time with them"
    after = f"; next time {claim.next_run}" if claim.next_run else ""
    if high < 1:
        more = f"{100 * (1 / middle - 1):.0f} %"
        return Verdict("slower", f"{more} slower", f"this run was slower by {more}{after}", _with_start(detail, claim))
    net = saved_in_all(report)
    if net is not None and net < 0 and claim.start_seconds >= START_SECONDS_SAID:
        return _start_lost(claim, net, middle, _with_start(detail, claim))
    if low <= 1:
        words = f"no clear difference: {interval(*ratio)} {pairs}"
        return Verdict("same", f"{middle:.2f}x", words, _with_start(detail, claim))
    return Verdict("faster", f"{middle:.2f}x", f"{interval(*ratio)} faster, {pairs}", _with_start(detail, claim))


def _with_start(detail: str, claim: Claim) -> str:
    if claim.start_seconds < START_SECONDS_SAID:
        return detail
    return f"{detail}; CodeDAG added {claim.start_seconds:.1f} s before and after the program"


def _start_lost(claim: Claim, net: float, ratio: float, detail: str) -> Verdict:
    """A run whose changes saved less than CodeDAG's own start and end took."""
    saved = max(net + claim.start_seconds, 0.0)
    sentence = f"this run was slower by {-net:.1f} s: CodeDAG took {claim.start_seconds:.1f} s, saved {saved:.1f} s"
    later = f"{ratio:.2f}x from the first change on; {detail}" if ratio > 1 else detail
    return Verdict("slower", f"{-net:.1f} s slower", sentence, later)


def _unchanged(report: Report) -> Verdict:
    heat = report.heat
    own = heat.own_seconds if heat is not None else 0.0
    if heat is None or not heat.cpu_seconds or own < START_SECONDS_SAID:
        return Verdict("unchanged", "nothing changed", "nothing was changed")
    share = 100 * own / heat.cpu_seconds
    cost = f"{own:.1f} s of CPU time ({share:.1f} % of the process's)"
    if own < max(OWN_SHARE_SLOWER * heat.cpu_seconds, OWN_SECONDS_SLOWER):
        return Verdict("unchanged", "nothing changed", "nothing was changed", f"CodeDAG itself took {cost}")
    after = f"; next time {report.claim.next_run}" if report.claim is not None and report.claim.next_run else ""
    words = f"this run was slower by {own:.1f} s ({share:.0f} % of CPU time), nothing was changed{after}"
    return Verdict("slower", f"{own:.1f} s slower", words, f"CodeDAG itself took {cost}")


def _estimated(report: Report) -> Verdict:
    """Of a report without a claim: from the seconds of single calls."""
    if not report.changes:
        return _unchanged(report)
    if report.void:
        words = f"the gain cannot be told: {report.void}"
        return Verdict("unknown", "cannot be told", words, "codedag compare measures it")
    steady = ""
    if report.steady_gain is not None:
        steady = f"{interval(report.steady_gain, report.steady_low, report.steady_high)} in the steady state"
    if report.gain is None:
        return Verdict("unknown", "not known", f"estimated gain {steady}" if steady else "gain not known in this run")
    return _estimated_gain(report, report.gain, steady)


def _estimated_gain(report: Report, gain: float, steady: str) -> Verdict:
    bounds = interval(gain, report.gain_low, report.gain_high)
    whole = "" if report.optimised_seconds is None else f" over {report.optimised_seconds:.1f} s"
    detail = "an estimate from single calls; codedag compare measures it"
    if report.gain_high is not None and report.gain_high < 1:
        more = f"{100 * (1 / gain - 1):.0f} %" if gain else "much"
        after = f"; {steady}" if steady else ""
        words = f"this run was slower by {more}, too short to pay for observing and checking{after}"
        return Verdict("slower", f"{more} slower", words, detail)
    words = f"estimated gain {bounds}{whole}" + (f", {steady}" if steady else "")
    low, high = report.gain_low or gain, report.gain_high or gain
    return Verdict("faster" if low > 1 else "same" if high >= 1 else "slower", f"{gain:.2f}x", words, detail)
