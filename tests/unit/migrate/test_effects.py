"""What may run between the operations of a chain without the chain being run first."""

from __future__ import annotations

import math
import random
import sys
import types
from typing import Any

import numpy as np
import pytest

from codedag.backends.effects import Effects
from codedag.instrument.sites import BINARY, CALL, GETITEM, INPLACE, SETITEM

ARRAY = np.zeros(3)


class Own:
    """An object of the program's: touching it at all may run its code."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was looked up")

    def __hash__(self) -> int:
        raise AssertionError("hashed")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __call__(self) -> None: ...


HARMLESS = [
    (CALL, (random.uniform, 0, 1), {}),
    (CALL, (np.random.rand,), {}),
    (CALL, (np.random.default_rng(1).normal, 0.0, 1.0), {}),
    (CALL, (math.sqrt, 2), {}),
    (CALL, (np.clip, ARRAY, 0, 1), {}),
    (CALL, (np.array, [[1, 2], [3, 4]]), {"dtype": np.float32}),
    (CALL, ({}.get, "k", 1), {}),
    (GETITEM, ([Own()], 0), {}),
    (GETITEM, (ARRAY, (slice(None), None)), {}),
    (BINARY, (ARRAY, 2.0), {}),
    (INPLACE, (1, 2), {}),
]
NOT = [
    (SETITEM, (1, ARRAY, 0), {}),
    (INPLACE, (ARRAY, 1), {}),
    (INPLACE, (1, Own()), {}),
    (GETITEM, ([1], Own()), {}),
    (CALL, (Own(),), {}),
    (CALL, (print, 1), {}),
    (CALL, (ARRAY.fill, 1), {}),
    (CALL, (random.shuffle, [1]), {}),
    (CALL, (np.clip, ARRAY, 0, 1, ARRAY), {}),
    (CALL, (np.add, ARRAY, 1, ARRAY), {}),
    (CALL, (np.sqrt, ARRAY), {"out": ARRAY}),
    (CALL, (np.sqrt, np.full(1, None, object)), {}),
    (CALL, (np.array, [[Own()]]), {}),
    (CALL, (max, [1]), {"key": lambda v: v}),
    (CALL, (float, Own()), {}),
]


@pytest.mark.parametrize(("kind", "args", "keywords"), HARMLESS)
def test_harmless(kind, args, keywords):
    assert Effects().harmless(kind, args, keywords)


@pytest.mark.parametrize(("kind", "args", "keywords"), NOT, ids=range(len(NOT)))
def test_not_harmless_and_nothing_of_the_programs_is_touched(kind, args, keywords):
    assert not Effects().harmless(kind, args, keywords)


def test_a_list_that_holds_itself():
    ring: list[Any] = []
    ring.append(ring)
    assert not Effects().harmless(CALL, (len, ring), {})


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_learning_asks_no_library_for_what_it_loads_late(monkeypatch, name):
    asked, half = [], types.ModuleType(name)
    half.__getattr__ = asked.append
    monkeypatch.setitem(sys.modules, name, half)
    effects = Effects()
    effects.harmless(CALL, (len, "abc"), {})
    assert not asked
    assert name not in effects._learned


def test_what_draws_is_known_once_its_module_is_loaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy.random")
    effects, generator = Effects(), np.random.default_rng(1)
    assert not effects.harmless(CALL, (generator.random,), {})
    monkeypatch.undo()
    assert effects.harmless(CALL, (generator.random,), {})
