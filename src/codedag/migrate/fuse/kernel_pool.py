"""The shelf of kernels: a running program takes what is ready and never waits for what is being built."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from codedag.instrument.hidden_thread import HiddenThread
from codedag.ir.verdict import No
from codedag.migrate.guard import Failed, attempt

MOST_FLOWS = 64  # kernels of chains of any numbers; each takes a second to build


class Refused(No, frozen=True):
    """A kernel that cannot be had, now or later."""


class Shelf:
    """Kernels that are ready, and those that a background thread is building and proving."""

    def __init__(self, *, synchronous: bool = False, on_build: Callable[[], None] = lambda: None) -> None:
        self._synchronous, self._on_build = synchronous, on_build
        self.ready: list[Any] = []
        self._wanted: dict[tuple[Any, ...], object] = {}
        self._refused: dict[tuple[Any, ...], No] = {}
        self._threads: list[HiddenThread] = []
        self.flows: dict[Any, Any] = {}

    def take(self, view: Any, rows: tuple[int, ...], table: Any, out: Any) -> Any:
        """A kernel for these arrays, or No: it is then being built for later calls, or cannot be had."""
        for kernel in self.ready:
            if kernel.accepts(view, rows, table, out):
                return kernel
        key = (
            out.dtype.str,
            view.ndim,
            rows,
            tuple(s for s, n in zip(view.strides, view.shape, strict=True) if n <= 16),
        )
        if key in self._refused:
            return self._refused[key]
        mark = object()
        # No lock, which a fork could copy while it is held; a forked worker builds what its parent was building.
        if self._wanted.setdefault((os.getpid(), *key), mark) is mark:
            job = (key, _hollow(view), rows, _hollow(out))
            self._start(partial(self._build, *job))
        if self._synchronous:
            self.wait(600)
            return next((k for k in self.ready if k.accepts(view, rows, table, out)), No("no kernel could be built"))
        return No("its kernel was still being built")

    def _start(self, build: Callable[[], None]) -> None:
        self._on_build()
        thread = HiddenThread(build)
        thread.start()
        self._threads.append(thread)

    def _build(self, key: tuple[Any, ...], view: Any, rows: tuple[int, ...], out: Any) -> None:
        from codedag.tune.table import kernel_for

        built = attempt(kernel_for, view, rows, out.dtype, out)
        if isinstance(built, Failed | No):
            self._refused[key] = No(f"no kernel could be built: {built.reason}")
        else:
            self.ready.append(built)

    def flow(self, spec: Any) -> Any:
        """The kernel of a chain of any numbers, or No: it is then being built for later calls, or cannot be had."""
        from codedag.tune.flow import flow_kernel

        return self._built(spec, lambda: flow_kernel(spec))

    def loops(self, spec: Any) -> Any:
        """The kernel of a region, or No: it is then being built for later calls, or cannot be had."""
        return self._built(spec, spec.build)

    def _built(self, spec: Any, build: Callable[[], Any]) -> Any:
        kernel = self.flows.get(spec)
        if kernel is not None:
            return kernel
        if len(self.flows) >= MOST_FLOWS:
            return Refused("too many different kernels")
        mark = object()
        if self._wanted.setdefault((os.getpid(), spec), mark) is mark:
            self._start(partial(self._build_flow, spec, build))
        if self._synchronous:
            self.wait(600)
            return self.flows.get(spec, No("no kernel could be built"))
        return No("its kernel was still being built")

    def _build_flow(self, spec: Any, build: Callable[[], Any]) -> None:
        built = attempt(build)
        why = f"no kernel could be built: {built.reason}" if isinstance(built, Failed | No) else ""
        self.flows[spec] = Refused(why) if why else built

    def stock(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Makes kernels ready by bytes per element and channels, before any array asks for them."""
        from codedag.tune.table import TableSpec, kernel_of

        for spec in {TableSpec(*one) for one in wanted} - {kernel.spec for kernel in self.ready}:
            self.ready.append(kernel_of(spec))

    def engines(self) -> list[str]:
        """The engines of the kernels that are ready, with what was said about them."""
        every = [*self.ready, *(k for k in tuple(self.flows.values()) if not isinstance(k, No))]
        notes = [f"{k.engine}" + (f" ({k.note})" if getattr(k, "note", "") else "") for k in every]
        return list(dict.fromkeys(notes))

    def reasons(self) -> list[str]:
        """Why a better engine was not used, or no kernel at all."""
        declined = [f"{name}: {why}" for kernel in self.ready for name, why in kernel.declined]
        refused = [*self._refused.values(), *(k for k in tuple(self.flows.values()) if isinstance(k, No))]
        return list(dict.fromkeys([*declined, *(no.reason for no in refused)]))

    def wait(self, seconds: float) -> None:
        """Gives kernels that are being built this long to be ready."""
        for thread in self._threads:
            thread.join(seconds)


def _hollow(array: Any) -> Any:
    """An array of the same shape, strides and dtype that keeps nothing of the program's alive; never to be read."""
    import numpy

    block = numpy.empty(1, array.dtype)
    return numpy.lib.stride_tricks.as_strided(block, array.shape, array.strides)
