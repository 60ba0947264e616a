"""What happened when: single calls on the lanes of a run, and the memory of its processes over time."""

from __future__ import annotations

from typing import Literal

import msgspec

from codedag.ir.fields import Natural, NBytes, OpId, Seconds


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One thread of one process."""

    process: Natural
    thread: Natural
    name: str = ""


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call: its op, its lane (a place in `lanes`), start and end in seconds of the run, bytes of its results."""

    op: OpId
    lane: Natural
    start: Seconds
    end: Seconds
    nbytes: NBytes


class DeviceValue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many bytes of memory a process had at one time of the run."""

    process: Natural
    seconds: Seconds
    nbytes: NBytes


class Mark(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A moment worth a line in the timeline."""

    name: str
    seconds: Seconds


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """events: the calls that took longest and the first ones of each op; `seen` says how many there were in all."""

    format: Literal["codedag/events"] = "codedag/events"
    version: Literal[1] = 1
    seconds: Seconds
    seen: Natural
    least_seconds: Seconds
    lanes: list[Lane]
    calls: list[Event]
    memory: list[DeviceValue] = msgspec.field(default_factory=list)
    marks: list[Mark] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        for at, call in enumerate(self.calls):
            if call.lane >= len(self.lanes):
                raise ValueError(f"calls[{at}].lane: there is no lane {call.lane}")
            if call.end < call.start:
                raise ValueError(f"calls[{at}].end: is before its start")
