"""Python twin of the C sampler: a thread that looks at `sys._current_frames()` at most 20 times a second.

For systems and interpreters that the C sampler does not know.  It needs the interpreter lock, so it meets code where
the lock is given up; its reports are marked as biased.
"""

from __future__ import annotations

import sys
import threading
import time
from types import CodeType, FrameType
from typing import TYPE_CHECKING, NamedTuple

from codedag.autopilot.heat.bytecode_loops import loop_around, loops_of
from codedag.instrument.hidden_thread import HiddenThread

if TYPE_CHECKING:
    from codedag.instrument._sampler import Function, Loop, Node, Totals

HZ_MAX = 20.0
CODES_MAX = 4000
DEPTH_MAX = 1000
LINES_MAX = 16
NODES_MAX = 16384  # of the call tree; in a full one a new call counts as its caller's own time
HALF_LIFE_SECONDS = 10.0
JOIN_SECONDS_MAX = 2.0
WAITING_NAMES = frozenset(
    {"wait", "_wait_for_tstate_lock", "select", "poll", "accept", "recv", "_recv", "join", "sleep", "get"}
)


class _Code:
    """Seconds of one code object; it is held, so that its id stays its own."""

    __slots__ = (
        "below",
        "code",
        "loops",
        "places",
        "recent",
        "recent_self",
        "self_seconds",
        "serial",
        "total",
        "waiting",
    )

    def __init__(self, code: CodeType, serial: int) -> None:
        self.code, self.serial = code, serial
        self.self_seconds = self.total = self.waiting = self.recent = self.recent_self = self.below = 0.0
        self.places: dict[int, list[float]] = {}
        self.loops: list[tuple[int, int]] | None = None


class _Loop:
    """Turns of one loop in one thread."""

    __slots__ = ("cpu", "depth", "frame", "intervals", "last_cpu", "last_wall", "turns", "wall")

    def __init__(self) -> None:
        self.turns, self.depth, self.frame, self.intervals = 0, 0, 0, 0
        self.wall = self.cpu = self.last_wall = self.last_cpu = 0.0


class _Step(NamedTuple):
    frame: int
    row: _Code
    offset: int


class _Seen:
    """The last look at one thread."""

    __slots__ = ("charged", "cpu", "native_id", "path", "wall")

    def __init__(self, native_id: int, cpu: float, wall: float) -> None:
        self.native_id, self.cpu, self.charged, self.wall = native_id, cpu, cpu, wall
        self.path: list[_Step] = []


class PythonSampler:
    """Sampler with the functions of `codedag.instrument._sampler`."""

    def __init__(self) -> None:
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: HiddenThread | None = None
        self._hz, self._own_before = HZ_MAX, 0.0
        self._excluded: set[int] = set()
        self.forget()

    # -- life

    def forget(self) -> None:
        """Begins with empty tables."""
        self._codes: dict[int, _Code] = {}
        self._loops: dict[tuple[int, int, int, int], _Loop] = {}
        self._threads: dict[int, _Seen] = {}
        self._nodes: dict[tuple[int, int, int], list[float]] = {}  # (parent, serial, offset): number, own, waiting
        self._turn: tuple[int, int, int] = (0, 0, 0)
        self._cpu = self._wall = self._waiting = self._recent = self._turn_seconds = self._own = 0.0
        self._samples = self._looks = self._serial = 0
        self._decayed_at = self._last = time.monotonic()

    def start(self, hz: float, own_share_max: float = 0.01, /) -> None:
        """Begins or goes on sampling."""
        if self.is_running():
            return
        self.set_rate(hz)
        self._wake.clear()
        self._threads.clear()
        self._last = time.monotonic()
        self._thread = HiddenThread(self._run)
        self._thread.start()

    def start_soon(self, hz: float, /) -> bool:
        """False: there is no later here; the caller starts it."""
        return False

    def stop(self) -> None:
        """Ends the thread; what it saw stays."""
        thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None and not thread.is_current:
            thread.join(JOIN_SECONDS_MAX)

    def is_running(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def set_rate(self, hz: float, /) -> None:
        """Looks a second from now on, at most 20."""
        self._hz = min(hz, HZ_MAX)

    def exclude(self, native_id: int, /) -> None:
        """Counts the CPU time of a thread as the sampler's own."""
        self._excluded.add(native_id)

    def _run(self) -> None:
        self._excluded.add(threading.get_native_id())
        while not self._wake.wait(1.0 / self._hz):
            before = time.thread_time()
            with self._lock:
                self._look()
            self._own += time.thread_time() - before

    # -- looks

    def _look(self) -> None:
        now = time.monotonic()
        threads = {thread.ident: thread.native_id or 0 for thread in threading.enumerate()}
        # No frame is held for longer than it takes to copy: it would keep the locals of its function alive.
        # A thread that is not listed (ours, or started by C) has no number by which its clock could be read.
        paths = {ident: self._path(frame) for ident, frame in sys._current_frames().items() if threads.get(ident)}
        self._wall += now - self._last
        self._looks += 1
        self._decay(now)
        for ident, path in paths.items():
            native_id = threads[ident]
            if native_id not in self._excluded:
                self._look_at(ident, native_id, path, now)
        self._threads = {ident: seen for ident, seen in self._threads.items() if ident in paths}
        self._last = now

    def _decay(self, now: float) -> None:
        if now - self._decayed_at < 1.0:
            return
        by = float(0.5 ** ((now - self._decayed_at) / HALF_LIFE_SECONDS))
        self._decayed_at = now
        self._recent *= by
        for row in self._codes.values():
            row.recent *= by
            row.recent_self *= by
            for place in row.places.values():
                place[1] *= by

    def _look_at(self, ident: int, native_id: int, path: list[_Step], now: float) -> None:
        cpu = thread_cpu_seconds(native_id)
        seen = self._threads.get(ident)
        if seen is None:
            seen = self._threads[ident] = _Seen(native_id, cpu if cpu is not None else now, self._last)
        is_waiting = path[-1].row.code.co_name in WAITING_NAMES
        growth = self._growth(seen, cpu, now, is_waiting)
        waiting = max(now - seen.wall - growth, 0.0)
        seen.wall = now
        self._find_turn(ident, seen, path, now)
        self._add(seen, path, growth, waiting, is_waiting)
        seen.path = path

    def _growth(self, seen: _Seen, cpu: float | None, now: float, is_waiting: bool) -> float:
        """CPU seconds since the last look; where threads have no clocks, the time that passed unless it waits."""
        if cpu is None:
            growth, seen.cpu = 0.0 if is_waiting else now - seen.wall, seen.cpu
            seen.cpu += growth
            return growth
        growth, seen.cpu = max(cpu - seen.cpu, 0.0), cpu
        return growth

    def _path(self, frame: FrameType | None) -> list[_Step]:
        path: list[_Step] = []
        while frame is not None and len(path) < DEPTH_MAX:
            path.append(_Step(id(frame), self._row(frame.f_code), max(frame.f_lasti, 0)))
            frame = frame.f_back
        path.reverse()
        return path

    def _row(self, code: CodeType) -> _Code:
        row = self._codes.get(id(code))
        if row is None:
            if len(self._codes) >= CODES_MAX:
                self._shrink()
            self._serial += 1
            row = self._codes[id(code)] = _Code(code, self._serial)
        return row

    def _shrink(self) -> None:
        """Drops the smaller half of the codes."""
        rows = sorted(self._codes.items(), key=lambda item: -(item[1].total + 100.0 * item[1].recent))
        self._codes = dict(rows[: CODES_MAX // 2])
        serials = {row.serial for row in self._codes.values()}
        self._loops = {key: loop for key, loop in self._loops.items() if key[0] in serials}

    def _add(self, seen: _Seen, path: list[_Step], growth: float, waiting: float, is_waiting: bool) -> None:
        leaf, node = path[-1].row, self._node_of(path)
        leaf.waiting += waiting
        node[2] += waiting
        self._waiting += waiting
        self._cpu += growth
        if is_waiting:  # what it used before is charged to the next stack that works
            return
        seconds, seen.charged = seen.cpu - seen.charged, seen.cpu
        if seconds <= 0.0:
            return
        self._samples += 1
        self._recent += seconds
        leaf.self_seconds += seconds
        node[1] += seconds
        leaf.recent_self += seconds
        self._add_totals(path, seconds)
        self._add_below(path, seconds)

    def _node_of(self, path: list[_Step]) -> list[float]:
        """The node of a stack; of a function that calls itself the innermost call stands for all."""
        node: list[float] = [-1, 0.0, 0.0]
        for step, inner in zip(path, [*path[1:], None], strict=True):
            if inner is not None and inner.row is step.row:
                continue
            key = (int(node[0]), step.row.serial, step.offset)
            if key not in self._nodes and len(self._nodes) >= NODES_MAX:
                break
            node = self._nodes.setdefault(key, [len(self._nodes), 0.0, 0.0])
        return node

    def _add_totals(self, path: list[_Step], seconds: float) -> None:
        for row in {step.row.serial: step.row for step in path}.values():
            row.total += seconds
            row.recent += seconds
        for row, offset in {(step.row.serial, step.offset): (step.row, step.offset) for step in path}.values():
            place = row.places.setdefault(offset, [0.0, 0.0])
            place[0] += seconds
            place[1] += seconds

    def _add_below(self, path: list[_Step], seconds: float) -> None:
        serial, start, end = self._turn
        at = next((i for i, step in enumerate(path) if step.row.serial == serial and start <= step.offset <= end), None)
        if at is None:
            return
        self._turn_seconds += seconds
        for row in {step.row.serial: step.row for step in path[at:]}.values():
            row.below += seconds

    # -- loops

    def _find_turn(self, ident: int, seen: _Seen, path: list[_Step], now: float) -> None:
        """Only the first frame that differs from the last look tells anything: those within it were called anew."""
        for depth, (old, new) in enumerate(zip(seen.path, path, strict=False)):
            if old == new:
                continue
            is_same_frame = old.frame == new.frame and old.row is new.row
            if is_same_frame and new.offset > old.offset:
                return
            if not is_same_frame or not self._went_back(ident, seen, path, depth, old.offset, now):
                self._called_again(ident, seen, path, depth, now)
            return

    def _called_again(self, ident: int, seen: _Seen, path: list[_Step], child: int, now: float) -> None:
        for depth in range(child - 1, -1, -1):
            if self._went_back(ident, seen, path, depth, path[depth].offset, now):
                return

    def _went_back(self, ident: int, seen: _Seen, path: list[_Step], depth: int, other: int, now: float) -> bool:
        frame, row, offset = path[depth]
        if row.loops is None:
            row.loops = loops_of(row.code)
        found = loop_around(row.loops, offset, other)
        if found is None:
            return False
        self._count(self._loops.setdefault((row.serial, *found, ident), _Loop()), frame, depth, now, seen.cpu)
        return True

    def _count(self, loop: _Loop, frame: int, depth: int, now: float, cpu: float) -> None:
        if loop.turns and loop.frame == frame:
            loop.intervals += 1
            loop.wall += now - loop.last_wall
            loop.cpu += cpu - loop.last_cpu
        loop.turns += 1
        loop.frame, loop.depth, loop.last_wall, loop.last_cpu = frame, depth, now, cpu

    # -- what was seen

    def totals(self) -> Totals:
        """Seconds and counts of all that was seen."""
        return {
            "cpu": self._cpu, "wall": self._wall, "waiting": self._waiting, "unseen": 0.0, "recent": self._recent,
            "turn": self._turn_seconds, "own": self._own, "hz": self._hz, "samples": self._samples, "rejected": 0,
            "looks": self._looks, "evictions": 0,
        }  # fmt: skip

    def loops(self) -> list[Loop]:
        """Loops that were seen to go back at least twice."""
        with self._lock:
            rows = {row.serial: row for row in self._codes.values()}
            found = [
                (key, loop, rows[key[0]]) for key, loop in self._loops.items() if key[0] in rows and loop.turns > 1
            ]
            return [self._loop_row(key, loop, row) for key, loop, row in found]

    def _loop_row(self, key: tuple[int, int, int, int], loop: _Loop, row: _Code) -> Loop:
        serial, start, end, ident = key
        inside = [place for offset, place in row.places.items() if start <= offset <= end]
        count, ago = max(loop.intervals, 1), time.monotonic() - loop.last_wall
        total, recent = sum(place[0] for place in inside), sum(place[1] for place in inside)
        wall, cpu = loop.wall / count, loop.cpu / count
        return serial, start, end, ident, loop.depth, False, loop.turns, wall, cpu, total, recent, ago

    def set_turn(self, serial: int, start: int, end: int, /) -> None:
        """Counts seconds below this loop from now on."""
        with self._lock:
            self._turn, self._turn_seconds = (serial, start, end), 0.0
            for row in self._codes.values():
                row.below = 0.0

    def functions(self, limit: int, /) -> list[Function]:
        """Seconds of the hottest functions."""
        with self._lock:
            rows = sorted(self._codes.values(), key=lambda row: -max(row.total, row.recent, row.below, row.waiting))
            return [self._function_row(row) for row in rows[:limit]]

    def _function_row(self, row: _Code) -> Function:
        places = sorted(((offset, place[0]) for offset, place in row.places.items()), key=lambda pair: -pair[1])
        lines = tuple(places[:LINES_MAX])
        return row.serial, row.self_seconds, row.total, row.waiting, row.recent, row.recent_self, row.below, lines

    def tree(self) -> list[Node]:
        """Nodes of the call tree, callers first."""
        with self._lock:
            return [(*key, own, waiting) for key, (_, own, waiting) in self._nodes.items()]

    def names(self, serial: int, /) -> tuple[str, str, int, bytes] | None:
        """File, qualified name, first line and line table."""
        with self._lock:
            code = next((row.code for row in self._codes.values() if row.serial == serial), None)
        return None if code is None else (code.co_filename, code.co_qualname, code.co_firstlineno, code.co_linetable)


def thread_cpu_seconds(native_id: int) -> float | None:
    """CPU seconds of a thread of this process; None where the system has no such clock or the thread is gone."""
    if not native_id or not sys.platform.startswith("linux"):
        return None
    try:
        return time.clock_gettime((~native_id << 3) | 6)
    except OSError:
        return None
