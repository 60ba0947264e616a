"""Hot places of a program: each line of the user's with what it calls, what was done there, or why not, and a hint."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from codedag.ir import Change, Declined, Heat, HotCall, Report
from codedag.view import heat as heats
from codedag.view.call_tree import Tree
from codedag.view.heat import shortened
from codedag.view.hints import OWN_CODE, Hint, hint_for

PLACES_SHOWN = 8  # as text
SHARE_MIN = 0.03  # of the run, from which a place is listed
INSIDE_SHARE_MIN = 0.3  # of a place's time in a function, from which that says what the time is spent on
IMPORTS = ("<module>", "import_module", "LazyLoader.exec_module")
LOADER = "DataLoaderIter"  # in the names of torch's iterators
TOO_SHORT_SECONDS = 10.0  # a run that changed nothing was too short below this


class Place(msgspec.Struct, frozen=True):
    """A line of the user's code and what it calls; seconds are those of no other place below it."""

    file: str
    line: int
    text: str  # what is called or computed
    seconds: float  # of CPU time
    waiting: float = 0.0
    share: float = 0.0  # of the run, waiting included
    inside: list[str] = []  # functions of packages with most of the time
    is_own: bool = False  # the code itself computes
    in_workers: bool = False
    done: str = ""
    why: str = ""  # the one reason why nothing was done
    hint: Hint | None = None

    @property
    def where(self) -> str:
        """The place as the report's changes name theirs."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def is_named(self, name: str) -> bool:
        """Whether a name means this place: what is called, whole or its last parts, or a function below it."""
        names = [self.text.removesuffix("()"), *self.inside]
        return any(one == name or one.endswith(f".{name}") for one in names if one)

    @property
    def what(self) -> str:
        """What takes the time, in a few words."""
        inside = self.inside[-1] if self.inside and not self.text else ""
        what = self.text or inside or "this line"
        is_waiting = self.waiting > self.seconds and not _is_import(self)
        return f"waiting at {what.rpartition(' in ')[2]}" if is_waiting else what


def places(report: Report) -> list[Place]:
    """The hot places, most seconds first; of a run whose calls were not kept, its hottest functions."""
    if report.heat is None:
        return []
    found = [*_of_calls(report.heat, report.heat.calls), *_of_calls(report.heat, report.heat.worker_calls, True)]
    if not found:
        found = _of_functions(report.heat)
    ranked = sorted(found, key=lambda place: -(place.seconds + place.waiting))
    return [_judged(report, place) for place in ranked if place.share >= SHARE_MIN]


def _of_functions(heat: Heat) -> list[Place]:
    whole = heats.whole(heat) or 1.0
    return [
        Place(
            f.file.replace("\\", "/").rpartition("/")[2] if f.package else f.file, f.line, f.name, f.self_seconds,
            share=f.self_seconds / whole, inside=[f"{f.package}.{f.name}"] if f.package else [], is_own=not f.package,
        )
        for f in heat.functions
    ]  # fmt: skip


class _Sum:
    """What is added up for one place."""

    def __init__(self) -> None:
        self.seconds = self.waiting = self.own = 0.0
        self.inside: dict[str, float] = defaultdict(float)


def _of_calls(heat: Heat, calls: list[HotCall], in_workers: bool = False) -> list[Place]:
    tree = Tree(calls)
    sums: dict[tuple[str, int, str], _Sum] = defaultdict(_Sum)
    for number, call in enumerate(calls):
        path = [calls[each] for each in tree.callers(number)]
        at = next((depth for depth, one in enumerate(path) if not one.package and one.line), None)
        if at is None:
            continue
        found = sums[path[at].file, path[at].line, path[at].text]
        found.seconds += call.self_seconds
        found.waiting += call.waiting_seconds
        if not at and not call.text.endswith(")"):
            found.own += call.self_seconds
        for name in {one.name for one in path[:at]}:
            found.inside[name] += call.self_seconds + call.waiting_seconds
    if in_workers:
        whole = sum(worker.seconds for worker in heat.workers)
        for one in sums.values():
            one.waiting = 0.0  # they wait for work, or for the program to take what they made
    else:
        whole = max(heat.sampled_seconds, heat.cpu_seconds)
    return [
        Place(
            file, line, text, one.seconds, one.waiting, min((one.seconds + one.waiting) / (whole or 1.0), 1.0),
            _most(one), one.own > one.seconds / 2, in_workers,
        )
        for (file, line, text), one in sums.items()
    ]  # fmt: skip


def _most(one: _Sum) -> list[str]:
    least = INSIDE_SHARE_MIN * (one.seconds + one.waiting)
    return [name for name, seconds in one.inside.items() if seconds >= least]


# -- what was done, or why not


def _judged(report: Report, place: Place) -> Place:
    changes = [change for change in report.changes if _is_at(change.where, place)]
    done = "; ".join(_done(change) for change in changes)
    why = "" if done else _why(report, place)
    hint = hint_for(place.text, place.inside) or (OWN_CODE if place.is_own and not place.text.endswith(")") else None)
    if any(LOADER in name for name in place.inside):  # which has advice of its own
        hint = None
    return msgspec.structs.replace(place, done=done, why=why, hint=hint)


def _is_at(where: str, place: Place) -> bool:
    file, _, lines = where.rpartition(":")
    first, _, last = lines.partition("-")
    return file == place.file and first.isdigit() and int(first) <= place.line <= int(last or first)


def _done(change: Change) -> str:
    return change.what.rpartition(" -> ")[2] if " -> " in change.what else change.what


def _why(report: Report, place: Place) -> str:
    if _is_import(place):
        return "it loads libraries"
    if place.waiting > place.seconds:
        is_loader = any(LOADER in name for name in place.inside)
        return "it waits for the DataLoader's workers" if is_loader else "the program waits for others here"
    here = [one for one in report.declined if _is_at(one.where, place)]
    named = [one for one in here if _names(one, place)] or ([] if place.is_own else here)
    if named:
        return named[0].reason
    if place.is_own:
        return "it is Python code of your own; calls of libraries are what is made faster"
    if not report.changes and not report.declined and (report.optimised_seconds or 0.0) < TOO_SHORT_SECONDS:
        return "the run was too short for looking closer to pay"
    return "no faster variant was found for it"


def _is_import(place: Place) -> bool:
    return any(name.endswith(IMPORTS) for name in place.inside) or place.text.startswith(("import ", "from "))


def _names(one: Declined, place: Place) -> bool:
    last = place.text.removesuffix("()").rpartition(".")[2]
    return bool(last) and last in one.what


def lines(report: Report, width: int = 80) -> list[str]:
    """The hot places as text."""
    found = places(report)[:PLACES_SHOWN]
    heading = ["hot places (share of the run, seconds, and what could be done):"] if found else []
    return heading + [shortened(line, width) for place in found for line in told(place)]


def told(place: Place) -> list[str]:
    """One place as text: share, seconds, what and where; below it what was done, or why not and a hint."""
    at = f"{place.where}{', in the workers' if place.in_workers else ''}"
    first = f"  {place.share:4.0%} {place.seconds + place.waiting:7.2f} s  {place.what}  ({at})"
    rest = [f"done: {place.done}" if place.done else place.why]
    if place.hint is not None and not place.done:
        rest.append(f"you could {place.hint.words} ({place.hint.evidence})")
    return [first, *(f"        {line}" for line in rest)]
