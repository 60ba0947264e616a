"""Where to switch along a chain: the exact answer by dynamic programming, in length times PUs squared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf


def switches(costs: Sequence[Sequence[float]], switch: Callable[[int, int, int], float]) -> tuple[float, list[int]]:
    """The least total and the choice for each step of a chain.

    `costs[i][d]` is what step i costs as d, `switch(i, a, b)` what it costs to go from a after step i to b.  Ties go to
    the smaller number.
    """
    if not costs:
        return 0.0, []
    best, back = list(costs[0]), list[list[int]]()
    for i in range(1, len(costs)):
        ways = [
            [best[a] + (switch(i - 1, a, b) if a != b else 0.0) for a in range(len(best))] for b in range(len(costs[i]))
        ]
        chosen = [min(range(len(way)), key=way.__getitem__) for way in ways]
        back.append(chosen)
        best = [way[a] + cost for way, a, cost in zip(ways, chosen, costs[i], strict=True)]
    total = min(best)
    if total == inf:
        return inf, []
    path = [best.index(total)]
    for chosen in reversed(back):
        path.append(chosen[path[-1]])
    return total, path[::-1]


def recompute(seconds: Sequence[float], nbytes: Sequence[int], budget: int) -> tuple[float, list[int]]:
    """Which values of a list of layers to compute again instead of keeping them, so that the rest fits the budget.

    The least extra seconds and the layers to recompute: exact, by keeping only combinations that no other beats in both
    time and bytes.  A layer that is recomputed is not kept at all; without any kept, nothing needs memory.
    """
    states: list[tuple[int, float, tuple[int, ...]]] = [(0, 0.0, ())]
    for at, (extra, size) in enumerate(zip(seconds, nbytes, strict=True)):
        grown = [(kept + size, time, again) for kept, time, again in states if kept + size <= budget]
        states = _undominated(grown + [(kept, time + extra, (*again, at)) for kept, time, again in states])
    _, time, again = min(states, key=lambda one: (one[1], one[0], one[2]))
    return time, list(again)


def _undominated(states: list[tuple[int, float, tuple[int, ...]]]) -> list[tuple[int, float, tuple[int, ...]]]:
    kept: list[tuple[int, float, tuple[int, ...]]] = []
    for state in sorted(states):
        if not kept or state[1] < kept[-1][1]:
            kept.append(state)
    return kept
