"""A line of stages that every item passes in order: when each stage begins an item, and when it has handed it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """The moments of all items, by stage and then by item."""

    begun: list[list[float]]
    left: list[list[float]]  # handed on: with a full queue behind it, a stage waits with its item

    @property
    def seconds(self) -> float:
        """When the last item has left."""
        return self.left[-1][-1] if self.left and self.left[-1] else 0.0


def line(times: Sequence[Sequence[float]], depths: Sequence[int] | None = None) -> Line:
    """When each item is where, if `times[stage][item]` is its work: exact, in stages times items.

    A stage does one item at a time.  Behind stage s is a queue for `depths[s]` items, at least one; without depths
    there is always room.
    """
    last = len(times) - 1
    begun: list[list[float]] = [[] for _ in times]
    left: list[list[float]] = [[] for _ in times]
    for item in range(len(times[0]) if times else 0):
        ready = 0.0
        for stage, own in enumerate(times):
            start = max(ready, left[stage][-1]) if item else ready
            ready = start + own[item]
            if depths is not None and stage < last and item >= depths[stage]:
                ready = max(ready, begun[stage + 1][item - depths[stage]])
            begun[stage].append(start)
            left[stage].append(ready)
    return Line(begun, left)
