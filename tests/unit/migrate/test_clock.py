"""By which clock variants are compared, and that nothing but the work decides."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys import NAME, Toys, plan, toys

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "property"))
from chain_runs import fused_module

import codedag
from codedag.migrate.fuse import chain, native_chain
from codedag.migrate.substitute import clock
from codedag.migrate.trial import Trial

__all__ = ["toys"]


@pytest.mark.parametrize(
    ("pus", "own"),
    [
        (["cpu"], True), (["numba:cpu", "cpu"], True), (["loopback"], True), (["cpu", "ov:cpu"], False),
        (["ort:cpu"], False), (["torch:cpu"], False), (["cuda"], False), (["opencl:cpu"], False), (["new:unit"], False),
    ],
)  # fmt: skip
def test_the_threads_own_time_counts_only_where_it_does_all_the_work(monkeypatch, pus, own):
    monkeypatch.setattr(clock, "is_fine", lambda one: True)
    assert clock.clock_for(pus) is (time.thread_time if own else time.perf_counter)


def test_a_clock_that_goes_by_in_ticks_is_not_used(monkeypatch):
    assert clock.is_fine(lambda: 0.0) is False
    ticks = itertools.count()
    assert clock.is_fine(lambda: next(ticks) // 5) is True
    monkeypatch.setattr(clock, "is_fine", lambda one: False)
    assert clock.clock_for(["cpu"]) is time.perf_counter


class Busy:
    """The wall of a machine that does something else for a second whenever it is looked at."""

    def __init__(self, toys: Toys) -> None:
        self.toys, self.looks = toys, itertools.count()

    def __call__(self) -> float:
        return self.toys.clock.now + 50.0 * next(self.looks)


def calls(toys: Toys) -> bool:
    with codedag.apply(plan()) as migrator:
        for value in range(100):
            assert toys.module.double(value) == 2 * value
        return bool(migrator.get_stats()[f"{NAME}.double"]["active"])


def test_library_patches_are_judged_by_the_threads_own_time(toys, monkeypatch):
    toys.register(seconds=1.0)
    monkeypatch.setattr(clock, "perf_counter", Busy(toys))
    assert calls(toys)
    toys.register(seconds=3.0)
    assert not calls(toys)


def test_without_such_a_clock_the_wall_decides(toys, monkeypatch):
    toys.register(seconds=1.0)
    monkeypatch.setattr(clock, "perf_counter", Busy(toys))
    monkeypatch.setattr(clock, "is_fine", lambda one: False)
    assert not calls(toys)


CHAIN = """
import numpy as np
def f(image, scale):
    image = image.astype(np.float32) * scale
    return np.clip(image / 255.0, 0, 1)
"""


class Checked(Trial):
    """A trial in which every call is compared, and which does not end: seconds as long as these say nothing."""

    expected = True

    def due(self) -> bool:
        self.calls += 1
        return True

    def is_next(self) -> bool:
        return self.expected

    def stop(self, reason: str) -> None:
        self.reason = reason  # it stays active


class Surprised(Checked):
    """One that does not know beforehand."""

    expected = False


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("trial", [Checked, Surprised])
def test_chains_are_judged_by_the_threads_own_time(monkeypatch, native, trial):
    """The wall stands still here; the thread's time goes on by a second whenever it is looked at."""
    if not native:
        monkeypatch.setattr(native_chain, "native", None)
    elif native_chain.native is None:
        pytest.skip("without the extension")
    seconds = itertools.count()
    monkeypatch.setattr(clock, "thread_time", lambda: float(next(seconds)))
    monkeypatch.setattr(clock, "is_fine", lambda one: True)
    monkeypatch.setattr(chain, "perf_counter", lambda: 0.0)
    image = np.random.default_rng(2).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    fused: Any = fused_module(CHAIN, lambda module: module.f(image.copy(), 1.5), trial=trial)
    for scale in (0.5, 1.0, 1.5, 2.0, 2.5):
        fused.module.f(image, scale)
    (one,) = fused.chains
    assert (len(one.trial.pairs), one.trial.mismatches) == (5, 0)
    assert not native or one._native.chain.is_open
    assert {original for original, _ in one.trial.pairs} == {1.0 if trial is Checked else 0.0}
    if not native:
        assert {variant for _, variant in one.trial.pairs} == {1.0 if trial is Checked else 0.0}
