"""What is known while a plan is simulated, in plain Python: the twin of sim.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codedag.plan._twin import Model

NEVER = 1 << 60
GAPS = 4
SORTED = 16

Gap = tuple[int, int]


def whole(x: float) -> int:
    """The nearest whole number of ticks."""
    return NEVER if x >= 1e18 else int(x + 0.5)


def copy_ticks(m: Model, p: int, q: int, d: int) -> int:
    """How long the value of p takes over the link from q to d."""
    at = q * m.k + d
    return whole(m.latency[at] + float(m.nbytes[p]) * m.perbyte[at])


def least_ticks(m: Model, p: int, q: int, d: int) -> int:
    """No copy from q to d takes less, whatever the route."""
    if q == d:
        return 0
    if m.plain:
        return copy_ticks(m, p, q, d)
    at = q * m.k + d
    x = m.least_latency[at] + float(m.nbytes[p]) * m.least_perbyte[at]
    return NEVER if x >= 1e18 else int(x)


class Lane:
    """A copy engine: when it is free, its last idle gaps, and the copy that ends at its tail."""

    __slots__ = ("gaps", "last", "tail")

    def __init__(self, tail: int = 0, gaps: tuple[Gap, ...] = (), last: int = -1) -> None:
        self.tail, self.gaps, self.last = tail, gaps, last

    def copy(self) -> Lane:
        """The same, apart from this one."""
        return Lane(self.tail, self.gaps, self.last)

    def peek(self, ready: int, length: int) -> int:
        """When a copy of this length would start."""
        for begin, end in self.gaps:
            start = max(begin, ready)
            if start + length <= end:
                return start
        return max(self.tail, ready)

    def slot(self, ready: int, length: int, copy: int) -> int:
        """When a copy of this length starts: in a remembered gap if it fits, else at the end."""
        for at, (begin, end) in enumerate(self.gaps):
            start = max(begin, ready)
            if start + length > end:
                continue
            left, right = start > begin, end > start + length
            parts: tuple[Gap, ...] = ()
            if left and right and len(self.gaps) < GAPS:
                parts = ((begin, start), (start + length, end))
            elif right:
                parts = ((start + length, end),)
            elif left:
                parts = ((begin, start),)
            self.gaps = self.gaps[:at] + parts + self.gaps[at + 1 :]
            return start
        start = max(self.tail, ready)
        if start > self.tail:
            kept = self.gaps[1:] if len(self.gaps) == GAPS else self.gaps
            self.gaps = (*kept, (self.tail, start))
        self.tail, self.last = start + length, copy
        return start


class State:
    """One simulation: where values are, when PUs and copy engines are free."""

    def __init__(self, m: Model) -> None:
        self.m = m
        self.place, self.end = [0] * m.n, [0] * m.n
        self.free, self.lane = [0] * m.groups, [Lane() for _ in range(m.lanes)]
        self.held: dict[int, int] = {}
        self.blocker: dict[int, int] = {}
        self.copies: list[tuple[int, int, int, int, int]] | None = None
        self.unlimited = False
        self.sends = 0

    def hold(self, at: int, when: int) -> None:
        """Notes that a value is on a PU from then on."""
        self.held[at] = when

    def _send(self, p: int, src: int, dst: int) -> int:
        m, to = self.m, p * self.m.k + dst
        ready, length = self.held[p * m.k + src], copy_ticks(m, p, src, dst)
        if self.unlimited:
            self.hold(to, ready + length)
            return ready + length
        self.sends += 1
        lane = self.lane[m.lane[src * m.k + dst]]
        before = lane.last if lane.tail > ready else -1
        start = lane.slot(ready, length, to)
        self.blocker[to] = before if start > ready else -1
        self.hold(to, start + length)
        if self.copies is not None:
            self.copies.append((p, src, dst, start, start + length))
        return start + length

    def fetch(self, p: int, d: int) -> int:
        """When the value of p is on d, copying it there if it is not; NEVER if no route leads there."""
        m, k, q = self.m, self.m.k, self.place[p]
        t = self.held.get(p * k + d, -1)
        if t >= 0:
            return t
        if m.plain:
            return self._send(p, q, d)
        best, source = NEVER, -1
        for h in range(k):
            which, t = m.lane[h * k + d], self.held.get(p * k + h, -1)
            if which < 0 or t < 0:
                continue
            length = copy_ticks(m, p, h, d)
            done = self.lane[which].peek(t, length) + length
            if done < best:
                best, source = done, h
        via = m.via[q * k + d]
        if via >= 0 and via != source:
            t = self.held.get(p * k + via, -1)
            if t < 0:
                t = self.held[p * k + q] + least_ticks(m, p, q, via)
            if t + copy_ticks(m, p, via, d) < best:
                if self.fetch(p, via) >= NEVER:
                    return NEVER
                source = via
        return NEVER if source < 0 else self._send(p, source, d)

    def inputs_at(self, v: int, d: int) -> int:
        """When all that v needs is on d; NEVER if something cannot get there."""
        m, k, ready = self.m, self.m.k, 0
        far: list[tuple[int, int]] = []
        for p in m.preds[v]:
            t = self.held.get(p * k + d, -1)
            if t < 0 and len(far) < SORTED:  # what is ready first is copied first
                far.append((self.held[p * k + self.place[p]], p))
            else:
                ready = max(ready, t if t >= 0 else self.fetch(p, d))
        for _, p in sorted(far):
            ready = max(ready, self.fetch(p, d))
        for p in m.orders[v]:
            ready = max(ready, self.held[p * m.k + self.place[p]])
        return ready

    def tried(self, v: int, d: int) -> int:
        """The same without leaving a trace."""
        held, lanes = self.held, self.lane
        self.held, self.lane = _Overlay(held), [lane.copy() for lane in lanes]
        ready = self.inputs_at(v, d)
        self.held, self.lane = held, lanes
        return ready

    def simulate(self, order: Sequence[int]) -> int:
        """The makespan of the placement with this order; NEVER if it cannot run."""
        m, last = self.m, 0
        for v in order:
            d = self.place[v]
            ready, length, g = self.inputs_at(v, d), m.cost[v * m.k + d], m.group[d]
            if ready >= NEVER or length >= NEVER:
                return NEVER
            done = max(ready, self.free[g]) + length
            self.end[v] = self.free[g] = done
            self.hold(v * m.k + d, done)
            last = max(last, done)
        return last


class _Overlay(dict[int, int]):
    """A dict over another one that it does not change."""

    __slots__ = ("_below",)

    def __init__(self, below: dict[int, int]) -> None:
        super().__init__()
        self._below = below

    def __missing__(self, key: int) -> int:
        return self._below[key]

    def get(self, key: int, default: int = -1) -> int:  # type: ignore[override]
        """What is there, here or below."""
        return self[key] if key in self else self._below.get(key, default)
