"""A graph as few enough boxes for a person: functions collapsed, small operations folded, and nothing said wrongly.

The units are in an order that respects their dependences.  Every box stands for a run of neighbours in that order, so
the boxes respect it too: no fold can make a cycle, whatever it joins.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from codedag.ir import Graph
from codedag.view.text import time_text
from codedag.view.units import Pair, Path, Unit, Units, rolled

MOST_BOXES = 150
# A function above this share of the time is opened up as long as folding small operations can make room instead.
HOT_SHARE = 0.05
LINKS_PER_BOX = 3

BoxKind = Literal["place", "function", "small"]
LinkKind = Literal["flow", "anti", "carried"]


@dataclass(slots=True, eq=False)
class Box:
    """One box: a place, a collapsed function or a run of small operations; `units` are its units in order."""

    kind: BoxKind
    name: str
    units: list[Unit]

    @property
    def seconds(self) -> float:
        """The self time of everything in the box."""
        return sum(unit.seconds for unit in self.units)

    @property
    def templates(self) -> int:
        """How many operations of the graph the box stands for."""
        return sum(unit.templates for unit in self.units)


@dataclass(slots=True, eq=False)
class Frame:
    """One user function (one stretch of it, if its operations depend on each other through others)."""

    name: str
    path: Path
    parts: list[Box | Frame] = field(default_factory=list)

    def boxes(self) -> Iterator[Box]:
        """All boxes inside, in order."""
        for part in self.parts:
            if isinstance(part, Box):
                yield part
            else:
                yield from part.boxes()


@dataclass(frozen=True, slots=True)
class Link:
    """A dependence between two boxes, by index; `carried` reaches a later iteration, or a later run of that code."""

    source: int
    target: int
    kind: LinkKind
    nbytes: int


@dataclass(slots=True)
class Picture:
    """What is to be drawn: nested frames, the boxes in order, the links, and what was folded in words."""

    root: Frame
    boxes: list[Box]
    links: list[Link]
    seconds: float
    notes: list[str]


def picture(graph: Graph, most: int = MOST_BOXES) -> Picture:
    """The boxes, frames and links of a graph; at most `most` boxes."""
    found = rolled(graph)
    root = folded(graph, found, most)
    seconds = sum(unit.seconds for unit in found.units)
    boxes = list(root.boxes())
    links = _links(boxes, found)
    drawn = _widest(links, most * LINKS_PER_BOX)
    return Picture(root, boxes, drawn, seconds, _notes(graph, boxes, seconds) + _note_links(links, drawn))


def folded(graph: Graph, found: Units, most: int) -> Frame:
    """The units in frames of their functions, with as much folded as it takes for at most `most` boxes."""
    root = _frames(graph, found)
    _collapse(root, most, HOT_SHARE * sum(unit.seconds for unit in found.units))
    _fold_small(root, most)
    return root


def _frames(graph: Graph, found: Units) -> Frame:
    """The units in nested frames: neighbours with the same path share them."""
    root = Frame("", ())
    open_frames = [root]
    for unit in found.units:
        while open_frames[-1].path != unit.path[: len(open_frames) - 1]:
            open_frames.pop()
        while len(open_frames) <= len(unit.path):
            frame = Frame(unit.path[len(open_frames) - 1], unit.path[: len(open_frames)])
            open_frames[-1].parts.append(frame)
            open_frames.append(frame)
        name = graph.op_columns.name[unit.row] if unit.place else ""
        open_frames[-1].parts.append(Box("place" if unit.place else "small", name, [unit]))
    return root


def _collapse(root: Frame, most: int, budget: float) -> None:
    """Turns innermost functions into one box each, the cheapest first, while there are too many boxes."""
    held: dict[Frame, int] = {}
    above: dict[Frame, Frame] = {}
    waiting = _innermost(root, held, above)
    heap = [(_seconds(frame), at, frame) for at, frame in enumerate(waiting)]
    heapq.heapify(heap)
    total, ticket = held[root], len(heap)
    while total > most and heap and heap[0][0] <= budget:
        frame = heapq.heappop(heap)[2]
        total -= held[frame] - 1
        beside = above[frame].parts
        beside[beside.index(frame)] = _as_box(frame)
        outer = _settle(frame, held, above)
        if outer is not None:
            ticket += 1
            heapq.heappush(heap, (_seconds(outer), ticket, outer))


def _innermost(root: Frame, held: dict[Frame, int], above: dict[Frame, Frame]) -> list[Frame]:
    """The frames that hold several boxes and no such frame; fills in how many boxes and who encloses whom."""
    found = []
    for frame in _inside_out(root):
        inner = [part for part in frame.parts if isinstance(part, Frame)]
        above.update((part, frame) for part in inner)
        held[frame] = len(frame.parts) - len(inner) + sum(held[part] for part in inner)
        if frame is not root and _is_innermost(frame, held):
            found.append(frame)
    return found


def _inside_out(frame: Frame) -> Iterator[Frame]:
    for part in frame.parts:
        if isinstance(part, Frame):
            yield from _inside_out(part)
    yield frame


def _is_innermost(frame: Frame, held: dict[Frame, int]) -> bool:
    return held[frame] > 1 and all(held[part] == 1 for part in frame.parts if isinstance(part, Frame))


def _settle(frame: Frame, held: dict[Frame, int], above: dict[Frame, Frame]) -> Frame | None:
    """The frame around that became innermost because this one was collapsed, if any."""
    less, outer = held[frame] - 1, frame
    held[frame] = 1
    while outer in above:
        outer = above[outer]
        held[outer] -= less
    outer = above[frame]
    while outer in above and held[outer] == 1:
        outer = above[outer]
    return outer if outer in above and _is_innermost(outer, held) else None


def _seconds(frame: Frame) -> float:
    return sum(box.seconds for box in frame.boxes())


def _as_box(frame: Frame) -> Box:
    return Box("function", frame.name, [unit for box in frame.boxes() for unit in box.units])


def _fold_small(root: Frame, most: int) -> None:
    """Joins neighbours that take little time, with the lowest bar that makes everything fit."""
    if sum(1 for _ in root.boxes()) <= most:
        return
    times = {frame: _seconds(frame) for frame in _inside_out(root)}
    bars = sorted({box.seconds for box in root.boxes()} | set(times.values()))
    low, high = 0, len(bars) - 1  # at the highest bar everything is one box
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _left(root, bars[middle], times) <= most else (middle + 1, high)
    _join_runs(root, bars[low], times)


Times = dict[Frame, float]


def _runs(frame: Frame, bar: float, times: Times) -> Iterator[list[Box | Frame]]:
    """The parts of a frame in groups: neighbours that take at most `bar` seconds each are together."""
    run: list[Box | Frame] = []
    for part in frame.parts:
        small = (part.seconds if isinstance(part, Box) else times[part]) <= bar
        if run and not small:
            yield run
            run = []
        if small:
            run.append(part)
        else:
            yield [part]
    if run:
        yield run


def _left(frame: Frame, bar: float, times: Times) -> int:
    """How many boxes there will be with this bar."""
    opened = (_opened(run, bar, times) for run in _runs(frame, bar, times))
    return sum(1 if inner is None else _left(inner, bar, times) for inner in opened)


def _opened(run: list[Box | Frame], bar: float, times: Times) -> Frame | None:
    """The frame that stays open because it takes too long for a box, if the run is one."""
    first = run[0]
    return first if isinstance(first, Frame) and times[first] > bar else None


def _join_runs(frame: Frame, bar: float, times: Times) -> None:
    parts: list[Box | Frame] = []
    for run in _runs(frame, bar, times):
        if len(run) > 1:
            boxes = [box for part in run for box in ([part] if isinstance(part, Box) else part.boxes())]
            parts.append(Box("small", "", [unit for box in boxes for unit in box.units]))
        elif isinstance(run[0], Frame) and _opened(run, bar, times) is None:
            parts.append(_as_box(run[0]))
        else:
            parts += run
    for part in parts:
        if isinstance(part, Frame):
            _join_runs(part, bar, times)
    frame.parts = parts


def _links(boxes: list[Box], found: Units) -> list[Link]:
    at = {id(unit): index for index, box in enumerate(boxes) for unit in box.units}
    of = [at[id(unit)] for unit in found.units]
    links = []
    for kind, sizes in (("flow", found.flow), ("anti", found.anti), ("carried", dict.fromkeys(found.later, 0))):
        joined: dict[Pair, int] = {}
        for (source, target), nbytes in sizes.items():
            pair = of[source], of[target]
            if pair[0] != pair[1] or (kind == "carried" and boxes[pair[0]].kind == "place"):
                joined[pair] = joined.get(pair, 0) + nbytes
        links += [Link(s, d, kind, joined[s, d]) for s, d in sorted(joined)]  # type: ignore[arg-type]
    seen = {(link.source, link.target) for link in links if link.kind == "flow"}
    return [link for link in links if link.kind != "anti" or (link.source, link.target) not in seen]


def _widest(links: list[Link], most: int) -> list[Link]:
    """The links with most bytes, and of each box at least the widest that arrives."""
    if len(links) <= most:
        return links
    ranked = sorted(links, key=lambda link: (-link.nbytes, link.source, link.target))
    first = {link.target: link for link in reversed(ranked)}
    kept = {*first.values(), *ranked[: most - len(first)]}
    return [link for link in links if link in kept]


def _note_links(links: list[Link], drawn: list[Link]) -> list[str]:
    left = len(links) - len(drawn)
    if not left:
        return []
    share = sum(link.nbytes for link in drawn) / (sum(link.nbytes for link in links) or 1)
    return [f"{left:,} of {len(links):,} arrows are not drawn; those that are carry {share:.1%} of the bytes"]


def _notes(graph: Graph, boxes: list[Box], seconds: float) -> list[str]:
    """What the picture does not show one by one."""
    notes = []
    functions = [box for box in boxes if box.kind == "function"]
    small = [box for box in boxes if box.kind == "small"]
    if functions:
        notes.append(f"{_many(len(functions), 'function')} drawn as one box each ({_inside(functions, seconds)})")
    if small:
        notes.append(f"{_inside(small, seconds)} folded into {_many(len(small), 'box', 'boxes')}")
    return [*notes, *not_drawn(graph)]


def not_drawn(graph: Graph) -> list[str]:
    """What no picture shows, however little is folded."""
    regions = sum(
        own for own, kind in zip(graph.op_columns.self_seconds, graph.op_columns.kind, strict=True) if kind == "region"
    )
    return [f"not drawn: {time_text(regions)} that your own functions took between these operations"] if regions else []


def _inside(boxes: list[Box], seconds: float) -> str:
    share = sum(box.seconds for box in boxes) / (seconds or 1.0)
    return f"{_many(sum(box.templates for box in boxes), 'operation')}, {share:.1%} of the time,"[:-1]


def _many(number: int, one: str, more: str = "") -> str:
    return f"{number:,} {one if number == 1 else more or one + 's'}"
