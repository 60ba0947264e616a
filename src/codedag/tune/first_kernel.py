"""Kernels for running programs: the best point that was measured here, else the model's first pick; never a search."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codedag.tune.declined import CannotTune
from codedag.tune.kernel import Kernel
from codedag.tune.measure import records
from codedag.tune.measure.probes import product_order
from codedag.tune.program.orders import remembered
from codedag.tune.program.record import record
from codedag.tune.schedule.family import EXACT
from codedag.tune.schedule.space import Point, point_of, point_text
from codedag.tune.task import Task


def first_kernel(function: Callable[..., Any], like: Sequence[tuple[str, tuple[int, ...]]], name: str) -> Kernel:
    """The kernel of a function of arrays of these types and shapes, proven and EXACT; CannotTune if there is none."""
    program = record(function, [np.ones(shape, dtype) for dtype, shape in like], name)
    with Task(program, function, product_order(program), name) as task:
        if task.exactness != EXACT:
            raise CannotTune(f"{name}: numpy adds up in an order that kernels do not repeat")
        return task.kernel(chosen_point(task))


def chosen_point(task: Task) -> Point:
    """The fastest point of this program among the records of this machine, else the first pick, which is remembered."""
    measured = _best_measured(task)
    if measured is not None:
        return measured
    text = remembered(["first pick", np.__version__, task.program.encoded()], lambda: _first(task))
    point = point_of(text) if text else None
    if point is None or not task.space.valid(point):
        raise CannotTune(f"{task.name}: the model has no pick")
    return point


def _first(task: Task) -> str:
    point = task.first_pick()
    return "" if point is None else point_text(point)


def _best_measured(task: Task) -> Point | None:
    key = hashlib.sha256(task.program.encoded().encode()).hexdigest()[:16]
    found = [
        (one["seconds"], one["point"])
        for one in records.read()
        if one.get("program") == key and isinstance(one.get("seconds"), float) and isinstance(one.get("point"), str)
    ]
    point = point_of(min(found)[1]) if found else None
    return point if point is not None and task.space.valid(point) else None
