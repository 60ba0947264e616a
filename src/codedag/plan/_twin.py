"""The plain-Python twin of _sim.c: the same model, the same search, the same plans; slower.

Names and order of work follow the C files, so that the two can be read side by side.
"""

from __future__ import annotations

from array import array
from math import exp, inf, sqrt
from operator import itemgetter
from typing import Any

from codedag.plan._twin_build import build
from codedag.plan._twin_search import Search
from codedag.plan._twin_state import NEVER, State, least_ticks, whole

MEAN, LEAST = 0, 1
SAMPLE = 20_000
PU_GAPS = 256


class _PuLane:
    """When a processing unit is idle, for list schedules."""

    __slots__ = ("gaps", "tail")

    def __init__(self) -> None:
        self.tail = 0
        self.gaps: list[tuple[int, int]] = []

    def peek(self, ready: int, length: int) -> int:
        """When something of this length could start."""
        if ready < self.tail:
            for begin, end in self.gaps:
                start = max(begin, ready)
                if end > ready and start + length <= end:
                    return start
        return max(self.tail, ready)

    def take(self, start: int, length: int) -> None:
        """Occupies the time from `start` on."""
        if start >= self.tail:
            if start > self.tail:
                if len(self.gaps) == PU_GAPS:
                    del self.gaps[0]
                self.gaps.append((self.tail, start))
            self.tail = start + length
            return
        for at, (begin, end) in enumerate(self.gaps):
            if start < begin or start + length > end:
                continue
            left, right = start > begin, end > start + length
            if left and right and len(self.gaps) < PU_GAPS:
                self.gaps[at : at + 1] = [(begin, start), (start + length, end)]
            elif right:
                self.gaps[at] = (start + length, end)
            elif left:
                self.gaps[at] = (begin, start)
            else:
                del self.gaps[at]
            return


class Model:
    """An instance of the planning problem, as the extension's class of the same name."""

    def __init__(self, n: int, k: int, *columns: Any) -> None:
        build(self, n, k, *columns)

    # Filled by `build`.
    n: int
    k: int
    groups: int
    lanes: int
    plain: bool
    quantum: float
    preds: list[list[int]]  # flow only
    orders: list[list[int]]  # order only
    succs: list[list[int]]
    followers: list[list[int]]
    cost: list[int]
    nbytes: list[int]
    scratch: list[int]
    seconds: list[float]
    latency: list[float]
    perbyte: list[float]
    least_latency: list[float]
    least_perbyte: list[float]
    link_latency: list[float]
    link_rate: list[float]
    group: list[int]
    lane: list[int]
    via: list[int]
    row: list[int]

    @property
    def rows(self) -> bytes:
        """The row of the file that each op stands in."""
        return array("i", self.row).tobytes()

    @property
    def costs(self) -> bytes:
        """Ticks per op and PU."""
        return array("q", self.cost).tobytes()

    @property
    def edges(self) -> tuple[bytes, ...]:
        """Predecessors and successors, each as starts, ends of the flow part, and ops."""
        return (*_packed(self.preds, self.orders), *_packed(self.succs, self.followers))

    def _weight(self, v: int, how: int) -> int:
        known = [c for c in self.cost[v * self.k : (v + 1) * self.k] if c < NEVER]
        return sum(known) // len(known) if how == MEAN else min(known) if how == LEAST else max(known)

    def rank(self, how: int, copying: float) -> bytes:
        """Upward ranks."""
        links = [i for i in range(self.k * self.k) if self.lane[i] >= 0]
        latency = perbyte = 0.0
        for i in links:
            latency += self.latency[i]
            perbyte += self.perbyte[i]
        if links:
            latency, perbyte = copying * latency / len(links), copying * perbyte / len(links)
        rank = [0] * self.n
        for v in range(self.n - 1, -1, -1):
            copy = whole(latency + perbyte * float(self.nbytes[v]))
            most = max((rank[w] + copy for w in self.succs[v]), default=0)
            most = max(most, max((rank[w] for w in self.followers[v]), default=0), 0)
            rank[v] = most + self._weight(v, how)
        return array("q", rank).tobytes()

    def mixed(self) -> bytes:
        """Ops level after level, all kinds in proportion."""
        level = [0] * self.n
        for v in range(self.n):
            level[v] = max((level[p] + 1 for p in (*self.preds[v], *self.orders[v])), default=0)
        kinds = [(level[v], self.nbytes[v], self.cost[v * self.k : (v + 1) * self.k]) for v in range(self.n)]
        key, v = array("q"), 0
        while v < self.n:
            w = v + 1
            while w < self.n and kinds[w] == kinds[v]:
                w += 1
            key.extend((level[v] << 31) + ((2 * i + 1) << 30) // (w - v) // 2 for i in range(w - v))
            v = w
        return self.sorted(key.tobytes(), 1)

    def sorted(self, key: bytes, sign: int) -> bytes:
        """Ops by a key, equal ones in topological order."""
        keys = array("q", key)
        return array("i", sorted(range(self.n), key=lambda v: (sign * keys[v], v))).tobytes()

    def ahead(self) -> bytes:
        """What is to come after each op on each PU, at best."""
        k, cost, ahead = self.k, self.cost, [0] * (self.n * self.k)
        for v in range(self.n - 1, -1, -1):
            for d in range(k):
                most = 0
                for flow, others in ((True, self.succs[v]), (False, self.followers[v])):
                    for w in others:
                        best = NEVER
                        for q in range(k):
                            if cost[w * k + q] >= NEVER or ahead[w * k + q] >= NEVER:
                                continue
                            way = least_ticks(self, v, d, q) if flow else 0
                            if way < NEVER:
                                best = min(best, ahead[w * k + q] + cost[w * k + q] + way)
                        most = max(most, best)
                ahead[v * k + d] = most
        return array("q", ahead).tobytes()

    def path_bound(self, ahead: bytes) -> int:
        """The bound of the longest path."""
        look, k, bound = array("q", ahead), self.k, 0
        for v in range(self.n):
            ways = [self.cost[i] + look[i] for i in range(v * k, v * k + k) if self.cost[i] < NEVER and look[i] < NEVER]
            bound = max(bound, min(ways, default=NEVER))
        return bound

    def _priced(self, price: list[float], step: int, load: list[float] | None) -> float:
        value = 0.0
        for v in range(0, self.n, step):
            best, spent, which = -1.0, 0.0, 0
            for g in range(self.groups):
                c = min(self.cost[v * self.k + d] for d in range(self.k) if self.group[d] == g)
                if c < NEVER:
                    x = price[g] * float(c)
                    if best < 0 or x < best:
                        best, which, spent = x, g, float(c)
            value += best
            if load is not None:
                load[which] += spent
        return value

    def prices(self, rounds: int) -> tuple[float, bytes]:
        """The bound of the loads, and the prices that give it."""
        groups, step = self.groups, self.n // SAMPLE + 1
        logs, best = [0.0] * groups, -1.0
        now = price = [1.0 / groups] * groups
        for number in range(rounds):
            load = [0.0] * groups
            value = self._priced(now, step, load)
            if value > best:
                best, price = value, now
            total = 0.0
            for one in load:
                total += one
            if total <= 0:
                break
            logs = [x + 2.0 / sqrt(number + 1.0) * one / total for x, one in zip(logs, load, strict=True)]
            top = max(logs)
            logs = [x - top for x in logs]
            now = [exp(x) for x in logs]
            whole_sum = 0.0
            for one in now:
                whole_sum += one
            now = [x / whole_sum for x in now]
        return self._priced(price, 1, None), array("d", price).tobytes()

    def lists(
        self, order: bytes, ahead: bytes, ahead_weight: float, price: bytes, price_weight: float, fixed: bytes,
        gaps: bool, unlimited: bool, copy_weight: float,
    ) -> tuple[int, bytes, bytes] | None:  # fmt: skip
        """A list schedule: (makespan, place, start), or None."""
        k, cost, state = self.k, self.cost, State(self)
        look, prices, pinned = array("q", ahead), array("d", price), array("i", fixed)
        state.unlimited = unlimited
        pus, start, end, last = [_PuLane() for _ in range(self.groups)], [0] * self.n, [0] * self.n, 0
        for v in array("i", order):
            own = cost[v * k : v * k + k]
            cheapest = 0.0
            if prices:
                cheapest = min(
                    (prices[self.group[d]] * float(own[d]) for d in range(k) if own[d] < NEVER), default=1e300
                )
            floor = max((end[p] for p in (*self.preds[v], *self.orders[v])), default=0)
            best, chosen = NEVER, -1
            for d in range(k):
                if own[d] >= NEVER or (pinned and pinned[v] >= 0 and pinned[v] != d):
                    continue
                like = 0.0
                if look:
                    if look[v * k + d] >= NEVER:
                        continue
                    like += ahead_weight * float(look[v * k + d])
                if prices:
                    like += price_weight * (prices[self.group[d]] * float(own[d]) - cheapest)
                liking, pu = whole(like), pus[self.group[d]]
                if liking < NEVER and copy_weight > 0:
                    liking += whole(copy_weight * float(self._copying(state, v, d)))
                if liking >= NEVER or pu.peek(floor, own[d]) + own[d] + liking >= best:
                    continue
                ready = state.tried(v, d)
                if ready >= NEVER:
                    continue
                done = pu.peek(ready, own[d]) + own[d] + liking
                if done < best:
                    best, chosen = done, d
            if chosen < 0:
                return None
            pu = pus[self.group[chosen]]
            begin = pu.peek(state.inputs_at(v, chosen), own[chosen])
            pu.take(begin, own[chosen])
            state.place[v], start[v], end[v] = chosen, begin, begin + own[chosen]
            state.hold(v * k + chosen, end[v])
            last = max(last, end[v])
        return last, array("i", state.place).tobytes(), array("q", start).tobytes()

    def _copying(self, state: State, v: int, d: int) -> int:
        """Ticks of copies that an op needs on a PU."""
        far = [p for p in self.preds[v] if state.held.get(p * self.k + d, -1) < 0]
        return min(NEVER, sum(least_ticks(self, p, state.place[p], d) for p in far))

    def tails(self, place: bytes, order: bytes) -> bytes:
        """What comes after each op in this plan."""
        return array("q", tails(self, array("i", place), array("i", order))).tobytes()

    def ranked(self, place: bytes, tails: bytes) -> bytes:
        """Ops by falling time to the end in this plan."""
        where, tail = array("i", place), array("q", tails)
        key = array("q", (tail[v] + self.cost[v * self.k + where[v]] for v in range(self.n)))
        return self.sorted(key.tobytes(), -1)

    def look_from(self, place: bytes, tails: bytes) -> bytes:
        """What would come after each op on each PU."""
        where, tail, k, ahead = array("i", place), array("q", tails), self.k, array("q")
        for v in range(self.n):
            for d in range(k):
                most = 0
                for w in self.succs[v]:
                    most = max(most, tail[w] + self.cost[w * k + where[w]] + least_ticks(self, v, d, where[w]))
                for w in self.followers[v]:
                    most = max(most, tail[w] + self.cost[w * k + where[w]])
                ahead.append(min(most, NEVER))
        return ahead.tobytes()

    def simulate(self, place: bytes, order: bytes) -> int:
        """The makespan of a placement and order."""
        state = State(self)
        state.place = list(array("i", place))
        return state.simulate(array("i", order))

    def schedule(self, place: bytes, order: bytes) -> tuple[int, bytes, tuple[bytes, ...]]:
        """The whole schedule of a placement and order."""
        state = State(self)
        state.place, state.copies = list(array("i", place)), []
        made = state.simulate(array("i", order))
        columns = [array("i" if at < 3 else "q", map(itemgetter(at), state.copies)) for at in range(5)]
        return made, array("q", state.end).tobytes(), tuple(column.tobytes() for column in columns)

    def anneal(
        self, place: bytes, order: bytes, ahead: bytes, total: float, allowed: float, hot: float, cold: float,
        clusters: float, seed: int, deadline: float,
    ) -> tuple[int, bytes, bytes, float, bool]:  # fmt: skip
        """Annealing: (makespan, place, order, work, late)."""
        search = Search(self, list(array("i", place)), list(array("i", order)), array("q", ahead))
        late = search.best < NEVER and search.anneal(total, allowed, hot, cold, clusters, seed, deadline)
        best = array("i", search.best_place).tobytes(), array("i", search.best_order).tobytes()
        return search.best, *best, search.work, late

    def replay(self, place: bytes, end: bytes, copies: tuple[bytes, ...]) -> tuple[bytes, bytes, bytes, bytes]:
        """The schedule in seconds: everything as early as its turn allows."""
        where, ends, k = array("i", place), array("q", end), self.k
        op, src, dst = (array("i", column) for column in copies[:3])
        first, last = (array("q", column) for column in copies[3:])
        tasks = [(ends[v] - self.cost[v * k + where[v]], ends[v], v, -1) for v in range(self.n)]
        tasks += [(first[c], last[c], op[c], c) for c in range(len(op))]
        have = [-inf] * (self.n * k)
        turn, lanes = [0.0] * self.groups, [0.0] * self.lanes
        times = [array("d", bytes(8 * size)) for size in (self.n, self.n, len(op), len(op))]
        for _, _, v, c in sorted(tasks):
            if c >= 0:
                link = src[c] * k + dst[c]
                lane = self.lane[link]
                start = max(have[v * k + src[c]], lanes[lane])
                done = start + (self.link_latency[link] + float(self.nbytes[v]) / self.link_rate[link])
                lanes[lane] = have[v * k + dst[c]] = times[3][c] = done
                times[2][c] = start
                continue
            d = where[v]
            start = max([turn[self.group[d]], *(have[p * k + d] for p in self.preds[v])])
            start = max([start, *(have[p * k + where[p]] for p in self.orders[v])])
            times[0][v] = start
            times[1][v] = turn[self.group[d]] = have[v * k + d] = start + self.seconds[v * k + d]
        return times[0].tobytes(), times[1].tobytes(), times[2].tobytes(), times[3].tobytes()

    def peaks(self, place: bytes, start: bytes, end: bytes, copies: tuple[bytes, ...]) -> bytes:
        """The most bytes that are alive on each PU."""
        where, starts, ends, k = array("i", place), array("d", start), array("d", end), self.k
        op, src, dst = (array("i", column) for column in copies[:3])
        first, last = (array("d", column) for column in copies[3:])
        until = [-1.0] * (self.n * k)
        for v in range(self.n):
            for p in self.preds[v]:
                until[p * k + where[v]] = max(until[p * k + where[v]], ends[v])
        for c in range(len(op)):
            until[op[c] * k + src[c]] = max(until[op[c] * k + src[c]], last[c])
        changes: list[tuple[float, int, int]] = []

        def alive(begin: float, close: float, nbytes: int, pu: int) -> None:
            if nbytes > 0 and close > begin:
                changes.extend(((begin, nbytes, pu), (close, -nbytes, pu)))

        for v in range(self.n):
            d = where[v]
            alive(starts[v], until[v * k + d] if until[v * k + d] >= 0 else ends[v], self.nbytes[v], d)
            if self.scratch:
                alive(starts[v], ends[v], self.scratch[v * k + d], d)
        for c in range(len(op)):
            at = op[c] * k + dst[c]
            alive(first[c], until[at] if until[at] >= 0 else last[c], self.nbytes[op[c]], dst[c])
        now, peak = [0] * k, [0] * k
        for _, change, pu in sorted(changes):
            now[pu] += change
            peak[pu] = max(peak[pu], now[pu])
        return array("q", peak).tobytes()


def tails(m: Model, place: Any, order: Any) -> list[int]:
    """The longest way to the end through edges and turns on the PUs, for this placement and order; without waiting."""
    k, tail, after = m.k, [0] * m.n, [-1] * m.groups
    for v in reversed(order):
        d = place[v]
        g, most = m.group[d], 0
        if after[g] >= 0:
            most = tail[after[g]] + m.cost[after[g] * k + place[after[g]]]
        for w in m.succs[v]:
            most = max(most, tail[w] + m.cost[w * k + place[w]] + least_ticks(m, v, d, place[w]))
        for w in m.followers[v]:
            most = max(most, tail[w] + m.cost[w * k + place[w]])
        tail[v], after[g] = most, v
    return tail


def _packed(flow: list[list[int]], rest: list[list[int]]) -> tuple[bytes, bytes, bytes]:
    at, mid, ops = array("i", [0]), array("i"), array("i")
    for first, second in zip(flow, rest, strict=True):
        ops.extend(first)
        mid.append(len(ops))
        ops.extend(second)
        at.append(len(ops))
    return at.tobytes(), mid.tobytes(), ops.tobytes()
