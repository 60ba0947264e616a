"""A run as text: the hottest operations, the moves, the verdict."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest
from itertools import groupby

from codedag.ir import Change, Events, Graph, Move, Op, Placement, Plan, Report, Speed
from codedag.view.claim import verdict
from codedag.view.speed import rate_text, rates, sparkline
from codedag.view.units import function_path

WIDTH = 34

# Below this many times the recorder's own cost per operation, a time says more about the recorder than the program.
RECORDER_FACTOR = 3
SIGNATURE_PARTS = 4  # kinds of arguments that are named
MOST_DOUBTFUL = 5  # operations that are shown all the same if there are no others


@dataclass(frozen=True, slots=True)
class HotOp:
    """One line of the table of operations, as text; `where` also says what tells it from its namesakes on the line."""

    name: str
    calls: str
    own: str
    share: str
    out: str
    peak: str
    where: str


HEADINGS = HotOp("operation", "calls", "self", "share", "out", "peak", "where")


@dataclass(frozen=True, slots=True)
class Ranking:
    """The rows of the hottest operations, what tells namesakes apart, and how many operations are not among them.

    If all operations are too fast to be measured, some of them are the rows, and these are `doubtful`.
    """

    rows: list[int]
    which: list[str]
    total_seconds: float
    left: int
    too_fast: int
    doubtful: bool = False


def floor(info: object) -> float:
    """The mean time per call below which operations of this run are not ranked, in seconds."""
    return RECORDER_FACTOR * float(getattr(info, "recorder_seconds", 0.0))


def coverage(graph: Graph, events: Events, workers: int = 0) -> float | None:
    """The share of the time on the clock that recorded calls account for; None with several threads or workers."""
    recorded = sum(graph.op_columns.self_seconds)  # what calls inside took is their own
    alone = len(events.lanes) == 1 and not workers
    return min(1.0, recorded / events.seconds) if alone and events.seconds > 0 else None


def covered(graph: Graph, events: Events, command: str, workers: int = 0) -> str:
    """How much of the time recorded calls account for, and what the rest is; nothing where that cannot be told."""
    share = coverage(graph, events, workers)
    if share is None:
        return ""
    rest = (
        "imports, code outside them and calls that ran unobserved"
        if command == "run"
        else "imports and code outside them"
    )
    return f"recorded calls cover {share:.0%} of {events.seconds:.3g} s; the rest is start-up, {rest}"


def ranking(graph: Graph, most: int, floor_seconds: float = 0.0) -> Ranking:
    """The operations that took most time themselves, hottest first, without those that are too fast to be measured."""
    ops = graph.op_columns
    working = [row for row, kind in enumerate(ops.kind) if kind not in ("region", "source")]
    ranked = [row for row in working if ops.self_seconds[row] >= floor_seconds * ops.count[row]]
    doubtful = bool(working) and not ranked
    chosen, most = (working, min(most, MOST_DOUBTFUL)) if doubtful else (ranked, most)
    rows = nsmallest(most, chosen, key=lambda row: (-ops.self_seconds[row], row))
    total = sum(ops.self_seconds[row] for row in working) or 1.0
    return Ranking(rows, _which(graph, rows), total, len(chosen) - len(rows), len(working) - len(ranked), doubtful)


def hot_ops(graph: Graph, most: int, floor_seconds: float = 0.0) -> list[HotOp]:
    """The lines of the table of the hottest operations."""
    return _lines(graph, ranking(graph, most, floor_seconds))


def _lines(graph: Graph, found: Ranking) -> list[HotOp]:
    ops = graph.ops
    return [_line(ops[row], which, found.total_seconds) for row, which in zip(found.rows, found.which, strict=True)]


def _line(op: Op, which: str, total: float) -> HotOp:
    share, out, peak = f"{op.self_seconds / total:.1%}", size_text(op.out_nbytes), getattr(op, "peak_nbytes", 0)
    where = f"{op.where} {which}" if which else op.where
    return HotOp(op.name, str(op.count), time_text(op.self_seconds), share, out, size_text(peak) if peak else "", where)


def _which(graph: Graph, rows: list[int]) -> list[str]:
    """What tells each of these operations from those with its name on its line; nothing if there are none."""
    ops = graph.op_columns
    namesakes: dict[tuple[str, str, int], list[int]] = {}
    for row in rows:
        namesakes.setdefault((ops.name[row], ops.file[row], ops.line[row]), []).append(row)
    said = {row: words for group in namesakes.values() for row, words in zip(group, _apart(graph, group), strict=True)}
    return [said[row] for row in rows]


def _apart(graph: Graph, rows: list[int]) -> list[str]:
    ops = graph.op_columns
    if len(rows) == 1:
        return [""]
    facts = (
        _functions_apart([function_path(ops.context[row], ops.name[row]) for row in rows]),
        [f"column {ops.col[row]}" for row in rows],
        [signature_text(ops.in_sig[row]) for row in rows],
        [f"-> {signature_text(ops.out_sig[row])}" for row in rows],
    )
    words = [""] * len(rows)
    for fact in facts:  # no more of them than it takes to tell all apart
        if len(set(words)) < len(rows) and len(set(fact)) > 1:
            words = [", ".join(filter(None, each)) for each in zip(words, fact, strict=True)]
    same = {word for word, times in Counter(words).items() if times > 1 or not word}
    return [
        f"({', '.join(filter(None, [word, f'op {ops.id[row]}' if word in same else '']))})"
        for row, word in zip(rows, words, strict=True)
    ]


def signature_text(signature: str) -> str:
    """Types and shapes of arguments, equal neighbours counted: `16 x float32[64,64,3]`."""
    parts = [(part, len(list(same))) for part, same in groupby(re.findall(r"[^,\[\]]+(?:\[[^\]]*\])?", signature))]
    words = [part if many == 1 else f"{many} x {part}" for part, many in parts]
    return ", ".join([*words[:SIGNATURE_PARTS], "..."] if len(words) > SIGNATURE_PARTS else words)


def _functions_apart(paths: list[tuple[str, ...]]) -> list[str]:
    """The functions of each path without those that all of them begin with."""
    shared = 0
    while all(len(path) > shared + 1 and path[shared] == paths[0][shared] for path in paths):
        shared += 1
    return ["in " + "/".join(path[shared:]) if path[shared:] else "" for path in paths]


def hottest(graph: Graph, most: int = 20, floor_seconds: float = 0.0) -> list[str]:
    """The table of the hottest operations as plain text."""
    found = ranking(graph, most, floor_seconds)
    table = [HEADINGS, *_lines(graph, found)] if found.rows else []
    return [_row(op, table) for op in table] + below(found, floor_seconds)


def has_peaks(lines: list[HotOp]) -> bool:
    """Whether any operation has a measured peak; without one the column is left out."""
    return any(op.peak for op in lines if op is not HEADINGS)


def _row(op: HotOp, lines: list[HotOp]) -> str:
    name = op.name if len(op.name) <= WIDTH else "..." + op.name[-(WIDTH - 3) :]
    peak = f" {op.peak:>9}" if has_peaks(lines) else ""
    return f"{name:{WIDTH}} {op.calls:>8} {op.own:>10} {op.share:>6} {op.out:>9}{peak}  {op.where}"


def below(found: Ranking, floor_seconds: float) -> list[str]:
    """The lines below the table: what it does not list, and why."""
    lines = [f"... and {found.left} more"] if found.left else []
    if found.doubtful:
        fast = _floor_text(floor_seconds)
        lines.append(f"all operations are faster than {fast} (the recorder's own cost): their order may be chance")
    elif found.too_fast:
        many = "1 operation" if found.too_fast == 1 else f"{found.too_fast} operations"
        verb = "is" if found.too_fast == 1 else "are"
        fast = _floor_text(floor_seconds)
        lines.append(f"{many} faster than {fast} {verb} not ranked (the recorder's own cost)")
    return lines or ([] if found.rows else ["no operation that moves data was seen"])


def _floor_text(seconds: float) -> str:
    """The floor in microseconds; on a busy machine it may be far more than usual."""
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else time_text(seconds)


def moves(plan: Plan) -> list[str]:
    """The moves of a plan, one line each."""
    lines = []
    for move in plan.moves:
        chain = " > ".join(name.rpartition(".")[2] for name in move.chain)
        lines.append(f"{move.kind} {_lines_of(move)} {move.function}: {chain} -> {move.variant}")
    return lines


def elsewhere(plan: Plan) -> list[str]:
    """What a plan that rewrites no lines does: how many operations run in another way, and what that would take."""
    other = len(_replaced(plan))
    if not other:
        return []
    many = "1 operation runs" if other == 1 else f"{other} operations run"
    return [f"planned: {many} in another way ({_planned_times(plan)}); codedag view RUN --html FILE shows which"]


def planned(plan: Plan, most: int = 20) -> list[str]:
    """A plan in a few lines: what it would take, its moves, and what runs in another way than as written."""
    count = len(plan.placement)
    bound = f"no plan can be below {time_text(plan.lower_bound_seconds)}"
    lines = [f"plan of {count} operation{'' if count == 1 else 's'}: {_planned_times(plan)}; {bound}"]
    changed = [
        *moves(plan),
        *(f"{one.name} at {one.file}:{one.line} -> {one.pu}/{one.variant}" for one in _replaced(plan)),
    ]
    lines += changed[:most] or ["every operation runs as written"]
    return lines + ([f"and {len(changed) - most} more"] if len(changed) > most else [])


def _planned_times(plan: Plan) -> str:
    return f"{time_text(plan.makespan_seconds)} simulated, {time_text(plan.baseline_seconds)} as written"


def _replaced(plan: Plan) -> list[Placement]:
    """What no move says: the operations that run elsewhere, or as another variant."""
    moved = {op for move in plan.moves for op in move.ops}
    return [one for one in plan.placement if one.op not in moved and (one.pu, one.variant) != ("cpu", "original")]


def _lines_of(move: Move) -> str:
    return f"{move.file}:{move.line}" + (f"-{move.end_line}" if move.end_line > move.line else "")


def report(found: Report, width: int = 80) -> list[str]:
    """The whole report, a line per fact, the verdict first."""
    judged = verdict(found)
    lines = [judged.sentence, *([f"  ({judged.detail})"] if judged.detail else [])]
    if found.speed is not None and (spark := sparkline(found.speed, width - len("speed "))):
        lines.append(f"speed {spark}")
        lines.append(f"  {_rates(found.speed)}")
    word = "identical" if found.verdict.identical else "DIFFERENT" if found.verdict.mismatches else "within tolerance"
    lines.append(
        f"results {word}: {found.verdict.checked} checked, {found.verdict.mismatches} differed; {found.verdict.how}"
    )
    lines += [f"changed  {c.where}  {c.what}  ({_account(c)})" for c in found.changes]
    seen: dict[tuple[str, str, str], list[str]] = {}
    for one in found.declined:  # the same operation several times in a line is said once
        seen.setdefault((one.where, one.what.partition(" (")[0], one.reason), []).append(one.what)
    for (where, name, reason), every in seen.items():
        many = every[0] if len(every) == 1 else f"{name} ({len(every)} times in this line)"
        lines.append(f"declined {where}  {many}: {reason}")
    return lines


def _rates(speed: Speed) -> str:
    """The median speed without and with the changes, and the changes that the marks in the line above stand for."""
    found = rates(speed)
    words = [("as written", found.plain), ("with the changes", found.changed)]
    told = [f"{rate_text(period, speed.unit)} {which}" for which, period in words if period]
    return ", ".join(told) + ("".join(f"; │ {mark.name}" for mark in speed.marks[:3]))


def _account(change: Change) -> str:
    if change.saved_seconds is None:
        return change.reason
    spent = change.spent_seconds or 0.0
    net = change.saved_seconds - spent
    account = f"saved {time_text(change.saved_seconds)}, spent {time_text(spent)}, sum {time_text(net)}"
    return "; ".join(filter(None, (change.reason, account, change.state.replace("-", " "))))


def time_text(seconds: float) -> str:
    """Seconds with a unit that reads well."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(seconds) * scale >= 1 or unit == "us":
            return f"{seconds * scale:.1f} {unit}"
    return "0 s"


def size_text(nbytes: int) -> str:
    """Bytes with a unit that reads well."""
    value = float(nbytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return str(nbytes)
