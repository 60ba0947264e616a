"""What the stages of rows cost for one choice of words: elements, operations, and the innermost loop of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from codedag.tune.emit.rows_c import Writer
from codedag.tune.emit.sums_c import CHUNK, walk_of
from codedag.tune.program.orders import BLOCK
from codedag.tune.program.program import Expr, Load, Op
from codedag.tune.schedule.loop_axes import Loop, Place, merged
from codedag.tune.schedule.space import Point
from codedag.tune.schedule.stages import Stage, Staged

# elements, operations on each, bytes of the widest type, turns of the innermost loop, whether these are by row of a
# piece, whether it lies in order, whether it is written element by element, whether it adds up blocks
FIELDS = ("elements", "work", "size", "inner", "by_row", "in_order", "written", "blocks")
WEIGHTS = {"div": 5.0, "sqrt": 6.0, "reciprocal": 5.0, "min": 2.0, "max": 2.0, "clip": 4.0, "where": 2.0}
Array = Any


def costs_of(staged: Staged, point: Point) -> Array:
    """A row of FIELDS for each stage that is no library function; only the words of the point matter."""
    writer = Writer(staged, point)
    return np.array([_cost(writer, stage) for stage in staged.stages if not stage.call], float)


def _cost(writer: Writer, stage: Stage) -> list[float]:
    elements = writer.staged.rows * math.prod(e for _, e in stage.axes[writer.staged.rows_axes :])
    parts = _parts(stage.expr, {})
    work = sum(WEIGHTS.get(one.name, 1.0) if isinstance(one, Op) else 0.5 for one in parts)
    size = max(np.dtype(kind).itemsize for kind in (stage.target.dtype, *(o.dtype for o in parts if isinstance(o, Op))))
    loop, steps, walk = _innermost(writer, stage)
    inner = loop.factor if loop.extent is None else loop.extent
    if walk in ("blocks", "chunks"):
        inner = min(inner, BLOCK if walk == "blocks" else CHUNK)
    in_order = all(abs(step) <= 1 for step in steps)
    return [elements, work + 1.0, size, inner, loop.extent is None, in_order, walk == "elements", walk == "blocks"]


def _parts(expr: Expr, found: dict[Expr, None]) -> dict[Expr, None]:
    """The different loads and operations of an expression; what occurs twice is computed once."""
    if isinstance(expr, (Load, Op)):
        found.setdefault(expr)
    for one in expr.args if isinstance(expr, Op) else ():
        _parts(one, found)
    return found


def _innermost(writer: Writer, stage: Stage) -> tuple[Loop, list[int], str]:
    """The innermost loop of a stage, by how much its arrays move along it, and how it goes through memory."""
    one = Loop("one", 1)
    if stage.reduction is None:
        loops, target, places = writer.walked(stage)
        inner = loops[-1] if loops else one
        return inner, _steps(inner, [target, *places.values()]), "elements"
    loops, places = writer.loops(stage), writer.places(stage)
    walk = walk_of(stage, loops, places)
    every = list(places.values())
    if walk == "across":
        kept, every = merged([x for x in loops if x.name != "row" and x.extent != 1], [writer.target(stage), *every])
    else:
        kept, every = merged([Loop(n, e) for n, e in stage.reduced[stage.leading :] if e != 1], every)
    inner = kept[-1] if kept else one
    return inner, _steps(inner, every), walk


def _steps(inner: Loop, places: list[Place]) -> list[int]:
    return [place.factors.get(inner.name, 0) for place in places]
