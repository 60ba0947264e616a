"""The end of a run in a few lines: verdict, speed over time, results, a table of changes, what is left, the page."""

from __future__ import annotations

import re
from pathlib import PurePath

import msgspec

from codedag.ir import Change, Declined, Report
from codedag.view import heat, speed
from codedag.view.claim import verdict
from codedag.view.heat import shortened
from codedag.view.loader import lines as loader_lines
from codedag.view.loader import loader
from codedag.view.places import Place, places
from codedag.view.places import lines as place_lines

LINES_MAX = 12
CHAIN_NAMED = 4  # operations of a chain that are all named
CHANGES_SHOWN = 3
COULD_SHOWN = 2  # lines on what could be done by hand
WHAT_WIDTH_MIN = 12  # of the column that says what was changed; a narrower one says nothing
WHAT_WIDTH = 28  # of what takes the time, where all of it has no room
DECLINED_MAX = 20  # in the long form; all of them are in report.json
TONES = {"faster": "bold green", "slower": "bold red", "same": "bold", "unknown": "yellow", "unchanged": ""}


class Screen(msgspec.Struct, frozen=True):
    """Where the lines are shown: columns that are left for them, and whether it has block characters."""

    width: int = 71  # of a terminal with 80 columns, without "codedag: "
    ascii_only: bool = False
    notes: list[str] = msgspec.field(default_factory=list)
    folder: str = ""  # in which relative file names are


class Span(msgspec.Struct, frozen=True):
    """A piece of a line: its text, how a terminal shows it, and the file and line that it leads to."""

    text: str
    style: str = ""
    link: str = ""


Line = list[Span]


def plain(line: Line) -> str:
    """The text of a line alone."""
    return "".join(span.text for span in line)


def end_lines(report: Report, page: str, screen: Screen | None = None) -> list[Line]:
    """At most twelve lines that fit the screen; only `page`, which is a path or a command, is never cut."""
    screen = screen or Screen()
    judged = verdict(report)
    first = _fitting(_clauses(f"{judged.sentence}{_reasons(report)}"), screen.width)
    lines: list[Line] = [[Span(first, TONES[judged.tone])]]
    lines += [[Span(line)] for line in _speed_line(report, screen)]
    if report.changes or report.verdict.checked:
        style = "bold red" if report.verdict.mismatches else "green" if report.verdict.identical else "yellow"
        results = _results(report)
        lines.append([Span(_fitting([results, results.partition(" (")[0]], screen.width), style)])
    lines += _change_table(report, screen)
    if forms := biggest_left(report):
        lines.append([Span(_fitting(forms, screen.width))])
        could = _could(report, forms[0], screen.width)[:COULD_SHOWN]
        lines += [[Span(shortened(words, screen.width))] for words in could]
    if len(lines) < LINES_MAX - 1 and (price := _price(report)):
        lines.append([Span(_fitting(price, screen.width), "dim")])
    return [*lines, *_notes(screen, LINES_MAX - 1 - len(lines)), _page_line(page)]


def end_text(report: Report, page: str, screen: Screen | None = None) -> list[str]:
    """The same as text alone."""
    return [plain(line) for line in end_lines(report, page, screen)]


def _notes(screen: Screen, room: int) -> list[Line]:
    """Notes of the run take a line if all of them fit; else their number."""
    if not screen.notes or room < 1:
        return []
    words = f"{len(screen.notes)} notes: codedag view shows them" if len(screen.notes) > 1 else screen.notes[0]
    return [[Span(shortened(words, screen.width), "dim")]]


def _page_line(page: str) -> Line:
    word, _, rest = page.partition(": ")
    link = rest.strip("'") if rest.endswith((".html", ".html'")) else ""
    return [Span(f"{word}: "), Span(rest, "", link)] if rest else [Span(page)]


# -- the table of changes


def _change_table(report: Report, screen: Screen) -> list[Line]:
    """The changes that saved most: where, what, seconds saved and bytes kept; the others are counted."""
    ranked = sorted(report.changes, key=lambda change: -(net_seconds(change) or 0.0))
    shown = ranked[:CHANGES_SHOWN]
    if not shown:
        return []
    rows = [(_place(c.where), _what(c), _net_text(c), _kept_text(c)) for c in shown]
    if len(ranked) > len(shown):
        rows.append(("", f"and {len(ranked) - len(shown)} more", "", ""))
    rows.insert(0, ("where", "what", "saved", "kept" if any(c.kept_nbytes for c in shown) else ""))
    where, saved, kept = (max(len(row[at]) for row in rows) for at in (0, 2, 3))
    gaps = 2 + 2 + (2 if kept else 0)
    what = screen.width - 2 - where - saved - kept - gaps
    if what < WHAT_WIDTH_MIN:  # a narrow terminal: place and seconds say most
        cells = [[Span(shortened(f"  {row[0]} {row[2]}".rstrip(), screen.width))] for row in rows[1:]]
        return [line for line in cells if plain(line).strip()]
    what = min(what, max(len(row[1]) for row in rows))
    lines = []
    for number, row in enumerate(rows):
        link = f"{screen.folder}/{shown[number - 1].where}" if 0 < number <= len(shown) else ""
        tail = f"  {row[3]:>{kept}}" if kept else ""
        words = f"  {shortened(row[1], what):{what}}  {row[2]:>{saved}}{tail}".rstrip()
        style = "" if number else "dim"
        lines.append([Span("  ", style), Span(f"{row[0]:{where}}", style, link), Span(words, style)])
    return lines


def _what(change: Change) -> str:
    return short(change.what)


def _net_text(change: Change) -> str:
    net = net_seconds(change)
    return "" if net is None else f"{net:.1f} s"


def _kept_text(change: Change) -> str:
    from codedag.view.text import size_text

    return size_text(change.kept_nbytes) if change.kept_nbytes else ""


def _price(report: Report) -> list[str]:
    """What CodeDAG itself kept and spent, where anyone minds."""
    from codedag.view.text import size_text

    own = report.own
    if own is None or not report.changes:
        return []
    parts = [f"{own.cpu_seconds:.1f} s of CPU time"] if own.cpu_seconds >= 0.05 else []
    parts += [f"{size_text(own.kept_nbytes)} kept in memory"] if own.kept_nbytes else []
    return [f"price: {', '.join(parts)}", *(f"price: {part}" for part in parts[:1])] if parts else []


# -- the long form


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
    lines += _price(report)[:1]
    lines += place_lines(report, screen.width)
    lines += (
        [*loader_lines(report.heat), *heat.lines(report.heat, screen.width, screen.ascii_only)]
        if report.heat is not None
        else []
    )
    return [*lines, *screen.notes, f"run directory: {place}"]


def _fitting(forms: list[str], width: int) -> str:
    """The first of these forms, longest first, that fits; the last one is cut if it must be."""
    return next((form for form in forms if len(form) <= width), shortened(forms[-1], width))


def _clauses(sentence: str) -> list[str]:
    """The sentence, and without its last clauses, one after the other."""
    ends = [match.start() for match in re.finditer(r"[;,:] | \(", sentence)]
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


def net_seconds(change: Change) -> float | None:
    """What the change saved less what it spent, by its account, else by its calls before and after."""
    if change.saved_seconds is not None:
        return change.saved_seconds - (change.spent_seconds or 0.0)
    if change.seconds is None or change.baseline_seconds is None:
        return None
    return change.baseline_seconds - change.seconds


def left(report: Report) -> list[Place]:
    """The hot places at which nothing was done, most seconds first."""
    return [place for place in places(report) if not place.done]


def biggest_left(report: Report) -> list[str]:
    """The hottest place at which nothing was done, its share, and why; the longest form first."""
    found = left(report)
    if not found:
        shown = report.declined[:1] if report.changes and report.heat is None else []
        lines = [form for one in shown for form in (_declined_line(one), f"{short(one.what)} at {_place(one.where)}")]
        return [f"biggest thing left: {line}" for line in lines]
    place = found[0]
    at = f"{_place(place.where)}{' in the workers' if place.in_workers else ''}"
    start = f"{place.share:.0%} of {'their time' if place.in_workers else 'the run'}: {place.what}"
    return [f"biggest thing left: {start} ({at}): {place.why}", f"biggest thing left: {start} ({at})",
            f"biggest thing left: {place.share:.0%}: {place.what} ({at})",
            f"biggest thing left: {place.share:.0%}: {shortened(place.what, WHAT_WIDTH)} ({at})",
            f"biggest thing left: {place.share:.0%} at {at}", f"left: {place.share:.0%} at {at}"]  # fmt: skip


def _could(report: Report, first: str, width: int) -> list[str]:
    """What was too long for the first line, and what somebody could do by hand."""
    lines = []
    for place in left(report)[:1]:
        lines += [f"  {place.why}"] * (len(first) > width)
        lines += [f"  you could {place.hint.words} ({place.hint.evidence})"] if place.hint is not None else []
    found = loader(report.heat) if report.heat is not None else None
    return lines + [f"  you could {hint.words} ({hint.evidence})" for hint in (found.advice if found else [])[:1]]


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
    return PurePath(where.replace("\\", "/")).name


def short(what: str) -> str:
    """A chain of many operations by its first and its last one; anything else as it is."""
    steps = what.split(" > ")
    if len(steps) <= CHAIN_NAMED:
        return what
    return f"{steps[0]} > ... > {steps[-1].replace(' -> ', f' ({len(steps)} operations) -> ', 1)}"
