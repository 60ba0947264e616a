"""Loop nests, and schedules of them: which loops are cut into tiles and in which order they run.

`features` is what a schedule does, in numbers that mean the same for every nest: how it computes, how many lines and
pages it brings from beyond each level of memory, how often loops begin. The first of them (`priced`) are amounts for
each iteration: their sum, each times a price, is a first guess of the time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

LINE, PAGE, VECTOR = 64, 4096, 32  # bytes that memory is read by, that an address is looked up by, of a register
WAYS = 8  # lines whose addresses end alike that the smallest cache holds
PAGES = (64, 2048)  # pages whose addresses the two tables of a processor hold
PEELED = 16  # steps up to which a compiler writes a loop of known length out
GROUPED = (0, 1, 2, 3, 4, 8)  # strides that are read as whole registers, which are then sorted
SHARP = 12.0  # how suddenly something does not fit any more; finite, so that a little more is a little worse
CACHES = (32 << 10, 512 << 10, 16 << 20)  # bytes, of one core of what is common today
KINDS = ("vector", "grouped", "strided", "sum", "jumping sum", "scatter", "jumping scatter")
NEVER = 20.0  # more, as a power of two of lines, than the smallest cache has
DEEP = 3  # loops, from the innermost outwards, that are described each


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


@dataclass(frozen=True, slots=True)
class Walk:
    """The loops of a schedule that turn, outermost first: how often on average, and what is inside of each."""

    nest: LoopNest
    levels: tuple[Level, ...]
    turns: tuple[float, ...]
    covered: tuple[tuple[float, ...], ...]  # iterations of each loop from a level on inwards; at last those of none

    @classmethod
    def of(cls, nest: LoopNest, schedule: Schedule) -> Walk:
        """The walk of a schedule; of a nest with a single iteration, one loop that turns once."""
        every = levels_of(nest, schedule)
        levels = tuple(level for level in every if level.turns > 1) or (every[-1],)
        again = {level.loop: level.turns for level in every if level.step > 1}  # the last tile may be a part only
        turns = [nest.extents[one.loop] / again.get(one.loop, 1) if one.step == 1 else one.turns for one in levels]
        covered = [(1.0,) * len(nest.extents)]
        for level, many in zip(reversed(levels), reversed(turns), strict=True):
            inside = list(covered[-1])
            inside[level.loop] = min(nest.extents[level.loop], max(inside[level.loop], many * level.step))
            covered.append(tuple(inside))
        return cls(nest, levels, tuple(map(float, turns)), tuple(reversed(covered)))

    @property
    def loop(self) -> int:
        """The innermost loop."""
        return self.levels[-1].loop

    def known(self, back: int) -> bool:
        """Whether the compiler knows how often a loop turns, counted from the innermost; a last tile may be less."""
        loops = [level.loop for level in self.levels]
        return loops.count(loops[max(len(loops) - back, 0)]) == 1


def features(nest: LoopNest, schedule: Schedule, caches: Sequence[int] = CACHES) -> list[float]:
    """What tells this schedule from others; as many as `priced` says come first, amounts for each iteration."""
    walk = Walk.of(nest, schedule)
    return [
        *_computing(walk),
        *_touching(walk),
        *_beginning(walk),
        *_bringing(walk, caches),
        *_describing(walk, caches),
    ]


def priced(caches: Sequence[int] = CACHES) -> int:
    """How many of the features are amounts: of computing, touching, beginning, lines from each cache, and pages."""
    return len(KINDS) + 1 + 4 + 5 + 4 * len(caches) + len(PAGES)


def fetched_lines(nest: LoopNest, schedule: Schedule, cache_nbytes: int) -> float:
    """How many lines come from beyond a cache that keeps what was used last."""
    return sum(fetched(Walk.of(nest, schedule), cache_nbytes // LINE))


def fetched(walk: Walk, capacity: int, unit: int = LINE, sets: int = 0) -> list[float]:
    """How many lines (or pages) of each array come from beyond a place that keeps so many of those used last.

    As long as what a turn of a loop touches fits, the next turn finds it there, and the loop brings only what is new;
    a loop whose turns do not fit brings all of it in every turn.
    """
    brought = [1.0] * len(walk.nest.accesses)
    for at in range(len(walk.levels) - 1, -1, -1):
        inside, around, turns = walk.covered[at + 1], walk.covered[at], walk.turns[at]
        filled = sum(_filled(access, inside, unit, sets) for access in walk.nest.accesses)
        kept = 1 / (1 + (filled / capacity) ** SHARP)
        news = [
            min(turns * one, _units(access, around, unit))
            for one, access in zip(brought, walk.nest.accesses, strict=True)
        ]
        brought = [(1 - kept) * turns * one + kept * new for one, new in zip(brought, news, strict=True)]
    return brought


@dataclass(frozen=True, slots=True)
class Shape:
    """What some iterations touch of an array: rows that lie apart, and how many lines each has."""

    rows: float
    units: float
    apart: tuple[tuple[int, int], ...]  # bytes from a row to the next, and how many


def _shape(access: Access, covered: Sequence[float], unit: int) -> Shape:
    """The shape of what is touched; loops of one stride overlap, and rows without a gap are one."""
    spans: defaultdict[int, float] = defaultdict(float)
    for stride, extent in zip(access.strides, covered, strict=True):
        if stride and extent > 1:
            spans[abs(stride)] += extent - 1
    near, rows = 1.0, 1.0
    apart: list[tuple[int, int]] = []
    for stride, more in sorted(spans.items()):
        if not apart and (stride * access.itemsize < unit or stride <= near):
            near += stride * more
        else:
            rows *= more + 1
            apart.append((stride * access.itemsize, math.ceil(more) + 1))
    return Shape(rows, (near - 1) * access.itemsize / unit + 1, tuple(apart))


def _units(access: Access, covered: Sequence[float], unit: int) -> float:
    """The lines (or pages) that an array has among so many iterations of each loop."""
    shape = _shape(access, covered, unit)
    return shape.rows * shape.units


def _filled(access: Access, covered: Sequence[float], unit: int, sets: int) -> float:
    """The lines of a cache that those of an array make useless for others: more than they are if they begin alike."""
    shape = _shape(access, covered, unit)
    lines = shape.rows * shape.units
    if not sets or not shape.apart:
        return lines
    begun, rows = _begun(shape.apart, sets)
    reached = min(sets, begun * shape.units)
    return lines * sets / reached if rows * shape.units > reached else lines


def _sets(cache_nbytes: int) -> int:
    """How many sets of lines a cache has."""
    return max(cache_nbytes // LINE // WAYS, 1)


@lru_cache(maxsize=1 << 14)
def _begun(apart: tuple[tuple[int, int], ...], sets: int) -> tuple[int, int]:
    """In how many of the sets of a cache rows begin, and how many rows were looked at: enough to fill it."""
    places = [0]
    for step, count in apart:
        places = [place + step * at for place in places for at in range(count)][: sets * WAYS * 2]
    return len({place // LINE % sets for place in places}), len(places)


def _kind(walk: Walk) -> str:
    """How an innermost loop computes: whole registers at once or one by one, into one place or along or across."""
    read = [abs(one.strides[walk.loop]) for one in walk.nest.accesses if not one.written]
    written = [abs(one.strides[walk.loop]) for one in walk.nest.accesses if one.written]
    along = all(stride <= 1 for stride in read)
    if 0 in written:
        return "sum" if along else "jumping sum"
    if any(stride != 1 for stride in written):
        return "scatter" if along else "jumping scatter"
    return "vector" if along else "grouped" if all(stride in GROUPED for stride in read) else "strided"


def _steps(count: int, lanes: int) -> int:
    """How many instructions go through so many elements: whole registers, then a half of one, then one by one."""
    half = max(lanes // 2, 1)
    return count // lanes + count % lanes // half + count % half


def _lanes(nest: LoopNest) -> int:
    """How many elements of the largest kind a register has."""
    return max(VECTOR // max((access.itemsize for access in nest.accesses), default=4), 1)


def _share(walk: Walk, kind: str) -> float:
    """The steps of the innermost loop for each of its iterations, the last and shorter run of it among them."""
    if kind != "vector":
        return 1.0
    extent, length, lanes = walk.nest.extents[walk.loop], walk.levels[-1].turns, _lanes(walk.nest)
    return (extent // length * _steps(length, lanes) + _steps(extent % length, lanes)) / extent


def _computing(walk: Walk) -> Iterator[float]:
    """The steps of each kind, and how often a sum begins anew."""
    kind = _kind(walk)
    yield from (_share(walk, kind) if one == kind else 0.0 for one in KINDS)
    yield 1 / walk.turns[-1] if kind.endswith("sum") else 0.0


def _touching(walk: Walk) -> list[float]:
    """Reads and writes of the innermost loop, and of those that a compiler moves out of it."""
    share, found = _share(walk, _kind(walk)), [0.0] * 4
    for access in walk.nest.accesses:
        often, at = 1.0, len(walk.levels) - 1
        while at >= 0 and not access.strides[walk.levels[at].loop]:
            often /= walk.turns[at]
            at -= 1
        inside = at == len(walk.levels) - 1
        found[2 * access.written + (not inside)] += share if inside else often
    return found


def _beginning(walk: Walk) -> list[float]:
    """How often the innermost loop begins: where it waits for what it has just written, keeps that, is written out.

    At last the loops around it.
    """
    kind, runs = _kind(walk), 1 / walk.turns[-1]
    steps = (
        walk.levels[-1].turns
        if "jumping" in kind or kind == "scatter"
        else _steps(walk.levels[-1].turns, _lanes(walk.nest))
    )
    peeled = walk.known(1) and steps <= PEELED
    around = walk.levels[-2].loop if len(walk.levels) > 1 else None
    same = around is not None and any(one.written and not one.strides[around] for one in walk.nest.accesses)
    same = same and not kind.endswith("sum")
    begun, total = 1.0, 0.0
    for turns in walk.turns[:-1]:
        total, begun = total + begun, begun * turns
    flags = (same and not peeled, same and peeled, not peeled, peeled)
    return [*(runs if flag else 0.0 for flag in flags), total / math.prod(walk.nest.extents)]


def _bringing(walk: Walk, caches: Sequence[int]) -> Iterator[float]:
    """Lines from beyond each cache, one after the other or with jumps, read or written; and pages."""
    every, accesses = math.prod(walk.nest.extents), walk.nest.accesses
    streams = [_streams(walk, access) for access in accesses]
    for number, size in enumerate(caches):
        sets = _sets(size) if number == 0 else 0  # where larger caches put a line, no program knows
        found = fetched(walk, size // LINE, sets=sets)
        for stream in (True, False):
            for written in (False, True):
                own = zip(found, accesses, streams, strict=True)
                yield sum(one for one, access, way in own if (access.written, way) == (written, stream)) / every
    yield from (sum(fetched(walk, capacity, PAGE)) / every for capacity in PAGES)


def _streams(walk: Walk, access: Access) -> bool:
    """Whether the innermost loop that moves in an array goes on to the next element or so, not to another line."""
    for level in reversed(walk.levels):
        if access.strides[level.loop]:
            return abs(access.strides[level.loop]) * level.step * access.itemsize < LINE
    return True


def _describing(walk: Walk, caches: Sequence[int]) -> Iterator[float]:
    """What has no price, but changes those of others."""
    nest, depth = walk.nest, len(walk.levels)
    for back in range(1, DEEP + 1):
        yield from _described(walk, max(depth - back, 0))
    whole = sum(_units(access, nest.extents, LINE) for access in nest.accesses) * LINE
    yield from (math.log2(whole / size) for size in caches)
    brought = fetched(walk, caches[min(1, len(caches) - 1)] // LINE)
    most = nest.accesses[brought.index(max(brought))]
    for access in (most, next((one for one in nest.accesses if one.written), most)):
        for back in range(1, DEEP + 1):
            shape = _shape(access, walk.covered[max(depth - back, 0)], LINE)
            yield from (math.log2(shape.rows), math.log2(shape.units))
    yield from _distances(walk, caches)
    yield from (float(most.written), len(nest.accesses), depth, float(walk.known(1)), float(walk.known(2)))
    yield walk.levels[-1].turns % _lanes(nest) / _lanes(nest)


def _distances(walk: Walk, caches: Sequence[int]) -> Iterator[float]:
    """What the innermost loops fill of the smallest cache and of a table of pages, and what lies between two uses."""
    sets, depth = _sets(caches[0]), len(walk.levels)
    for back in range(1, DEEP + 1):
        inside = walk.covered[max(depth - back, 0)]
        yield math.log2(sum(_filled(access, inside, LINE, sets) for access in walk.nest.accesses))
        yield math.log2(sum(_units(access, inside, PAGE) for access in walk.nest.accesses))
    for written in (False, True):
        found = [_distance(walk, access, sets) for access in walk.nest.accesses if access.written is written]
        yield from (max(found, default=0.0), min(found, default=0.0))


def _distance(walk: Walk, access: Access, sets: int) -> float:
    """What is touched, in powers of two of lines, until a line of an array is used again; much where it never is."""
    for at in range(len(walk.levels) - 1, -1, -1):
        level = walk.levels[at]
        if abs(access.strides[level.loop]) * level.step * access.itemsize < LINE:
            return math.log2(sum(_filled(one, walk.covered[at + 1], LINE, sets) for one in walk.nest.accesses))
    return NEVER


def _described(walk: Walk, at: int) -> Iterator[float]:
    """How often a loop turns, and in how many arrays it stays, goes along or jumps: of those read, of those written."""
    yield math.log2(walk.turns[at])
    level = walk.levels[at]
    for written in (False, True):
        own = [
            (abs(one.strides[level.loop]) * level.step, one.itemsize)
            for one in walk.nest.accesses
            if one.written is written
        ]
        yield float(sum(stride == 0 for stride, _ in own))
        yield float(sum(stride == 1 for stride, _ in own))
        yield float(sum(stride * itemsize >= LINE for stride, itemsize in own))
