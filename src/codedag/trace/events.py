"""Single calls for the timeline: the first ones of each operation and all that took long, never too many.

`Calls` is the twin of gather_events.h: when there is no room, the bar for "long" is raised until a quarter is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# by name: a program may leave mocks on the modules
from os import O_RDONLY, close, read, sysconf
from os import open as open_descriptor
from threading import enumerate as all_threads
from threading import get_ident

import msgspec

from codedag.ir import DeviceValue, Event, Events, Lane, Mark
from codedag.ir.clock import perf_counter_ns

MOST_EVENTS = 8192
FIRST_CALLS = 2
FIRST_OPERATIONS = 1024
LEAST_LONG = 20_000  # nanoseconds
MOST_SAMPLES = 1000  # of memory; more are thinned
MOST_KEPT = 20_000  # of all processes together, the longest

Call = tuple[int, int, int, int, int]  # operation, thread, end, nanoseconds, bytes


@dataclass(slots=True)
class Calls:
    """The calls of one process, in plain Python."""

    least: int = LEAST_LONG
    kept: list[tuple[Call, bool]] = field(default_factory=list)

    def told(self, number: int, count: int, total: int, nbytes: int) -> None:
        """Keeps a call that has just ended if it is one of the first or a long one."""
        first = count <= FIRST_CALLS and number < FIRST_OPERATIONS
        if total <= 0 or not (first or total >= self.least):
            return
        if len(self.kept) == MOST_EVENTS:
            self._thin()
        self.kept.append(((number, get_ident(), perf_counter_ns(), total, nbytes), first))

    def _thin(self) -> None:
        while len(self.kept) > MOST_EVENTS * 3 // 4:
            self.least *= 2
            self.kept = [each for each in self.kept if each[1] or each[0][3] >= self.least]

    def all(self) -> tuple[int, list[Call]]:
        """The bar for long calls in nanoseconds, and the calls."""
        return self.least, [call for call, _ in list(self.kept)]


class Log(msgspec.Struct):
    """What one process saw of itself over time; times are of the monotonic clock, which all processes share."""

    process: int = 0
    least: int = LEAST_LONG
    calls: list[Call] = []
    memory: list[tuple[int, int]] = []
    threads: dict[int, str] = {}

    def sample(self) -> None:
        """Notes how much memory this process has now."""
        nbytes = resident()
        if nbytes:
            self.memory.append((perf_counter_ns(), nbytes))
        if len(self.memory) > MOST_SAMPLES:
            del self.memory[1::2]

    def fill(self, told: tuple[int, list[Call]]) -> None:
        """Takes in the calls that a gatherer has kept."""
        self.least, self.calls = told
        self.threads = {thread.ident or 0: thread.name for thread in all_threads()}


def resident() -> int:
    """The bytes of memory that this process has, or 0 where the system does not say."""
    try:
        file = open_descriptor("/proc/self/statm", O_RDONLY)
    except OSError:
        return 0
    try:
        return int(read(file, 200).split()[1]) * sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
    finally:
        close(file)


def events_of(
    logs: list[Log], stands: dict[int, int], seen: int, began: int, ended: int, marks: dict[str, int] | None = None
) -> Events:
    """The events of a run; `stands` has the op of each number of the logs, times are nanoseconds of the clock."""
    lanes: dict[tuple[int, int], int] = {}
    calls: list[Event] = []
    for log in logs:
        for number, thread, end, total, nbytes in log.calls:
            if number in stands:
                lane = lanes.setdefault((log.process, thread), len(lanes))
                start = max(end - total - began, 0) / 1e9
                calls.append(Event(stands[number], lane, start, max((end - began) / 1e9, start), nbytes))
    calls.sort(key=lambda call: call.start - call.end)
    least = max((log.least for log in logs), default=0) / 1e9
    if len(calls) > MOST_KEPT:
        least = max(least, calls[MOST_KEPT].end - calls[MOST_KEPT].start)
    names = {(log.process, thread): name for log in logs for thread, name in log.threads.items()}
    return Events(
        seconds=(ended - began) / 1e9,
        seen=seen,
        least_seconds=least,
        lanes=[Lane(process=p, thread=t, name=names.get((p, t), "")) for p, t in lanes],
        calls=sorted(calls[:MOST_KEPT], key=lambda call: (call.start, call.lane, call.op)),
        memory=[DeviceValue(log.process, max(at - began, 0) / 1e9, size) for log in logs for at, size in log.memory],
        marks=[Mark(name=name, seconds=max(at - began, 0) / 1e9) for name, at in (marks or {}).items()],
    )
