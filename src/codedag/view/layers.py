"""One frame laid out in layers: every edge goes down, lanes are kept free for edges that pass a layer.

The usual four steps (Sugiyama): layers by longest path, lanes for long edges, an order with few crossings by
barycentres, and places by least squares.  Everything is deterministic.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

ENTRY = -1  # the source of an edge that comes in through the top
EXIT = -2  # the target of an edge that leaves through the bottom

GAP_X = 22.0
GAP_Y = 46.0
LANE = 12.0
WIDEST_GAP = 66.0
SWEEPS = 12
PLACINGS = 48
STILL = 0.25  # pixels that nothing may move any more in eight sweeps


@dataclass(frozen=True, slots=True)
class Item:
    """Something to be placed."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Wire:
    """An edge from the bottom of one item to the top of another; offsets are from the items' left sides.

    The greater the weight, the straighter it is drawn.
    """

    source: int
    target: int
    source_x: float
    target_x: float
    weight: float = 1.0


@dataclass(slots=True)
class Arranged:
    """The left upper corners of the items, the lanes of each wire from top to bottom, and the size of it all.

    A lane is (x, top, bottom): the wire passes a layer at x without touching anything there.
    """

    corners: list[tuple[float, float]]
    lanes: list[list[tuple[float, float, float]]]
    width: float
    height: float


@dataclass(slots=True, eq=False)
class _Spot:
    """An item or a lane in its layer; x is its centre."""

    width: float
    height: float
    item: int = -1
    x: float = 0.0
    place: int = 0
    up: list[_Joint] = field(default_factory=list)
    down: list[_Joint] = field(default_factory=list)


#: A neighbour, where the wire meets it, where the wire meets us (both from the centre), and the weight of the wire.
_Joint = tuple[_Spot, float, float, float]


def arrange(items: list[Item], wires: list[Wire], widest: float) -> Arranged:
    """The items of one connected group in layers; layers grow wider than `widest` only for a single item."""
    levels = _levels(items, wires, widest)
    bottom = max(levels, default=0) + 1
    layers: list[list[_Spot]] = [[] for _ in range(bottom + 1)]
    spots = [_Spot(item.width, item.height, index) for index, item in enumerate(items)]
    for spot, level in zip(spots, levels, strict=True):
        layers[level].append(spot)
    chains = [_chain(wire, spots, levels, bottom, layers) for wire in wires]
    _order(layers)
    _place(layers)
    return _result(layers, spots, chains, wires)


# -- layers


def _levels(items: list[Item], wires: list[Wire], widest: float) -> list[int]:
    """A layer from 1 on for each item: below all it depends on, in a layer that has room."""
    before: list[list[int]] = [[] for _ in items]
    for wire in wires:
        if wire.source != ENTRY and wire.target != EXIT:
            before[wire.target].append(wire.source)
    levels = [0] * len(items)
    used: dict[int, float] = {}
    for index, item in enumerate(items):  # items are in an order that respects the wires
        level = 1 + max((levels[source] for source in before[index]), default=0)
        while used.get(level, 0.0) and used[level] + item.width > widest:
            level += 1
        levels[index] = level
        used[level] = used.get(level, 0.0) + item.width + GAP_X
    _pull_down(items, wires, levels, used, widest)
    return levels


def _pull_down(items: list[Item], wires: list[Wire], levels: list[int], used: dict[int, float], widest: float) -> None:
    """Moves what nothing feeds (constants, readers) down to just above its first user."""
    fed = {wire.target for wire in wires}
    after: list[list[int]] = [[] for _ in items]
    for wire in wires:
        if wire.source != ENTRY and wire.target != EXIT:
            after[wire.source].append(wire.target)
    for index in reversed(range(len(items))):
        if index in fed or not after[index]:
            continue
        level = min(levels[target] for target in after[index]) - 1
        if level > levels[index] and used.get(level, 0.0) + items[index].width <= widest:
            used[levels[index]] -= items[index].width + GAP_X
            used[level] = used.get(level, 0.0) + items[index].width + GAP_X
            levels[index] = level


def _chain(wire: Wire, spots: list[_Spot], levels: list[int], bottom: int, layers: list[list[_Spot]]) -> list[_Spot]:
    """The lanes of a wire, one for each layer that it passes, joined to each other and to its ends."""
    first = 0 if wire.source == ENTRY else levels[wire.source] + 1
    last = bottom if wire.target == EXIT else levels[wire.target] - 1
    lanes = [_Spot(LANE, 0.0) for _ in range(first, last + 1)]
    for lane, level in zip(lanes, range(first, last + 1), strict=True):
        layers[level].append(lane)
    ends = [] if wire.source == ENTRY else [spots[wire.source]]
    path = [*ends, *lanes, *([] if wire.target == EXIT else [spots[wire.target]])]
    for upper, lower in pairwise(path):
        at_upper = wire.source_x - upper.width / 2 if upper.item >= 0 else 0.0
        at_lower = wire.target_x - lower.width / 2 if lower.item >= 0 else 0.0
        upper.down.append((lower, at_lower, at_upper, wire.weight))
        lower.up.append((upper, at_upper, at_lower, wire.weight))
    return lanes


# -- the order within each layer


def _order(layers: list[list[_Spot]]) -> None:
    """Orders each layer by the barycentres of its neighbours, and keeps the order with the fewest crossings."""
    _number(layers)
    best, kept = _crossings(layers), [list(layer) for layer in layers]
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            keys = {spot: _barycentre(spot, spot.up if downwards else spot.down) for spot in layer}
            layer.sort(key=keys.__getitem__)
            _renumber(layer)
        crossed = _crossings(layers)
        if crossed < best:
            best, kept = crossed, [list(layer) for layer in layers]
        if not best:
            break
    layers[:] = kept
    _number(layers)


def _number(layers: list[list[_Spot]]) -> None:
    for layer in layers:
        _renumber(layer)


def _renumber(layer: list[_Spot]) -> None:
    for place, spot in enumerate(layer):
        spot.place = place


def _position(spot: _Spot, offset: float) -> float:
    """A place that tells wires of one wide item apart by where they leave it."""
    return spot.place + 0.9 * offset / spot.width


def _barycentre(spot: _Spot, neighbours: list[_Joint]) -> float:
    if not neighbours:
        return float(spot.place)
    return sum(_position(other, at) for other, at, _, _ in neighbours) / len(neighbours)


def _crossings(layers: list[list[_Spot]]) -> int:
    total = 0
    for layer in layers:
        ends = sorted((_position(spot, own), _position(other, at)) for spot in layer for other, at, own, _ in spot.down)
        seen: list[float] = []
        for _, target in ends:
            total += len(seen) - bisect_left(seen, target + 1e-9)
            insort(seen, target)
    return total


# -- places


def _place(layers: list[list[_Spot]]) -> None:
    """Centres that bring every spot close to its neighbours and keep the order and the gaps."""
    for layer in layers:
        _settle(_rows(layer, lambda spot: []))
    up, down = ([_rows(layer, of) for layer in layers] for of in (lambda spot: spot.up, lambda spot: spot.down))
    before: list[float] = []
    for sweep in range(PLACINGS):
        for rows in up if sweep % 2 == 0 else reversed(down):
            _settle(rows)
        if sweep % 8 == 7:
            now = [spot.x for layer in layers for spot in layer]
            if before and all(abs(a - b) < STILL for a, b in zip(before, now, strict=True)):
                break
            before = now
    for layer in layers:
        _settle(_rows(layer, lambda spot: spot.up + spot.down))
    _squeeze(layers)


def _squeeze(layers: list[list[_Spot]]) -> None:
    """Takes out stretches where no layer has anything: parts that nothing holds together drift apart."""
    spots = sorted((spot for layer in layers for spot in layer), key=lambda spot: spot.x - spot.width / 2)
    right, shift = float("inf"), 0.0
    for spot in spots:
        left = spot.x - spot.width / 2 - shift
        if left > right + WIDEST_GAP:
            shift += left - right - WIDEST_GAP
        spot.x -= shift
        right = spot.x + spot.width / 2 if right == float("inf") else max(right, spot.x + spot.width / 2)


#: A spot, how far it stands from the first of its layer at least, where its neighbours want it, and how much.
_Row = tuple[_Spot, float, list[tuple[_Spot, float, float]], float]


def _rows(layer: list[_Spot], joints: Callable[[_Spot], list[_Joint]]) -> list[_Row]:
    """What does not change while a layer is placed; wires that pass several layers want most to be straight."""
    rows: list[_Row] = []
    shift, before = 0.0, 0.0
    for spot in layer:
        shift += before + spot.width / 2 if before else 0.0
        wishes = [(other, at - own, weight * _pull(spot, other)) for other, at, own, weight in joints(spot)]
        rows.append((spot, shift, wishes, sum(weight for _, _, weight in wishes)))
        before = spot.width / 2 + GAP_X * (1.0 if spot.item >= 0 else 0.5)
    return rows


def _pull(one: _Spot, other: _Spot) -> float:
    return (1.0, 2.0, 8.0)[(one.item < 0) + (other.item < 0)]


def _settle(rows: list[_Row]) -> None:
    """Least squares under fixed order and gaps: pooled like blocks that push each other apart."""
    blocks: list[tuple[float, float, int]] = []  # where it is, how heavy, its first row
    for at, (spot, shift, wishes, weight) in enumerate(rows):
        if weight:
            value = sum([w * (other.x + offset) for other, offset, w in wishes]) / weight - shift
        else:
            value, weight = spot.x - shift, 0.1
        first = at
        while blocks and blocks[-1][0] >= value:
            above, heavier, first = blocks.pop()
            value = (above * heavier + value * weight) / (heavier + weight)
            weight += heavier
        blocks.append((value, weight, first))
    ends = [first for _, _, first in blocks[1:]] + [len(rows)]
    for (value, _, first), end in zip(blocks, ends, strict=False):  # an empty layer has no block
        for spot, shift, _, _ in rows[first:end]:
            spot.x = value + shift


# -- the result


def _result(layers: list[list[_Spot]], spots: list[_Spot], chains: list[list[_Spot]], wires: list[Wire]) -> Arranged:
    left = min((spot.x - spot.width / 2 for layer in layers for spot in layer), default=0.0)
    right = max((spot.x + spot.width / 2 for layer in layers for spot in layer), default=0.0)
    tops = _tops(layers)
    level_of = {spot: level for level, layer in enumerate(layers) for spot in layer}
    height = [max((spot.height for spot in layer), default=0.0) for layer in layers]

    def lane(spot: _Spot) -> tuple[float, float, float]:
        level = level_of[spot]
        return spot.x - left, tops[level], tops[level] + height[level]

    corners = [(spot.x - spot.width / 2 - left, tops[level_of[spot]]) for spot in spots]
    lanes = [_with_tail(chain, wire, spots, lane) for chain, wire in zip(chains, wires, strict=True)]
    return Arranged(corners, lanes, right - left, tops[-1] + height[-1])


def _tops(layers: list[list[_Spot]]) -> list[float]:
    """The top of each layer; the gap above grows with the number of wires that must find their way in it."""
    tops, bottom = [0.0], 0.0
    for level, layer in enumerate(layers[1:], 1):
        crowd = sum(len(spot.up) for spot in layer)
        border = level in (1, len(layers) - 1)
        bottom = tops[-1] + max((spot.height for spot in layers[level - 1]), default=0.0)
        if border and not crowd:
            tops.append(bottom + 8.0)
        else:
            tops.append(bottom + (GAP_Y / 2 if border else GAP_Y) + min(60.0, 1.6 * max(0, crowd - 4)))
    return tops


def _with_tail(
    chain: list[_Spot], wire: Wire, spots: list[_Spot], lane: Callable[[_Spot], tuple[float, float, float]]
) -> list[tuple[float, float, float]]:
    """The lanes of a wire, starting with the way from the bottom of a short item to the bottom of its layer."""
    found = [lane(spot) for spot in chain]
    if wire.source == ENTRY:
        return found
    source = spots[wire.source]
    centre, top, bottom = lane(source)
    return [(centre - source.width / 2 + wire.source_x, top + source.height, bottom), *found]


def components(length: int, wires: Iterable[Wire]) -> list[list[int]]:
    """The connected groups of items; all that is connected to the outside is the first group, even if empty."""
    leader = list(range(length + 1))  # the last one stands for the outside

    def find(at: int) -> int:
        while leader[at] != at:
            leader[at] = at = leader[leader[at]]
        return at

    for wire in wires:
        ends = [length if end < 0 else end for end in (wire.source, wire.target)]
        leader[find(ends[0])] = find(ends[1])
    groups: dict[int, list[int]] = {find(length): []}
    for at in range(length):
        groups.setdefault(find(at), []).append(at)
    return list(groups.values())
