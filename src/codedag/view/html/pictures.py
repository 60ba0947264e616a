"""The graph of a run as views that open into each other: every folded box has a view of its own, laid out here.

Each view has few enough boxes for a screen.  What a folded box exchanges with the rest is drawn at the edges of its
view, so that one sees where data comes from and goes to without leaving it.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from codedag.ir import Graph
from codedag.view.fold import Box, Frame, Link, Picture, picture_of
from codedag.view.html.wrap import Wrapped, wrap
from codedag.view.labels import box_lines, frame_title, share_text, short_name
from codedag.view.layout import Lane, Layout, Rect, lay_out
from codedag.view.svg import (
    BOX_HEIGHT,
    box_width,
    cut,
    cut_front,
    frames_of,
    heading_width,
    loop_path,
    route_path,
    size_labels,
    thickness,
    weight_of,
)
from codedag.view.units import Pair, Unit, Units, rolled

MOST_BOXES = 150  # of the detailed view
FEW_BOXES = 45  # of the view that opens first, and of those that a click opens
ALL_BOXES = 70  # up to so many, a view that a click opens folds nothing
MOST_VIEWS = 250
MOST_NEIGHBOURS = 5
OUTSIDE_HEIGHT = 34.0


@dataclass(slots=True)
class _Job:
    """A view that is still to be made: its units, and where it was opened from."""

    found: Units
    title: str
    parent: int
    most: int = FEW_BOXES
    opens: bool = True
    arriving: dict[str, dict[int, int]] = field(default_factory=dict)  # name of a neighbour -> unit -> bytes
    leaving: dict[str, dict[int, int]] = field(default_factory=dict)


def views(graph: Graph) -> list[dict[str, Any]]:
    """All views of a graph: the first is the overview, the second (if it shows more) all at once in more boxes."""
    whole = rolled(graph)
    seconds = sum(unit.seconds for unit in whole.units) or 1.0
    jobs = deque([_Job(whole, "", -1)])
    if len(whole.units) > FEW_BOXES:
        jobs.append(_Job(whole, "", -1, MOST_BOXES, opens=False))
    made: list[dict[str, Any]] = []
    number = len(jobs)
    while jobs:
        job = jobs.popleft()
        shown, outside = _shown(graph, job)
        opens: dict[Box, int] = {}
        for box in shown.boxes:
            if len(box.units) > 1 and number < MOST_VIEWS and job.opens:
                opens[box] = number
                jobs.append(_inside(job, shown, box, len(made)))
                number += 1
        made.append(_view(graph, shown, job, opens, outside, seconds))
    return made


def _shown(graph: Graph, job: _Job) -> tuple[Picture, set[Box]]:
    """The picture of a view with its neighbours, and which boxes these are."""
    shown = picture_of(graph, job.found, job.most)
    if len(shown.boxes) == 1 and len(job.found.units) > 1:
        shown = _halved(graph, job)
    arriving = [Box("small", name, []) for name in job.arriving]
    leaving = [Box("small", name, []) for name in job.leaving]
    if not arriving and not leaving:
        return shown, set()
    shift = len(arriving)
    at = {id(unit): n for n, box in enumerate(shown.boxes) for unit in box.units}
    of = [at[id(unit)] + shift for unit in job.found.units]
    shown.links = [Link(one.source + shift, one.target + shift, one.kind, one.nbytes) for one in shown.links]
    for place, name in enumerate(job.arriving):
        shown.links += [Link(place, n, "flow", size) for n, size in _by_box(job.arriving[name], of).items()]
    for place, name in enumerate(job.leaving, shift + len(shown.boxes)):
        shown.links += [Link(n, place, "flow", size) for n, size in _by_box(job.leaving[name], of).items()]
    shown.boxes = [*arriving, *shown.boxes, *leaving]
    shown.root.parts = [*arriving, *shown.root.parts, *leaving]
    return shown, {*arriving, *leaving}


def _by_box(sizes: dict[int, int], of: list[int]) -> dict[int, int]:
    joined: dict[int, int] = {}
    for unit, size in sizes.items():
        joined[of[unit]] = joined.get(of[unit], 0) + size
    return joined


def _halved(graph: Graph, job: _Job) -> Picture:
    """A picture where no time tells the units apart: equal stretches of them, which open in turn."""
    length = -(-len(job.found.units) // job.most)
    root = Frame("", ())
    for first in range(0, len(job.found.units), length):
        units = job.found.units[first : first + length]
        place = len(units) == 1 and units[0].place
        name = graph.op_columns.name[units[0].row] if place else ""
        root.parts.append(Box("place" if place else "small", name, units))
    boxes = list(root.boxes())
    return Picture(root, boxes, _links(boxes, job.found), sum(unit.seconds for unit in job.found.units), [])


def _links(boxes: list[Box], found: Units) -> list[Link]:
    at = {id(unit): n for n, box in enumerate(boxes) for unit in box.units}
    of = [at[id(unit)] for unit in found.units]
    joined: dict[Pair, int] = {}
    for (source, target), size in found.flow.items():
        if of[source] != of[target]:
            joined[of[source], of[target]] = joined.get((of[source], of[target]), 0) + size
    return [Link(source, target, "flow", size) for (source, target), size in sorted(joined.items())]


# -- the inside of a box


def _inside(job: _Job, shown: Picture, box: Box, parent: int) -> _Job:
    """The view that a folded box opens: its units, without the functions that all of them are in."""
    place = {id(unit): at for at, unit in enumerate(job.found.units)}
    numbers = [place[id(unit)] for unit in box.units]
    new = {old: at for at, old in enumerate(numbers)}
    drop = max(_shared(box.units) - 1, 0)
    units = [replace(unit, path=unit.path[drop:]) for unit in box.units]
    found = Units(
        units,
        {(new[s], new[d]): size for (s, d), size in job.found.flow.items() if s in new and d in new},
        {(new[s], new[d]): size for (s, d), size in job.found.anti.items() if s in new and d in new},
        {(new[s], new[d]) for s, d in job.found.later if s in new and d in new},
    )
    most = ALL_BOXES if len(units) <= ALL_BOXES else FEW_BOXES
    inner = _Job(found, box.name or f"{box.templates:,} small operations", parent, most)
    _neighbours(job, shown, new, inner)
    return inner


def _shared(units: list[Unit]) -> int:
    """How many functions from the outside all units have in common."""
    first, last = min(unit.path for unit in units), max(unit.path for unit in units)
    return next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _neighbours(job: _Job, shown: Picture, new: dict[int, int], inner: _Job) -> None:
    """Fills in what the inside exchanges with the other boxes, the widest few of them by name."""
    names = {id(unit): _called(box) for box in shown.boxes for unit in box.units}
    arriving: dict[str, dict[int, int]] = {}
    leaving: dict[str, dict[int, int]] = {}
    for (source, target), size in job.found.flow.items():
        if (source in new) == (target in new):
            continue
        side, own, other = (arriving, target, source) if target in new else (leaving, source, target)
        sizes = side.setdefault(names[id(job.found.units[other])], {})
        sizes[new[own]] = sizes.get(new[own], 0) + size
    for name, sizes in job.arriving.items():
        arriving |= _kept(name, sizes, new)
    for name, sizes in job.leaving.items():
        leaving |= _kept(name, sizes, new)
    inner.arriving, inner.leaving = _widest(arriving), _widest(leaving)


def _kept(name: str, sizes: dict[int, int], new: dict[int, int]) -> dict[str, dict[int, int]]:
    own = {new[unit]: size for unit, size in sizes.items() if unit in new}
    return {name: own} if own else {}


def _widest(sides: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
    ranked = sorted(sides.items(), key=lambda each: -sum(each[1].values()))
    kept = dict(ranked[:MOST_NEIGHBOURS])
    rest: dict[int, int] = {}
    for _, sizes in ranked[MOST_NEIGHBOURS:]:
        for unit, size in sizes.items():
            rest[unit] = rest.get(unit, 0) + size
    return {**kept, f"{len(ranked) - MOST_NEIGHBOURS} others": rest} if rest else kept


def _called(box: Box) -> str:
    return short_name(box.name) if box.kind == "place" else box.name or "small operations"


# -- a view as plain data


def _view(
    graph: Graph, shown: Picture, job: _Job, opens: dict[Box, int], outside: set[Box], seconds: float
) -> dict[str, Any]:
    """One view: places and words, as the page draws them."""
    shown.seconds = seconds
    lines = {box: [_called(box), "", ""] if box in outside else box_lines(graph, shown, box) for box in shown.boxes}
    titles = {frame: frame_title(shown, frame) for frame in frames_of(shown.root)}
    layout = lay_out(
        shown,
        lambda box: (box_width(lines[box]), OUTSIDE_HEIGHT if box in outside else BOX_HEIGHT),
        lambda frame: heading_width(titles[frame]),
        weight_of,
    )
    wrapped = wrap(layout)
    return {
        "title": job.title,
        "parent": job.parent,
        "notes": [] if job.parent >= 0 else shown.notes,
        "seconds": sum(box.seconds for box in shown.boxes),
        "share": share_text(sum(box.seconds for box in shown.boxes) / seconds),
        "operations": sum(box.templates for box in shown.boxes),
        "width": round(wrapped.width),
        "height": round(wrapped.height),
        "frames": _frames(layout, wrapped, titles),
        "boxes": _boxes(graph, shown, wrapped, lines, opens, outside),
        "links": _drawn_links(shown, wrapped),
        "sizes": _sizes(shown, layout, wrapped),
    }


def _frames(layout: Layout, wrapped: Wrapped, titles: dict[Frame, str]) -> list[list[Any]]:
    """The frames; of those that go on together in another column, the innermost names them all."""
    found: list[list[Any]] = []
    for at, rect, first in wrapped.frames:
        frame = layout.frames[at][0]
        words = titles[frame] if first else f"{' / '.join(frame.path)} (goes on)"
        if not first:
            inner = [r for n, r, f in wrapped.frames if not f and r.y == rect.y and _is_inside(r, rect) and n != at]
            words = "" if inner else words
        found.append([*_rounded(rect), cut(words, 6.8, rect.width - 16), "/".join(frame.path), len(frame.path)])
    return found


def _is_inside(one: Rect, other: Rect) -> bool:
    return other.x <= one.x and one.x + one.width <= other.x + other.width


def _sizes(shown: Picture, layout: Layout, wrapped: Wrapped) -> list[list[Any]]:
    """The bytes at the arrows, moved with the column that they are in."""
    return [
        [round(room.x + 1), round(room.y + 9), words]
        for room, words in size_labels(shown, Layout(wrapped.boxes, [], _longest(wrapped), 0.0, 0.0))
    ]


def _longest(wrapped: Wrapped) -> dict[int, list[Lane]]:
    """Of each route the stretch with most room for a label."""
    return {link: max(parts, key=lambda lanes: lanes[-1][2] - lanes[0][1]) for link, parts in wrapped.routes.items()}


def _rounded(rect: Rect) -> list[int]:
    return [round(rect.x), round(rect.y), round(rect.width), round(rect.height)]


def _boxes(
    graph: Graph, shown: Picture, layout: Wrapped, lines: dict[Box, list[str]], opens: dict[Box, int], outside: set[Box]
) -> list[list[Any]]:
    """Place, words, kind, seconds, operations, view that it opens, rows: lists, since there are thousands of boxes."""
    found = []
    for box, rect in zip(shown.boxes, layout.boxes, strict=True):
        words = [
            cut_front(lines[box][0], 7.3, rect.width - 14),
            *(cut(line, 5.9, rect.width - 12) for line in lines[box][1:]),
        ]
        kind: str = "outside" if box in outside else box.kind
        if box.kind == "place" and graph.op_columns.kind[box.units[0].row] == "source":
            kind = "source"
        view = opens.get(box, -1)
        found.append(
            [
                _rounded(rect),
                words,
                kind,
                float(f"{box.seconds:.6g}"),
                box.templates,
                view,
                [] if view >= 0 else _rows(box),
            ]
        )
    return found


def _rows(box: Box, most: int = 60) -> list[int]:
    """The rows of the operations in a box, the hottest places first."""
    ranked = sorted(box.units, key=lambda unit: -unit.seconds)
    return [row for unit in ranked for row in unit.rows][:most]


def _drawn_links(shown: Picture, wrapped: Wrapped) -> list[list[Any]]:
    """Path, head, kind, width, bytes, source and target of each link."""
    found = []
    for at, link in enumerate(shown.links):
        wide = thickness(link)
        if link.source == link.target:
            path, head = loop_path(wrapped.boxes[link.source])
        else:
            path, head = _whole_path(wrapped, at, link.source > link.target, wide)
        short = [_NUMBER.sub(_short, part) for part in (path, head)]
        found.append([*short, link.kind[0], round(wide, 1), link.nbytes, link.source, link.target])
    return found


_NUMBER = re.compile(r"-?\d+\.\d")


def _short(number: re.Match[str]) -> str:
    """A number of a path as a whole one: half a pixel is not seen, and there are many paths."""
    return f"{float(number[0]):.0f}"


def _whole_path(wrapped: Wrapped, link: int, upwards: bool, wide: float) -> tuple[str, str]:
    """The path of a link through all columns; the head of the arrow is where it ends."""
    drawn = [route_path(lanes, upwards, wide) for lanes in wrapped.routes[link]]
    ways = [_bent(points) for points in wrapped.ways.get(link, [])]
    heads = [head for _, head in drawn]
    # A stretch that is cut has no head there, and reaches the cut.
    pieces = [route_path(lanes, upwards, -4.5)[0] for lanes in wrapped.routes[link]]
    keep = 0 if upwards else len(drawn) - 1
    pieces[keep] = drawn[keep][0]
    return "".join(pieces + ways), heads[keep]


def _bent(points: list[tuple[float, float]], radius: float = 6.0) -> str:
    """A way with right angles, whose corners are round."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        one, two = _towards(at, before, radius), _towards(at, after, radius)
        parts.append(f"L{one[0]:.1f} {one[1]:.1f}Q{at[0]:.1f} {at[1]:.1f} {two[0]:.1f} {two[1]:.1f}")
    return "".join([*parts, f"L{points[-1][0]:.1f} {points[-1][1]:.1f}"])


def _towards(here: tuple[float, float], there: tuple[float, float], most: float) -> tuple[float, float]:
    length = abs(there[0] - here[0]) + abs(there[1] - here[1])
    part = min(most, length / 2) / length if length else 0.0
    return here[0] + (there[0] - here[0]) * part, here[1] + (there[1] - here[1]) * part
