"""Loop nests, and schedules of them: which loops are cut into tiles and in which order they run.

`features` is what a schedule does, in numbers that mean the same for every nest: how many bytes it brings from each
level of memory, what its innermost loop is like, how much of the time goes to loops themselves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul

LINE = 64  # bytes that memory is read by
LANES, CHAIN, HEADER = 8, 4.0, 6.0  # elements in a register; cycles of a sum that waits for the last; of a loop's start
BEYOND = (4.0, 12.0, 60.0)  # cycles for a line from beyond each cache, with some of them on the way at once
CACHES = (32 << 10, 512 << 10, 16 << 20)  # bytes, of one core of what is common today


@dataclass(frozen=True, slots=True)
class Access:
    """An array that each iteration touches once: by how many elements each loop moves on in it, and their bytes."""

    strides: tuple[int, ...]
    itemsize: int = 4
    written: bool = False


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Loops around one statement, whose iterations may run in any order."""

    extents: tuple[int, ...]
    accesses: tuple[Access, ...]

    def __post_init__(self) -> None:
        if not self.extents or min(self.extents) < 1:
            raise ValueError(f"extents: {self.extents} are not those of loops")
        if any(len(access.strides) != len(self.extents) for access in self.accesses):
            raise ValueError("accesses: each needs a stride for every loop")


@dataclass(frozen=True, slots=True)
class Schedule:
    """The size of a tile along each loop, the order of the loops over tiles and of those inside, outermost first."""

    tiles: tuple[int, ...]
    outer: tuple[int, ...]
    inner: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """One loop as it runs: which loop of the nest it is, how often it turns, how far each turn goes."""

    loop: int
    turns: int
    step: int


def levels_of(nest: LoopNest, schedule: Schedule) -> list[Level]:
    """The loops that run, outermost first; those over tiles come before those inside one."""
    rank = range(len(nest.extents))
    if any(sorted(order) != list(rank) for order in (schedule.outer, schedule.inner)):
        raise ValueError(f"{schedule}: each order must name every loop once")
    tiles = [min(tile, extent) for tile, extent in zip(schedule.tiles, nest.extents, strict=True)]
    outer = [Level(loop, math.ceil(nest.extents[loop] / tiles[loop]), tiles[loop]) for loop in schedule.outer]
    return [*outer, *(Level(loop, tiles[loop], 1) for loop in schedule.inner)]


def features(nest: LoopNest, schedule: Schedule, caches: Sequence[int] = CACHES) -> list[float]:
    """What tells this schedule from others of the same nest."""
    levels = levels_of(nest, schedule)
    every = math.prod(nest.extents)
    turning = [level for level in levels if level.turns > 1] or levels[-1:]
    fetched = [fetched_lines(nest, levels, size // part) / every for size in caches for part in (1, 2)]
    tile = sum(_lines(access, _covered(nest, levels, len(nest.extents))) for access in nest.accesses) * LINE
    begun = _headers(turning) / every
    guess = _cycles(nest, turning[-1]) + HEADER * begun + sum(map(mul, BEYOND, fetched[::2]))
    return [
        math.log2(guess), *(math.log2(1e-6 + each) for each in fetched), *(math.log2(tile / size) for size in caches),
        *_innermost(nest, turning[-1]), math.log2(turning[-1].turns), math.log2(1 + begun),
        *_innermost(nest, turning[-2:][0]), math.log2(turning[-2:][0].turns), _wasted(nest, schedule),
    ]  # fmt: skip


def _cycles(nest: LoopNest, level: Level) -> float:
    """What one iteration of the innermost loop should take if all is near: many at once, one by one, or in a chain."""
    strides = [access.strides[level.loop] for access in nest.accesses]
    written = [access.strides[level.loop] for access in nest.accesses if access.written]
    if 0 in written:
        return CHAIN
    at_once = min(level.turns, LANES) if all(abs(stride) <= 1 for stride in strides) else 1
    return 1.0 / at_once


def fetched_lines(nest: LoopNest, levels: Sequence[Level], cache_nbytes: int) -> float:
    """How many lines come from beyond a cache that keeps what was used last.

    From the innermost loop outwards, what loops touch fits into the cache up to some loop. What one turn of the loop
    around those has brought is still there in the next turn; every turn of the loops further out brings all of it anew.
    """
    turning = [level for level in levels if level.turns > 1]
    around = max(_fitting(nest, turning, cache_nbytes) - 1, 0)
    again, covered = math.prod(level.turns for level in turning[:around]), _covered(nest, turning, around)
    return again * sum(_lines(access, covered) for access in nest.accesses)


def _fitting(nest: LoopNest, levels: Sequence[Level], cache_nbytes: int) -> int:
    """The outermost loop from which on inwards everything fits; the innermost one's body where nothing does."""
    for at in range(len(levels) + 1):
        covered = _covered(nest, levels, at)
        if sum(_lines(access, covered) for access in nest.accesses) * LINE <= cache_nbytes:
            return at
    return len(levels)


def _covered(nest: LoopNest, levels: Sequence[Level], at: int) -> list[int]:
    """How many iterations of each loop of the nest the loops from `at` inwards go through."""
    covered = [1] * len(nest.extents)
    for level in levels[at:]:
        covered[level.loop] = min(nest.extents[level.loop], max(covered[level.loop], level.turns * level.step))
    return covered


def _lines(access: Access, covered: Sequence[int]) -> float:
    """The lines that an array has among so many iterations of each loop; loops of one stride overlap."""
    spans: defaultdict[int, int] = defaultdict(int)
    for stride, extent in zip(access.strides, covered, strict=True):
        if stride and extent > 1:
            spans[abs(stride)] += extent - 1
    near, rows = 1.0, 1.0
    for stride, more in sorted(spans.items()):
        if stride * access.itemsize < LINE:
            near += stride * more
        else:
            rows *= more + 1
    return rows * ((near - 1) * access.itemsize / LINE + 1)


def _innermost(nest: LoopNest, level: Level) -> Iterator[float]:
    """The shares of arrays that a loop keeps, goes along and jumps through: of those read, and of those written."""
    for written in (False, True):
        strides = [access.strides[level.loop] for access in nest.accesses if access.written is written]
        for kind in (lambda s: s == 0, lambda s: abs(s) == 1, lambda s: abs(s) > 1):
            yield sum(map(kind, strides)) / max(len(strides), 1)


def _headers(levels: Sequence[Level]) -> float:
    """How often a loop begins."""
    begun, total = 1, 0
    for level in levels:
        total += begun
        begun *= level.turns
    return float(total)


def _wasted(nest: LoopNest, schedule: Schedule) -> float:
    """The share of tiles that the last ones leave empty, over all loops."""
    full = math.prod(math.ceil(e / min(t, e)) * min(t, e) for e, t in zip(nest.extents, schedule.tiles, strict=True))
    return 1 - math.prod(nest.extents) / full
