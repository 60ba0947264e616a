"""Families: what kind of kernel a program becomes, with its space, its C text and the class of its results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

from codedag.tune.emit import bytes_c, contraction_c, rows_c
from codedag.tune.program.program import Program
from codedag.tune.schedule.byte_map import ByteMap, byte_map_of
from codedag.tune.schedule.contraction import CONSTANT_MAX, Contraction, contraction_of
from codedag.tune.schedule.space import Choice, Columns, Point, Range, Sketch, Space
from codedag.tune.schedule.stages import Staged, choices_of, staged

EXACT, ULP = "EXACT", "ULP"
OTHER_ORDER = "numpy adds up in an order that kernels do not repeat"
WRITTEN_OUT_MAX = 400  # products of one kernel that are written out
PIECE_NBYTES_MIN = 1 << 14  # of a piece that numpy's own function is called with
SCRATCH_MAX = 1 << 22  # bytes of one piece


@dataclass(frozen=True, slots=True)
class Emitted:
    """The C text of a point and the flags that it needs."""

    source: str
    flags: tuple[str, ...]


class Family(Protocol):
    """A kind of kernel."""

    name: str
    program: Program

    @property
    def space(self) -> Space:
        """The points of the program."""

    def emitted(self, point: Point) -> Emitted:
        """The C text of a point."""

    @property
    def exactness(self) -> str:
        """The class of all kernels of this family for this program."""

    @property
    def why_not_exact(self) -> str:
        """Why that class is not EXACT, or nothing."""


def widths() -> tuple[int, ...]:
    """Bytes of the vectors that this processor has."""
    from codedag.tune.machine_key import machine_key

    flags = machine_key().split()
    return (16, 32, 64) if "avx512f" in flags else (16, 32) if "avx2" in flags else (16,)


@dataclass
class ContractionFamily:
    """Kernels of one sum of products."""

    program: Program
    contraction: Contraction
    order: str  # fused | unfused | lanes: how numpy adds products up here; empty if in another way
    name = "contraction"

    @property
    def exactness(self) -> str:
        """EXACT if numpy's order is known; rounding only else."""
        return EXACT if self.order else ULP

    @property
    def why_not_exact(self) -> str:
        """Why the class is not EXACT, or nothing."""
        return "" if self.order else OTHER_ORDER

    @cached_property
    def space(self) -> Space:
        """Register blocks always, products written out if they are small."""
        return Space(tuple(_contraction_sketches(self.contraction, self.order)))

    def emitted(self, point: Point) -> Emitted:
        """The C text of a point."""
        source = contraction_c.contraction_source(self.contraction, point, self.exactness == EXACT)
        return Emitted(source, contraction_c.flags_of(point))


def _contraction_sketches(c: Contraction, order: str) -> list[Sketch]:
    fused = Choice("fused", (0,) if order in ("unfused", "lanes") else (1,))
    rows, columns, inner = contraction_c.main_axes(c)
    if order == "lanes":
        most = max(1, min(8, columns.extent))
        return [Sketch("dot", (fused, Choice("vb", (16,)), Range("mr", 1, most)))]
    size = 4 if c.dtype == "f4" else 8
    vectors = Choice("vb", widths(), ordered=True)
    found = []
    fits = c.c and columns.name == c.c[-1]
    if fits:
        packs = (0, 1) if c.stride(c.b, columns.name) == "1" else (1,)
        found.append(Sketch("block", (
            fused, vectors, Range("mr", 1, max(1, min(14, rows.extent))), Range("nv", 1, 6),
            Choice("ku", (1, 2, 4), ordered=True), Choice("pin", (0, 1)), Choice("packa", (0, 1)),
            Choice("packb", packs), Choice("order", ("ij", "ji")),
            Range("kc", min(16, max(inner.extent, 1)), max(inner.extent, 1)),
            Range("mt", 1, max(1, min(rows.extent, 512))), Range("nt", 1, max(1, min(-(-columns.extent // 4), 512))),
        ), (_registers, _row_tiles(rows.extent), _column_tiles(columns.extent, size))))  # fmt: skip
    small = fits and columns.extent <= CONSTANT_MAX and len(c.inner) == 1 and inner.extent <= 4 * CONSTANT_MAX
    if small and c.stride(c.b, columns.name) == "1":
        found.append(Sketch("small", (
            fused, vectors, Range("mr", 1, max(1, min(16, rows.extent))), Choice("ku", (1, 2, 4, 8), ordered=True),
        ), (_small_registers(columns.extent, size),)))  # fmt: skip
        if columns.extent * inner.extent <= WRITTEN_OUT_MAX and inner.extent <= CONSTANT_MAX:
            found.append(
                Sketch("plain", (fused, vectors, Choice("order", ("ij", "ji")), Choice("ku", (1, 2, 4), ordered=True)))
            )
    return found


def _registers(x: Columns) -> Any:
    """Sums, columns of b and one element of a must fit the registers."""
    held = x["mr"] * x["nv"] + x["nv"] + 1
    return held - (16.0 + 16.0 * (x["vb"] >= 64))


def _row_tiles(extent: int) -> Any:
    return lambda x: (x["mt"] - 1) * x["mr"] - max(extent - 1, 0)


def _column_tiles(extent: int, size: int) -> Any:
    return lambda x: (x["nt"] - 1) * x["nv"] * x["vb"] / size - max(extent - 1, 0)


def _small_registers(columns: int, size: int) -> Any:
    return lambda x: x["mr"] * (columns * size / x["vb"] + 1) - 40.0


@dataclass
class RowsFamily:
    """Kernels of operations on elements and reductions, row by row."""

    program: Program
    base: Staged
    name = "rows"

    @property
    def exactness(self) -> str:
        """EXACT if the order of every sum is known."""
        return ULP if self.why_not_exact else EXACT

    @cached_property
    def why_not_exact(self) -> str:
        """Why the class is not EXACT, or nothing."""
        for stage in self.base.stages:
            if stage.reduction is not None and not stage.reduction.order:
                return OTHER_ORDER
            if not stage.is_ordered:
                return f"numpy's {stage.call} of an array that does not lie in order may be another function"
        return ""

    @cached_property
    def mapping(self) -> ByteMap | None:
        """The map of small integers that the program is, if it is one."""
        return byte_map_of(self.base)

    @cached_property
    def space(self) -> Space:
        """Pieces of rows always, maps of bytes where they fit."""
        return Space((self._rows_sketch(), *_map_sketches(self.mapping)))

    def _rows_sketch(self) -> Sketch:
        variables: list[Any] = [Choice("vb", widths(), ordered=True), Choice("unroll", (1, 2, 4), ordered=True)]
        if self.base.rows_axes and len(self.base.stages) > 1:
            most = max(1, min(self.base.rows, SCRATCH_MAX // max(self._row_nbytes, 1)))
            calls = any(stage.call for stage in self.base.stages)
            least = min(most, max(1, PIECE_NBYTES_MIN // max(self._row_nbytes, 1))) if calls else 1
            variables.append(Range("rows", least, most))
        variables += [Choice(f"apart_{name}", (0, 1)) for name in choices_of(self.program)]
        if self._can_expand:
            variables += [Choice("expand", (0, 1))]
        if not self.base.stages[-1].target.is_c_contiguous or _is_permuted(self.program):
            variables.append(Choice("walk", ("in", "out")))
        return Sketch("rows", tuple(variables))

    @property
    def _can_expand(self) -> bool:
        """Whether there is a parameter that can be written out along another loop."""
        for base in (self.base, stages_of(self.program, choices_of(self.program))):
            texts = {rows_c.rows_text(base, {"vb": 32, "expand": one}).source for one in (0, 1)}
            if len(texts) > 1:
                return True
        return False

    @property
    def _row_nbytes(self) -> int:
        count = self.base.rows_axes
        sizes = [math.prod(stage.target.shape[count:]) for stage in self.base.stages]
        return 8 * sum(sizes)

    def staged(self, point: Point) -> Staged:
        """The stages of a point: what it keeps apart is written to memory."""
        apart = tuple(k.removeprefix("apart_") for k, v in sorted(point.items()) if k.startswith("apart_") and v)
        return stages_of(self.program, apart)

    def text(self, point: Point) -> rows_c.Text:
        """The C text of a point with what its scratch memory holds."""
        return rows_c.rows_text(self.staged(point), point)

    def emitted(self, point: Point) -> Emitted:
        """The C text of a point."""
        if point["sketch"] == "rows":
            return Emitted(self.text(point).source, rows_c.flags_of(point))
        assert self.mapping is not None
        return Emitted(bytes_c.bytes_source(self.mapping, point), bytes_c.flags_of(point))


def _is_permuted(program: Program) -> bool:
    return any(one.how == "view" for one in program.statements)


def _map_sketches(mapping: ByteMap | None) -> list[Sketch]:
    if mapping is None:
        return []
    by = ("line", "table") if mapping.staged.stages[-1].target.dtype == "f4" else ("table",)
    vectors, unroll = Choice("vb", widths(), ordered=True), Choice("unroll", (1, 2, 4, 8), ordered=True)
    tile = Range("tile", min(64, mapping.pixels), mapping.pixels)
    made = [
        Sketch("planar", (Choice("style", ("planar",)), Choice("by", by), vectors, unroll, tile)),
        Sketch("pixel", (Choice("style", ("pixel",)), Choice("by", by), vectors, unroll)),
    ]
    if bytes_c.shuffles(mapping):
        style, lanes = Choice("style", ("shuffle",)), Choice("lanes", (8, 16), ordered=True)
        most = min(bytes_c.TILE_MAX, mapping.pixels)
        made.append(
            Sketch("shuffle", (style, Choice("by", by), vectors, unroll, lanes, Range("tile", min(64, most), most)))
        )
    return made


@lru_cache(maxsize=256)
def _stages_of(encoded: str, apart: tuple[str, ...]) -> Staged:
    from codedag.tune.program.program import decoded

    return staged(decoded(encoded), apart)


def stages_of(program: Program, apart: tuple[str, ...]) -> Staged:
    """The stages of a program, computed once for each choice."""
    return _stages_of(program.encoded(), apart)


def family_of(program: Program, order: str = "") -> Family:
    """The family of a program; `order` is how numpy adds products up, if that is known."""
    contraction = contraction_of(program)
    if contraction is not None:
        return ContractionFamily(program, contraction, order)
    return RowsFamily(program, stages_of(program, ()))
