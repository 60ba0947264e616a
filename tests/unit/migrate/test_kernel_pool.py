"""The shelf of kernels: built once, in the background, and keeping nothing of the program's alive."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

from codedag.ir.verdict import No
from codedag.migrate.fuse import kernel_pool as kernels_module
from codedag.migrate.fuse.kernel_pool import KernelPool
from codedag.tune.kernel_cache import NotNow, may_compile
from codedag.tune.table import TableSpec


class Ready:
    engine, note, declined, spec = "fake", "", (), TableSpec(4, 3)

    def accepts(self, *job):
        return True


@pytest.fixture
def builds(monkeypatch):
    """What the shelf asks to be built; each build gives what `answer` says."""
    import codedag.tune.table as table

    class Builds(list):
        answer = staticmethod(lambda: Ready())

    builds = Builds()

    def kernel_of(spec):
        builds.append((spec.itemsize, spec.channels))
        return builds.answer()

    monkeypatch.setattr(table, "kernel_of", kernel_of)
    return builds


def job():
    view = np.zeros((40, 50, 3), np.uint8)
    return view, (0, 0, 1), np.zeros((3, 256), np.float32), np.empty((40, 50, 3), np.float32)


def test_a_kernel_is_built_once_and_then_taken(builds):
    shelf = KernelPool()
    assert shelf.take(*job()) == No("its kernel was still being built")
    shelf.wait(10)
    assert isinstance(shelf.take(*job()), Ready)
    assert builds == [(4, 3)]


def test_what_may_not_be_compiled_yet_is_looked_up_by_numpy_and_built_once_it_may(builds):
    allowed = False
    builds.answer = lambda: Ready() if may_compile() else NotNow("too dear")
    shelf = KernelPool(may_compile=lambda: allowed)
    shelf.take(*job())
    shelf.wait(10)
    interim = shelf.take(*job())
    assert interim.engine == "numpy"
    assert len(builds) == 1  # it is not asked again and again
    view, rows, table, out = job()
    table[...] = np.arange(768).reshape(3, 256)
    view[...] = np.arange(6000).reshape(40, 50, 3) % 256
    interim.apply(view, table, rows, out)
    assert (out == view + 256.0 * np.arange(3)).all()
    assert shelf.specs() == [(4, 3)]  # so that the next run has it from the start
    allowed = True
    shelf.take(*job())
    shelf.wait(10)
    assert isinstance(shelf.take(*job()), Ready)
    assert len(builds) == 2


@pytest.mark.parametrize("answer", [lambda: No("no compiler"), lambda: 1 / 0])
def test_what_cannot_be_built_is_refused_with_its_reason(builds, answer):
    builds.answer = answer
    shelf = KernelPool()
    shelf.take(*job())
    shelf.wait(10)
    refused = shelf.take(*job())
    assert isinstance(refused, No)
    assert "no kernel could be built" in refused.reason
    assert len(builds) == 1


def test_building_keeps_no_array_of_the_program(builds, monkeypatch):
    monkeypatch.setattr(kernels_module.HiddenThread, "start", lambda thread: None)
    view, rows, table, out = job()
    gone = weakref.ref(view), weakref.ref(out)
    KernelPool().take(view, rows, table, out)
    del view, out
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_a_forked_process_builds_for_itself(builds, monkeypatch):
    shelf = KernelPool()
    monkeypatch.setattr(kernels_module.HiddenThread, "start", lambda thread: None)  # the fork took no thread along
    shelf.take(*job())
    shelf.take(*job())
    assert len(shelf._threads) == 1
    monkeypatch.setattr(kernels_module.os, "getpid", lambda: -1)
    shelf.take(*job())
    assert len(shelf._threads) == 2


def test_a_kernel_of_a_region_is_built_once():
    asked = []

    @dataclass(frozen=True)
    class Region:
        name: str

        def build(self):
            asked.append(self.name)
            return object()

    shelf = KernelPool(synchronous=True)
    kernels = {id(shelf.loops(Region(name))) for name in ("norm", "mean", "norm", "mean")}
    assert asked == ["norm", "mean"]
    assert len(kernels) == 2
