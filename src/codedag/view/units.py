"""Templates rolled into places: what was recorded at one place of the program is one unit of the picture.

A graph has one operation per chain of call sites and signature, and may have a million of them.  Everything here works
on the columns of the graph; after it there are at most a few thousand units.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import count, repeat

from codedag.ir import Graph

Path = tuple[str, ...]
Pair = tuple[int, int]

# Above this many places only the hottest stay by themselves and the rest is rolled by function: the greedy order below
# and the folding look at every unit several times, and no picture shows more than some 150 of them.
MOST_UNITS = 2000
HOTTEST_KEPT = 150
MOST_SIGNATURES = 3
MOST_ROWS = 40
NOT_DRAWN = -1
# Recursion makes paths as long as the stack; frames inside frames stop being readable long before.
MOST_DEPTH = 10


@dataclass(slots=True)
class Unit:
    """What happened at one place (or, in a very large graph, in one function), summed over its templates."""

    row: int
    path: Path
    place: bool = True
    templates: int = 0
    calls: int = 0
    seconds: float = 0.0
    nbytes: int = 0
    peak: int = 0
    signatures: dict[str, None] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)  # of its templates; not all where there are very many


@dataclass(slots=True)
class Units:
    """The units of a graph in an order that respects `flow` and `anti`, and the dependences between them by index."""

    units: list[Unit]
    flow: dict[Pair, int]
    anti: dict[Pair, int]
    later: set[Pair]


def function_path(context: str, name: str) -> Path:
    """The user functions of a context key, outermost first, without the operation; very deep ones share a level."""
    if context == name:
        return ()
    prefix = context[: -len(name) - 1] if name and context.endswith("/" + name) else context.rpartition("/")[0]
    functions = tuple(prefix.split("/")) if prefix else ()
    if len(functions) <= MOST_DEPTH:
        return functions
    return (*functions[: MOST_DEPTH - 1], f"{len(functions) - MOST_DEPTH} functions / {functions[-1]}")


def rolled(graph: Graph) -> Units:
    """The units of a graph; a dependence on a later run of the same code is in `later`, as the carried ones are."""
    numbers, paths = _by_place(graph)
    places = len(graph)
    forced = len(set(numbers)) > MOST_UNITS
    if forced:
        numbers, paths, places = _by_function(graph, numbers, paths)
    found = _gathered(graph, numbers, paths, places)
    loops = _cycles(len(found.units), [*found.flow, *found.anti])
    if loops and not forced and _rows_in(numbers, loops) <= MOST_UNITS:
        # One place reached by two calls, the first of which feeds the second: the calls are drawn apart.
        fresh = count(len(found.units))
        found = _gathered(graph, [next(fresh) if n in loops else n for n in numbers], paths, places + len(graph))
    elif loops:
        _roll_back(graph, numbers, found)
    return _ordered(found)


def _by_place(graph: Graph) -> tuple[list[int], list[Path]]:
    """For each row the number of its place (-1: not drawn) and its path."""
    ops, touched = graph.op_columns, _touched(graph)
    known: dict[Hashable, int] = {}
    interned: dict[tuple[str, str], Path] = {}
    numbers, paths = [], []
    keys = zip(ops.context, ops.name, ops.file, ops.line, ops.col, ops.kind, strict=True)
    for row, key in enumerate(keys):
        named = key[:2]
        path = interned.get(named)
        if path is None:
            path = interned[named] = function_path(*named)
        paths.append(path)
        # A region is the frame around its operations; it is a box only if data passes through itself.
        drawn = key[5] != "region" or touched[row]
        numbers.append(known.setdefault(key, len(known)) if drawn else NOT_DRAWN)
    return numbers, paths


def _touched(graph: Graph) -> bytearray:
    touched = bytearray(len(graph))
    for rows in (*graph.edge_rows(), *_carried_rows(graph)):
        for row in rows:
            touched[row] = 1
    return touched


def _carried_rows(graph: Graph) -> tuple[array[int], array[int]]:
    columns = graph.carried_columns
    return graph.index.rows(columns.src), graph.index.rows(columns.dst)


def _by_function(graph: Graph, numbers: list[int], paths: list[Path]) -> tuple[list[int], list[Path], int]:
    """Numbers and paths that keep only the hottest places, and the number from which on they stand for functions."""
    kept = sorted(heapq.nlargest(HOTTEST_KEPT, *_hottest_first(graph, numbers)))
    own: dict[int, int] = {number: at for at, number in enumerate(kept)}
    own[NOT_DRAWN] = NOT_DRAWN
    whole = list(dict.fromkeys(paths))
    short = dict(zip(whole, _shortened(whole), strict=True))
    functions = {path: len(kept) + index for path, index in zip(whole, _indices(short.values()), strict=True)}
    fewer = [own[n] if n in own else functions[path] for n, path in zip(numbers, paths, strict=True)]
    return fewer, [path if n in own else short[path] for n, path in zip(numbers, paths, strict=True)], len(kept)


def _hottest_first(graph: Graph, numbers: list[int]) -> tuple[Iterable[int], Callable[[int], tuple[float, int]]]:
    seconds: dict[int, float] = {}
    for number, own in zip(numbers, graph.op_columns.self_seconds, strict=True):
        if number != NOT_DRAWN:
            seconds[number] = seconds.get(number, 0.0) + own
    return seconds, lambda number: (seconds[number], -number)


def _shortened(paths: list[Path]) -> list[Path]:
    """The paths cut to the greatest depth at which there are few enough of them."""
    depth = max(map(len, paths), default=0)
    while depth and len({path[:depth] for path in paths}) > MOST_UNITS:
        depth -= 1
    return [path[:depth] for path in paths]


def _indices(values: Iterable[Hashable]) -> list[int]:
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known)) for value in values]


def _gathered(graph: Graph, numbers: list[int], paths: list[Path], places: int) -> Units:
    """The sums of each unit and the dependences between units, in the order of their first rows."""
    drawn = dict.fromkeys(numbers)
    drawn.pop(NOT_DRAWN, None)
    at = {number: index for index, number in enumerate(drawn)}
    at[NOT_DRAWN] = NOT_DRAWN
    of = array("q", [at[number] for number in numbers])
    found = Units(_summed(graph, of, len(drawn), paths), {}, {}, set())
    for number, unit in zip(drawn, found.units, strict=True):
        unit.place = number < places
    _add_edges(graph, of, found)
    found.later.update((of[source], of[target]) for source, target in zip(*_carried_rows(graph), strict=True))
    return found


def _summed(graph: Graph, of: array[int], length: int, paths: list[Path]) -> list[Unit]:
    ops = graph.op_columns
    units: list[Unit] = []  # numbers were given in the order of first rows
    peaks = getattr(ops, "peak_nbytes", None) or repeat(0)
    columns = zip(of, ops.kind, ops.count, ops.self_seconds, ops.out_nbytes, peaks, strict=False)
    for row, (number, kind, calls, seconds, nbytes, peak) in enumerate(columns):
        if number == NOT_DRAWN:
            continue
        if number == len(units):
            units.append(Unit(row, paths[row]))
        unit = units[number]
        unit.templates += 1
        if unit.templates <= MOST_ROWS:
            unit.rows.append(row)
        unit.calls += calls
        unit.nbytes += nbytes
        if kind not in ("region", "source"):  # as in the table: the time of operations
            unit.seconds += seconds
        if peak > unit.peak:
            unit.peak = peak
        if len(unit.signatures) < MOST_SIGNATURES:
            unit.signatures[f"({ops.in_sig[row]}) -> {ops.out_sig[row] or '()'}"] = None
    assert len(units) == length
    return units


def _add_edges(graph: Graph, of: array[int], found: Units) -> None:
    kinds = {"flow": found.flow, "anti": found.anti}
    for source, target, kind, nbytes in zip(
        *graph.edge_rows(), graph.edge_columns.kind, graph.edge_columns.nbytes, strict=True
    ):
        pair = of[source], of[target]
        sizes = kinds[kind]
        sizes[pair] = sizes.get(pair, 0) + nbytes
    for sizes in (found.flow, found.anti):
        for pair in [pair for pair in sizes if pair[0] == pair[1]]:
            del sizes[pair]
            if found.units[pair[0]].place:  # from one run of this place to a later one
                found.later.add(pair)


def _rows_in(numbers: list[int], loops: set[int]) -> int:
    return sum(number in loops for number in numbers)


def _roll_back(graph: Graph, numbers: list[int], found: Units) -> None:
    """Moves the dependences that go against the order of first runs to `later`: they reach a later run of a place."""
    first: dict[int, int] = {}
    for row in graph.topological_rows():
        if numbers[row] != NOT_DRAWN:
            first.setdefault(numbers[row], len(first))
    drawn = dict.fromkeys(number for number in numbers if number != NOT_DRAWN)
    rank = [first[number] for number in drawn]
    for sizes in (found.flow, found.anti):
        for pair in [pair for pair in sizes if rank[pair[0]] > rank[pair[1]]]:
            del sizes[pair]
            found.later.add(pair)


def _cycles(length: int, pairs: list[Pair]) -> set[int]:
    """The units that lie on a cycle: those that neither a walk from the front nor one from the back can free."""
    left = set(range(length))
    for _ in range(2):
        left -= set(_peeled(left, pairs))
        pairs = [(target, source) for source, target in pairs]
    return left


def _peeled(left: set[int], pairs: list[Pair]) -> list[int]:
    waiting = dict.fromkeys(left, 0)
    leaving: dict[int, list[int]] = {}
    for source, target in pairs:
        if source in left and target in left:
            waiting[target] += 1
            leaving.setdefault(source, []).append(target)
    free = [unit for unit in sorted(left) if not waiting[unit]]
    for unit in free:  # grows while it is read
        for target in leaving.get(unit, ()):
            waiting[target] -= 1
            if not waiting[target]:
                free.append(target)
    return free


def _ordered(found: Units) -> Units:
    """The same units in an order that respects the dependences and stays in one function as long as it can."""
    order = _greedy_order(found)
    place = {old: new for new, old in enumerate(order)}
    return Units(
        [found.units[old] for old in order],
        {(place[s], place[d]): size for (s, d), size in found.flow.items()},
        {(place[s], place[d]): size for (s, d), size in found.anti.items()},
        {(place[s], place[d]) for s, d in found.later},
    )


def _greedy_order(found: Units) -> list[int]:
    pairs = list(dict.fromkeys([*found.flow, *found.anti]))
    waiting = [0] * len(found.units)
    leaving: list[list[int]] = [[] for _ in found.units]
    for source, target in pairs:
        waiting[target] += 1
        leaving[source].append(target)
    ready = _Ready([unit.path for unit in found.units])
    for first, blocked in enumerate(waiting):
        if not blocked:
            ready.add(first)
    order: list[int] = []
    while (unit := ready.take()) is not None:
        order.append(unit)
        for target in leaving[unit]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.add(target)
    return order


class _Ready:
    """Units that may come next; `take` prefers the innermost function that the last one was in, then the first row."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._heaps: dict[Path, list[int]] = {}
        self._taken: set[int] = set()
        self._at: Path = ()

    def add(self, unit: int) -> None:
        path = self._paths[unit]
        for depth in range(len(path) + 1):
            heapq.heappush(self._heaps.setdefault(path[:depth], []), unit)

    def take(self) -> int | None:
        for depth in range(len(self._at), -1, -1):
            heap = self._heaps.get(self._at[:depth], [])
            while heap:
                unit = heapq.heappop(heap)
                if unit not in self._taken:
                    self._taken.add(unit)
                    self._at = self._paths[unit]
                    return unit
        return None
