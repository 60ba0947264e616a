"""A tall picture as columns side by side, as a newspaper sets a long text: what is cut goes on at the top of the next.

A layered picture of a program is a strip: operations follow each other.  It is cut where no box stands, the parts are
put next to each other, and every arrow that is cut is led from the bottom of one column to the top of the next.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt

from codedag.view.layout import Lane, Layout, Rect

ASPECT = 1.45  # width over height of the place for the picture on a screen of 1500 x 1000
GUTTER = 34.0
STEP = 7.0  # between arrows that pass a gutter
MARGIN = 26.0  # above and below a column that arrows leave or enter
MOST_COLUMNS = 6
MOST_CUT = 14  # arrows that one cut may go through; more are no longer told apart

Point = tuple[float, float]


@dataclass(slots=True)
class Wrapped:
    """The places after wrapping; frames may be in several parts, routes are lists of stretches and of ways between."""

    boxes: list[Rect]
    frames: list[tuple[int, Rect, bool]]  # number of the frame, place, whether it is its first part
    routes: dict[int, list[list[Lane]]]
    ways: dict[int, list[list[Point]]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def wrap(layout: Layout) -> Wrapped:
    """The layout in as many columns as make it fit a screen best; one column is the layout itself."""
    cuts = _cuts(layout)
    if not cuts:
        whole = [(at, rect, True) for at, (_, rect) in enumerate(layout.frames)]
        routes = {link: [lanes] for link, lanes in layout.routes.items()}
        return Wrapped(layout.boxes, whole, routes, {}, layout.width, layout.height)
    return _Columns(layout, cuts).wrapped()


def _cuts(layout: Layout) -> list[float]:
    """The heights at which to cut: near equal parts, between boxes, through few arrows."""
    wanted = round(sqrt(layout.height * ASPECT / max(layout.width, 1.0)))
    if wanted < 2:
        return []
    places = _places(layout)
    for columns in range(min(wanted, MOST_COLUMNS), 1, -1):
        found = [_cut_near(places, layout.height * at / columns, layout.height / columns) for at in range(1, columns)]
        cuts = [cut for cut in found if cut is not None]
        if len(cuts) == columns - 1 and all(b - a > 60 for a, b in pairwise([0.0, *cuts, layout.height])):
            return cuts
    return []


def _places(layout: Layout) -> list[tuple[float, float]]:
    """The heights in gaps between boxes, and what a cut there costs: arrows and frames that it goes through."""
    spans = [(lanes[0][1], lanes[-1][2]) for lanes in layout.routes.values()]
    found = []
    for gap_top, gap_bottom in _gaps(layout):
        y = (gap_top + gap_bottom) / 2
        arrows = sum([top < y < bottom for top, bottom in spans])
        frames = sum([rect.y < y < rect.y + rect.height for _, rect in layout.frames])
        if arrows <= MOST_CUT:
            found.append((y, 0.06 * arrows + 0.12 * frames))
    return found


def _cut_near(places: list[tuple[float, float]], wish: float, part: float) -> float | None:
    """The cheapest place that is not too far from where a cut is wanted."""
    near = [(abs(y - wish) / part + price, y) for y, price in places if abs(y - wish) < part * 0.4]
    return min(near)[1] if near else None


def _gaps(layout: Layout) -> list[tuple[float, float]]:
    """The heights at which no box stands and no heading of a frame."""
    taken = [(box.y - 4, box.y + box.height + 4) for box in layout.boxes]
    taken += [(rect.y - 2, rect.y + 26) for _, rect in layout.frames]
    taken += [(rect.y + rect.height - 8, rect.y + rect.height + 2) for _, rect in layout.frames]
    found, bottom = [], 0.0
    for top, end in sorted(taken):
        if top - bottom > 6:
            found.append((bottom, top))
        bottom = max(bottom, end)
    return found


def _passes(lanes: list[Lane], y: float) -> bool:
    return lanes[0][1] < y < lanes[-1][2]


def _crossing(lanes: list[Lane], y: float) -> float:
    """Where a route crosses a height: in a lane it is straight, between two it bends."""
    for (x, _, bottom), (next_x, top, _) in pairwise(lanes):
        if y <= bottom:
            return x
        if y < top:
            part = (y - bottom) / (top - bottom)
            return x + (next_x - x) * part * part * (3 - 2 * part)
    return lanes[-1][0]


class _Columns:
    """The columns between the cuts, each as wide as what stands in it."""

    def __init__(self, layout: Layout, cuts: list[float]) -> None:
        self._layout = layout
        self._edges = [0.0, *cuts, layout.height]
        self._cuts = cuts
        self._crossed = [[link for link, lanes in layout.routes.items() if _passes(lanes, y)] for y in cuts]
        self._shift: list[Point] = []
        self._right: list[float] = []
        self.width = 0.0
        self._measure()

    def _measure(self) -> None:
        """Sets how far each column moves: to the right of the one before, and up to the top."""
        right = 0.0
        for at, (top, bottom) in enumerate(pairwise(self._edges)):
            low, high = self._extent(top, bottom)
            gutter = GUTTER + STEP * len(self._crossed[at - 1]) if at else 0.0
            self._shift.append((right + gutter - low, MARGIN - top))
            right += gutter + high - low
            self._right.append(right)
        self.width = right

    def _extent(self, top: float, bottom: float) -> Point:
        rects = [box for box in self._layout.boxes if top <= box.y < bottom]
        spans = [(box.x, box.x + box.width) for box in rects]
        spans += [
            (rect.x, rect.x + rect.width)
            for _, rect in self._layout.frames
            if rect.y < bottom and rect.y + rect.height > top
        ]
        for lanes in self._layout.routes.values():
            spans += [(x - 6, x + 6) for x, lane_top, lane_bottom in lanes if lane_top < bottom and lane_bottom > top]
        return min((low for low, _ in spans), default=0.0), max((high for _, high in spans), default=0.0)

    def wrapped(self) -> Wrapped:
        """Everything in its place."""
        boxes = [self._moved(box, bisect_right(self._cuts, box.y)) for box in self._layout.boxes]
        height = max(b - a for a, b in pairwise(self._edges)) + 2 * MARGIN
        made = Wrapped(boxes, self._frames(), {}, {}, self.width, height)
        for link, lanes in self._layout.routes.items():
            made.routes[link] = self._stretches(lanes)
            made.ways[link] = self._ways(link, made.routes[link])
        return made

    def _moved(self, rect: Rect, column: int) -> Rect:
        x, y = self._shift[column]
        return Rect(rect.x + x, rect.y + y, rect.width, rect.height)

    def _frames(self) -> list[tuple[int, Rect, bool]]:
        """The frames, each in as many parts as columns have some of it."""
        found = []
        for at, (_, rect) in enumerate(self._layout.frames):
            first = True
            for column, (top, bottom) in enumerate(pairwise(self._edges)):
                low, high = max(rect.y, top), min(rect.y + rect.height, bottom)
                if high > low:
                    found.append((at, self._moved(Rect(rect.x, low, rect.width, high - low), column), first))
                    first = False
        return found

    def _stretches(self, lanes: list[Lane]) -> list[list[Lane]]:
        """A route in parts, one for each column that it passes."""
        first, last = bisect_right(self._cuts, lanes[0][1]), bisect_right(self._cuts, lanes[-1][2] - 1e-6)
        return [self._stretch(lanes, column, first, last) for column in range(first, last + 1)]

    def _stretch(self, lanes: list[Lane], column: int, first: int, last: int) -> list[Lane]:
        top, bottom = self._edges[column], self._edges[column + 1]
        x, y = self._shift[column]
        inside = [(at, max(a, top), min(b, bottom)) for at, a, b in lanes if b >= top and a <= bottom]
        if column > first:
            inside.insert(0, (_crossing(lanes, top), top, top))
        if column < last:
            inside.append((_crossing(lanes, bottom), bottom, bottom))
        return [(at + x, a + y, b + y) for at, a, b in inside]

    def _ways(self, link: int, stretches: list[list[Lane]]) -> list[list[Point]]:
        """How a cut arrow gets from one column to the next: down, through the gutter, up and down again."""
        found = []
        for above, below in pairwise(stretches):
            column = next(at for at, right in enumerate(self._right) if above[-1][0] <= right + 0.5)
            place = self._crossed[column].index(link)
            start, end = (above[-1][0], above[-1][2]), (below[0][0], below[0][1])
            x = self._right[column] + GUTTER / 2 + STEP * place
            part = MARGIN / (len(self._crossed[column]) + 1) * (place + 1)
            low, high = start[1] + part, MARGIN - part
            found.append([start, (start[0], low), (x, low), (x, high), (end[0], high), end])
        return found
