"""The graph of a run for a page that draws it: units with what flows between them, and folds that open into each other.

Folding looks at time, so it is done here, once; which folds are open is up to whoever looks at the page, which lays out
what is to be seen.  Every fold is a run of neighbours in an order that respects all dependences, so whatever is opened
and closed, no arrow ever goes backwards except those to a later iteration.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from codedag.ir import Graph
from codedag.view.fold import Box, Frame, folded, not_drawn
from codedag.view.labels import short_name
from codedag.view.units import Pair, Unit, Units, rolled

MOST_BOXES = 150  # of the detailed picture
FEW_BOXES = 45  # of the picture that is seen first, and of what a click opens
ALL_BOXES = 70  # up to so many, what a click opens has no folds
MOST_EDGES = 20_000  # between units; a picture draws some hundreds
NO_UNITS = Units([], {}, {}, set())


def pictures(graph: Graph) -> dict[str, Any]:
    """The units, what flows between them, and the folds: an overview, and (if that shows more) a detailed one."""
    whole = rolled(graph)
    seconds = sum(unit.seconds for unit in whole.units)
    sizes = [FEW_BOXES] + ([MOST_BOXES] if len(whole.units) > FEW_BOXES else [])
    flow, lost = _widest(whole.flow)
    return {
        "seconds": seconds,
        "operations": sum(unit.templates for unit in whole.units),
        "units": [_unit(graph, unit) for unit in whole.units],
        "flow": flow,
        "anti": [list(pair) for pair in sorted(whole.anti)][:MOST_EDGES],
        "later": [list(pair) for pair in sorted(whole.later)][:MOST_EDGES],
        "folds": [_Folds(graph, whole.units).parts(0, len(whole.units), 0, most) for most in sizes],
        "notes": not_drawn(graph) + ([f"{lost:,} dependences with few bytes are not in this page"] if lost else []),
    }


def _widest(flow: dict[Pair, int]) -> tuple[list[list[int]], int]:
    """The dependences with their bytes, those with most bytes if there are very many, and how many are left out."""
    found = [[source, target, nbytes] for (source, target), nbytes in sorted(flow.items())]
    if len(found) <= MOST_EDGES:
        return found, 0
    return sorted(heapq.nlargest(MOST_EDGES, found, key=lambda edge: edge[2])), len(found) - MOST_EDGES


def _unit(graph: Graph, unit: Unit) -> list[Any]:
    """Name, kind, calls, seconds, operations, bytes, peak, place and rows: a list, since there are thousands."""
    ops = graph.op_columns
    source = unit.place and ops.kind[unit.row] == "source"
    file = ops.file[unit.row].replace("\\", "/").rpartition("/")[2]
    return [
        short_name(ops.name[unit.row]) if unit.place else unit.path[-1] if unit.path else "",
        "source" if source else "place" if unit.place else "function",
        unit.calls,
        float(f"{unit.seconds:.6g}"),
        unit.templates,
        unit.nbytes,
        unit.peak,
        f"{file}:{ops.line[unit.row]}" if unit.place else "",
        unit.rows,
    ]


class _Folds:
    """Parts of a picture as plain data: a number is a unit, `[name, parts]` a frame, `[name, parts, kind]` a fold."""

    def __init__(self, graph: Graph, units: Sequence[Unit]) -> None:
        self._graph, self._units = graph, units

    def parts(self, first: int, end: int, drop: int, most: int) -> list[Any]:
        """The parts that stand for a run of units, without the outer functions that are drawn around them already."""
        units = [replace(unit, path=unit.path[drop:]) for unit in self._units[first:end]]
        root = folded(self._graph, replace(NO_UNITS, units=units), most)
        boxes = list(root.boxes())
        if len(boxes) == 1 and len(units) > 1:
            root = _halved(units, most)
            boxes = list(root.boxes())
        at: dict[int, int] = {}
        for box in boxes:
            at[id(box)] = first
            first += len(box.units)
        return self._plain(root, at)

    def _plain(self, frame: Frame, at: dict[int, int]) -> list[Any]:
        return [
            [part.name, self._plain(part, at)] if isinstance(part, Frame) else self._box(part, at[id(part)])
            for part in frame.parts
        ]

    def _box(self, box: Box, first: int) -> Any:
        if len(box.units) == 1:
            return first
        end = first + len(box.units)
        most = ALL_BOXES if len(box.units) <= ALL_BOXES else FEW_BOXES
        shared = _shared([unit.path for unit in self._units[first:end]])
        name = box.name or f"{box.templates:,} small operations"
        return [name, self.parts(first, end, shared, most), box.kind]


def _shared(paths: list[tuple[str, ...]]) -> int:
    """How many functions from the outside all paths have in common."""
    first, last = min(paths), max(paths)
    return next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _halved(units: list[Unit], most: int) -> Frame:
    """A frame where no time tells the units apart: equal stretches of them, which open in turn."""
    length = -(-len(units) // most)
    stretches = [units[first : first + length] for first in range(0, len(units), length)]
    return Frame("", (), [Box("small", "", stretch) for stretch in stretches])
