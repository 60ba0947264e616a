"""A schedule that never exceeds the memory of a PU: what does not fit now waits, instead of starting early."""

from __future__ import annotations

import heapq
from array import array
from bisect import insort
from dataclasses import dataclass
from math import inf

from codedag.plan.problem import Problem, ints

#: How many of the next ops of a PU may have their inputs fetched; 0 = one op of the whole plan at a time.
WINDOWS = (1 << 30, 4, 1, 0)
#: How many waiting copies of a lane are looked at for one that fits.
LOOKED_AT = 16


@dataclass(slots=True)
class _Copy:
    """A copy that is to be made: of which value, between which PUs, and for which position of the order."""

    op: int
    src: int
    dst: int
    wanted: int


@dataclass(slots=True)
class Times:
    """When everything runs, in seconds; ops by the numbers of the model."""

    place: array[int]
    start: array[float]
    end: array[float]
    copies: list[tuple[int, int, int, float, float]]

    @property
    def makespan(self) -> float:
        """The last end."""
        return max(max(self.end, default=0.0), max((one[4] for one in self.copies), default=0.0))


class Gated:
    """One simulation of a placement and an order in which every start waits until its bytes fit."""

    def __init__(self, problem: Problem, edges: _Edges, place: bytes, order: bytes, window: int) -> None:
        self.problem, self.edges, self.window = problem, edges, window
        self.place, self.order = ints(place), ints(order)
        n, k = problem.n, problem.k
        self.position = array("i", bytes(4 * n))
        for at, op in enumerate(self.order):
            self.position[op] = at
        self.capacity = [pu.memory_nbytes for pu in problem.machine.pus]
        self.used = [0] * k
        self.start, self.end = array("d", [-1.0]) * n, array("d", [-1.0]) * n
        self.done: list[tuple[int, int, int, float, float]] = []
        self.now, self.running = 0.0, 0
        self.events: list[tuple[float, int, int, int]] = []  # end, op, PU that it is on then, source or -1
        self.present: set[int] = set()
        self.ended = bytearray(n)
        self._count_readers()
        self._queue()

    def _count_readers(self) -> None:
        """Who reads each value where: ops on that PU, and copies that leave it."""
        k, readers = self.problem.k, dict[int, int]()
        self.copies: dict[int, _Copy] = {}
        for reader in self.order:
            pu = self.place[reader]
            for op in self.edges.flow(reader):
                readers[op * k + pu] = readers.get(op * k + pu, 0) + 1
                self._route(op, self.place[op], pu, self.position[reader], readers)
        self.readers = readers

    def _route(self, op: int, src: int, dst: int, wanted: int, readers: dict[int, int]) -> None:
        key = op * self.problem.k + dst
        if src == dst:
            return
        if key in self.copies:
            self.copies[key].wanted = min(self.copies[key].wanted, wanted)
            return
        before = self.edges.before(src, dst)
        self._route(op, src, before, wanted, readers)
        self.copies[key] = _Copy(op, before, dst, wanted)
        readers[op * self.problem.k + before] = readers.get(op * self.problem.k + before, 0) + 1

    def _queue(self) -> None:
        group, lane, k = self.problem.links.group, self.problem.links.lane, self.problem.k
        self.turns: dict[int, list[int]] = {}
        for op in self.order:
            self.turns.setdefault(group[self.place[op]], []).append(op)
        self.head = dict.fromkeys(self.turns, 0)
        self.busy: set[tuple[str, int]] = set()
        # Copies whose value is there wait at their lane, the most wanted first; the others wait for their value.
        self.waiting: dict[int, list[tuple[int, int, int]]] = {}
        self.awaited: dict[int, list[_Copy]] = {}
        for copy in self.copies.values():
            self.waiting.setdefault(lane[copy.src * k + copy.dst], [])
            self.awaited.setdefault(copy.op * k + copy.src, []).append(copy)
        self.next = 0

    def run(self) -> Times | None:
        """The times, or None if the plan gets stuck: nothing runs and nothing that is next fits."""
        left = self.problem.n
        while True:
            while self._start_some():
                pass
            if not self.events:
                return Times(self.place, self.start, self.end, self.done) if left == 0 else None
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                left -= self._finish(*heapq.heappop(self.events)[1:])

    def _finish(self, op: int, pu: int, src: int) -> int:
        """Ends an op (src -1) or a copy, and frees what nobody reads any more; 1 if an op ended."""
        k, self.running = self.problem.k, self.running - 1
        self.present.add(op * k + pu)
        for copy in self.awaited.pop(op * k + pu, ()):
            lane = self.problem.links.lane[copy.src * k + copy.dst]
            insort(self.waiting[lane], (copy.wanted, copy.op, copy.dst))
        if src >= 0:
            self.busy.discard(("lane", self.problem.links.lane[src * k + pu]))
            self._read(op, src)
        else:
            self.ended[op] = 1
            self.busy.discard(("turn", self.problem.links.group[pu]))
            self.used[pu] -= self._scratch(op, pu)
            for one in self.edges.flow(op):
                self._read(one, pu)
        if not self.readers.get(op * k + pu):
            self.used[pu] -= self.edges.nbytes[op]
        return src < 0

    def _read(self, op: int, pu: int) -> None:
        key = op * self.problem.k + pu
        self.readers[key] -= 1
        if not self.readers[key]:
            self.used[pu] -= self.edges.nbytes[op]

    def _scratch(self, op: int, pu: int) -> int:
        return self.edges.scratch(op, pu)

    def _start_some(self) -> bool:
        """Whether anything could be started now: ops whose turn it is, and copies for those that come soon."""
        started = False
        for turn, ops in self.turns.items():
            at = self.head[turn]
            if at < len(ops) and ("turn", turn) not in self.busy and self._may_run(ops[at]):
                self.head[turn] += 1
                self._begin_op(ops[at], turn)
                started = True
        for lane, copies in self.waiting.items():
            started |= ("lane", lane) not in self.busy and self._copy_some(lane, copies)
        return started

    def _may_run(self, op: int) -> bool:
        pu, k = self.place[op], self.problem.k
        if self.window == 0 and (self.running or self.position[op] != self.next):
            return False
        if any(one * k + pu not in self.present for one in self.edges.flow(op)):
            return False
        if not all(self.ended[one] for one in self.edges.order_only(op)):
            return False
        return self.used[pu] + self.edges.nbytes[op] + self._scratch(op, pu) <= self.capacity[pu]

    def _begin_op(self, op: int, turn: int) -> None:
        pu, problem = self.place[op], self.problem
        length = problem.seconds[problem.rows[op] * problem.k + pu]
        self.start[op], self.end[op] = self.now, self.now + length
        self._use(pu, self.edges.nbytes[op] + self._scratch(op, pu))
        self.busy.add(("turn", turn))
        self.running, self.next = self.running + 1, self.next + 1
        heapq.heappush(self.events, (self.end[op], op, pu, -1))

    def _use(self, pu: int, nbytes: int) -> None:
        self.used[pu] += nbytes

    def _copy_some(self, lane: int, copies: list[tuple[int, int, int]]) -> bool:
        for at, (wanted, op, dst) in enumerate(copies[:LOOKED_AT]):
            nbytes = self.edges.nbytes[op]
            if self.used[dst] + nbytes > self.capacity[dst] or not self._soon(wanted):
                continue
            del copies[at]
            src = self.copies[op * self.problem.k + dst].src
            end = self.now + self.problem.copy_seconds(self.problem.rows[op], src, dst)
            self._use(dst, nbytes)
            self.busy.add(("lane", lane))
            self.running += 1
            self.done.append((op, src, dst, self.now, end))
            heapq.heappush(self.events, (end, op, dst, src))
            return True
        return False

    def _soon(self, wanted: int) -> bool:
        """Whether the first reader of a copy is among the next ops of its PU."""
        if self.window == 0:
            return wanted == self.next and not any(kind == "turn" for kind, _ in self.busy)
        turn = self.problem.links.group[self.place[self.order[wanted]]]
        ahead = self.head[turn] + min(self.window, len(self.turns[turn]))
        return ahead >= len(self.turns[turn]) or wanted < self.position[self.turns[turn][ahead]]


class _Edges:
    """The edges of a problem by op, its sizes, and the routes between PUs."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._at, self._mid, self._pred = (ints(part) for part in problem.model.edges[:3])
        self._succ_at, self._succ_mid, self._succ = (ints(part) for part in problem.model.edges[3:])
        out = problem.graph.op_columns.out_nbytes
        self.nbytes = array("q", (out[row] for row in problem.rows))
        self._before = _routes(problem)
        self._hops: dict[int, tuple[tuple[int, int], ...]] = {}

    def flow(self, op: int) -> array[int]:
        """The ops whose values this one reads."""
        return self._pred[self._at[op] : self._mid[op]]

    def order_only(self, op: int) -> array[int]:
        """The ops that this one must follow without reading from them."""
        return self._pred[self._mid[op] : self._at[op + 1]]

    def readers(self, op: int) -> array[int]:
        """The ops that read the value of this one."""
        return self._succ[self._succ_at[op] : self._succ_mid[op]]

    def followers(self, op: int) -> array[int]:
        """All ops that come after this one, by value or by order."""
        return self._succ[self._succ_at[op] : self._succ_at[op + 1]]

    def waiting(self, op: int) -> int:
        """How many edges arrive at an op."""
        return self._at[op + 1] - self._at[op]

    def scratch(self, op: int, pu: int) -> int:
        """The bytes that an op needs only while it runs."""
        problem = self.problem
        return problem.scratch[problem.rows[op] * problem.k + pu] if problem.scratch else 0

    def before(self, src: int, dst: int) -> int:
        """The PU from which a value of `src` gets to `dst` in its last hop."""
        return self._before[src * self.problem.k + dst]

    def hops(self, src: int, dst: int) -> tuple[tuple[int, int], ...]:
        """The copies that bring a value from one PU to another."""
        key = src * self.problem.k + dst
        if key not in self._hops:
            before = self.before(src, dst)
            self._hops[key] = () if src == dst else (*self.hops(src, before), (before, dst))
        return self._hops[key]


def _routes(problem: Problem) -> list[int]:
    """The shortest routes for a value of mean size, as the PU before the last hop."""
    k, n = problem.k, max(1, problem.n)
    mean = sum(problem.graph.op_columns.out_nbytes) // n
    way = [problem.links.seconds(mean, a, b) for a in range(k) for b in range(k)]
    before = [a for a in range(k) for _ in range(k)]
    for via in range(k):
        for a in range(k):
            for b in range(k):
                if way[a * k + via] + way[via * k + b] < way[a * k + b] < inf or (
                    way[a * k + b] == inf and way[a * k + via] + way[via * k + b] < inf
                ):
                    way[a * k + b] = way[a * k + via] + way[via * k + b]
                    before[a * k + b] = before[via * k + b]
    return before


def edges_of(problem: Problem) -> _Edges:
    """The edges and sizes of a problem, by op."""
    return _Edges(problem)


def gated(problem: Problem, edges: _Edges, place: bytes, order: bytes, window: int) -> Times | None:
    """The times of a plan that waits for memory, or None if it gets stuck."""
    return Gated(problem, edges, place, order, window).run()
