"""Schedules ranked by a model that has learned from measured ones, of other nests too.

First every amount of what a schedule does (lines from beyond a cache, steps, loops begun) is given a price, none below
nothing: their sum is smooth, and holds for nests that are like none before. Then trees are fitted one after the other
to what is left: what a line costs depends on the loop that is innermost, which no sum says. Only the order within a
nest matters, so both look at the logarithm of seconds against the mean of their nest.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir import BadFile, write_atomically
from codedag.tune.loops import CACHES, Access, LoopNest, Schedule, features, priced

ROUNDS, DEPTH, RATE = 200, 4, 0.1
NESTS, COLUMNS = 0.7, 0.5  # shares that each tree sees: trees that err differently err less together
CUTS = 24  # places at which a feature may be split
FEWEST, SHRINK = 8, 5.0  # records on one side of a split; records of nothing that every leaf counts as well
DOUBT = 1e-4  # what it costs, for each record, that a price is another than the middle of all times
STEPS, CLOSE = 100, 1e-6  # when the search for prices ends
FORMAT, VERSION = "codedag/cost-model", 2
Numbers = Any  # an array of numpy


@dataclass(frozen=True, slots=True)
class Record:
    """What a schedule of a nest was measured to take."""

    nest: LoopNest
    schedule: Schedule
    seconds: float


@dataclass(frozen=True, slots=True)
class Tree:
    """A split of one feature, and what lies on either side; a leaf has only a value."""

    value: float
    feature: int = -1
    cut: float = 0.0
    below: Tree | None = None
    above: Tree | None = None

    def at(self, rows: Numbers) -> Numbers:
        """The value of each row."""
        if self.below is None or self.above is None:
            return np.full(len(rows), self.value)
        return np.where(rows[:, self.feature] <= self.cut, self.below.at(rows), self.above.at(rows))

    def rows(self) -> list[Any]:
        """The tree as nested lists of numbers."""
        if self.below is None or self.above is None:
            return [self.value]
        return [self.value, self.feature, self.cut, self.below.rows(), self.above.rows()]

    @classmethod
    def of(cls, rows: list[Any]) -> Tree:
        """The tree of such lists."""
        if len(rows) == 1:
            return cls(float(rows[0]))
        return cls(float(rows[0]), int(rows[1]), float(rows[2]), cls.of(rows[3]), cls.of(rows[4]))


@dataclass(slots=True)
class CostModel:
    """Orders schedules by what the records say of others that are like them."""

    caches: Sequence[int] = CACHES
    prices: Numbers = None
    trees: list[Tree] = field(default_factory=list)

    @classmethod
    def fit(cls, records: Iterable[Record], caches: Sequence[int] = CACHES) -> CostModel:
        """The model of some measured schedules; a nest with a single one says nothing."""
        lesson = Lesson.of(records, caches)
        if len(lesson.rows) < 2 * FEWEST:
            least = f"a model needs at least {2 * FEWEST} records of nests that have several"
            raise ValueError(f"{least}; {len(lesson.rows)}")
        made = cls(caches, found_prices(lesson, priced(caches)))
        rows = made._with_guess(lesson.rows)
        told, grower, draw = rows[:, -1], Grower.over(rows), np.random.default_rng(0)
        for _ in range(ROUNDS):
            left = lesson.centred(lesson.logs - told)
            inside = np.flatnonzero(np.repeat(draw.random(len(lesson.counts)) < NESTS, lesson.counts))
            columns = np.flatnonzero(draw.random(rows.shape[1]) < COLUMNS)
            made.trees.append(grower.grown(left, inside, columns))
            told = told + RATE * made.trees[-1].at(rows)
        return made

    def score(self, nest: LoopNest, schedules: Sequence[Schedule]) -> list[float]:
        """A number for each schedule of a nest that rises with the seconds it should take, whatever the others are."""
        if not schedules:
            return []
        rows = self._with_guess(np.array([features(nest, schedule, self.caches) for schedule in schedules]))
        return [float(one) for one in rows[:, -1] + RATE * sum(tree.at(rows) for tree in self.trees)]

    def rank(self, nest: LoopNest, schedules: Sequence[Schedule]) -> list[Schedule]:
        """The schedules, those that should be fastest first; of equals the first that was given."""
        scores = self.score(nest, schedules)
        return [schedules[at] for at in sorted(range(len(scores)), key=scores.__getitem__)]

    def _with_guess(self, rows: Numbers) -> Numbers:
        """The rows, and at the end of each the logarithm of what its amounts cost."""
        return np.column_stack([rows, np.log(rows[:, : len(self.prices)] @ self.prices)])

    def save(self, path: str | Path) -> None:
        """Writes the model as JSON."""
        facts = {
            "format": FORMAT, "version": VERSION, "caches": list(self.caches),
            "prices": [float(one) for one in self.prices], "trees": [tree.rows() for tree in self.trees],
        }  # fmt: skip
        write_atomically(Path(path), [json.dumps(facts).encode() + b"\n"])

    @classmethod
    def load(cls, path: str | Path) -> CostModel:
        """The model that was saved there; raises BadFile where that is none."""
        try:
            facts = json.loads(Path(path).read_bytes())
            if (facts["format"], facts["version"]) != (FORMAT, VERSION):
                raise ValueError(f"{facts['format']} {facts['version']}")
            caches = [int(one) for one in facts["caches"]]
            prices = np.array(facts["prices"], float)
            if prices.shape != (priced(caches),) or not (prices > 0).all():
                raise ValueError("prices")
            made = cls(caches, prices, [Tree.of(one) for one in facts["trees"]])
            made.score(
                LoopNest((2,), (Access((1,)),)), [Schedule((1,), (0,), (0,))]
            )  # fails if trees know other features
            return made
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise BadFile(f"{path}: this is no model of costs ({error!r})", hint="Fit it anew and save it.") from error


@dataclass(frozen=True, slots=True)
class Lesson:
    """Features of measured schedules, nest after nest, and the logarithm of the seconds of an iteration of each."""

    rows: Numbers
    logs: Numbers
    counts: Numbers  # rows of each nest

    @classmethod
    def of(cls, records: Iterable[Record], caches: Sequence[int]) -> Lesson:
        """The lesson of some records, the same in whichever order they are given."""
        nests: defaultdict[LoopNest, list[Record]] = defaultdict(list)
        for record in sorted(records, key=repr):
            nests[record.nest].append(record)
        own = [one for one in nests.values() if len(one) > 1]
        every = [record for one in own for record in one]
        rows = [features(record.nest, record.schedule, caches) for record in every]
        logs = [record.seconds / np.prod(record.nest.extents, dtype=float) for record in every]
        return cls(np.array(rows), np.log(logs), np.array([len(one) for one in own], int))

    def centred(self, values: Numbers) -> Numbers:
        """Values of each row against the mean of their nest."""
        starts = np.cumsum(self.counts) - self.counts
        sums = np.add.reduceat(values, starts, axis=0)
        return values - np.repeat((sums.T / self.counts).T, self.counts, axis=0)


def found_prices(lesson: Lesson, count: int) -> Numbers:
    """Seconds for one of each amount: those that explain best how schedules of a nest differ (Levenberg-Marquardt).

    The search is over logarithms, so that no price is negative; amounts that no record has keep the price they began
    with, the middle of what an iteration takes.
    """
    amounts, middle = lesson.rows[:, :count], float(np.median(lesson.logs))
    logs, caution = np.zeros(count), 1.0
    left, loss = _left(lesson, amounts, logs)
    for _ in range(STEPS):
        costs = amounts * np.exp(logs)
        slopes = lesson.centred(costs / costs.sum(axis=1, keepdims=True))
        bend = slopes.T @ slopes + DOUBT * len(left) * np.eye(count)
        step = np.linalg.solve(bend + caution * np.diag(np.diag(bend)), slopes.T @ left + DOUBT * len(left) * logs)
        tried = logs - np.clip(step, -1, 1)
        new_left, new_loss = _left(lesson, amounts, tried)
        if new_loss >= loss:
            caution *= 4
            continue
        done = loss - new_loss < CLOSE * loss
        logs, left, loss, caution = tried, new_left, new_loss, caution / 3
        if done:
            break
    return np.exp(logs + middle)


def _left(lesson: Lesson, amounts: Numbers, logs: Numbers) -> tuple[Numbers, float]:
    """What prices do not explain, and how much that is, together with how unlikely they are."""
    left = lesson.centred(np.log(amounts @ np.exp(logs)) - lesson.logs)
    return left, float(left @ left + DOUBT * len(left) * logs @ logs)


@dataclass(frozen=True, slots=True)
class Grower:
    """Grows trees over the same rows: between which cuts of each feature every row lies is found only once."""

    rows: Numbers
    cuts: list[Numbers]
    bins: Numbers

    @classmethod
    def over(cls, rows: Numbers) -> Grower:
        """The grower of trees over these rows."""
        places = np.linspace(0, 1, CUTS + 2)[1:-1]
        cuts = [np.unique(np.quantile(column, places, method="nearest")) for column in rows.T]
        bins = [np.searchsorted(own, column, side="left") for own, column in zip(cuts, rows.T, strict=True)]
        return cls(rows, cuts, np.stack(bins, axis=1))

    def grown(self, target: Numbers, inside: Numbers, columns: Numbers, depth: int = DEPTH) -> Tree:
        """The tree of so many levels that leaves the least squares, each split chosen by itself."""
        own = target[inside]
        value = float(own.sum() / (len(own) + SHRINK))
        split = self._best_split(own, inside, columns) if depth and len(own) >= 2 * FEWEST and len(columns) else None
        if split is None:
            return Tree(value)
        at, cut = split
        below = self.rows[inside, at] <= cut
        parts = (self.grown(target, inside[side], columns, depth - 1) for side in (below, ~below))
        return Tree(value, at, cut, *parts)

    def _best_split(self, own: Numbers, inside: Numbers, columns: Numbers) -> tuple[int, float] | None:
        """The feature and the place at which a split explains most; None where nothing can be split."""
        size = CUTS + 1
        bins = (self.bins[np.ix_(inside, columns)] + np.arange(len(columns)) * size).ravel()
        many = np.bincount(bins, minlength=len(columns) * size).reshape(-1, size).cumsum(axis=1)
        part = np.bincount(bins, np.repeat(own, len(columns)), len(columns) * size).reshape(-1, size).cumsum(axis=1)
        count, total = len(own), own.sum()
        gain = part**2 / (many + SHRINK) + (total - part) ** 2 / (count - many + SHRINK)
        gain[(many < FEWEST) | (many > count - FEWEST)] = 0.0
        column, place = np.unravel_index(int(np.argmax(gain)), gain.shape)
        if gain[column, place] <= total**2 / (count + SHRINK) + 1e-12:
            return None
        at = int(columns[column])
        return at, float(self.cuts[at][place])
