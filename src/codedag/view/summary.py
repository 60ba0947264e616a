"""Five lines at the end of a run: verdict, speed over time, results and changes, the biggest thing left, the page."""

from __future__ import annotations

import re

import msgspec

from codedag.ir import Change, Declined, Report
from codedag.view import heat, speed
from codedag.view.claim import verdict
from codedag.view.heat import shortened

LINES_MAX = 5
CHAIN_NAMED = 4  # operations of a chain that are all named
CHANGES_NAMED = (3, 2)  # as many as fit, at least one
DECLINED_MAX = 20  # in the long form; all of them are in report.json


class Screen(msgspec.Struct, frozen=True):
    """Where the lines are shown: columns that are left for them, and whether it has block characters."""

    width: int = 71  # of a terminal with 80 columns, without "codedag: "
    ascii_only: bool = False
    notes: list[str] = msgspec.field(default_factory=list)


def five_lines(report: Report, page: str, screen: Screen | None = None) -> list[str]:
    """At most five lines that fit the screen; only `page`, which is a path or a command, is never cut.

    Notes of the run take the lines that are left.
    """
    screen = screen or Screen()
    width = screen.width
    lines = [_fitting(_clauses(f"{verdict(report).sentence}{_reasons(report)}"), width), *_speed_line(report, screen)]
    if report.changes or report.verdict.checked:
        lines += (
            [_fitting(_results_and_changes(report), width)]
            if len(lines) > 1
            else [shortened(_results(report), width), *([_fitting(_changes(report), width)] if report.changes else [])]
        )
    if left := biggest_left(report):
        lines.append(_fitting(left, width))
    room = LINES_MAX - 1 - len(lines)
    if len(screen.notes) <= room:
        return [*lines, *screen.notes, page]
    return [*lines, *screen.notes[: max(room - 1, 0)], *([_more_notes(screen.notes)] if room > 0 else []), page]


def _more_notes(notes: list[str]) -> str:
    return f"{len(notes)} notes: codedag -v run prints them, codedag view shows them"


def every_line(report: Report, place: str, screen: Screen | None = None) -> list[str]:
    """The long form: a line for each change and each thing that was declined, nothing cut."""
    screen = screen or Screen()
    found = verdict(report)
    lines = [f"{found.sentence}{_reasons(report)}", *([found.detail] if found.detail else [])]
    lines += _speed_line(report, screen)
    if report.changes or report.verdict.checked:
        lines.append(_equality(report))
    lines += [f"changed: {_change_line(change)}" for change in report.changes]
    lines += [f"declined: {_declined_line(one)}" for one in report.declined[:DECLINED_MAX]]
    lines += [f"declined: {len(report.declined) - DECLINED_MAX} more in report.json"] * (
        len(report.declined) > DECLINED_MAX
    )
    lines += heat.lines(report.heat, screen.width) if report.heat is not None else []
    return [*lines, *screen.notes, f"run directory: {place}"]


def _fitting(forms: list[str], width: int) -> str:
    """The first of these forms, longest first, that fits; the last one is cut if it must be."""
    return next((form for form in forms if len(form) <= width), shortened(forms[-1], width))


def _clauses(sentence: str) -> list[str]:
    """The sentence, and without its last clauses, one after the other."""
    ends = [match.start() for match in re.finditer("[;,] ", sentence)]
    return [sentence, *(sentence[:end] for end in reversed(ends))]


def _reasons(report: Report) -> str:
    """Why nothing was changed, if that is all there is to say: with heat, the biggest thing left says it."""
    if report.changes or report.heat is not None:
        return ""
    return ": " + (_declined_line(report.declined[0]) if report.declined else "no proven faster variant was seen")


def _speed_line(report: Report, screen: Screen) -> list[str]:
    if report.speed is None:
        return []
    words = speed.rates_text(report.speed)
    line = speed.sparkline(report.speed, screen.width - len(words) - len("speed  "), screen.ascii_only)
    return [f"speed {line} {words}"] if line else []


def _results(report: Report) -> str:
    proof = report.verdict
    if proof.mismatches:
        late = f", {proof.unverified} used unchecked" if proof.unverified else ""
        return f"results: {proof.mismatches} of {proof.checked} compared calls DIFFERED; taken back{late}"
    if not proof.checked:
        return "results: no call was compared"
    word = "identical" if proof.identical else "within tolerance"
    return f"results {word} ({proof.checked:,} call{'' if proof.checked == 1 else 's'} compared)"


def _changes(report: Report) -> list[str]:
    """The changes that saved most by name and the number of the others; forms of them, the longest first."""
    ranked = sorted(report.changes, key=lambda change: -(net_seconds(change) or 0.0))
    named = [f"{_place(change.where)} {short(change.what)}{_saved_words(change)}" for change in ranked]
    forms = [f"changed {'; '.join(named[:count])}{_more(len(named) - count)}" for count in (*CHANGES_NAMED, 1)]
    forms.append(f"changed {_place(ranked[0].where)}{_saved_words(ranked[0])}{_more(len(ranked) - 1)}")
    return forms


def _more(count: int) -> str:
    return f"; {count} more" if count > 0 else ""


def _results_and_changes(report: Report) -> list[str]:
    if not report.changes:
        return [_results(report)]
    return [f"{_results(report)}; {form}" for form in (*_changes(report)[:-1], _sum_of_changes(report.changes))]


def _sum_of_changes(changes: list[Change]) -> str:
    many = "1 change" if len(changes) == 1 else f"{len(changes)} changes"
    known = [net for change in changes if (net := net_seconds(change)) is not None]
    return f"{many} {'saved' if sum(known) >= 0 else 'cost'} {abs(sum(known)):.1f} s" if known else many


def net_seconds(change: Change) -> float | None:
    """What the change saved less what it spent, by its account, else by its calls before and after."""
    if change.saved_seconds is not None:
        return change.saved_seconds - (change.spent_seconds or 0.0)
    if change.seconds is None or change.baseline_seconds is None:
        return None
    return change.baseline_seconds - change.seconds


def _saved_words(change: Change) -> str:
    net = net_seconds(change)
    return "" if net is None else f" ({net:+.1f} s)" if net < 0 else f" ({net:.1f} s saved)"


def biggest_left(report: Report) -> list[str]:
    """The function with most time of its own, its share, and why it was left as it is; the longest form first."""
    function = heat.hottest(report.heat) if report.heat is not None else None
    if report.heat is None or function is None:
        shown = report.declined[:1] if report.changes else []
        lines = [form for one in shown for form in (_declined_line(one), f"{short(one.what)} at {_place(one.where)}")]
        return [f"biggest thing left: {line}" for line in lines]
    share = function.self_seconds / (heat.whole(report.heat) or 1.0)
    reasons = [one.reason for one in report.declined if one.where == f"{function.file}:{function.line}"]
    start = f"biggest thing left: {share:.0%} of CPU time in {function.name}"
    places = [f" ({heat.place(function)})", f" ({function.package or heat.place(function)})", ""]
    return [*(f"{start}{places[0]}: {why}" for why in reasons[:1]), *(start + place for place in places)]


def _equality(report: Report) -> str:
    proof = report.verdict
    if proof.mismatches:
        before = f"; {proof.unverified} results had been used unchecked before" if proof.unverified else ""
        return (
            f"results: {proof.mismatches} of {proof.checked} checked calls DIFFERED; "
            f"the original's results were used and the change was taken back{before}"
        )
    if not proof.identical:
        return f"results within tolerance: {proof.checked} of {proof.checked} checked calls ({proof.how})"
    return f"results identical: {proof.checked} of {proof.checked} checked calls bit-equal ({proof.how})"


def _change_line(change: Change) -> str:
    account = ""
    if change.saved_seconds is not None:
        spent = change.spent_seconds or 0.0
        account = f"; saved {change.saved_seconds:.2f} s, spent {spent:.2f} s"
    return f"{change.where} {short(change.what)}, {change.reason}{account}"


def _declined_line(declined: Declined) -> str:
    return f"{short(declined.what)} at {declined.where}: {declined.reason}"


def _place(where: str) -> str:
    return where.replace("\\", "/").rpartition("/")[2]


def short(what: str) -> str:
    """A chain of many operations by its first and its last one; anything else as it is."""
    steps = what.split(" > ")
    if len(steps) <= CHAIN_NAMED:
        return what
    return f"{steps[0]} > ... > {steps[-1].replace(' -> ', f' ({len(steps)} operations) -> ', 1)}"
