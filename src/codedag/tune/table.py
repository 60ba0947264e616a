"""Table kernels: out[idx] = table[sum of idx[a] * row_step[a], view[idx]], whatever the strides of `view`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from codedag.ir.verdict import No
from codedag.tune import kernel_cache, table_numba
from codedag.tune.compiler import find_compiler
from codedag.tune.layout import Array, Layout, layout_of
from codedag.tune.prove_kernel import NUMBA, prove
from codedag.tune.table_c import Apply, load_c
from codedag.tune.table_numpy import apply_numpy
from codedag.tune.table_source import source

ITEMSIZES = (1, 2, 4, 8, 16)
SMALL = 1024  # elements up to which any kernel is as good as another
LAYOUTS_MAX = 4096  # remembered per kernel: a program with more image sizes starts over
_UINT8 = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What is compiled into a kernel: the size of an element and the number of interleaved channels, if any.

    Extents, strides and the order of axes are arguments, so that images of all sizes share one kernel.
    """

    itemsize: int
    channels: int


class TableKernel:
    """A kernel that is proven on this machine; safe to use from several threads."""

    __slots__ = ("_apply", "_layouts", "declined", "engine", "note", "spec")

    def __init__(
        self,
        engine: str,
        spec: TableSpec,
        apply: Apply,
        note: str = "",
        declined: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.engine, self.spec, self.note, self.declined = engine, spec, note, declined
        self._apply = apply
        self._layouts: dict[tuple[Any, ...], Layout | No] = {}

    def __repr__(self) -> str:
        return f"<TableKernel {self.engine} {self.spec}>"

    def apply(self, view: Array, table: Array, row_step: tuple[int, ...], out: Array) -> None:
        """Fills `out`; raises ValueError, before anything is written, if no kernel takes such arrays."""
        layout = self._fitting(view, row_step, table, out)
        if isinstance(layout, No):
            raise ValueError(layout.reason)
        if layout.size:
            self._apply(layout, row_step, view, table, out)

    def accepts(self, view: Array, row_step: tuple[int, ...], table: Array, out: Array) -> bool:
        """True if this is the right kernel for these arrays: `apply` would work, and none would be faster."""
        layout = self._fitting(view, row_step, table, out)
        if isinstance(layout, No):
            return False
        return self.engine != "c" or layout.channels in (0, self.spec.channels) or layout.size <= SMALL

    def job(self, view: Array, row_step: tuple[int, ...], table: Array, out: Array) -> tuple[int, int, Layout] | None:
        """Where the compiled kernel and its loops for such arrays are, and what keeps these alive; None for no C."""
        layout, entry = self._fitting(view, row_step, table, out), getattr(self._apply, "entry", None)
        if isinstance(layout, No) or not entry or not layout.size:
            return None
        return entry, layout.address, layout

    def _fitting(self, view: Array, row_step: tuple[int, ...], table: Array, out: Array) -> Layout | No:
        """The layout of the job, or why it would be wrong or unsafe to run it. Costs about a microsecond."""
        if not (isinstance(view, np.ndarray) and isinstance(table, np.ndarray) and isinstance(out, np.ndarray)):
            return No("view, table and out must be numpy arrays")
        shape = view.shape
        key = (shape, view.strides, row_step, out.strides)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._remember(key)
        if isinstance(layout, No):
            return layout
        if view.dtype != _UINT8 or out.shape != shape or not out.flags.writeable:
            return No("view must be uint8, and out writeable and of the same shape")
        if table.dtype != out.dtype or out.itemsize != self.spec.itemsize or out.dtype.hasobject:
            return No(f"table and out must have one dtype of {self.spec.itemsize} bytes")
        rows = table.shape
        if len(rows) != 2 or rows[1] != 256 or rows[0] < layout.rows or not table.flags.c_contiguous:
            return No(f"table must be contiguous, with 256 columns and at least {layout.rows} rows")
        return layout

    def _remember(self, key: tuple[Any, ...]) -> Layout | No:
        if len(self._layouts) >= LAYOUTS_MAX:
            self._layouts.clear()
        shape, strides, row_step, out_strides = key
        layout = layout_of(shape, strides, row_step, out_strides, self.spec.itemsize)
        self._layouts[key] = layout
        return layout


def kernel_for(view: Array, row_step: tuple[int, ...], table_dtype: Any, out: Array) -> TableKernel | No:
    """The fastest kernel that this machine can make for such arrays; may compile for a second."""
    spec = spec_for(view, row_step, table_dtype, out)
    return spec if isinstance(spec, No) else kernel_of(spec)


def spec_for(view: Array, row_step: tuple[int, ...], table_dtype: Any, out: Array) -> TableSpec | No:
    """What the fastest kernel for such arrays is made from, or why no kernel takes them."""
    dtype = np.dtype(table_dtype)
    if view.dtype != _UINT8:
        return No(f"view is {view.dtype}, not uint8")
    if dtype != out.dtype or view.shape != out.shape:
        return No("out has not the shape of view and the dtype of the table")
    if dtype.hasobject or dtype.itemsize not in ITEMSIZES:
        return No(f"{dtype} elements: kernels copy plain elements of {ITEMSIZES} bytes")
    layout = layout_of(view.shape, view.strides, tuple(row_step), out.strides, dtype.itemsize)
    if isinstance(layout, No):
        return layout
    return TableSpec(dtype.itemsize, layout.channels)


def numpy_kernel(spec: TableSpec) -> TableKernel:
    """The kernel of this spec by numpy alone: nothing is compiled for it."""
    return TableKernel("numpy", spec, apply_numpy)


def kernel_of(spec: TableSpec) -> TableKernel | No:
    """The kernel of this spec, made once per process and setting; NotNow if it may not be compiled at present."""
    setting = tuple(os.environ.get(name, "") for name in ("CODEDAG_COMPILER", "CC", "PATH", "CODEDAG_HOME"))
    with _locks.of((spec, setting)):
        known = _kernels.get((spec, setting))
        if known is not None:
            return known
        made = _make(spec)
        if not isinstance(made, No):
            _kernels[spec, setting] = made
        return made


class _Locks:
    """A lock per kernel and process: after a fork the parent's may be held for ever."""

    def __init__(self) -> None:
        self._held: dict[Any, threading.Lock] = {}

    def of(self, key: Any) -> threading.Lock:
        """The lock of this key in this process."""
        return self._held.setdefault((os.getpid(), key), threading.Lock())


_locks = _Locks()
_kernels: dict[tuple[TableSpec, tuple[str, ...]], TableKernel] = {}


def _make(spec: TableSpec) -> TableKernel | No:
    """The first engine that works, with the reasons of those before it."""
    declined: list[tuple[str, str]] = []
    for engine, make in _engines():
        made = make(spec)
        if isinstance(made, kernel_cache.NotNow):
            return made
        if not isinstance(made, No):
            apply, note = made
            return TableKernel(engine, spec, apply, note, tuple(declined))
        declined.append((engine, made.reason))
    return TableKernel("numpy", spec, apply_numpy, "", tuple(declined))


Made = tuple[Apply, str] | No


def _engines() -> Iterator[tuple[str, Callable[[TableSpec], Made]]]:
    yield "c", _make_c
    if os.environ.get("CODEDAG_COMPILER") != "numpy":
        yield "numba", _make_numba


def _make_c(spec: TableSpec) -> Made:
    compiler = find_compiler()
    if isinstance(compiler, No):
        return compiler
    text = source(spec.itemsize, spec.channels)
    built = kernel_cache.build(text, compiler, lambda library: prove(library, spec.itemsize, spec.channels))
    if isinstance(built, No):
        return built
    apply = load_c(built.path)
    return apply if isinstance(apply, No) else (apply, built.note)


def _make_numba(spec: TableSpec) -> Made:
    if spec.itemsize not in table_numba.ITEMSIZES:
        return No(f"numba has no elements of {spec.itemsize} bytes")
    version = table_numba.numba_version()
    if isinstance(version, No):
        return version
    key = kernel_cache.kernel_key(table_numba.loops_text(), version, str(spec))
    note = ""
    if not kernel_cache.remembered_proof(key):
        if not kernel_cache.may_compile():
            return kernel_cache.NotNow(kernel_cache.TOO_DEAR)
        verdict = prove(NUMBA, spec.itemsize, spec.channels)
        if isinstance(verdict, No):
            return verdict
        note = kernel_cache.remember_proof(key, {"numba": version})
    table_numba.compile_loops(spec.itemsize)
    return table_numba.apply_numba, note
