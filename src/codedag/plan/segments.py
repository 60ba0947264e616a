"""Runs of ops on one PU that can be compiled and run as units: convex, and with an acyclic order between them."""

from __future__ import annotations

from collections.abc import Sequence


def segments(order: Sequence[int], place: Sequence[int], before: Sequence[Sequence[int]]) -> list[list[int]]:
    """The segments of a plan, in an order in which they can run; each is a list of ops of one PU.

    An op joins the open segment of its PU if every op that it depends on is in that segment or in one that was closed
    when the segment began.  So no path leaves a segment and comes back, and no two segments wait for each other.
    """
    found: list[list[int]] = []
    open_at: dict[int, int] = {}  # PU -> its open segment
    of: dict[int, int] = {}
    for op in order:
        current = open_at.get(place[op])
        if current is not None and all(of[p] == current or of[p] < current for p in before[op]):
            of[op] = current
            found[current].append(op)
            continue
        of[op] = open_at[place[op]] = len(found)
        found.append([op])
    return found
