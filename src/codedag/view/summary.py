"""The five lines at the end of a run: what a tired person wants to know."""

from __future__ import annotations

from codedag.ir import Change, Declined, Report

MOST_DECLINED = 4


def five_lines(report: Report, since_switch: tuple[float, float, float] | None, place: str) -> list[str]:
    """Gain, equality, changes, what was declined, and where the files are; one line if there was nothing to gain."""
    if not report.changes:
        return [f"nothing was changed: {_nothing(report)}; run directory: {place}"]
    return [
        _gain(report, since_switch),
        _equality(report),
        _changes(report.changes),
        _declined(report.declined),
        f"run directory: {place}",
    ]


def _nothing(report: Report) -> str:
    if not report.declined:
        return "no operation with a proven faster variant was seen"
    return "; ".join(f"{d.what} at {d.where}: {d.reason}" for d in report.declined[:2])


def _gain(report: Report, since_switch: tuple[float, float, float] | None) -> str:
    interval = f"[{report.gain_low:.2f} .. {report.gain_high:.2f}]"
    whole = f"{report.gain:.2f}x {interval} over the whole run of {report.optimised_seconds:.1f} s"
    if since_switch is None:
        return f"estimated gain: {whole}"
    middle, low, high = since_switch
    return f"estimated gain: {middle:.2f}x [{low:.2f} .. {high:.2f}] since the switch, {whole}"


def _equality(report: Report) -> str:
    verdict = report.verdict
    if not verdict.identical:
        return (
            f"results: {verdict.mismatches} of {verdict.checked} checked calls DIFFERED; "
            "the original's results were used and the change was taken back"
        )
    return f"results identical: {verdict.checked} of {verdict.checked} checked calls bit-equal ({verdict.how})"


def _changes(changes: list[Change]) -> str:
    return "changed: " + "; ".join(f"{c.where} {c.what}, {c.reason}" for c in changes)


def _declined(declined: list[Declined]) -> str:
    if not declined:
        return "declined: nothing"
    shown = [f"{d.what} at {d.where}: {d.reason}" for d in declined[:MOST_DECLINED]]
    rest = f"; and {len(declined) - MOST_DECLINED} more in report.json" if len(declined) > MOST_DECLINED else ""
    return "declined: " + "; ".join(shown) + rest
