"""Everything the page shows, as plain data: what a run has, cut to what a page can hold, and what it has not."""

from __future__ import annotations

import heapq
import os
import shlex
from array import array
from collections.abc import Callable
from typing import Any

import msgspec

from codedag._version import __version__
from codedag.ir import CodedagError, CostTable, Events, Graph, Plan, RunDirectory
from codedag.ir.store import FILE_NAMES, MADE_BY, Kind
from codedag.view.html.pictures import pictures
from codedag.view.html.speed_facts import run_facts
from codedag.view.labels import short_name
from codedag.view.text import RECORDER_FACTOR, covered

MOST_OPS = 3000  # rows of the table; a person reads some dozens, and 2,000 must all be there
MOST_PLANNED = 5000  # operations up to which the page re-evaluates a plan
MOST_EVENTS = 3500
WORKLESS = ("region", "source")


def facts(run: RunDirectory, recovered: Graph | None = None, advised: list[str] | None = None) -> dict[str, Any]:
    """The facts of a run; `recovered` is the graph of one that was cut short and has none of its own.

    `advised` are findings of passes over the graph, a sentence each.
    """
    found = _Files(run)
    graph = found.read("graph") or recovered
    plan, costs, machine = found.read("plan"), found.read("costs"), found.read("machine")
    kept = _hottest(graph, plan) if graph is not None else []
    made: dict[str, Any] = {
        "codedag": __version__,
        "path": str(run.path),
        "advised": advised or [],
        "editor": editor(),
        "commands": {"program": found.program, "run": shlex.quote(str(run.path))},
        "run": _plain(found.read("run")),
        "recovered": graph is recovered and recovered is not None,
        "report": _plain(found.read("report")),
        "machine": _plain(machine),
        "floor": RECORDER_FACTOR * float(getattr(found.read("run"), "recorder_seconds", 0.0)),
    }
    if graph is not None:
        made |= {"ops": _ops(graph, kept), "picture": pictures(graph), "whole": _whole(graph, kept)}
    if graph is not None and plan is not None:
        made["plan"] = _plan(plan, kept, graph)
        made["edges"] = _edges(graph) if len(graph) <= MOST_PLANNED else None
    if graph is not None and costs is not None:
        made["costs"] = _costs(costs, graph, kept)
    events = found.read("events")
    if events is not None:
        made["events"] = _events(events)
    if events is not None and graph is not None and found.read("run") is not None:
        workers = getattr(found.read("report"), "workers", 0)
        made["covered"] = covered(graph, events, found.read("run").command, workers)
    if found.read("report") is not None:
        made |= run_facts(found.read("report"), found.read("run"))
    made["files"] = found.told()
    return made


def editor() -> str:
    """The template of links to source: that of the environment if it is an address of an editor, else VS Code's."""
    asked = os.environ.get("CODEDAG_EDITOR", "")
    scheme = asked.partition(":")[0].lower()
    is_address = "{file}" in asked and scheme.isascii() and scheme.replace("-", "").replace("+", "").isalnum()
    return (
        asked if is_address and scheme not in ("javascript", "data", "http", "https") else "vscode://file{file}:{line}"
    )


class _Files:
    """Reads the files of a run once each, and remembers which are there, not there, or cannot be read."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self.files: dict[str, dict[str, Any]] = {}
        self._read: dict[str, Any] = {}

    def read(self, kind: Kind) -> Any:
        """What the file holds, or None."""
        if kind not in self._read:
            self._read[kind] = self._load(kind)
        return self._read[kind]

    def _load(self, kind: Kind) -> Any:
        path = self._run.path / FILE_NAMES[kind]
        command = MADE_BY[kind].format(run=shlex.quote(str(self._run.path)))
        state: dict[str, Any] = {"name": path.name, "made_by": command, "why": ""}
        self.files[kind] = state
        try:
            state["nbytes"] = path.stat().st_size
        except OSError:
            state["nbytes"] = None
            return None
        try:
            return getattr(self._run, kind)
        except CodedagError as error:
            state["why"] = f"{error.message.removeprefix(f'{path}: ')}. {error.hint}".strip()
            return None

    @property
    def program(self) -> str:
        """The program with its arguments, as a shell takes it."""
        info = self.read("run")
        return shlex.join(info.argv) if info is not None else "SCRIPT"

    def told(self) -> dict[str, dict[str, Any]]:
        """The files, with commands that name the program."""
        for state in self.files.values():
            state["made_by"] = state["made_by"].replace("SCRIPT", self.program)
        return self.files


def _plain(document: Any) -> Any:
    return None if document is None else msgspec.to_builtins(document)


def _short(seconds: float | None) -> float | None:
    """Seconds that are only shown."""
    return None if seconds is None else float(f"{seconds:.4g}")


def _exact(seconds: float | None) -> float | None:
    """Seconds with which the page simulates, which agrees with a plan within a millionth."""
    return None if seconds is None else float(f"{seconds:.10g}")


# -- operations


def _hottest(graph: Graph, plan: Plan | None) -> list[int]:
    """The rows that the page lists, in the order of the graph: all, or those with most time and those in moves."""
    if len(graph) <= MOST_OPS:
        return list(range(len(graph)))
    own = graph.op_columns.self_seconds
    moved = {graph.index.row(op) for move in (plan.moves if plan else ()) for op in move.ops} - {-1}
    hottest = heapq.nlargest(MOST_OPS - min(len(moved), MOST_OPS // 2), range(len(graph)), key=own.__getitem__)
    return sorted({*hottest, *sorted(moved)[: MOST_OPS // 2]})


def _ops(graph: Graph, kept: list[int]) -> dict[str, Any]:
    """The columns of the listed operations; texts are numbers of `texts`."""
    ops, arriving = graph.op_columns, _arriving(graph)
    texts: dict[str, int] = {}

    def of(column: list[str], change: Callable[[str], str] = str) -> list[int]:
        return [texts.setdefault(change(column[row]), len(texts)) for row in kept]

    made: dict[str, Any] = {
        "row": kept,
        "id": [ops.id[row] for row in kept],
        "name": of(ops.name),
        "short": of(ops.name, short_name),
        "kind": of(ops.kind),
        "file": of(ops.file),
        "context": of(ops.context),
        "in_sig": of(ops.in_sig),
        "out_sig": of(ops.out_sig),
        "effects": of(ops.effects),
        "line": [ops.line[row] for row in kept],
        "calls": [ops.count[row] for row in kept],
        "self": [_short(ops.self_seconds[row]) for row in kept],
        "total": [_short(ops.total_seconds[row]) for row in kept],
        "out": [ops.out_nbytes[row] for row in kept],
        "in": [arriving[row] for row in kept],
        "peak": [ops.peak_nbytes[row] for row in kept],
        "parent": [ops.parent[row] for row in kept],
    }
    made["texts"] = list(texts)
    return made


def _arriving(graph: Graph) -> array[int]:
    """The bytes that flow into each row."""
    sums = array("q", bytes(8 * len(graph)))
    edges = graph.edge_columns
    for row, kind, nbytes in zip(graph.edge_rows()[1], edges.kind, edges.nbytes, strict=True):
        if kind == "flow":
            sums[row] = min(sums[row] + nbytes, 2**62)
    return sums


def _whole(graph: Graph, kept: list[int]) -> dict[str, Any]:
    """What the whole graph sums to, and how much of it is listed."""
    ops = graph.op_columns
    seconds = [0.0 if kind in WORKLESS else own for own, kind in zip(ops.self_seconds, ops.kind, strict=True)]
    return {
        "operations": len(graph),
        "edges": len(graph.edges),
        "carried": len(graph.carried),
        "seconds": sum(seconds),
        "listed": len(kept),
        "listed_seconds": sum(seconds[row] for row in kept),
        "regions_seconds": sum(o for o, k in zip(ops.self_seconds, ops.kind, strict=True) if k == "region"),
    }


# -- plan and costs


def _plan(plan: Plan, kept: list[int], graph: Graph) -> dict[str, Any]:
    """The plan; of one that is too large to be re-evaluated here, what concerns the listed operations."""
    made: dict[str, Any] = _plain(plan)
    for name in ("format", "version"):
        made.pop(name)
    if len(graph) > MOST_PLANNED:
        listed = {graph.op_columns.id[row] for row in kept}
        for name in ("placement", "decisions", "schedule", "transfers"):
            made[name] = [one for one in made[name] if one["op"] in listed]
    texts: dict[str, int] = {}

    def of(text: str) -> int:
        return texts.setdefault(text, len(texts))

    made["placement"] = [[one["op"], of(one["pu"]), of(one["variant"])] for one in made["placement"]]
    made["schedule"] = [[one["op"], _exact(one["start"]), _exact(one["end"])] for one in made["schedule"]]
    made["decisions"] = [
        [one["op"], of(one["chosen"]), of(one["runner_up"]), of(one["why"])] for one in made["decisions"]
    ]
    made["texts"] = list(texts)
    return made


def _edges(graph: Graph) -> list[list[Any]]:
    """The edges by id, each pair once: flow (1) wins over anti (0)."""
    kinds: dict[tuple[int, int], int] = {}
    columns = graph.edge_columns
    for source, target, kind in zip(columns.src, columns.dst, columns.kind, strict=True):
        kinds[source, target] = max(kinds.get((source, target), 0), int(kind == "flow"))
    return [[source, target, kind] for (source, target), kind in kinds.items()]


def _costs(costs: CostTable, graph: Graph, kept: list[int]) -> dict[str, Any]:
    ids = {graph.op_columns.id[row] for row in kept} if len(graph) > MOST_PLANNED else None
    rows = [row for row in costs.rows if ids is None or row.op in ids]
    return {"pus": costs.pus, "rows": [_cost(row) for row in rows], "measured": len(costs.rows)}


def _cost(row: Any) -> list[Any]:
    """Everything about one cost, short: there are many."""
    others = [
        [a.variant, _short(a.seconds), _short(a.low), _short(a.high), a.status, a.reason] for a in row.alternatives
    ]
    bound = row.roofline.bound_by if row.roofline is not msgspec.UNSET else ""
    source = row.source if row.source is not msgspec.UNSET else ""
    return [
        row.op, row.pu, row.variant, _exact(row.seconds), _short(row.low), _short(row.high), row.status, row.reason,
        row.scratch_nbytes, others, bound, source,
    ]  # fmt: skip


# -- events


def _events(events: Events) -> dict[str, Any]:
    """The longest events, and the memory of the processes over time."""
    calls = events.calls
    if len(calls) > MOST_EVENTS:
        calls = heapq.nlargest(MOST_EVENTS, calls, key=lambda call: call.end - call.start)
    made: dict[str, Any] = _plain(events)
    made["shown"], made["kept"] = len(calls), len(events.calls)
    made["calls"] = sorted([c.op, c.lane, round(c.start, 7), round(c.end, 7), c.nbytes] for c in calls)
    return made
