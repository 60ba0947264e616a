"""Splits of a block over several PUs: ratios solved from the cost models so that all shares end together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations, pairwise
from math import inf
from typing import TYPE_CHECKING

from codedag.stages.execution.verify import F32
from codedag.stages.planning.divisible import ALIKE, PARTS, division, share_of
from codedag.stages.planning.prices import PlacedBlock, Prices
from codedag.stages.sizes import GRAPH

if TYPE_CHECKING:
    from codedag.stages.planning.lookup import Matrix

#: Sizes that are divided alike where nothing is known of the model: rows of a graph with their edges, or a batch.
DIVISIBLE = (frozenset(GRAPH), frozenset(("batch",)), frozenset(("rows",)))
#: Up to so many PUs every choice of PUs is tried, beyond it pairs only.
ALL_CHOICES_PUS = 4
STEPS = 64  # ratios at which the models are asked: multiples of 1/64
HALVINGS = 40


class Splits:
    """The splits of every block that are faster than each of their PUs alone."""

    def __init__(self, prices: Prices) -> None:
        self.prices, self.tables = prices, prices.tables
        self.alone = {
            (first, last, block.pus[0]): block
            for (first, last), found in prices.blocks.items()
            for block in found
            if not block.variant
        }

    @property
    def is_possible(self) -> bool:
        """Whether the sizes can be divided, and PUs that do not take turns have models for shares."""
        known = self.tables.model is not None or frozenset(self.prices.sizes) in DIVISIBLE
        return known and any(True for _ in self._choices())

    @property
    def is_complete(self) -> bool:
        """Whether every choice of PUs is tried."""
        return len(self.prices.pus) <= ALL_CHOICES_PUS or not self.is_possible

    def all(self) -> Iterator[PlacedBlock]:
        """Every split that pays."""
        if not self.is_possible:
            return
        for first, last in self.prices.blocks:
            way = division(self.tables.model, first, last)
            for pus in self._choices() if way is not None else ():
                found = self._split(first, last, pus, way or ALIKE)
                if found is not None and found.seconds < min(self.alone[first, last, pu].seconds for pu in pus):
                    yield found

    def _choices(self) -> Iterator[tuple[str, ...]]:
        pus = [pu for pu in self.prices.pus if any(self.tables.is_fitted(pu, at) for at in self._names)]
        most = len(pus) if len(self.prices.pus) <= ALL_CHOICES_PUS else 2
        for size in range(2, most + 1):
            for chosen in combinations(pus, size):
                if len({self.prices.turn_of(pu) for pu in chosen}) == size:
                    yield chosen

    @cached_property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(stage for _, stage in self.tables.rows))

    def _split(self, first: int, last: int, pus: tuple[str, ...], way: str) -> PlacedBlock | None:
        if any((first, last, pu) not in self.alone for pu in pus):
            return None
        curves = [curve for pu in pus if (curve := self._curve(first, last, pu, way)) is not None]
        ratios = balanced(curves) if len(curves) == len(pus) else None
        return None if ratios is None else self._priced(first, last, pus, ratios, way)

    # -- shares

    @cached_property
    def _curves(self) -> dict[tuple[int, int, str], Matrix | None]:
        return {}

    def _curve(self, first: int, last: int, pu: str, way: str) -> Matrix | None:
        """Seconds of the shares 1/64, 2/64 ... of a block on a PU, rising; infinite where there is no figure."""
        key = (first, last, pu)
        if key not in self._curves:
            self._curves[key] = self._made_curve(first, last, pu, way)
        return self._curves[key]

    def _made_curve(self, first: int, last: int, pu: str, way: str) -> Matrix | None:
        import numpy as np

        own = self.alone[first, last, pu].source == "block" and first < last
        names = [f"{first}-{last}"] if own else [str(at) for at in range(first, last + 1)]
        if not all(self.tables.is_fitted(pu, name) for name in names):
            return None
        total = np.asarray(
            sum(self._asked("compute", pu, name, way) for name in names) + self._asked("transfer", pu, names[0], way)
        )
        total = np.where(np.isnan(total), np.inf, total)
        known = np.isfinite(total)
        total[known] = np.maximum.accumulate(total[known])
        return total if known.any() else None

    @cached_property
    def _answers(self) -> dict[tuple[str, str, str, str], Matrix]:
        return {}

    def _asked(self, what: str, pu: str, name: str, way: str) -> Matrix:
        key = (what, pu, name, way)
        if key not in self._answers:
            self._answers[key] = self.tables.many(what, pu, name, self._shares(way))
        return self._answers[key]

    def _shares(self, way: str) -> Matrix:
        import numpy as np

        shares = [share_of(self.prices.sizes, step / STEPS, way) for step in range(1, STEPS)]
        return np.array([[share[name] for name in self.tables.size_names] for share in shares], float)

    def _priced(self, first: int, last: int, pus: tuple[str, ...], ratios: list[float], way: str) -> PlacedBlock | None:
        """The block with each share at its own whole sizes; None where the tables have no figure for one."""
        shares: list[PlacedBlock] = []
        for pu, sizes in zip(pus, divided(self.prices.sizes, ratios, way), strict=True):
            if not all(sizes.values()):
                return None
            found = self._share(first, last, pu, sizes)
            if found is None:
                return None
            shares.append(found)
        slowest = max(shares, key=lambda one: one.seconds)
        return PlacedBlock(
            first, last, pus, tuple(ratios), slowest.compute, slowest.transfer,
            max(one.low for one in shares), max(one.high for one in shares), max(one.nbytes for one in shares),
            "split", tuple(one.seconds for one in shares),
            precision=next((one.precision for one in shares if one.precision != F32), F32),
        )  # fmt: skip

    def _share(self, first: int, last: int, pu: str, sizes: dict[str, int]) -> PlacedBlock | None:
        return Share(self.prices, sizes).placed(first, last, pu)


class Share(Prices):
    """The prices of one share: the same tables at a part of the sizes, asked for one block only."""

    def __init__(self, prices: Prices, sizes: dict[str, int]) -> None:
        self.tables, self.machine, self.pus, self.count = prices.tables, prices.machine, prices.pus, prices.count
        self.sizes = self.moved = sizes
        self.refusals = {}

    def placed(self, first: int, last: int, pu: str) -> PlacedBlock | None:
        """The block on a PU at this share's size."""
        self.pus = (pu,)
        return next(self._placed(first, last), None)


def divided(sizes: dict[str, int], ratios: list[float], way: str = ALIKE) -> list[dict[str, int]]:
    """The whole sizes of each share; those that are divided add up to the sizes, halos of parts not counted."""
    ends = [0.0]
    for ratio in ratios:
        ends.append(ends[-1] + ratio)
    made: list[dict[str, int]] = []
    for at, (begin, end) in enumerate(pairwise(ends)):
        last = at == len(ratios) - 1
        whole = {name: (value if last else round(value * end)) - round(value * begin) for name, value in sizes.items()}
        share = share_of(sizes, end - begin, way)
        made.append({name: round(share[name]) if way == PARTS or share[name] == sizes[name] else whole[name]
                     for name in sizes})  # fmt: skip
    return made


def balanced(curves: list[Matrix]) -> list[float] | None:
    """Ratios that add up to 1 and end together, from the seconds of the shares 1/64, 2/64, ...; None if none do."""
    known = [_Curve(curve) for curve in curves]
    low, high = 0.0, max(curve.slowest for curve in known)
    if sum(curve.ratio(high) for curve in known) < 1:
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(curve.ratio(middle) for curve in known) >= 1 else (middle, high)
    ratios = [curve.ratio(high) for curve in known]
    total = sum(ratios)
    made = [ratio / total for ratio in ratios]
    return made if all(ratio >= curve.shares[0] for ratio, curve in zip(made, known, strict=True)) else None


class _Curve:
    """The figures of one PU: seconds, rising, and the shares that take them."""

    def __init__(self, curve: Matrix) -> None:
        at = (curve < inf).nonzero()[0]
        self.seconds, self.shares = curve[at].tolist(), ((at + 1) / STEPS).tolist()
        self.slowest: float = self.seconds[-1]

    def ratio(self, seconds: float) -> float:
        """The largest share that ends within so many seconds; 0 if none does."""
        at = bisect_right(self.seconds, seconds)
        if at == 0 or at == len(self.seconds):
            return float(self.shares[-1]) if at else 0.0
        before, after = self.seconds[at - 1], self.seconds[at]
        return float(
            self.shares[at - 1] + (self.shares[at] - self.shares[at - 1]) * (seconds - before) / (after - before)
        )
