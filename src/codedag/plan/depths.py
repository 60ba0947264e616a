"""How many items may wait between the stages of a line: as few as keep its throughput, within a memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from codedag.ir import CannotPlan
from codedag.plan.line import line

SHARE = 0.95  # of the throughput with unlimited queues
HANDS = 2  # items of an edge that are in no queue: one that waits to be put there, one that is worked on


@dataclass(frozen=True, slots=True)
class Depths:
    """The queues of a line: items that may wait on each edge, the most bytes that are alive, and what is reached."""

    depths: list[int]
    nbytes: int
    share: float  # of the throughput with unlimited queues


def depths(
    times: Sequence[Sequence[float]], nbytes: Sequence[int], most_nbytes: int | None = None, share: float = SHARE
) -> Depths:
    """The depth of each queue between stages, for items as they were measured (`times[stage][item]`).

    From depths at which nobody ever waits for room, each is made as small as the share allows, where bytes are many
    first.  If that is above `most_nbytes`, they shrink where it costs the least per byte, and the share says so.
    """
    free = line(times).seconds
    found = _roomy(times)
    for edge in sorted(range(len(found)), key=lambda one: -nbytes[one]):
        found[edge] = _least(times, found, edge, free / share)
    if most_nbytes is not None:
        _shrink(times, found, nbytes, most_nbytes)
    took = line(times, found).seconds
    return Depths(found, _alive(found, nbytes), free / took if took else 1.0)


def _roomy(times: Sequence[Sequence[float]]) -> list[int]:
    """The least depths with which everything happens when it would with unlimited ones."""
    free = line(times)
    return [
        max([1, *(item + 1 - bisect_right(free.begun[edge + 1], at) for item, at in enumerate(free.left[edge]))])
        for edge in range(len(times) - 1)
    ]


def _least(times: Sequence[Sequence[float]], found: list[int], edge: int, most_seconds: float) -> int:
    """The least depth of one edge that keeps within the time; more room never takes longer, so halving finds it."""
    low, high = 1, found[edge]
    while low < high:
        middle = (low + high) // 2
        if line(times, [*found[:edge], middle, *found[edge + 1 :]]).seconds <= most_seconds:
            high = middle
        else:
            low = middle + 1
    return low


def _shrink(times: Sequence[Sequence[float]], found: list[int], nbytes: Sequence[int], most: int) -> None:
    while _alive(found, nbytes) > most:
        able = [edge for edge, depth in enumerate(found) if depth > 1 and nbytes[edge]]
        if not able:
            raise CannotPlan(
                f"stages need {_alive(found, nbytes)} bytes between them with queues of one item, {most} are allowed",
                hint="Take fewer stages, or smaller items.",
            )
        found[min(able, key=lambda edge: _shorter(times, found, edge) / nbytes[edge])] -= 1


def _shorter(times: Sequence[Sequence[float]], found: list[int], edge: int) -> float:
    return line(times, [depth - (at == edge) for at, depth in enumerate(found)]).seconds


def _alive(found: Sequence[int], nbytes: Sequence[int]) -> int:
    """The most bytes that can be alive between the stages."""
    return sum((depth + HANDS) * size for depth, size in zip(found, nbytes, strict=True))
