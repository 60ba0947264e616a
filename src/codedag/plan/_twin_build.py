"""An instance from the columns of its files, in plain Python: the twin of sim_build.h."""

from __future__ import annotations

from array import array
from math import inf
from typing import TYPE_CHECKING, Any

from codedag.plan._twin_state import NEVER, whole

if TYPE_CHECKING:
    from codedag.plan._twin import Model

TICKS_PER_MEAN = 1048576.0
TICKS_AT_MOST = 1e15
MASK = 2**64 - 1


def mixed(z: int) -> int:
    """A number that depends on all bits of another (splitmix64)."""
    z &= MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def build(
    m: Model, n: int, k: int, src: Any, dst: Any, flow: Any, seconds: Any, nbytes: Any, scratch: Any, group: Any,
    lane: Any, latency: Any, rate: Any, capacity: Any,
) -> None:  # fmt: skip
    """Fills a model from buffers."""
    edges = list(zip(_column("q", src), _column("q", dst), bytes(flow), strict=True))
    cost, sizes, extra = _column("d", seconds), _column("q", nbytes), _column("q", scratch)
    m.n, m.k, m.group, m.lane = n, k, list(_column("i", group)), list(_column("i", lane))
    m.link_latency, m.link_rate = list(_column("d", latency)), list(_column("d", rate))
    m.groups, m.lanes = max(m.group, default=-1) + 1, max(m.lane, default=-1) + 1
    level = _levels(n, edges)
    _quantum(m, cost, sizes)
    ticks = [whole(c / m.quantum) if c < inf else NEVER for c in cost]
    marks = _hashes(n, k, edges, ticks, sizes)
    m.row = sorted(range(n), key=lambda row: (level[row], marks[row], row))
    m.nbytes = [sizes[row] for row in m.row]
    m.seconds = [cost[row * k + d] for row in m.row for d in range(k)]
    m.cost = [ticks[row * k + d] for row in m.row for d in range(k)]
    m.scratch = [extra[row * k + d] for row in m.row for d in range(k)] if extra else []
    _edges(m, edges)
    total = 0.0
    for size in m.nbytes:
        total += float(size)
    _routes(m, total / n if n else 0.0)


def _column(kind: str, data: Any) -> Any:
    return array(kind, bytes(data))


def _levels(n: int, edges: list[tuple[int, int, int]]) -> list[int]:
    out: list[list[int]] = [[] for _ in range(n)]
    waiting, level = [0] * n, [0] * n
    for source, target, _ in edges:
        out[source].append(target)
        waiting[target] += 1
    queue = [v for v in range(n) if not waiting[v]]
    for v in queue:
        for w in out[v]:
            level[w] = max(level[w], level[v] + 1)
            waiting[w] -= 1
            if not waiting[w]:
                queue.append(w)
    if len(queue) < n:
        raise ValueError("the edges form a cycle")
    return level


def _quantum(m: Model, seconds: Any, nbytes: Any) -> None:
    latency = perbyte = means = total = 0.0
    for i in range(m.k * m.k):
        if m.lane[i] >= 0:
            latency, perbyte = max(latency, m.link_latency[i]), max(perbyte, 1.0 / m.link_rate[i])
    for v in range(m.n):
        own = seconds[v * m.k : (v + 1) * m.k]
        means += min(own, default=inf)
        total += max((c for c in own if c < inf), default=0.0) + m.k * (latency + float(nbytes[v]) * perbyte)
    mean = means / m.n if means > 0 else total / m.n if total > 0 else 1.0
    m.quantum = max(mean / TICKS_PER_MEAN, total / TICKS_AT_MOST)


def _hashes(n: int, k: int, edges: list[tuple[int, int, int]], cost: list[int], nbytes: Any) -> list[int]:
    marks = []
    for v in range(n):
        h = mixed(nbytes[v] + 1)
        for d in range(k):
            h = mixed(h * 31 + cost[v * k + d])
        marks.append(h)
    for _ in range(3):
        into, out = [0] * n, [0] * n
        for source, target, flow in edges:
            into[target] = into[target] + mixed(marks[source] * 3 + flow) & MASK
            out[source] = out[source] + mixed(marks[target] * 5 + flow) & MASK
        marks = [mixed(marks[v] + mixed(into[v]) * 7 + mixed(out[v]) * 11) for v in range(n)]
    return marks


def _edges(m: Model, edges: list[tuple[int, int, int]]) -> None:
    number = {row: v for v, row in enumerate(m.row)}
    kinds: dict[tuple[int, int], int] = {}
    for source, target, flow in edges:
        key = number[target], number[source]
        kinds[key] = kinds.get(key, 0) | flow
    lists: list[list[list[int]]] = [[[] for _ in range(m.n)] for _ in range(4)]
    m.preds, m.orders, m.succs, m.followers = lists
    for (target, source), flow in sorted(kinds.items()):
        (m.preds if flow else m.orders)[target].append(source)
        (m.succs if flow else m.followers)[source].append(target)


def _routes(m: Model, mean_nbytes: float) -> None:
    k, link = m.k, [lane >= 0 for lane in m.lane]
    own = [i % k == i // k for i in range(k * k)]
    m.latency = [m.link_latency[i] / m.quantum if link[i] else 1e300 for i in range(k * k)]
    m.perbyte = [1.0 / m.link_rate[i] / m.quantum if link[i] else 0.0 for i in range(k * k)]
    m.least_latency = [0.0 if own[i] else m.latency[i] for i in range(k * k)]
    m.least_perbyte = [0.0 if own[i] else m.perbyte[i] if link[i] else 1e300 for i in range(k * k)]
    way = [0.0 if own[i] else m.latency[i] + mean_nbytes * m.perbyte[i] if link[i] else 1e300 for i in range(k * k)]
    m.via, m.plain = [-1] * (k * k), True
    for c in range(k):
        for a in range(k):
            for b in range(k):
                if a == b or c in (a, b):
                    continue
                ab, ac, cb = a * k + b, a * k + c, c * k + b
                for least in (m.least_latency, m.least_perbyte):
                    if least[ac] + least[cb] < least[ab]:
                        least[ab] = least[ac] + least[cb]
                        m.plain = False
                if way[ac] + way[cb] < way[ab]:
                    way[ab] = way[ac] + way[cb]
                    m.via[ab] = m.via[cb] if m.via[cb] >= 0 else c
    if any(not link[i] and not own[i] for i in range(k * k)):
        m.plain = False
