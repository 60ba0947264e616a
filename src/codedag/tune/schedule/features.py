"""Closed-form features of schedules, smooth in the variables: what a point does to registers, caches and tails.

The same formulas serve twice. `Exact` counts whole tiles and hard limits; `Smooth` replaces a limit by a sigmoid and a
whole number of tiles by its mean, and takes complex numbers, so that a tiny imaginary step gives exact slopes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codedag.tune.program.program import Op, loads_of
from codedag.tune.schedule.family import ContractionFamily, Family, RowsFamily
from codedag.tune.schedule.space import Columns, Point, Sketch, columns_of
from codedag.tune.schedule.stage_costs import FIELDS, costs_of

SHARP = 3.0  # how suddenly a limit acts, per power of two
STEPS = 6  # tiles that are counted one by one
STEP = 1e-20  # imaginary: no rounding at all in the slope
CACHES = (32 << 10, 512 << 10, 16 << 20)
CALL_CYCLES, STAGE_CYCLES = 4000.0, 8.0  # of a library function from Python; of the start of an innermost loop
Array = Any
Facts = dict[str, Any]


@functools.cache
def caches() -> tuple[int, int, int]:
    """Bytes of the three caches of the first processor; common sizes where the system does not tell."""
    found = []
    for index in (0, 2, 3):
        place = Path(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size")
        try:
            text = place.read_text().strip()
        except OSError:
            return CACHES
        found.append(int(text[:-1]) << {"K": 10, "M": 20}.get(text[-1], 0) if text[-1].isalpha() else int(text))
    return found[0], found[1], found[2]


class Exact:
    """Whole tiles and hard limits."""

    @staticmethod
    def over(ratio: Array) -> Array:
        """1 where a ratio is above 1, near it somewhere between."""
        return 1.0 / (1.0 + np.exp(-SHARP * np.log2(ratio)))

    @staticmethod
    def tiles(count: Array) -> Array:
        """A whole number of tiles."""
        return np.maximum(np.ceil(count - 1e-9), 1.0)


class Smooth(Exact):
    """Steps from each whole number of tiles to the next, if there are few; then a little more is a little more."""

    @staticmethod
    def tiles(count: Array) -> Array:
        """The number of tiles, begun ones included; one at least."""
        above = count - 1.0 - STEPS
        more = 0.5 * (above + np.sqrt(above * above + 0.25))
        step = np.clip(np.rint(np.real(count) - 0.05), 1, STEPS)  # the others are over, or not begun
        return step + more + 1.0 / (1.0 + np.exp((step + 0.05 - count) / 0.03))


def _log(x: Array) -> Array:
    return np.log2(x)


def _block(x: Columns, facts: Facts, by: type[Exact]) -> list[Array]:
    """Features of a register block; `facts` are extents and the size of an element."""
    rows, columns, inner, size = facts["rows"], facts["columns"], facts["inner"], facts["size"]
    mr, nv, vb, ku, kc = x["mr"], x["nv"], x["vb"], x["ku"], x["kc"]
    lanes, wide = vb / size, by.over(vb / 45.0)
    nr, chains = nv * lanes, mr * nv
    mc, nc = x["mt"] * mr, x["nt"] * nr
    pin, packa, packb, ji = x["pin"], x["packa"], x["packb"], (x["order"] == "ji") * 1.0
    registers = (chains + nv + 1.0) / (16.0 + 16.0 * wide)
    loads = (mr + nv) / chains
    one, two, three = caches()
    panel, block, all_b = kc * nr * size, mc * kc * size, nc * kc * size
    turns = by.tiles(inner / kc)
    rows_done, columns_done = by.tiles(rows / mr) * mr, by.tiles(columns / nr) * nr
    passes_a, passes_b = by.tiles(columns / nc), by.tiles(rows / mc)
    overhead = (2.0 * chains + 12.0) / (kc * chains)
    left = inner / (turns * kc)
    return [
        _log(mr) / 4, _log(nv) / 3, wide, by.over(vb / 23.0), _log(chains) / 5, by.over(8.0 / chains),
        by.over(10.0 / chains), by.over(registers), loads, pin * loads, (1 - pin) * loads,
        (1 - pin) * by.over(nv / 2.5),
        _log(rows_done / rows), _log(columns_done / columns), by.over((panel + kc * mr * size) / one),
        by.over(2 * panel / one),
        by.over(block / one), by.over(block / two), by.over(all_b / two), by.over(all_b / three), _log(turns) / 4,
        overhead * 8,
        _log(passes_a) / 4, _log(passes_b) / 4, packa / (1 + nc / 8), packa * _log(passes_a) / 4, packa, packb,
        packb * 16 / (rows + 16), (1 - packa) * by.over(inner * size / 4096), (1 - packa) * by.over(mr / 6.0),
        (1 - packb) * by.over(columns * size / 4096), (1 - packb) * by.over(kc / 64.0), _log(ku) / 2,
        _log(ku * chains) / 7, ji, ji * by.over(block / one), (1 - ji) * by.over(all_b / one), ji * _log(passes_b) / 4,
        _log(left), _log(kc) / 10, _log(mc) / 10, _log(nc) / 10, packa * by.over(4.0 / mr), wide * by.over(registers),
    ]  # fmt: skip


def _small(x: Columns, facts: Facts, by: type[Exact]) -> list[Array]:
    """Features of products that are written out."""
    rows, columns, inner, size = facts["rows"], facts["columns"], facts["inner"], facts["size"]
    mr, vb, ku = x["mr"], x["vb"], x["ku"]
    vectors = by.tiles(columns * size / vb)
    chains = mr * vectors
    return [
        _log(mr) / 4, _log(vb) / 6, _log(ku) / 3, _log(chains) / 5, by.over(chains / 14.0), by.over(chains / 28.0),
        by.over(6.0 / chains), _log(by.tiles(rows / mr) * mr / rows), by.over(ku / inner), _log(ku * chains) / 8,
        (mr + vectors) / chains, by.over(vb / (columns * size)), by.over(mr / rows * 2),
    ]  # fmt: skip


def _plain(x: Columns, facts: Facts, by: type[Exact]) -> list[Array]:
    return [
        _log(x["vb"]) / 6,
        _log(x["ku"]) / 2,
        (x["order"] == "ji") * 1.0,
        (x["order"] == "ij") * _log(facts["rows"]) / 8,
    ]


def _dot(x: Columns, facts: Facts, by: type[Exact]) -> list[Array]:
    return [_log(x["mr"]) / 3, by.tiles(facts["columns"] / x["mr"]) * x["mr"] / facts["columns"]]


def _contraction_facts(family: ContractionFamily) -> Facts:
    from codedag.tune.emit.contraction_c import main_axes

    rows, columns, inner = main_axes(family.contraction)
    others = family.contraction.flops / 2 / max(rows.extent * columns.extent * inner.extent, 1)
    return {
        "rows": max(rows.extent, 1), "columns": max(columns.extent, 1), "inner": max(inner.extent, 1),
        "size": 4.0 if family.contraction.dtype == "f4" else 8.0, "stack": max(others, 1.0),
    }  # fmt: skip


def _rows(x: Columns, facts: Facts, by: type[Exact]) -> list[Array]:
    """Features of pieces of rows: what all stages cost together, in cycles for a byte, and what most of it is."""
    one, two, three = caches()
    vb, unroll, rows = x["vb"], x["unroll"], x.get("rows", np.ones_like(x["vb"]))
    walk = (x["walk"] == "in") * 1.0 if "walk" in x else 0.0 * vb
    piece, pieces = rows * facts["row_nbytes"], by.tiles(facts["rows"] / rows)
    elements, work, size, inner, by_row, in_order, written, blocks = np.moveaxis(_stage_columns(x, facts), 2, 0)
    lanes = 1.0 + in_order * (vb[:, None] / size - 1.0)
    step = lanes * (1.0 + written * (unroll[:, None] - 1.0))
    turns = inner * (1.0 + by_row * (rows[:, None] - 1.0))
    body = elements * work / lanes
    sums = elements * blocks * size / 32.0
    starts = elements / turns * (STAGE_CYCLES + 0.5 * step)
    called = pieces * facts["calls"] * CALL_CYCLES + pieces * STAGE_CYCLES * 4.0
    stages = body + sums + starts
    total = stages.sum(axis=1) + called
    short = (stages * by.over(step / turns)).sum(axis=1) / total
    return [
        _log(vb) / 6, by.over(vb / 45.0), _log(unroll) / 2, walk, walk * facts["permuted"],
        by.over(piece / one), by.over(piece / two), by.over(4 * piece / two), by.over(piece / three),
        _log(total / facts["nbytes"]) / 3, _log(body.sum(axis=1) / facts["nbytes"]) / 3, called / total,
        starts.sum(axis=1) / total, sums.sum(axis=1) / total, short, _log(unroll) * short,
        (stages * (1.0 - in_order)).sum(axis=1) / total,
        (stages * (1.0 - written) * (1.0 - blocks)).sum(axis=1) / total,
        _log(vb) / 6 * (body * blocks).sum(axis=1) / total,
    ]  # fmt: skip


def _stage_columns(x: Columns, facts: Facts) -> Array:
    """The stages of every point, as many for each as the longest has; those that are not there have no elements."""
    words = [name for name in x if name.startswith("apart_") or name in ("expand", "walk")]
    values = [[one if isinstance(one, str) else int(one) for one in np.real_if_close(x[n]).tolist()] for n in words]
    choices = list(zip(*values, strict=True)) if words else [()] * len(x["vb"])
    costs = {choice: facts["costs"](tuple(zip(words, choice, strict=True))) for choice in set(choices)}
    made = np.ones((len(choices), max(len(one) for one in costs.values()), len(FIELDS)))
    made[..., 0] = 0.0
    for k, choice in enumerate(choices):
        made[k, : len(costs[choice])] = costs[choice]
    return made


def _map(x: Columns, facts: Facts, by: type[Exact]) -> list[Array]:
    """Features of maps of small integers."""
    one, two, _ = caches()
    zero = 0.0 * x["vb"]
    tile = x.get("tile", zero + facts["pixels"])
    lanes, line = x.get("lanes", zero + 1), (x["by"] == "line") * 1.0
    nbytes = tile * facts["pixel_nbytes"]
    planar = 1.0 if "tile" in x else 0.0
    return [
        line, _log(x["vb"]) / 6, line * _log(x["vb"]) / 6, line * by.over(x["vb"] / 45.0),
        line * by.over(x["vb"] / 23.0),
        _log(x["unroll"]) / 3, line * _log(x["unroll"]) / 3, _log(lanes) / 4, planar * by.over(nbytes / one),
        planar * by.over(nbytes / two), planar * _log(1 + 300.0 / tile), planar * line * _log(1 + 300.0 / tile),
        planar * _log(by.tiles(facts["pixels"] / tile) * tile / facts["pixels"]),
    ]  # fmt: skip


def _rows_facts(family: RowsFamily) -> Facts:
    base, mapping, program = family.base, family.mapping, family.program
    inner = sum(max(1, math.prod(stage.target.shape[base.rows_axes :])) for stage in base.stages)
    costs = functools.cache(lambda words: costs_of(family.staged(dict(words)), dict(words)))
    own = [program.buffers[name] for name in (*program.inputs, program.output)]
    return {
        "rows": max(base.rows, 1), "row_nbytes": 4.0 * inner, "costs": costs,
        "elements": max(1.0, *(math.prod(e for _, e in stage.axes) for stage in base.stages)),
        "nbytes": max(1.0, sum(one.size * np.dtype(one.dtype).itemsize for one in own)),
        "calls": float(sum(bool(stage.call) for stage in base.stages)),
        "permuted": float(any(one.how == "view" for one in program.statements)),
        "operations": sum(_operations(stage.expr) for stage in base.stages) / 10,
        "pixels": mapping.pixels if mapping else 1, "stages": len(base.stages),
        "pixel_nbytes": mapping.channels * 5.0 if mapping else 1.0, "divisions": _divisions(family) / 4,
        "loads": sum(len(list(loads_of(stage.expr))) for stage in base.stages) / 8,
    }  # fmt: skip


def _operations(expr: Any) -> int:
    return 1 + sum(_operations(one) for one in expr.args) if isinstance(expr, Op) else 0


def _divisions(family: RowsFamily) -> int:
    def count(expr: Any) -> int:
        return (expr.name in ("div", "sqrt")) + sum(count(one) for one in expr.args) if isinstance(expr, Op) else 0

    return sum(count(stage.expr) for stage in family.base.stages)


PARTS: dict[str, dict[str, tuple[Callable[..., list[Array]], int]]] = {
    "contraction": {"block": (_block, 45), "small": (_small, 13), "plain": (_plain, 4), "dot": (_dot, 2)},
    "rows": {"rows": (_rows, 19), "planar": (_map, 13), "pixel": (_map, 13), "shuffle": (_map, 13)},
}
TASK = {"contraction": ("rows", "columns", "inner", "size", "stack"),
        "rows": ("elements", "row_nbytes", "rows", "calls", "operations", "stages", "divisions", "loads",
            "pixels")}  # fmt: skip
LOGGED = {"rows", "columns", "inner", "size", "stack", "elements", "row_nbytes", "pixels"}


class Features:
    """The features of one task's points, exact and smooth, and the slopes of the smooth ones."""

    def __init__(self, family: Family) -> None:
        self.family, self.kind = family, family.name
        if isinstance(family, ContractionFamily):
            self.facts = _contraction_facts(family)
        else:
            assert isinstance(family, RowsFamily)
            self.facts = _rows_facts(family)
        self.parts = PARTS[self.kind]
        self.width = len(self.parts) + sum(n for _, n in self.parts.values()) + len(TASK[self.kind])

    def rows(self, points: Sequence[Point], by: type[Exact] = Exact) -> Array:
        """A row of features for each point."""
        made = np.zeros((len(points), self.width))
        for sketch in self.family.space.sketches:
            own = [k for k, point in enumerate(points) if point["sketch"] == sketch.name]
            if own:
                made[own] = self.of_columns(sketch, columns_of(sketch, [points[k] for k in own]), by)
        return made

    def of_columns(self, sketch: Sketch, columns: Columns, by: type[Exact]) -> Array:
        """The features of points of one sketch, given as columns, which may be complex."""
        function, _ = self.parts[sketch.name]
        parts = function(columns, self.facts, by)
        count = len(next(iter(columns.values())))
        kind = np.result_type(float, *[np.asarray(one).dtype for one in parts])
        made = np.zeros((count, self.width), kind)
        at = 0
        for number, (name, (_, size)) in enumerate(self.parts.items()):
            if name == sketch.name:
                made[:, number] = 1.0
                start = len(self.parts) + at
                for k, one in enumerate(parts):
                    made[:, start + k] = one
            at += size
        for k, name in enumerate(TASK[self.kind]):
            value = self.facts[name]
            made[:, len(self.parts) + at + k] = np.log2(value) / 10 if name in LOGGED else value
        return made

    def slopes(self, sketch: Sketch, logs: Array, words: Columns) -> tuple[Array, Array]:
        """Smooth features at real values (powers of two) of the ordered variables, and their slopes along each."""
        count, names = len(logs), [variable.name for variable in sketch.ordered]
        columns = {name: np.tile(values, len(names)) for name, values in words.items()}
        for k, name in enumerate(names):  # one block of rows for each variable, which moves in its own block alone
            moved = np.tile(logs[:, k], len(names)).astype(complex)
            moved[k * count : (k + 1) * count] += 1j * STEP
            columns[name] = 2.0**moved
        made = self.of_columns(sketch, columns, Smooth)
        return made.real[:count], made.imag.reshape(len(names), count, -1) / STEP
