"""Which row an id has, which edges leave a row, and an order that respects them: all in linear time."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

NOWHERE = -1


def filled(value: int, length: int) -> array[int]:
    """A column of one repeated number."""
    return array("q", [value]) * length


class RowIndex:
    """The row of each op id: a plain table where ids are dense, a dict where they are sparse."""

    __slots__ = ("_dense", "_sparse")

    def __init__(self, ids: array[int]) -> None:
        self._sparse: dict[int, int] = {}
        self._dense = array("q")
        top = max(ids, default=NOWHERE)
        # A table costs 8 bytes per possible id, a dict about 100 per id that exists.
        if top < 8 * len(ids) + 1024:
            self._dense = _dense_table(ids, top)
        else:
            self._sparse = {id_: row for row, id_ in enumerate(ids)}

    def row(self, id_: int) -> int:
        """The row of this id, or -1; of a repeated id, the last row."""
        if self._sparse:
            return self._sparse.get(id_, NOWHERE)
        return self._dense[id_] if 0 <= id_ < len(self._dense) else NOWHERE

    def rows(self, ids: Sequence[int]) -> array[int]:
        """The rows of many ids, -1 where unknown."""
        return array("q", map(self.row, ids))


def _dense_table(ids: array[int], top: int) -> array[int]:
    table = filled(NOWHERE, top + 1)
    for row, id_ in enumerate(ids):
        if id_ >= 0:
            table[id_] = row
    return table


class Adjacency:
    """The positions of the edges at each row, grouped by row (compressed sparse rows), in edge order."""

    __slots__ = ("_positions", "_starts")

    def __init__(self, length: int, rows: array[int]) -> None:
        counts = filled(0, length + 1)
        for row in rows:
            counts[row + 1] += 1
        self._starts = array("q", accumulate(counts))
        free = self._starts[:]
        self._positions = filled(NOWHERE, len(rows))
        for position, row in enumerate(rows):
            self._positions[free[row]] = position
            free[row] += 1

    def at(self, row: int) -> array[int]:
        """The positions of the edges at this row."""
        return self._positions[self._starts[row] : self._starts[row + 1]]


def kahn(length: int, sources: array[int], targets: array[int]) -> array[int]:
    """The rows in an order that respects all edges; shorter than `length` if there is a cycle."""
    leaving = Adjacency(length, sources)
    waiting = filled(0, length)
    for target in targets:
        waiting[target] += 1
    order = array("q", (row for row in range(length) if not waiting[row]))
    for row in order:  # grows while it is read: the result is its own queue
        for edge in leaving.at(row):
            target = targets[edge]
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order


def one_cycle(length: int, sources: array[int], targets: array[int], order: array[int]) -> list[int]:
    """The rows of one cycle, in the direction of its edges, given the order that `kahn` could not finish."""
    left_over = bytearray(b"\1") * length
    for row in order:
        left_over[row] = 0
    before = filled(NOWHERE, length)
    for source, target in zip(sources, targets, strict=True):
        if left_over[source] and left_over[target]:
            before[target] = source
    return _walk_back(before, left_over.index(1))


def _walk_back(before: array[int], row: int) -> list[int]:
    # Every row that is left over waits for one that is left over, so walking back must meet itself.
    met: dict[int, int] = {}
    path: list[int] = []
    while row not in met:
        met[row] = len(path)
        path.append(row)
        row = before[row]
    return path[met[row] :][::-1]
