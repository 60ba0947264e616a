"""Facts of the Summary page about one run: verdict in words, speed over time, heat with the user's source lines."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from codedag.ir import Heat, HotCall, Report, RunInfo, Speed
from codedag.view import heat as heats
from codedag.view.claim import verdict
from codedag.view.loader import loader
from codedag.view.places import places
from codedag.view.pools import pools
from codedag.view.speed import fewer, rate_text, rates
from codedag.view.summary import biggest_left, net_seconds

LINES_MAX = 40  # hot lines whose source is shown
LINES_AROUND = 2  # of source above and below a hot line
LINE_SHARE_MIN = 0.01  # of a hot line that gets lines around it
SOURCE_NBYTES_MAX = 2_000_000  # of a file that is read for them
LINE_CHARACTERS_MAX = 160


def run_facts(report: Report, info: RunInfo | None) -> dict[str, Any]:
    """What the report says about the run as a whole; what it does not say is left out."""
    judged = verdict(report)
    made: dict[str, Any] = {
        "verdict": {"tone": judged.tone, "figure": judged.figure, "sentence": judged.sentence, "detail": judged.detail},
        "left": next(iter(biggest_left(report)), ""),
        "saved": [net_seconds(change) for change in report.changes],
        "own": None if report.own is None else msgspec.to_builtins(report.own),
        "places": _places(report),
        "loader": _loader(report),
        "pools": [] if report.heat is None else msgspec.to_builtins(pools(report.heat)),
    }
    if report.speed is not None and report.speed.blocks:
        made["speed"] = _speed(report.speed)
    if report.heat is not None:
        made["heat"] = _heat(report.heat, _Sources(info))
    return made


def _loader(report: Report) -> dict[str, Any] | None:
    found = loader(report.heat) if report.heat is not None else None
    return None if found is None else msgspec.to_builtins(found)


def _places(report: Report) -> list[dict[str, Any]]:
    """The hot places with what was done there, or why not, and what somebody could do."""
    return [{**msgspec.to_builtins(place), "what": place.what, "where": place.where} for place in places(report)]


def _speed(speed: Speed) -> dict[str, Any]:
    """Blocks as lists of start, seconds, turns, changed and void: there may be hundreds."""
    found = rates(speed)
    return {
        "unit": speed.unit,
        "blocks": [[b.start, b.seconds, b.turns, int(b.changed), int(b.void)] for b in fewer(speed.blocks)],
        "marks": [[mark.seconds, mark.name] for mark in speed.marks],
        "plain": found.plain,
        "changed": found.changed,
        "words": [rate_text(period, speed.unit) if period else "" for period in (found.plain, found.changed)],
    }


def _heat(heat: Heat, sources: _Sources) -> dict[str, Any]:
    whole = heats.whole(heat)
    return {
        "whole": whole,
        "sampled": heat.sampled_seconds,
        "waiting": heat.waiting_seconds,
        "own": heat.own_seconds,
        "biased": heat.is_biased,
        "parts": [msgspec.structs.asdict(part) for part in heats.parts(heat)],
        "functions": [msgspec.to_builtins(one) for one in sorted(heat.functions, key=lambda f: -f.total_seconds)],
        "calls": _calls(heat.calls),
        "worker_calls": _calls(heat.worker_calls),
        "lines": _lines(heat, sources),
        "newer": sorted(sources.newer),
        "turn": msgspec.to_builtins(heat.turn) if heat.turn is not None else None,
    }


def _calls(calls: list[HotCall]) -> list[list[Any]]:
    """The call tree as lists of caller, label, own and waiting seconds: a call of the user's code with its line."""
    return [
        [one.parent, one.name if one.package else f"{one.name} :{one.line} {one.text}".rstrip(),
         round(one.self_seconds, 4), round(one.waiting_seconds, 4)]
        for one in calls
    ]  # fmt: skip


def _lines(heat: Heat, sources: _Sources) -> list[dict[str, Any]]:
    """The hottest lines of the user's code in the order of their files, with the text of the line if it is there."""
    hottest = sorted(heat.lines, key=lambda line: -line.seconds)[:LINES_MAX]
    order = list(dict.fromkeys(line.file for line in hottest))
    hot = {(line.file, line.line): line for line in hottest}
    wanted = set(hot)
    for line in hottest:
        if line.share >= LINE_SHARE_MIN and sources.text(line.file, line.line):
            wanted |= {(line.file, line.line + by) for by in range(-LINES_AROUND, LINES_AROUND + 1)}
    rows = []
    for key in sorted(wanted, key=lambda key: (order.index(key[0]), key[1])):
        text, cold = sources.text(*key), {"file": key[0], "line": key[1], "seconds": 0.0, "share": 0.0}
        if key in hot or (text and key[1] <= sources.count(key[0])):
            rows.append({**(msgspec.to_builtins(hot[key]) if key in hot else cold), "text": text})
    return rows


class _Sources:
    """Lines of Python files as they are now; of files that are gone, large or newer than the run there are none."""

    def __init__(self, info: RunInfo | None) -> None:
        self._folder = Path(info.cwd) if info is not None else Path()
        self._started = _seconds(info.started) if info is not None else None
        self._files: dict[str, list[str]] = {}
        self.newer: set[str] = set()

    def text(self, file: str, number: int) -> str:
        """The text of a line, or nothing."""
        if file not in self._files:
            self._files[file] = self._read(file)
        lines = self._files[file]
        return lines[number - 1][:LINE_CHARACTERS_MAX].expandtabs(4).rstrip() if 0 < number <= len(lines) else ""

    def count(self, file: str) -> int:
        """How many lines of the file can be shown."""
        return len(self._files.get(file, ()))

    def _read(self, file: str) -> list[str]:
        path = self._folder / file
        try:
            found = path.stat()
            if path.suffix != ".py" or found.st_size > SOURCE_NBYTES_MAX:
                return []
            if self._started is not None and found.st_mtime > self._started + 1:  # it is kept in whole seconds
                self.newer.add(file)
                return []
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
        except (OSError, ValueError):
            return []


def _seconds(started: str) -> float | None:
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return None
