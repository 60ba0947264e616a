"""A run as trace events: what Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

from codedag.ir import Graph, Op, Plan
from codedag.ir.events import Events, Lane

# Process numbers are 32 bits wide; what was only simulated gets one that no process has.
PLAN_PROCESS = 2**31 - 1


def trace_events(graph: Graph, events: Events | None, plan: Plan | None = None) -> Iterator[bytes]:
    """The file in pieces: single calls on the lanes they ran on, memory as a counter, and the simulated plan.

    Times are microseconds since the run began; the plan is a process of its own and is labelled as simulated.
    """
    parts: list[Iterable[dict[str, Any]]] = []
    if events is not None:
        parts += [_lanes(events), _calls(graph, events), _memory(events), _marks(events)]
    if plan is not None and plan.schedule:
        parts.append(_plan(graph, plan))
    yield b'{"displayTimeUnit":"ms","traceEvents":[\n'
    separator = b""
    for event in chain.from_iterable(parts):
        yield separator + msgspec.json.encode(event)
        separator = b",\n"
    yield b"\n]}\n"


def _us(seconds: float) -> float:
    """Microseconds, to the nanosecond: clocks tell no more."""
    return round(seconds * 1e6, 3)


def _name(kind: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": text}}


def _lanes(events: Events) -> Iterator[dict[str, Any]]:
    for process in dict.fromkeys(lane.process for lane in events.lanes):
        yield _name("process_name", process, 0, f"process {process}")
    for number, lane in enumerate(events.lanes):
        yield _name("thread_name", lane.process, number, _called(lane))


def _called(lane: Lane) -> str:
    return lane.name or f"thread {lane.thread}"


def _calls(graph: Graph, events: Events) -> Iterator[dict[str, Any]]:
    ops, known = graph.ops, graph.index
    for call in events.calls:
        lane, row = events.lanes[call.lane], known.row(call.op)
        op = ops[row] if row >= 0 else None
        yield {
            "ph": "X", "name": safe(op.name) if op else f"op {call.op}", "cat": op.kind if op else "unknown",
            "ts": _us(call.start), "dur": _us(call.end - call.start), "pid": lane.process, "tid": call.lane,
            "args": {"op": call.op, "nbytes": call.nbytes, **(_where(op) if op else {})},
        }  # fmt: skip


def _where(op: Op) -> dict[str, str]:
    return {"where": safe(op.where), "context": safe(op.context)}


def safe(text: str) -> str:
    """Text that JSON can hold: bytes of a file name that are no text are escaped."""
    return text.encode(errors="backslashreplace").decode()


def _memory(events: Events) -> Iterator[dict[str, Any]]:
    for reading in events.memory:
        yield {
            "ph": "C", "name": "resident memory", "pid": reading.process, "ts": _us(reading.seconds),
            "args": {"bytes": reading.nbytes},
        }  # fmt: skip


def _marks(events: Events) -> Iterator[dict[str, Any]]:
    first = events.lanes[0].process if events.lanes else 0
    for mark in events.marks:
        yield {"ph": "i", "s": "g", "name": mark.name, "pid": first, "tid": 0, "ts": _us(mark.seconds)}


def _plan(graph: Graph, plan: Plan) -> Iterator[dict[str, Any]]:
    """The schedule of the plan, one lane per processing unit and one per pair of them that exchanges data."""
    ops, known = graph.ops, graph.index
    placed = {each.op: each for each in plan.placement}
    lanes: dict[str, int] = {}
    yield _name("process_name", PLAN_PROCESS, 0, "the plan (simulated)")
    for step in plan.schedule:
        where, row = placed.get(step.op), known.row(step.op)
        lane = lanes.setdefault(where.pu if where else "cpu", len(lanes))
        name = safe(ops[row].name) if row >= 0 else f"op {step.op}"
        detail = {"op": step.op, "variant": where.variant if where else "original"}
        yield _block(name, "plan", lane, step.start, step.end, detail)
    for move in plan.transfers:
        lane = lanes.setdefault(f"{move.src} to {move.dst}", len(lanes))
        yield _block("transfer", "plan", lane, move.start, move.end, {"op": move.op})
    for text, lane in lanes.items():
        yield _name("thread_name", PLAN_PROCESS, lane, text)


def _block(name: str, kind: str, lane: int, start: float, end: float, detail: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "cat": kind, "pid": PLAN_PROCESS, "tid": lane, "ts": _us(start),
        "dur": _us(end - start), "args": detail,
    }  # fmt: skip
