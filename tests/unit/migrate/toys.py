"""A library of its own for the tests of migrators, with substitutes that are registered while a test runs."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from codedag.backends import proof, registry
from codedag.backends.registry import EXACT, Call, Substitution, substitutes
from codedag.ir.verdict import Yes
from codedag.migrate.patches.library_patches import _state as patches_state
from codedag.migrate.placement import migrator
from codedag.migrate.substitute import clock

NAME = "toy_of_migrators"
SOURCE = """
import math
def double(x):
    'Doubles.'
    if x is None: raise KeyError(x)
    ran.append("original")
    clock.now += costs["original"]
    return x * 2
def triple(x):
    return x * 3
ran = []
"""


class Clock:
    """Time that passes only when a function says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Toys:
    """The library, how long its functions take, and what ran."""

    def __init__(self) -> None:
        self.module = types.ModuleType(NAME)
        self.clock = Clock()
        self.costs = {"original": 2.0}
        vars(self.module).update(clock=self.clock, costs=self.costs)
        exec(SOURCE, vars(self.module))
        for function in (self.module.double, self.module.triple):
            function.__module__ = NAME
        self.ran: list[str] = self.module.ran

    @property
    def double(self) -> Callable[[Any], Any]:
        return self.module.double

    def register(self, into: str = "toy", seconds: float = 1.0, run: Any = None, **options: Any) -> Substitution:
        """A substitute of `double` that takes so long."""

        def substitute(x: Any) -> Any:
            self.ran.append(into)
            self.clock.now += seconds
            return run(x) if run is not None else x + x

        facts = {"gives": EXACT, "needs": "", "source": "double", **options}
        guard = facts.pop("guard", lambda call: Yes)
        made = substitutes(f"{NAME}.{facts.pop('source')}", into=into, **facts)(substitute)
        made.guard(guard)
        made.calls(lambda rng: Call.of(rng.random()))
        return made


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Toys]:
    """The library, loaded; afterwards nothing is left of it."""
    registry.all_substitutions()
    before = dict(registry._table._by_key)
    made = Toys()
    sys.modules[NAME] = made.module
    for name in ("perf_counter", "thread_time"):
        monkeypatch.setattr(clock, name, made.clock)
    monkeypatch.setattr(clock, "is_fine", lambda one: True)
    proof.forget()
    yield made
    sys.modules.pop(NAME, None)
    registry._table._by_key = before
    registry._table._index()
    proof.forget()
    left = list(migrator._holding.values())
    [one.restore() for one in left]  # so that one failure is one
    assert left == []
    assert (patches_state.live, patches_state.sets, migrator._holding) == ({}, [], {})


def plan(device: str = "cpu", **contexts: str) -> dict[str, Any]:
    """A migration plan for `double` everywhere, or for these contexts."""
    return {"context_device_map": contexts or {f"{NAME}.double": device}}


__all__ = ["NAME", "Toys", "plan", "toys"]
