"""The five lines at the end of a run: what a tired person wants to know."""

from __future__ import annotations

from codedag.ir import Change, Declined, Report

MOST_NAMED = 4  # changes, and things that were declined
LONG_CHAIN = 4  # operations that are all named


def five_lines(report: Report, place: str) -> list[str]:
    """Gain, equality, changes, what was declined, and where the files are; one line if there was nothing to gain."""
    if not report.changes:
        return [f"nothing was changed: {_nothing(report)}; run directory: {place}"]
    return [
        _gain(report),
        _equality(report),
        _changes(report.changes),
        _declined(report.declined),
        f"run directory: {place}",
    ]


def _nothing(report: Report) -> str:
    if not report.declined:
        return "no operation with a proven faster variant was seen"
    return "; ".join(f"{short(d.what)} at {d.where}: {d.reason}" for d in report.declined[:2])


def _gain(report: Report) -> str:
    whole = f"over the whole run of {report.optimised_seconds:.1f} s, start and end included"
    if report.void:
        return f"estimated gain: none can be told {whole} ({report.void}); codedag compare measures it"
    words = f"{_interval(report.gain, report.gain_low, report.gain_high)} {whole}"
    if report.steady_gain is not None:
        words += f"; {_interval(report.steady_gain, report.steady_low, report.steady_high)} in the steady state"
    if report.gain is not None and report.gain < 1:
        words += " (too short to pay for observing and checking; the next run begins with what was proven)"
    return f"estimated gain: {words}"


def _interval(middle: float | None, low: float | None, high: float | None) -> str:
    return f"{middle or 0.0:.2f}x [{low or 0.0:.2f} .. {high or 0.0:.2f}]"


def _equality(report: Report) -> str:
    verdict = report.verdict
    if verdict.mismatches:
        before = f"; {verdict.unverified} results had been used unchecked before" if verdict.unverified else ""
        return (
            f"results: {verdict.mismatches} of {verdict.checked} checked calls DIFFERED; "
            f"the original's results were used and the change was taken back{before}"
        )
    if not verdict.identical:
        return f"results within tolerance: {verdict.checked} of {verdict.checked} checked calls ({verdict.how})"
    return f"results identical: {verdict.checked} of {verdict.checked} checked calls bit-equal ({verdict.how})"


def _changes(changes: list[Change]) -> str:
    most = sorted(changes, key=lambda c: (c.seconds or 0.0) - (c.baseline_seconds or 0.0))[:MOST_NAMED]
    shown = [f"{c.where} {short(c.what)}, {c.reason}" for c in changes if c in most]
    return "changed: " + "; ".join(shown) + _rest(len(changes) - len(shown))


def _declined(declined: list[Declined]) -> str:
    if not declined:
        return "declined: nothing"
    shown = [f"{short(d.what)} at {d.where}: {d.reason}" for d in declined[:MOST_NAMED]]
    return "declined: " + "; ".join(shown) + _rest(len(declined) - len(shown))


def _rest(count: int) -> str:
    return f"; and {count} more in report.json" if count > 0 else ""


def short(what: str) -> str:
    """A chain of many operations by its first and its last one; anything else as it is."""
    steps = what.split(" > ")
    if len(steps) <= LONG_CHAIN:
        return what
    return f"{steps[0]} > ... > {steps[-1].replace(' -> ', f' ({len(steps)} operations) -> ', 1)}"
