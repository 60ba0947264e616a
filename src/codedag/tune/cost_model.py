"""Schedules ranked by a model that has learned from measured ones, of other nests too.

Only the order within a nest matters, so seconds count by their logarithm against the mean of their nest, and so do
features. Trees are fitted one after the other to what is left: what a tile is worth depends on the loop that is
innermost, which no sum of features says.
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
from codedag.tune.loops import CACHES, Access, LoopNest, Schedule, features

ROUNDS, DEPTH, RATE = 60, 3, 0.1
CUTS = 16  # places at which a feature may be split
FEWEST = 4  # records on one side of a split
PENALTY = 1.0  # on the factors of the line that the trees begin from
FORMAT, VERSION = "codedag/cost-model", 1
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
    line: Numbers = None
    scale: Numbers = None
    trees: list[Tree] = field(default_factory=list)

    @classmethod
    def fit(cls, records: Iterable[Record], caches: Sequence[int] = CACHES) -> CostModel:
        """The model of some measured schedules; a nest with a single one says nothing."""
        rows, target = _centred(records, caches)
        if len(rows) < 2 * FEWEST:
            raise ValueError(f"a model needs at least {2 * FEWEST} records of nests that have several; {len(rows)}")
        made = cls(caches, scale=np.maximum(rows.std(axis=0), 1e-9))
        rows = rows / made.scale
        made.line = np.linalg.solve(rows.T @ rows + PENALTY * np.eye(rows.shape[1]), rows.T @ target)
        left, grower, every = target - rows @ made.line, Grower.over(rows), np.arange(len(rows))
        for _ in range(ROUNDS):
            tree = grower.grown(left, every)
            made.trees.append(tree)
            left = left - RATE * tree.at(rows)
        return made

    def score(self, nest: LoopNest, schedules: Sequence[Schedule]) -> list[float]:
        """A number for each schedule of one nest that rises with the seconds it should take."""
        if not schedules:
            return []
        rows = np.array([features(nest, schedule, self.caches) for schedule in schedules])
        rows = (rows - rows.mean(axis=0)) / self.scale
        return [float(one) for one in rows @ self.line + RATE * sum(tree.at(rows) for tree in self.trees)]

    def rank(self, nest: LoopNest, schedules: Sequence[Schedule]) -> list[Schedule]:
        """The schedules, those that should be fastest first; of equals the first that was given."""
        scores = self.score(nest, schedules)
        return [schedules[at] for at in sorted(range(len(scores)), key=scores.__getitem__)]

    def save(self, path: str | Path) -> None:
        """Writes the model as JSON."""
        facts = {
            "format": FORMAT, "version": VERSION, "caches": list(self.caches),
            "trees": [tree.rows() for tree in self.trees],
            **{name: [float(one) for one in getattr(self, name)] for name in ("line", "scale")},
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
            line, scale = np.array(facts["line"], float), np.array(facts["scale"], float)
            nothing = features(LoopNest((1,), (Access((1,)),)), Schedule((1,), (0,), (0,)), caches)
            if line.shape != (len(nothing),) or scale.shape != line.shape:
                raise ValueError("line")
            return cls(caches, line, scale, [Tree.of(one) for one in facts["trees"]])
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise BadFile(f"{path}: this is no model of costs ({error!r})", hint="Fit it anew and save it.") from error


def _centred(records: Iterable[Record], caches: Sequence[int]) -> tuple[Numbers, Numbers]:
    """Features and the logarithm of the seconds of each record, against the means of its nest."""
    nests: defaultdict[LoopNest, list[Record]] = defaultdict(list)
    for record in records:
        nests[record.nest].append(record)
    rows, target = [np.empty((0, 0))], [np.empty(0)]
    for nest, own in nests.items():
        if len(own) > 1:
            found = np.array([features(nest, record.schedule, caches) for record in own])
            seconds = np.log([record.seconds for record in own])
            rows.append(found - found.mean(axis=0))
            target.append(seconds - seconds.mean())
    return (np.concatenate(rows[1:]) if rows[1:] else rows[0]), np.concatenate(target)


@dataclass(frozen=True, slots=True)
class Grower:
    """Grows trees over the same rows: which cut of each feature every row lies below is found only once."""

    rows: Numbers
    cuts: list[Numbers]
    bins: Numbers

    @classmethod
    def over(cls, rows: Numbers) -> Grower:
        """The grower of trees over these rows."""
        places = np.linspace(0, 1, CUTS + 2)[1:-1]
        cuts = [np.unique(np.quantile(column, places)) for column in rows.T]
        bins = [np.searchsorted(own, column, side="left") for own, column in zip(cuts, rows.T, strict=True)]
        return cls(rows, cuts, np.stack(bins))

    def grown(self, target: Numbers, inside: Numbers, depth: int = DEPTH) -> Tree:
        """The tree of so many levels that leaves the least squares, each split chosen by itself."""
        own = target[inside]
        split = self._best_split(own, inside) if depth and len(own) >= 2 * FEWEST else None
        if split is None:
            return Tree(float(own.mean()))
        at, cut = split
        below = self.rows[inside, at] <= cut
        parts = (self.grown(target, inside[side], depth - 1) for side in (below, ~below))
        return Tree(float(own.mean()), at, cut, *parts)

    def _best_split(self, own: Numbers, inside: Numbers) -> tuple[int, float] | None:
        """The feature and the place at which a split explains most; None where nothing can be split."""
        best, found, total, count = 1e-12, None, own.sum(), len(own)
        for at, cuts in enumerate(self.cuts):
            bins = self.bins[at, inside]
            many = np.cumsum(np.bincount(bins, minlength=len(cuts) + 1))[:-1]
            part = np.cumsum(np.bincount(bins, own, len(cuts) + 1))[:-1]
            fits = (many >= FEWEST) & (many <= count - FEWEST)
            if fits.any():
                many, part, kept = many[fits], part[fits], cuts[fits]
                gain = part**2 / many + (total - part) ** 2 / (count - many) - total * total / count
                if gain.max() > best:
                    best, found = float(gain.max()), (at, float(kept[int(np.argmax(gain))]))
        return found
