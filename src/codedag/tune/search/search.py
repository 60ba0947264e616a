"""The loop of a search: propose, measure, refit; proposals come from a strategy, the counter is the history's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from codedag.tune.model.network import Network
from codedag.tune.schedule.features import Exact, Features
from codedag.tune.schedule.space import Point, Space
from codedag.tune.search.history import History, Measure

ROUND = 8  # points of a round: a refit after every few measurements
TIMED = 2  # points between two looks at the clock, if there is a limit of time
SHARE = 0.15  # of a round that is not what the model likes best
REFIT_STEPS = 60
Array = Any


@dataclass
class Context:
    """What a strategy may use: the space, features, the model, what was measured, and its own random numbers."""

    space: Space
    features: Features
    model: Network | None
    history: History
    draw: Any

    def score(self, points: Sequence[Point]) -> Array:
        """Predicted speeds, higher is faster; all alike without a model."""
        if self.model is None or not points:
            return np.zeros(len(points))
        return self.model.score(self.features.rows(points, Exact))


class Strategy(Protocol):
    """A way to propose points, the most promising first; none of them was measured."""

    def __call__(self, context: Context, count: int) -> list[Point]:
        """So many points."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave."""

    best: Point | None
    seconds: float | None
    history: list[tuple[Point, float | None]]


def run_search(
    strategy: Strategy, space: Space, features: Features, model: Network | None, measure: Measure, budget: int,
    seed: int, speed: Callable[[float], float], until: float | None = None,
) -> Found:  # fmt: skip
    """The best point of a search; the same sequence for the same seed and measurements."""
    history, draw = History(budget), np.random.default_rng(seed)
    refined = model.copy() if model is not None else None
    context = Context(space, features, refined, history, draw)
    while history.left > 0 and not _is_over(until):
        before = len(history.entries)
        if before:
            _refine(context, model, speed, seed)
        proposed = _mixed(context, strategy, min(ROUND, history.left))
        step = len(proposed) if until is None else TIMED
        for at in range(0, len(proposed), max(step, 1)):
            if not (at and _is_over(until)):
                history.measure(proposed[at : at + step], measure)
        if len(history.entries) == before:
            break  # the space has no more points
    best = history.best
    return Found(best[0] if best else None, best[1] if best else None, list(history.entries))


def _is_over(until: float | None) -> bool:
    return until is not None and time.monotonic() >= until


def _mixed(context: Context, strategy: Strategy, count: int) -> list[Point]:
    """What the strategy proposes, and a share of random points, so that the model learns where it is not sure."""
    others = int(context.draw.random() < SHARE * count) + int(SHARE * count)
    chosen = strategy(context, max(1, count - others)) if context.history.entries else strategy(context, count)
    tries = 0
    while len(chosen) < count and tries < 50 * count:
        tries += 1
        point = context.space.drawn(context.draw)
        if point is not None and not context.history.has(point) and point not in chosen:
            chosen.append(point)
    return chosen[:count]


def _refine(context: Context, model: Network | None, speed: Callable[[float], float], seed: int) -> None:
    """The model fitted to what was measured here, beginning from the shipped one each time."""
    ran = [(point, s) for point, s in context.history.entries if s is not None]
    if model is None or len(ran) < 2:
        return
    rows = context.features.rows([point for point, _ in ran])
    target = np.array([speed(s) for _, s in ran])
    fresh = model.copy()
    gap = float(np.mean(target - fresh.score(rows)))
    fresh.weights[-1] = fresh.weights[-1] + gap
    fresh.fit(rows, target, REFIT_STEPS, seed, rate=2e-3)
    context.model = fresh
