"""Calls of compiled kernels: arrays in, memory for scratch and result, and whether the result is sure to be numpy's."""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from codedag.ir.verdict import No
from codedag.tune.addresses import address_of
from codedag.tune.emit import contraction_c
from codedag.tune.emit.head import SYMBOL
from codedag.tune.program.evaluate import OPERATIONS
from codedag.tune.program.program import Buffer, Program, loads_of
from codedag.tune.schedule.byte_map import ByteMap
from codedag.tune.schedule.contraction import CONSTANT_MAX, Contraction, axis_names
from codedag.tune.schedule.family import EXACT, ContractionFamily, Family, RowsFamily
from codedag.tune.schedule.space import Point

Array = Any
ODD = {1: "a NaN, or a number at a bound or out of a range", 2: "a result that numpy may warn of"}
TABLES_MAX = 64  # of maps of bytes that are remembered, by their parameters
ALIGN = 64
KEPT_NBYTES = (1 << 16, 1 << 24)  # of results whose memory is kept
SHAPES_MAX = 256  # whose preparation a kernel remembers


def load_entry(library: Path) -> Any:
    """The function of a compiled kernel, or why it cannot be loaded."""
    try:
        entry = getattr(ctypes.CDLL(str(library)), SYMBOL)
    except (OSError, AttributeError) as error:
        return No(f"the kernel cannot be loaded: {error}")
    return entry


def empty_aligned(nbytes: int) -> Array:
    """Bytes that begin at a cache line."""
    raw = np.empty(nbytes + ALIGN, np.uint8)
    start = -int(raw.ctypes.data) % ALIGN
    return raw[start : start + nbytes]


class ResultMaker:
    """Makes arrays for results; the last one is given again if nobody holds it any more.

    Fresh memory of 600 kB took 36 us in page faults where the kernel took 25 us (224x224x3, beside numpy's own).
    """

    def __init__(self, shape: Sequence[int], dtype: str, strides: Sequence[int] = ()) -> None:
        kind = np.dtype(dtype)
        self._made = partial(np.empty, tuple(shape), kind)
        if strides:  # of elements in another order; no element of this one is ever read
            turned = as_strided(np.empty(1, kind), shape, [step * kind.itemsize for step in strides])
            self._made = partial(np.empty_like, turned)
        made = self._made()
        self.like, self.alone = (made.shape, made.strides, made.dtype), self._references(made)
        self.is_kept = KEPT_NBYTES[0] <= made.nbytes <= KEPT_NBYTES[1] and sys.version_info < (3, 14)
        self.last: list[Array] = []  # popped and appended: threads never share one

    def __call__(self) -> Array:
        """An array with the layout that numpy's own result has."""
        if not self.is_kept:
            return self._made()
        made = self.last.pop() if self.last else None
        if made is None or self._references(made) > self.alone or not self._is_as_made(made):
            made = self._made()
        self.last.append(made)
        return made

    def _references(self, made: Array) -> int:
        return sys.getrefcount(made)

    def _is_as_made(self, made: Array) -> bool:
        if weakref.getweakrefcount(made) or not made.flags.writeable:
            return False
        return (made.shape, made.strides, made.dtype) == self.like


def maker_of(buffer: Buffer) -> ResultMaker:
    """Makes arrays with the layout of numpy's own result."""
    return ResultMaker(buffer.shape, buffer.dtype, () if buffer.is_c_contiguous else buffer.strides)


def layout_problem(program: Program, arrays: Sequence[Array]) -> str:
    """Why arrays are not what a kernel takes (type, order in memory, alignment), or nothing; any shape will do."""
    if len(arrays) != len(program.inputs):
        return f"{len(arrays)} arrays for {len(program.inputs)}"
    for name, array in zip(program.inputs, arrays, strict=True):
        if type(array) is not np.ndarray:
            return f"{name} is no plain array"
        flags = array.flags
        if array.dtype != program.buffers[name].dtype or not array.dtype.isnative:
            return f"{name} has type {array.dtype}"
        if not (flags.c_contiguous and flags.aligned):
            return f"{name} does not lie in order"
    return ""


class Scratch(threading.local):
    """Scratch memory of each thread."""

    memory: Array = None
    place = 0
    nbytes = -1

    def address(self, nbytes: int) -> tuple[int, Array]:
        """Where so many bytes lie, and the bytes."""
        if self.nbytes < nbytes:
            self.memory, self.nbytes = empty_aligned(nbytes), nbytes
            self.place = address_of()(self.memory)
        return self.place, self.memory


class RowsRunner:
    """Calls of kernels that go through rows."""

    def __init__(self, family: RowsFamily, point: Point, entry: Any) -> None:
        self.program, self.entry = family.program, entry
        self.text = family.text(point)
        self.staged = family.staged(point)
        entry.argtypes = (ctypes.c_void_p,) * 3 + (ctypes.c_long,) * 3
        self.places = ctypes.c_void_p * len(self.program.inputs)
        self.shapes = [self.program.buffers[name].shape for name in self.program.inputs]
        self.empty, self.address = maker_of(self.program.result), address_of()
        self.is_empty = not self.program.result.size
        self.rows = self.staged.rows if self.staged.rows_axes else 1
        self.scratch = Scratch()
        self.calls: list[tuple[Any, int, int, str, int]] = [(OPERATIONS[one[0]], *one[1:]) for one in self.text.calls]

    def run(self, arrays: Sequence[Array]) -> Array | No:
        """The result, or why it is not sure to be numpy's."""
        for shape, array in zip(self.shapes, arrays, strict=True):
            if array.shape != shape:
                return No(f"an array has shape {array.shape}; the kernel is for {shape}")
        if self.is_empty:
            return No("the result is empty")
        out, address = self.empty(), self.address
        scratch, memory = self.scratch.address(self.text.scratch_nbytes)
        places = self.places(*map(address, arrays))
        if self.calls:
            said = self._pieces(places, address(out), scratch, memory, self.rows)
        else:
            said = self.entry(places, address(out), scratch, 0, self.rows, 0)
        return No(ODD[2 if said & 2 else 1]) if said else out

    def _pieces(self, places: Any, out: int, scratch: int, memory: Array, rows: int) -> int:
        """Pieces of rows through all segments, numpy's own functions between them."""
        said = 0
        try:
            with np.errstate(all="raise", under="ignore"):
                for row in range(0, rows, self.text.rows_cap):
                    count = min(self.text.rows_cap, rows - row)
                    for segment, (function, source, target, dtype, inner) in enumerate(self.calls):
                        said |= self.entry(places, out, scratch, row, count, segment)
                        size, kind = count * inner, np.dtype(dtype)
                        nbytes = size * kind.itemsize
                        function(
                            memory[source : source + nbytes].view(kind), memory[target : target + nbytes].view(kind)
                        )
                    said |= self.entry(places, out, scratch, row, count, len(self.calls))
        except FloatingPointError:
            return 2
        return said


class BytesRunner:
    """Calls of kernels that map small integers; tables and lines are computed once for each set of parameters."""

    def __init__(self, family: RowsFamily, point: Point, entry: Any) -> None:
        assert family.mapping is not None
        self.program, self.entry, self.mapping, self.point = family.program, entry, family.mapping, point
        entry.argtypes = (ctypes.c_void_p,) * 3 + (ctypes.c_long,) * 3
        self.places = ctypes.c_void_p * len(self.program.inputs)
        self.at = self.program.inputs.index(self.mapping.data.buffer)
        self.empty, self.address = maker_of(self.program.result), address_of()
        self.tables: dict[tuple[bytes, ...], Array | No] = {}

    def run(self, arrays: Sequence[Array]) -> Array | No:
        """The result, or why it is not sure to be numpy's."""
        for name, array in zip(self.program.inputs, arrays, strict=True):
            if array.shape != self.program.buffers[name].shape:
                return No(f"{name} has shape {array.shape}; the kernel is for {self.program.buffers[name].shape}")
        key = tuple(array.tobytes() for k, array in enumerate(arrays) if k != self.at)
        table = self.tables.get(key)
        if table is None:
            if len(self.tables) >= TABLES_MAX:
                self.tables.clear()
            table = self.tables[key] = byte_table(self.mapping, self.point, arrays)
        if isinstance(table, No):
            return table
        out, address = self.empty(), self.address
        places = self.places(*[address(array) for array in arrays])
        self.entry(places, address(out), address(table), self.mapping.pixels, int(self.point.get("tile", 0)), 0)
        return out


def byte_table(mapping: ByteMap, point: Point, arrays: Sequence[Array]) -> Array | No:
    """What the kernel of a point reads: a table by channel, or slopes and offsets that give it for every value."""
    try:
        if point["by"] == "line":
            line = mapping.line(arrays)
            return No("no line gives the same bits for every value") if line is None else np.concatenate(line)
        table, _ = mapping.table(arrays)
    except FloatingPointError as error:
        return No(f"numpy would warn: {error}")
    if table.dtype.kind == "f" and np.isnan(table).any():
        return No("a value becomes NaN")
    return np.ascontiguousarray(table.T)


class ContractionRunner:
    """Calls of kernels of sums of products, for every size whose small extents are the kernel's."""

    def __init__(self, family: ContractionFamily, point: Point, entry: Any) -> None:
        self.program, self.entry, self.point = family.program, entry, point
        self.contraction: Contraction = family.contraction
        self.exact = family.exactness == EXACT
        entry.argtypes = (ctypes.c_void_p,) * 5
        self.scratch, self.address = Scratch(), address_of()
        self.prepared: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[ResultMaker, Array, int] | No] = {}
        statement = self.program.statements[0]
        self.names = [axis_names(load) for load in loads_of(statement.expr)]
        self.result = [name for name, _ in statement.axes if name.startswith("d")]

    def run(self, arrays: Sequence[Array]) -> Array | No:
        """The result, or why it is not sure to be numpy's."""
        a, b = arrays
        prepared = self.prepared.get((a.shape, b.shape))
        if prepared is None:
            if len(self.prepared) >= SHAPES_MAX:
                self.prepared.clear()
            prepared = self.prepared[a.shape, b.shape] = self._prepared(arrays)
        if isinstance(prepared, No):
            return prepared
        empty, extents, nbytes = prepared
        out, address = empty(), self.address
        if self.contraction.swapped:
            a, b = b, a
        scratch = self.scratch.address(nbytes)[0] if nbytes else 0
        said = self.entry(address(a), address(b), address(out), address(extents), scratch)
        return No(ODD[2 if said & 2 else 1]) if said else out

    def _prepared(self, arrays: Sequence[Array]) -> tuple[ResultMaker, Array, int] | No:
        """What makes the result, the extents that the kernel reads, and the bytes of its scratch memory."""
        sizes = self._sizes(arrays)
        if isinstance(sizes, No):
            return sizes
        if not all(sizes.values()):
            return No("an extent is 0")
        own = self.contraction.extents(sizes)
        for axis in self.contraction.axes:
            if own[axis.name] != axis.extent and axis.extent <= CONSTANT_MAX:
                return No(f"axis {axis.name} has extent {own[axis.name]}; the kernel is for {axis.extent}")
        extents = np.array([*own.values(), *contraction_c.tiles_of(self.point)], np.int64)
        items = contraction_c.scratch_items(_resized(self.contraction, own), self.point)
        size = np.dtype(self.contraction.dtype).itemsize
        return ResultMaker([sizes[name] for name in self.result], self.contraction.dtype), extents, items * size

    def _sizes(self, arrays: Sequence[Array]) -> dict[str, int] | No:
        sizes: dict[str, int] = {}
        for names, array in zip(self.names, arrays, strict=True):
            if array.ndim != len(names):
                return No(f"an array with {array.ndim} axes; the kernel takes {len(names)}")
            for name, extent in zip(names, array.shape, strict=True):
                if not name and extent != 1:
                    return No(f"a stack of {extent}; the kernel is for one element for the whole stack")
                if name and sizes.setdefault(name, extent) != extent:
                    return No(f"axis {name} has extents {sizes[name]} and {extent}")
        for name, extent in self.program.statements[0].axes if self.exact else ():
            if sizes[name] != extent:
                return No(f"axis {name} has extent {sizes[name]}; the kernel is for {extent}")
        return sizes


def _resized(contraction: Contraction, sizes: dict[str, int]) -> Contraction:
    return replace(contraction, axes=tuple(replace(axis, extent=sizes[axis.name]) for axis in contraction.axes))


Runner = RowsRunner | BytesRunner | ContractionRunner


def runner_of(family: Family, point: Point, entry: Any) -> Runner:
    """The runner of a compiled point."""
    if isinstance(family, ContractionFamily):
        return ContractionRunner(family, point, entry)
    assert isinstance(family, RowsFamily)
    return RowsRunner(family, point, entry) if point["sketch"] == "rows" else BytesRunner(family, point, entry)
