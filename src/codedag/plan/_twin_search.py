"""Annealing on (placement, order), in plain Python: the twin of sim_search.h.

It draws the same numbers and counts the same work.  What the extension keeps to start in the middle of a simulation is
not kept here: every attempt runs from the beginning, which gives the same result.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import exp, log
from typing import TYPE_CHECKING

from codedag.plan._twin_state import NEVER, Lane, State

if TYPE_CHECKING:
    from codedag.plan._twin import Model

STEP = 32
WINDOW = 40
CLUSTER = 12
MASK = 2**64 - 1


class Numbers:
    """A stream of numbers that depends on the seed only (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self) -> int:
        """The next 64 bits."""
        self._seed = self._seed + 0x9E3779B97F4A7C15 & MASK
        z = self._seed
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)

    def unit(self) -> float:
        """A number from 0 to below 1."""
        return float(self.draw() >> 11) * 2.0**-53

    def below(self, most: int) -> int:
        """A whole number from 0 to below `most`."""
        return ((self.draw() >> 32) * most) >> 32


class _Kept:
    """The state of a simulation before some position."""

    __slots__ = ("free", "held", "lane", "last")

    def __init__(self, state: State, last: int) -> None:
        self.free, self.lane, self.last = state.free[:], [lane.copy() for lane in state.lane], last
        self.held = dict(state.held)


class Search:
    """The current plan, the best one, and the moves between plans."""

    def __init__(self, m: Model, place: list[int], order: list[int], ahead: Sequence[int]) -> None:
        self.m, self.place, self.order, self.ahead = m, place, order, ahead
        self.pos = [0] * m.n
        self.best_place, self.best_order = place[:], order[:]
        self.critical: list[int] = []
        self.members: list[tuple[int, int]] = []
        self.kept: list[_Kept] = []
        self.work, self.stale = 0.0, True
        self.held: dict[int, int] = {}
        self.blocker: dict[int, int] = {}
        self.tail: list[int] = []
        self.load: list[list[int]] = []
        self.current = self.best = self._commit(0)

    def _state(self, x0: int) -> tuple[State, int]:
        """The state before a kept position, to go on from."""
        state = State(self.m)
        state.place = self.place
        if x0 == 0:
            return state, 0
        kept = self.kept[x0 // STEP]
        state.free, state.lane = kept.free[:], [Lane(one.tail, one.gaps, one.last) for one in kept.lane]
        state.held = dict(kept.held)
        return state, kept.last

    def _resume(self, first: int, changed: int, limit: int) -> int:
        m, k = self.m, self.m.k
        x0 = first // STEP * STEP
        state, last = self._state(x0)
        for x in range(x0, m.n):
            if x % STEP == 0 and x > changed:
                load = self.load[x // STEP]
                if any(free + more > limit for free, more in zip(state.free, load, strict=True)):
                    self.work += x - x0 + state.sends
                    return NEVER
            v = self.order[x]
            d = self.place[v]
            g = m.group[d]
            end = max(state.inputs_at(v, d), state.free[g]) + m.cost[v * k + d]
            if end + (self.tail[v] if x > changed else self.ahead[v * k + d]) > limit:
                self.work += x - x0 + 1 + state.sends
                return NEVER
            state.free[g] = end
            state.hold(v * k + d, end)
            last = max(last, end)
        self.work += m.n - x0 + state.sends
        return last

    def _commit(self, first: int) -> int:
        from codedag.plan._twin import tails

        m, k = self.m, self.m.k
        x0 = first // STEP * STEP
        state, last = self._state(x0)
        state.blocker = dict(self.blocker)
        del self.kept[x0 // STEP :]
        for x in range(x0, m.n):
            if x % STEP == 0:
                self.kept.append(_Kept(state, last))
            v = self.order[x]
            d = self.place[v]
            g, ready, length = m.group[d], state.inputs_at(v, d), m.cost[v * k + d]
            if ready >= NEVER or length >= NEVER:
                return NEVER
            state.free[g] = end = max(ready, state.free[g]) + length
            state.hold(v * k + d, end)
            last = max(last, end)
        self.held, self.blocker = state.held, state.blocker
        self.tail = tails(m, self.place, self.order)
        self._loads()
        self.work += 2 * m.n - x0 + state.sends
        self.stale = True
        return last

    def _loads(self) -> None:
        m, load = self.m, [0] * self.m.groups
        self.load = [[] for _ in range(m.n // STEP + 1)]
        for x in range(m.n - 1, -1, -1):
            v = self.order[x]
            load[m.group[self.place[v]]] += m.cost[v * m.k + self.place[v]]
            if x % STEP == 0:
                self.load[x // STEP] = load[:]

    def _find_critical(self) -> None:
        m, k, found = self.m, self.m.k, self.held
        most, v, last = m.n + 8, -1, -1
        before, latest = [-1] * m.n, [-1] * m.groups
        for x, w in enumerate(self.order):
            g = m.group[self.place[w]]
            self.pos[w], before[w], latest[g] = x, latest[g], w
            end = found[w * k + self.place[w]]
            if end > last:
                last, v = end, w
        path: list[int] = []
        while v >= 0 and len(path) < most:
            path.append(v)
            d = self.place[v]
            start, cause, copy = found[v * k + d] - m.cost[v * k + d], -1, -1
            for flow, others in ((True, m.preds[v]), (False, m.orders[v])):
                for p in others:
                    q = d if flow else self.place[p]
                    if found[p * k + q] >= start:
                        cause = p
                        if q != self.place[p]:
                            copy = p * k + q
            while copy >= 0 and len(path) < most:
                blocked = self.blocker[copy]
                if blocked >= 0:
                    path.append(cause)
                    cause = blocked // k
                copy = blocked
            if cause < 0 and before[v] >= 0 and found[before[v] * k + self.place[before[v]]] >= start:
                cause = before[v]
            v = cause
        self.critical, self.stale = path, False
        self.work += m.n

    def _neighbour(self, numbers: Numbers, v: int) -> int:
        m = self.m
        ins, outs = len(m.preds[v]) + len(m.orders[v]), len(m.succs[v]) + len(m.followers[v])
        if ins + outs == 0:
            return -1
        j = numbers.below(ins + outs)
        return [*m.preds[v], *m.orders[v], *m.succs[v], *m.followers[v]][j]

    def _join(self, v: int, d: int) -> bool:
        m = self.m
        if len(self.members) == CLUSTER or self.place[v] == d or m.cost[v * m.k + d] >= NEVER:
            return False
        self.members.append((v, self.place[v]))
        self.place[v] = d
        return True

    def _change_pu(self, numbers: Numbers, v: int, clusters: float) -> bool:
        d, was, kind = numbers.below(self.m.k), self.place[v], numbers.unit()
        self.members = []
        if kind < 0.5:
            w = self._neighbour(numbers, v)
            if w >= 0:
                d = self.place[w]
        if not self._join(v, d):
            return False
        r = numbers.unit()
        if r < 0.3:
            w = self._neighbour(numbers, v)
            if w >= 0:
                self._join(w, d)
        elif r < 0.3 + clusters:
            most, tries = 2 + numbers.below(CLUSTER - 1), 0
            while len(self.members) < most and tries < 3 * CLUSTER:
                w = self._neighbour(numbers, self.members[numbers.below(len(self.members))][0])
                if w >= 0 and self.place[w] == was:
                    self._join(w, d)
                tries += 1
        return True

    def _shift(self, p0: int, p1: int) -> None:
        v = self.order.pop(p0)
        self.order.insert(p1, v)
        for x in range(min(p0, p1), max(p0, p1) + 1):
            self.pos[self.order[x]] = x

    def _new_position(self, numbers: Numbers, v: int) -> int:
        m, p0 = self.m, self.pos[v]
        low = max((self.pos[p] + 1 for p in (*m.preds[v], *m.orders[v])), default=0)
        high = min((self.pos[w] - 1 for w in (*m.succs[v], *m.followers[v])), default=m.n - 1)
        low, high = max(low, p0 - WINDOW), min(high, p0 + WINDOW)
        return low + numbers.below(high - low + 1) if high > low else p0

    def anneal(
        self, total: float, allowed: float, hot: float, cold: float, clusters: float, seed: int, deadline: float
    ) -> bool:
        """Anneals until the work is done or the clock says stop; whether the clock did."""
        m, numbers, start = self.m, Numbers(seed), self.work
        temperature, floor = hot * float(self.current), cold * float(self.current)
        t0, rounds = temperature, 0
        slope = log(floor / t0) if t0 > 0 and floor > 0 else 0.0
        while self.work - start < allowed:
            if rounds % 64 == 0:
                temperature = t0 * exp(slope * (self.work - start) / total)
                if deadline > 0 and rounds % 256 == 0 and time.thread_time() > deadline:
                    return True
            rounds += 1
            if self.stale:
                self._find_critical()
            self.work += 1
            critical = numbers.unit() < 0.7
            v = self.critical[numbers.below(len(self.critical))] if critical else numbers.below(m.n)
            self._attempt(numbers, v, temperature, clusters)
        return False

    def _attempt(self, numbers: Numbers, v: int, temperature: float, clusters: float) -> None:
        m, kind = self.m, numbers.unit()
        first, changed, p0, p1 = m.n, -1, -1, -1
        self.members = []
        if kind < 0.6 and m.k > 1:
            if not self._change_pu(numbers, v, clusters):
                return
            places = [self.pos[w] for w, _ in self.members]
            first, changed = min(places), max(places)
        if kind >= 0.6 or m.k == 1 or kind < 0.15:
            p0, p1 = self.pos[v], self._new_position(numbers, v)
            if p0 == p1:
                p0 = -1
                if not self.members:
                    return
            else:
                self._shift(p0, p1)
                first, changed = min(first, p0, p1), max(changed, p0, p1)
        slack = -temperature * log(1.0 - numbers.unit())
        limit = self.current + (0 if slack > 1e17 else int(slack))
        made = self._resume(first, changed, limit)
        if made <= limit:
            self._commit(first)
            self.current = made
            if made < self.best:
                self.best, self.best_place, self.best_order = made, self.place[:], self.order[:]
            return
        if p0 >= 0:
            self._shift(p1, p0)
        for w, old in reversed(self.members):
            self.place[w] = old
