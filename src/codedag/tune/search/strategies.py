"""Strategies of a search: gradient descent over relaxed variables, evolution with the same model, random draws."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from codedag.tune.schedule.space import Columns, Point, Sketch, point_text
from codedag.tune.search.search import Context, Strategy

SEEDS, STEPS, RATE = 40, 18, 0.3  # descents at once, their length, and by how many powers of two a step moves
PENALTY = 4.0
LONG = 16  # values of a range; points of a round that differ in such ranges alone teach the model little
POPULATION, GENERATIONS = 96, 5
Array = Any


def propose_random(context: Context, count: int) -> list[Point]:
    """Random points."""
    return _new(context, (context.space.drawn(context.draw) for _ in range(60 * count)), count)


def _new(context: Context, points: Iterable[Point | None], count: int) -> list[Point]:
    found: dict[str, Point] = {}
    for point in points:
        if point is not None and not context.history.has(point):
            found.setdefault(point_text(point), point)
        if len(found) >= count:
            break
    return list(found.values())


def _ranked(context: Context, candidates: dict[str, Point], count: int) -> list[Point]:
    """The candidates with the best scores of their own, none measured before; ties go by their text."""
    fresh = {text: point for text, point in candidates.items() if text not in context.history.known}
    if not fresh:
        return propose_random(context, count)
    texts, points = list(fresh), list(fresh.values())
    scores = context.score(points)
    order = sorted(range(len(points)), key=lambda k: (-scores[k], texts[k]))
    return _spread(context, [points[k] for k in order], count)


def _spread(context: Context, ranked: list[Point], count: int) -> list[Point]:
    """The first of these points that differ in more than their long ranges; if there are too few, the others."""
    chosen: dict[tuple[int | str, ...], Point] = {}
    late: list[Point] = []
    for point in ranked:
        sketch = context.space.by_name[str(point["sketch"])]
        key = (sketch.name, *(point[v.name] for v in sketch.variables if v.count <= LONG))
        if key in chosen:
            late.append(point)
        elif len(chosen) < count:
            chosen[key] = point
    return [*chosen.values(), *late][:count]


def propose_by_evolution(context: Context, count: int) -> list[Point]:
    """Generations of the best points so far and random ones, changed and crossed, chosen by the model."""
    parents = [point for point, _ in context.history.good[: POPULATION // 3]]
    drawn = (context.space.drawn(context.draw) for _ in range(POPULATION - len(parents)))
    population = parents + [point for point in drawn if point is not None]
    seen: dict[str, Point] = {}
    for _ in range(GENERATIONS):
        seen.update((point_text(point), point) for point in population)
        if not population:
            break
        scores = context.score(population)
        chance = np.exp(2.0 * (scores - scores.max()))
        chance /= chance.sum()
        population = [_child(context, population, chance) for _ in range(POPULATION)]
    seen.update((point_text(point), point) for point in population)
    return _ranked(context, seen, count)


def _child(context: Context, population: list[Point], chance: Array) -> Point:
    one, other = (population[int(k)] for k in context.draw.choice(len(population), 2, p=chance))
    if context.draw.random() < 0.2 and one["sketch"] == other["sketch"]:
        mixed = {name: (one if context.draw.random() < 0.5 else other)[name] for name in one}
        if context.space.valid(mixed):
            return mixed
    near = context.space.neighbours(one)
    return near[int(context.draw.integers(len(near)))] if near else one


def propose_by_gradient(context: Context, count: int) -> list[Point]:
    """Whole trajectories of many descents at once, rounded, checked and ranked by their own exact scores."""
    if context.model is None:
        return propose_random(context, count)
    candidates: dict[str, Point] = {}
    for sketch, starts in _starts(context).items():
        own = next(s for s in context.space.sketches if s.name == sketch)
        for point in _descended(context, own, starts):
            candidates.setdefault(point_text(point), point)
    for point, _ in context.history.good[:2]:
        for near in context.space.neighbours(point):
            candidates.setdefault(point_text(near), near)
    return _ranked(context, candidates, count)


def _starts(context: Context) -> dict[str, list[Point]]:
    """Where descents begin: the better half of some draws, and the best points so far."""
    drawn = [point for point in (context.space.drawn(context.draw) for _ in range(3 * SEEDS)) if point is not None]
    scores = context.score(drawn)
    order = np.argsort(-scores, kind="stable")
    chosen = [drawn[int(k)] for k in order[: SEEDS * 2 // 3]] + drawn[: SEEDS // 4]
    chosen += [point for point, _ in context.history.good[: SEEDS // 12]]
    found: dict[str, list[Point]] = {}
    for point in chosen:
        found.setdefault(str(point["sketch"]), []).append(point)
    return found


def _descended(context: Context, sketch: Sketch, starts: list[Point]) -> Iterable[Point]:
    """The points that lie next to the trajectories of these starts and keep the inequalities."""
    ordered = sketch.ordered
    yield from starts
    if not ordered:
        yield from (near for start in starts for near in context.space.neighbours(start))
        return
    words: Columns = {v.name: np.array([p[v.name] for p in starts]) for v in sketch.words}
    words = {k: v.astype(float) if v.dtype.kind in "iu" else v for k, v in words.items()}
    logs = np.array([[np.log2(float(p[v.name])) for v in ordered] for p in starts])
    low = np.log2([v.bounds[0] for v in ordered])
    high = np.log2([v.bounds[1] for v in ordered])
    first, second = np.zeros_like(logs), np.zeros_like(logs)
    before = np.zeros((len(starts), len(ordered)))
    for step in range(1, STEPS + 1):
        slope = _slope(context, sketch, logs, words)
        norm = np.sqrt((slope * slope).sum(axis=1, keepdims=True))
        slope = slope / np.maximum(norm, 1.0)  # clipped before the step, not after it
        first = 0.8 * first + 0.2 * slope
        second = 0.95 * second + 0.05 * slope * slope
        move = first / (1 - 0.8**step) / (np.sqrt(second / (1 - 0.95**step)) + 1e-6)
        logs = np.clip(logs + RATE * (1.0 if step < 0.6 * STEPS else 0.4) * move, low, high)
        rounded = np.column_stack([v.rounded_all(2.0 ** logs[:, j]) for j, v in enumerate(ordered)])
        for k in np.flatnonzero((rounded != before).any(axis=1)):
            own = {v.name: int(value) for v, value in zip(ordered, rounded[k], strict=True)}
            point = context.space.nearest({**starts[int(k)], **own})
            if context.space.valid(point):
                yield point
        before = rounded


def _slope(context: Context, sketch: Sketch, logs: Array, words: Columns) -> Array:
    """The slope of the score along each variable, less what broken inequalities cost."""
    assert context.model is not None
    value, slopes = context.features.slopes(sketch, logs, words)
    _, along = context.model.slope(value)
    up = np.einsum("knf,nf->nk", slopes, along)
    names = [v.name for v in sketch.ordered]
    for constraint in sketch.constraints:
        columns = {**words, **{name: 2.0 ** logs[:, k] for k, name in enumerate(names)}}
        broken = np.maximum(np.real(constraint(columns)), 0.0)
        if not broken.any():
            continue
        for k, name in enumerate(names):
            step = 1e-4
            moved = {**columns, name: 2.0 ** (logs[:, k] + step)}
            up[:, k] -= PENALTY * broken * (np.maximum(np.real(constraint(moved)), 0.0) - broken) / step / (1 + broken)
    return up


STRATEGIES: dict[str, Strategy] = {
    "gradient": propose_by_gradient, "evolution": propose_by_evolution, "random": propose_random,
}  # fmt: skip
