"""The shelf of kernels: a running program takes what is ready and never waits for what is being built."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from codedag.instrument.hidden_thread import HiddenThread
from codedag.ir.verdict import No
from codedag.migrate.guard import Failed, attempt

MOST_REGIONS = 64  # kernels of regions; each takes a second to build


class Refused(No, frozen=True):
    """A kernel that cannot be had, now or later."""


class KernelPool:
    """Kernels that are ready, and those that a background thread is building and proving.

    What may not be compiled at present is asked for again; until then numpy looks tables up.
    """

    def __init__(self, *, synchronous: bool = False, may_compile: Callable[[], bool] = lambda: True) -> None:
        self._synchronous, self._may_compile = synchronous, may_compile
        self.ready: list[Any] = []
        self._interim: dict[tuple[int, int], Any] = {}  # by bytes per element and channels
        self._wanted: dict[tuple[Any, ...], object] = {}
        self._put_off: set[tuple[Any, ...]] = set()  # of these, not on the disk and not yet allowed to be compiled
        self._refused: dict[tuple[Any, ...], No] = {}
        self._threads: list[HiddenThread] = []
        self.regions: dict[Any, Any] = {}

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
        if self._is_to_be_built(key):
            job = (key, _hollow(view), rows, _hollow(out))
            self._start(partial(self._build, *job))
        if self._synchronous:
            self.wait(600)
            return next((k for k in self.ready if k.accepts(view, rows, table, out)), No("no kernel could be built"))
        found = next((k for k in self._interim.values() if k.accepts(view, rows, table, out)), None)
        return No("its kernel was still being built") if found is None else found

    def _is_to_be_built(self, key: tuple[Any, ...]) -> bool:
        """Whether nobody is building this in this process: for the first time, or now that it may be compiled."""
        # No lock, which a fork could copy while it is held; a forked worker builds what its parent was building.
        mark, place = object(), (os.getpid(), *key)
        if self._wanted.setdefault(place, mark) is mark:
            return True
        if place in self._put_off and self._may_compile():
            self._put_off.discard(place)
            return True
        return False

    def _start(self, build: Callable[[], None]) -> None:
        thread = HiddenThread(build)
        thread.start()
        self._threads.append(thread)

    def _build(self, key: tuple[Any, ...], view: Any, rows: tuple[int, ...], out: Any) -> None:
        from codedag.tune.table import kernel_of, spec_for

        spec: Any = attempt(spec_for, view, rows, out.dtype, out)
        built = spec if isinstance(spec, Failed | No) else self._limited(key, kernel_of, spec)
        if _is_not_now(built):
            self._use_numpy(spec)
        elif isinstance(built, Failed | No):
            self._refused[key] = No(f"no kernel could be built: {built.reason}")
        else:
            self.ready.append(built)

    def _limited(self, key: tuple[Any, ...], build: Callable[..., Any], *args: Any) -> Any:
        """What building gives, if it is on the disk or may be compiled; what is not is asked for again later."""
        from codedag.tune.kernel_cache import compiling_only_if

        with compiling_only_if(self._may_compile):
            built = attempt(build, *args)
        if _is_not_now(built):
            self._put_off.add((os.getpid(), *key))
        return built

    def _use_numpy(self, spec: Any) -> None:
        from codedag.tune.table import numpy_kernel

        self._interim[spec.itemsize, spec.channels] = numpy_kernel(spec)

    def loops(self, spec: Any) -> Any:
        """The kernel of a region, or No: it is then being built for later calls, or cannot be had."""
        kernel = self.regions.get(spec)
        if kernel is not None:
            return kernel
        if len(self.regions) >= MOST_REGIONS:
            return Refused("too many different kernels")
        if self._is_to_be_built((spec,)):
            self._start(partial(self._build_region, spec))
        if self._synchronous:
            self.wait(600)
            return self.regions.get(spec, No("no kernel could be built"))
        return No("its kernel was still being built")

    def _build_region(self, spec: Any) -> None:
        built = self._limited((spec,), spec.build)
        if _is_not_now(built):
            return
        why = f"no kernel could be built: {built.reason}" if isinstance(built, Failed | No) else ""
        self.regions[spec] = Refused(why) if why else built

    def stock(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Makes kernels ready by bytes per element and channels, before any array asks for them."""
        from codedag.tune.table import TableSpec, kernel_of

        for spec in {TableSpec(*one) for one in wanted} - {kernel.spec for kernel in self.ready}:
            built = self._limited((spec,), kernel_of, spec)
            if _is_not_now(built):
                self._use_numpy(spec)
            elif not isinstance(built, Failed | No):
                self.ready.append(built)

    def specs(self) -> list[tuple[int, int]]:
        """Bytes per element and channels of the kernels that this run has used or wanted."""
        return [*((kernel.spec.itemsize, kernel.spec.channels) for kernel in self.ready), *self._interim]

    def engines(self) -> list[str]:
        """The engines of the kernels that are ready, with what was said about them."""
        every = [
            *self.ready,
            *self._interim.values(),
            *(k for k in tuple(self.regions.values()) if not isinstance(k, No)),
        ]
        notes = [f"{k.engine}" + (f" ({k.note})" if getattr(k, "note", "") else "") for k in every]
        return list(dict.fromkeys(notes))

    def wait(self, seconds: float) -> None:
        """Gives kernels that are being built this long to be ready."""
        for thread in self._threads:
            thread.join(seconds)


def _is_not_now(built: Any) -> bool:
    from codedag.tune.kernel_cache import NotNow

    return isinstance(built, NotNow)


def _hollow(array: Any) -> Any:
    """An array of the same shape, strides and dtype that keeps nothing of the program's alive; never to be read."""
    import numpy

    block = numpy.empty(1, array.dtype)
    return numpy.lib.stride_tricks.as_strided(block, array.shape, array.strides)
