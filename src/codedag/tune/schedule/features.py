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

SHARP = 3.0  # how suddenly a limit acts, per power of two
STEP = 1e-20  # imaginary: no rounding at all in the slope
CACHES = (32 << 10, 512 << 10, 16 << 20)
Array = Any


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
    """Means of whole tiles: a little more is a little more."""

    @staticmethod
    def tiles(count: Array) -> Array:
        """The mean of what rounding up gives; one tile at least."""
        above = count - 1.0
        return 1.0 + 0.5 * (above + np.sqrt(above * above + 0.25))


def _log(x: Array) -> Array:
    return np.log2(x)


def _block(x: Columns, facts: dict[str, float], by: type[Exact]) -> list[Array]:
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


def _small(x: Columns, facts: dict[str, float], by: type[Exact]) -> list[Array]:
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


def _plain(x: Columns, facts: dict[str, float], by: type[Exact]) -> list[Array]:
    return [
        _log(x["vb"]) / 6,
        _log(x["ku"]) / 2,
        (x["order"] == "ji") * 1.0,
        (x["order"] == "ij") * _log(facts["rows"]) / 8,
    ]


def _dot(x: Columns, facts: dict[str, float], by: type[Exact]) -> list[Array]:
    return [_log(x["mr"]) / 3, by.tiles(facts["columns"] / x["mr"]) * x["mr"] / facts["columns"]]


def _contraction_facts(family: ContractionFamily) -> dict[str, float]:
    from codedag.tune.emit.contraction_c import main_axes

    rows, columns, inner = main_axes(family.contraction)
    others = family.contraction.flops / 2 / max(rows.extent * columns.extent * inner.extent, 1)
    return {
        "rows": max(rows.extent, 1), "columns": max(columns.extent, 1), "inner": max(inner.extent, 1),
        "size": 4.0 if family.contraction.dtype == "f4" else 8.0, "stack": max(others, 1.0),
    }  # fmt: skip


def _rows(x: Columns, facts: dict[str, float], by: type[Exact]) -> list[Array]:
    """Features of pieces of rows."""
    one, two, three = caches()
    rows = x.get("rows", np.ones_like(x["vb"]))
    piece = rows * facts["row_nbytes"]
    pieces = by.tiles(facts["rows"] / rows)
    apart = sum((v for k, v in x.items() if k.startswith("apart_")), np.zeros_like(x["vb"]))
    walk = (x["walk"] == "in") * 1.0 if "walk" in x else 0.0 * x["vb"]
    called = facts["calls"] * _log(1 + pieces * 8000 / facts["elements"])
    return [
        _log(x["vb"]) / 6, by.over(x["vb"] / 45.0), _log(x["unroll"]) / 2, apart, x["expand"], walk,
        walk * facts["permuted"],
        by.over(piece / one), by.over(piece / two), by.over(4 * piece / two), by.over(piece / three), called,
        (1 - facts["calls"]) * _log(1 + pieces * 64 / facts["elements"]), apart * facts["operations"],
        _log(x["vb"]) * facts["operations"] / 6, x["expand"] * facts["short"],
    ]  # fmt: skip


def _map(x: Columns, facts: dict[str, float], by: type[Exact]) -> list[Array]:
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


def _rows_facts(family: RowsFamily) -> dict[str, float]:
    base = family.base
    inner = sum(max(1, math.prod(stage.target.shape[base.rows_axes :])) for stage in base.stages)
    permuted = any(one.how == "view" for one in family.program.statements)
    short = bool(family.program.result.shape) and family.program.result.shape[-1] <= 16
    mapping = family.mapping
    return {
        "rows": max(base.rows, 1), "row_nbytes": 4.0 * inner, "elements": max(family.program.result.size, 1),
        "calls": 1.0 if any(stage.call for stage in base.stages) else 0.0, "permuted": float(permuted),
        "short": float(short), "operations": sum(_operations(stage.expr) for stage in base.stages) / 10,
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
    "rows": {"rows": (_rows, 16), "planar": (_map, 13), "pixel": (_map, 13), "shuffle": (_map, 13)},
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
        names = [variable.name for variable in sketch.ordered]
        columns = {**words, **{name: 2.0 ** logs[:, k] for k, name in enumerate(names)}}
        value = self.of_columns(sketch, columns, Smooth)
        slopes = np.empty((len(names), *value.shape))
        for k, name in enumerate(names):
            moved = {**columns, name: 2.0 ** (logs[:, k] + 1j * STEP)}
            slopes[k] = self.of_columns(sketch, moved, Smooth).imag / STEP
        return value, slopes
