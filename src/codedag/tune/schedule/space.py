"""The space of schedules: sketches with variables, inequalities that points keep, and points as dicts and as text.

A variable is a list of choices (words or numbers) or a range of whole numbers. A constraint is a function of points
that is at most 0 where it holds; it takes arrays, so that the same inequality is a penalty for a descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from codedag.tune.declined import CannotTune

Point = dict[str, int | str]
Columns = dict[str, Any]  # a variable's value for every point, as an array
TRIES = 400
NEAR = (0.75, 0.9, 1.1, 1.33)  # steps to neighbours along a long range


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable with a few values; `ordered` if a value between two of them means something."""

    name: str
    values: tuple[int | str, ...]
    ordered: bool = False

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self.values)

    def draw(self, draw: Any) -> int | str:
        """One of the values."""
        return self.values[int(draw.integers(len(self.values)))]

    def near(self, value: int | str) -> Iterable[int | str]:
        """The values next to one, or all others if they have no order."""
        if not self.ordered:
            return [other for other in self.values if other != value]
        at = self.values.index(value)
        return [self.values[k] for k in (at - 1, at + 1) if 0 <= k < len(self.values)]

    def has(self, value: int | str) -> bool:
        """Whether this is one of the values."""
        return value in self.values

    def rounded_all(self, values: Any) -> Any:
        """The values nearest to some numbers, by ratio."""
        own = np.array([float(one) for one in self.values])
        apart = np.abs(np.log2(np.maximum(own, 0.5)) - np.log2(np.maximum(values, 0.5))[:, None])
        return own[apart.argmin(axis=1)]

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest value."""
        return float(min(self.values)), float(max(self.values))


@dataclass(frozen=True, slots=True)
class Range:
    """A variable that may be any whole number between two, both included; drawn evenly by ratio."""

    name: str
    low: int
    high: int
    ordered: bool = True

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.high - self.low + 1

    def draw(self, draw: Any) -> int | str:
        """One of the values."""
        return self.rounded(2.0 ** draw.uniform(math.log2(self.low), math.log2(self.high + 0.999)))

    def near(self, value: int | str) -> Iterable[int | str]:
        """Values a step away."""
        steps = {self.rounded(int(value) * factor) for factor in NEAR} | {int(value) - 1, int(value) + 1}
        return sorted(one for one in steps if self.has(one) and one != value)

    def has(self, value: int | str) -> bool:
        """Whether this is one of the values."""
        return isinstance(value, int) and self.low <= value <= self.high

    def rounded(self, value: float) -> int | str:
        """The value nearest to a number."""
        return int(min(max(round(value), self.low), self.high))

    def rounded_all(self, values: Any) -> Any:
        """The values nearest to some numbers."""
        return np.clip(np.rint(values), self.low, self.high)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest value."""
        return float(self.low), float(self.high)


Variable = Choice | Range
Constraint = Callable[[Columns], Any]


@dataclass(frozen=True, slots=True)
class Sketch:
    """One loop structure with free variables, and the inequalities that they keep."""

    name: str
    variables: tuple[Variable, ...]
    constraints: tuple[Constraint, ...] = ()

    @property
    def ordered(self) -> tuple[Variable, ...]:
        """The variables that a descent moves."""
        return tuple(v for v in self.variables if v.ordered and v.count > 1)

    @property
    def words(self) -> tuple[Variable, ...]:
        """The variables that a descent keeps."""
        return tuple(v for v in self.variables if not (v.ordered and v.count > 1))

    def holds(self, point: Point) -> bool:
        """Whether a point has every variable of this sketch, in its range, and keeps the inequalities."""
        names = {v.name for v in self.variables}
        if set(point) != names | {"sketch"} or not all(v.has(point[v.name]) for v in self.variables):
            return False
        return all(float(one(point)) <= 1e-9 for one in self.constraints)


def columns_of(sketch: Sketch, points: Sequence[Point]) -> Columns:
    """The ordered variables of some points as arrays of numbers, the others as lists of words."""
    made: Columns = {}
    for variable in sketch.variables:
        values = [point[variable.name] for point in points]
        numeric = all(isinstance(one, int) for one in values)
        made[variable.name] = np.array(values, float) if numeric else np.array(values)
    return made


@dataclass(slots=True)
class Space:
    """All points of a task."""

    sketches: tuple[Sketch, ...]
    by_name: dict[str, Sketch] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {sketch.name: sketch for sketch in self.sketches}

    @property
    def points(self) -> int:
        """How many points the boxes of all sketches have, before inequalities."""
        return sum(math.prod(v.count for v in sketch.variables) for sketch in self.sketches)

    def valid(self, point: Any) -> bool:
        """Whether a point is one of this space."""
        if not isinstance(point, dict):
            return False
        sketch = self.by_name.get(str(point.get("sketch")))
        return sketch is not None and sketch.holds(point)

    def sample(self, count: int, seed: int = 0) -> list[Point]:
        """So many different points (fewer if there are no more), the same for the same seed."""
        draw = np.random.default_rng(seed)
        found: dict[str, Point] = {}
        for _ in range(TRIES + 20 * count):
            if len(found) >= count:
                break
            point = self.drawn(draw)
            if point is not None:
                found.setdefault(point_text(point), point)
        return list(found.values())

    def drawn(self, draw: Any) -> Point | None:
        """A random point, or None if no draw kept the inequalities."""
        for _ in range(50):
            sketch = self.sketches[int(draw.integers(len(self.sketches)))]
            point: Point = {"sketch": sketch.name, **{v.name: v.draw(draw) for v in sketch.variables}}
            if sketch.holds(point):
                return point
        return None

    def nearest(self, point: Point) -> Point:
        """The point that stands for a rounded one: itself; a space of a table's points has another answer."""
        return point

    def neighbours(self, point: Point) -> list[Point]:
        """The valid points that differ in one variable by one step."""
        if not self.valid(point):
            raise CannotTune(f"{point} is no point of this space", hint=f"Its sketches are {', '.join(self.by_name)}.")
        sketch = self.by_name[str(point["sketch"])]
        made = [{**point, v.name: value} for v in sketch.variables for value in v.near(point[v.name])]
        return [one for one in made if sketch.holds(one)]


def point_text(point: Point) -> str:
    """A point as text, such as `block mr=6 nv=2 vb=32`."""
    return " ".join([str(point["sketch"]), *(f"{k}={point[k]}" for k in sorted(point) if k != "sketch")])


def point_of(text: str) -> Point:
    """The point of such a text."""
    first, *rest = text.split()
    point: Point = {"sketch": first}
    for one in rest:
        name, _, value = one.partition("=")
        point[name] = int(value) if value.lstrip("-").isdigit() else value
    return point
