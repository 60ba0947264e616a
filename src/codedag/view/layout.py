"""Where everything goes: each frame is laid out by itself, then as one item of the frame around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import sqrt

from codedag.view.fold import Box, Frame, Link, Picture
from codedag.view.layers import ENTRY, EXIT, GAP_X, GAP_Y, Arranged, Item, Wire, arrange, components

PAD = 14.0
HEADING = 26.0
LEAST_WIDEST = 1000.0

Lane = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Rect:
    """A place in the picture."""

    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Layout:
    """The places of boxes (by index) and frames (outermost first), and the lanes of each link from top to bottom."""

    boxes: list[Rect]
    frames: list[tuple[Frame, Rect]]
    routes: dict[int, list[Lane]]
    width: float
    height: float


@dataclass(slots=True)
class _Block:
    """A part that was laid out, in its own coordinates."""

    width: float
    height: float
    boxes: dict[int, Rect] = field(default_factory=dict)
    frames: list[tuple[Frame, Rect]] = field(default_factory=list)
    routes: dict[int, list[Lane]] = field(default_factory=dict)


def lay_out(
    picture: Picture,
    size: Callable[[Box], tuple[float, float]],
    heading: Callable[[Frame], float],
    weight: Callable[[Link], float],
) -> Layout:
    """The layout of a picture: boxes have these sizes, headings of frames need this room, heavy links go straight."""
    numbers = {box: at for at, box in enumerate(picture.boxes)}
    ends = {at: _ends(link) for at, link in enumerate(picture.links) if link.source != link.target}
    weights = {at: weight(picture.links[at]) for at in ends}
    block = _Layer(numbers, ends, weights, size, heading).frame(picture.root, list(ends))
    boxes = [block.boxes[at] for at in range(len(picture.boxes))]
    routes = _attached(boxes, ends, block.routes)
    return Layout(boxes, block.frames, routes, block.width, block.height)


def _ends(link: Link) -> tuple[int, int]:
    """The upper and the lower box: a carried link may point upwards."""
    return min(link.source, link.target), max(link.source, link.target)


@dataclass(slots=True)
class _Layer:
    numbers: dict[Box, int]
    ends: dict[int, tuple[int, int]]
    weights: dict[int, float]
    size: Callable[[Box], tuple[float, float]]
    heading: Callable[[Frame], float]

    def frame(self, frame: Frame, links: list[int]) -> _Block:
        """A frame with its heading; the root has none."""
        owner = {self.numbers[box]: at for at, part in enumerate(frame.parts) for box in _boxes(part)}
        blocks = [self._part(part, at, owner, links) for at, part in enumerate(frame.parts)]
        wires = {link: self._wire(link, owner, blocks) for link in links if self._is_here(link, owner)}
        inside = _joined(blocks, wires)
        if not frame.path:
            return inside
        width = max(inside.width + 2 * PAD, self.heading(frame))
        whole = _Block(width, inside.height + HEADING + PAD)
        whole.frames.append((frame, Rect(0.0, 0.0, whole.width, whole.height)))
        _put(whole, inside, (width - inside.width) / 2, HEADING)
        self._reach_borders(whole, owner)
        return whole

    def _part(self, part: Box | Frame, at: int, owner: dict[int, int], links: list[int]) -> _Block:
        if isinstance(part, Frame):
            return self.frame(part, [link for link in links if at in map(owner.get, self.ends[link])])
        width, height = self.size(part)
        return _Block(width, height, {self.numbers[part]: Rect(0.0, 0.0, width, height)})

    def _is_here(self, link: int, owner: dict[int, int]) -> bool:
        upper, lower = map(owner.get, self.ends[link])
        return upper != lower

    def _wire(self, link: int, owner: dict[int, int], blocks: list[_Block]) -> Wire:
        upper, lower = map(owner.get, self.ends[link])
        source_x = target_x = 0.0
        if upper is not None:
            source_x = _port(blocks[upper], link, -1)
        if lower is not None:
            target_x = _port(blocks[lower], link, 0)
        source, target = ENTRY if upper is None else upper, EXIT if lower is None else lower
        return Wire(source, target, source_x, target_x, self.weights[link])

    def _reach_borders(self, whole: _Block, owner: dict[int, int]) -> None:
        """Leads the links that come from outside or go there from the frame's border to its contents."""
        for link, lanes in whole.routes.items():
            upper, lower = self.ends[link]
            if upper not in owner:
                lanes.insert(0, (lanes[0][0], 0.0, lanes[0][1]))
            if lower not in owner:
                lanes.append((lanes[-1][0], lanes[-1][2], whole.height))


def _boxes(part: Box | Frame) -> Sequence[Box]:
    return [part] if isinstance(part, Box) else list(part.boxes())


def _port(block: _Block, link: int, end: int) -> float:
    lanes = block.routes.get(link)
    return lanes[end][0] if lanes else block.width / 2


def _joined(blocks: list[_Block], wires: dict[int, Wire]) -> _Block:
    """The blocks in layers; groups that nothing connects to the rest are stacked to the right of it."""
    groups = components(len(blocks), wires.values())
    area = sum((block.width + GAP_X) * (block.height + GAP_Y) for block in blocks)
    widest = max(LEAST_WIDEST, 1.5 * sqrt(area), *(block.width for block in blocks))
    whole = _Block(0.0, 0.0)
    arranged = [_group(blocks, wires, group, widest) for group in groups]
    for block, x, y in _stacked(arranged):
        _put(whole, block, x, y)
        whole.width, whole.height = max(whole.width, x + block.width), max(whole.height, y + block.height)
    return whole


def _group(blocks: list[_Block], wires: dict[int, Wire], group: list[int], widest: float) -> _Block:
    place = {part: at for at, part in enumerate(group)} | {ENTRY: ENTRY, EXIT: EXIT}
    own = {
        link: replace(wire, source=place[wire.source], target=place[wire.target])
        for link, wire in wires.items()
        if wire.source in place and wire.target in place and (wire.source in group or wire.target in group)
    }
    items = [Item(blocks[part].width, blocks[part].height) for part in group]
    found = arrange(items, list(own.values()), widest)
    whole = _Block(found.width, found.height)
    _fill(whole, [blocks[part] for part in group], own, found)
    return whole


def _fill(whole: _Block, blocks: list[_Block], wires: dict[int, Wire], found: Arranged) -> None:
    for block, (x, y) in zip(blocks, found.corners, strict=True):
        _put(whole, block, x, y)
    for link, lanes, wire in zip(wires, found.lanes, wires.values(), strict=True):
        before: list[Lane] = []
        after: list[Lane] = []
        if wire.source != ENTRY:
            before = _moved(blocks[wire.source].routes.get(link, []), *found.corners[wire.source])
        if wire.target != EXIT:
            after = _moved(blocks[wire.target].routes.get(link, []), *found.corners[wire.target])
        whole.routes[link] = [*before, *lanes, *after]


def _put(whole: _Block, block: _Block, x: float, y: float) -> None:
    for at, box in block.boxes.items():
        whole.boxes[at] = Rect(box.x + x, box.y + y, box.width, box.height)
    for frame, rect in block.frames:
        whole.frames.append((frame, Rect(rect.x + x, rect.y + y, rect.width, rect.height)))
    for link, lanes in block.routes.items():
        whole.routes[link] = _moved(lanes, x, y)


def _moved(lanes: list[Lane], x: float, y: float) -> list[Lane]:
    return [(at + x, top + y, bottom + y) for at, top, bottom in lanes]


def _stacked(groups: list[_Block]) -> list[tuple[_Block, float, float]]:
    """The first group at the left over the full height (links pass it), the others in columns beside it."""
    first, others = groups[0], groups[1:]
    placed = [(first, 0.0, 0.0)]
    x = first.width + GAP_X if first.width else 0.0
    area = sum((block.width + GAP_X) * (block.height + GAP_X) for block in others)
    tallest = max([first.height, 0.8 * sqrt(area), *(block.height for block in others)])
    y = column = 0.0
    for block in others:
        if y and y + block.height > tallest:
            x, y, column = x + column + GAP_X, 0.0, 0.0
        placed.append((block, x, y))
        y, column = y + block.height + GAP_X, max(column, block.width)
    return placed


def _attached(
    boxes: list[Rect], ends: dict[int, tuple[int, int]], routes: dict[int, list[Lane]]
) -> dict[int, list[Lane]]:
    """The routes with their ends spread over the lower and upper sides of the boxes, in an order without crossings."""
    leaving: dict[int, list[tuple[float, int]]] = {}
    arriving: dict[int, list[tuple[float, int]]] = {}
    for link, (upper, lower) in ends.items():
        lanes = routes[link]
        after = lanes[1][0] if len(lanes) > 1 else _centre(boxes[lower])
        before = lanes[-1][0] if len(lanes) > 1 else _centre(boxes[upper])
        leaving.setdefault(upper, []).append((after, link))
        arriving.setdefault(lower, []).append((before, link))
    starts = {link: x for box, found in leaving.items() for link, x in _spread(boxes[box], found)}
    stops = {link: x for box, found in arriving.items() for link, x in _spread(boxes[box], found)}
    whole = {}
    for link, (_, lower) in ends.items():
        _, top, bottom = routes[link][0]
        y = boxes[lower].y
        whole[link] = _tidy([(starts[link], top, bottom), *routes[link][1:], (stops[link], y, y)])
    return whole


def _centre(rect: Rect) -> float:
    return rect.x + rect.width / 2


def _spread(rect: Rect, found: list[tuple[float, int]]) -> list[tuple[int, float]]:
    step = rect.width / (len(found) + 1)
    return [(link, rect.x + step * (at + 1)) for at, (_, link) in enumerate(sorted(found))]


def _tidy(lanes: list[Lane]) -> list[Lane]:
    """The lanes with those joined that go on straight below each other."""
    found = lanes[:1]
    for (x, _, bottom), (next_x, top, end) in pairwise(lanes):
        if abs(x - next_x) < 0.5:
            found[-1] = (found[-1][0], found[-1][1], max(end, bottom))
        else:
            found.append((next_x, top, end))
    return found
