"""The difference of two runs as lines of text, and as one offline page."""

from __future__ import annotations

from html import escape
from shlex import join

from codedag.view.heat import shortened
from codedag.view.run_diff import Measure, Part, RunDiff
from codedag.view.text import time_text

PARTS_SHOWN = 12
NAME_WIDTH = 34


def lines(found: RunDiff, width: int = 80) -> list[str]:
    """The verdict, the figures, what became slower or faster, what changed; each fits the width."""
    out = [verdict(found), ""]
    out += [f"note: {note}" for note in found.notes]
    out += [f"  {_figures(m)}" for m in found.measures]
    shown = [part for part in found.parts if part.status != "same"]
    if shown:
        out += ["", f"{'seconds of its own in':{NAME_WIDTH}} {'base':>9} {'other':>9} {'more':>9}"]
        out += [_row(part) for part in shown[:PARTS_SHOWN]]
        out += [f"and {len(shown) - PARTS_SHOWN} more (--json)"] if len(shown) > PARTS_SHOWN else []
    elif found.parts:
        out += ["", "no function or operation differs by more than noise"]
    out += [f"only base: {each}" for each in found.changes_gone] + [f"only other: {each}" for each in found.changes_new]
    out += [f"version of {name}: {a} -> {b}" for name, (a, b) in found.versions.items()]
    return [shortened(line, width) for line in out]


def verdict(found: RunDiff) -> str:
    """One sentence: how much slower or faster the other run was, and by which figure."""
    measure = found.measure
    if measure is None:
        return "these runs have no figure in common: nothing can be compared"
    if measure.low is not None and measure.high is not None and measure.low <= 1 <= measure.high:
        return f"no clear difference: {ratio_text(measure)} the {measure.words}"
    if abs(measure.ratio - 1) < 0.005:
        return f"no difference: {ratio_text(measure)} the {measure.words}"
    return f"{change_text(measure.ratio)}: {ratio_text(measure)} the {measure.words}"


def change_text(ratio: float) -> str:
    """A ratio of seconds as percent slower or faster."""
    return f"{100 * (ratio - 1):.0f} % slower" if ratio > 1 else f"{100 * (1 - ratio):.0f} % less time"


def ratio_text(measure: Measure) -> str:
    """The ratio with its interval, if it has one."""
    bounds = "" if measure.low is None or measure.high is None else f" [{measure.low:.2f} .. {measure.high:.2f}]"
    return f"{measure.ratio:.2f}x{bounds}"


def _figures(measure: Measure) -> str:
    times = f"{time_text(measure.base_seconds)} -> {time_text(measure.other_seconds)}"
    return f"{measure.words}: {times} ({ratio_text(measure)})"


def _row(part: Part) -> str:
    name = shortened(f"{part.name} ({part.where})", NAME_WIDTH)
    cells = [part.base_seconds, part.other_seconds]
    shown = ["-" if each is None else time_text(each) for each in cells]
    more = f"{'+' if part.delta_seconds >= 0 else '-'}{time_text(abs(part.delta_seconds))}"
    calls = "" if part.base_calls == part.other_calls else f"  calls {part.base_calls or 0} -> {part.other_calls or 0}"
    return f"{name:{NAME_WIDTH}} {shown[0]:>9} {shown[1]:>9} {more:>9}  {part.status}{calls}"


STYLE = """
:root { color-scheme: light dark; --line: #d5d9e0; --soft: #5d6673; --bad: #b3261e; --good: #1a7f4b; --bar: #e8b39a;
  --less: #9fd0b4; --card: #fff; --back: #f5f6f8; --text: #1a1d21 }
@media (prefers-color-scheme: dark) { :root { --line: #39414d; --soft: #a3adba; --bad: #ff8a80; --good: #6fd6a0;
  --bar: #8a4a33; --less: #2f6b4a; --card: #1c2128; --back: #12161b; --text: #e6e9ee } }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; background: var(--back); color: var(--text) }
main { max-width: 1100px; margin: 0 auto; padding: 24px 16px }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 18px;
  margin: 14px 0; overflow-x: auto }
h1 { font-size: 22px } h2 { font-size: 16px; margin: 4px 0 8px }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: 4px 10px 4px 0 }
th { font-weight: 600; border-bottom: 1px solid var(--line) } td.n, th.n { text-align: right; white-space: nowrap }
.big { font-size: 26px; font-weight: 650 } .slower, .new { color: var(--bad) } .faster, .gone { color: var(--good) }
.soft { color: var(--soft) } code { font-size: 13px; overflow-wrap: anywhere }
.bar { width: 180px; height: 12px; position: relative }
.bar i { position: absolute; top: 0; bottom: 0; border-radius: 2px }
"""


def page(found: RunDiff) -> str:
    """The difference as one HTML file that asks nobody for anything and runs no script."""
    measure, tone = found.measure, ""
    if measure is not None and not (
        measure.low is not None and measure.high is not None and measure.low <= 1 <= measure.high
    ):
        tone = "slower" if measure.ratio > 1.005 else "faster" if measure.ratio < 0.995 else ""
    sections = [
        f'<section><div class="big {tone}">{escape(verdict(found))}</div>'
        f'<p class="soft">base: <code>{escape(join(found.base_argv))}</code> in <code>{escape(found.base)}</code><br>'
        f"other: <code>{escape(join(found.other_argv))}</code> in <code>{escape(found.other)}</code></p>"
        + "".join(f"<p>Note: {escape(note)}.</p>" for note in found.notes)
        + "</section>",
        _section(
            "As a whole", _table(("", "base", "other", "other / base"), [_measure_cells(m) for m in found.measures])
        ),
        _section("What became slower or faster", _parts_table(found)),
        _section("Changes that CodeDAG made", _changes(found)),
    ]
    if found.versions:
        rows = [[name, a, b] for name, (a, b) in found.versions.items()]
        sections.append(_section("Versions", _table(("", "base", "other"), rows)))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>CodeDAG: two runs</title>'
        f"<style>{STYLE}</style></head><body><main><h1>Two runs side by side</h1>"
        f"{''.join(sections)}</main></body></html>\n"
    )


def _section(heading: str, inner: str) -> str:
    return f"<section><h2>{heading}</h2>{inner}</section>"


def _table(headings: tuple[str, ...], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col"{" class=n" if at else ""}>{name}</th>' for at, name in enumerate(headings))
    body = "".join(
        "<tr>" + "".join(f"<td{' class=n' if at else ''}>{escape(cell)}</td>" for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _measure_cells(measure: Measure) -> list[str]:
    return [measure.words, time_text(measure.base_seconds), time_text(measure.other_seconds), ratio_text(measure)]


def _parts_table(found: RunDiff) -> str:
    shown = [part for part in found.parts if part.status != "same"]
    if not shown:
        return "<p>No function or operation differs by more than noise.</p>"
    most = max(abs(part.delta_seconds) for part in shown)
    rows = "".join(_part_cells(part, most) for part in shown)
    head = '<th scope="col">in itself</th><th class=n scope="col">base</th><th class=n scope="col">other</th>'
    return (
        f'<table><thead><tr>{head}<th class=n scope="col">more</th><th></th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _part_cells(part: Part, most: float) -> str:
    share = 50 * abs(part.delta_seconds) / (most or 1.0)
    left, colour = (50.0, "--bar") if part.delta_seconds >= 0 else (50 - share, "--less")
    bar = f'<div class="bar"><i style="left:{left:.1f}%;width:{share:.1f}%;background:var({colour})"></i></div>'
    name = f"<code>{escape(part.name)}</code> <span class=soft>{escape(part.where)}</span>"
    base, other = ("-" if one is None else time_text(one) for one in (part.base_seconds, part.other_seconds))
    more = f"{'+' if part.delta_seconds >= 0 else '-'}{time_text(abs(part.delta_seconds))} {part.status}"
    return (
        f"<tr><td>{name}</td><td class=n>{base}</td><td class=n>{other}</td>"
        f'<td class="n {part.status}">{more}</td><td>{bar}</td></tr>'
    )


def _changes(found: RunDiff) -> str:
    rows = [["only base", each] for each in found.changes_gone] + [["only other", each] for each in found.changes_new]
    if not rows:
        return "<p>The same changes in both runs, or none.</p>"
    return "<ul>" + "".join(f"<li>{which}: <code>{escape(each)}</code></li>" for which, each in rows) + "</ul>"
