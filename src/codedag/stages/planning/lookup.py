"""Cost model of one stage or block on one PU: a non-negative line in the sizes and a smooth correction for regimes.

`seconds = (a + b * size + ...) * exp(correction)`: the line has relative weights and no negative factor; the correction
is a Gaussian process over the logarithms of the sizes (caches, thread limits), as strong as leaving sizes out supports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any

from codedag.ir.verdict import No

if TYPE_CHECKING:
    import numpy as np

    Matrix = np.ndarray[Any, np.dtype[np.float64]]

#: A size beyond so many times what was measured is refused, as is one below the same part of it.
FARTHEST = 2.0
#: One measured size says nothing of others.
FEWEST = 2
#: From so many sizes on the line is corrected.
CORRECTED = 5
#: Seconds below this part of the middle row weigh no more than it: a stage whose transfer is all of its time has 0.
LEAST_SHARE = 0.01
LEAST_SECONDS = 1e-12
#: A row whose interval is this share of it to each side counts half.
NOISE = 0.2
#: Half the width of an interval in standard deviations of the errors at sizes that were left out.
WIDTH = 2.5
#: No prediction is surer than this.
LEAST_ERROR = 0.04
#: How strong the correction is against the noise of a point, and over how many octaves it changes; 0 is the line alone.
STRENGTHS = (0.0, 0.3, 1.0, 3.0)
OCTAVES = (1.0, 2.0)
#: The correction must lower the error at left-out sizes to this share to be stronger.
BETTER = 0.97


class Estimate(float):
    """Seconds, as a number, with an interval; `measured` says that this size has a row."""

    __slots__ = ("high", "low", "measured")
    low: float
    high: float
    measured: bool

    def __new__(cls, seconds: float, low: float, high: float, *, measured: bool) -> Estimate:
        """The seconds with their interval, which always contains them."""
        made = super().__new__(cls, seconds)
        made.low, made.high, made.measured = min(low, seconds), max(high, seconds), measured
        return made

    @property
    def seconds(self) -> float:
        """The seconds as a plain number."""
        return float(self)

    def __bool__(self) -> bool:
        """True, also for 0 seconds: `if answer` tells a figure from a No."""
        return True

    def __repr__(self) -> str:
        return f"Estimate({float(self):.6g}, {self.low:.6g}..{self.high:.6g}{', measured' if self.measured else ''})"


@dataclass(frozen=True, slots=True)
class Range:
    """The smallest and the largest measured value of one size."""

    name: str
    low: int
    high: int

    def refusal(self, value: int) -> str:
        """Why a value is too far from what was measured; empty if it is not."""
        if value <= self.high * FARTHEST and value * FARTHEST >= self.low:
            return ""
        return f"{self.name}={value} is beyond {FARTHEST:g}x of what was measured ({self.low} to {self.high})"


class SizeModel:
    """Seconds over the sizes of one (PU, stage), fitted to the rows that were measured."""

    def __init__(
        self, names: Sequence[str], sizes: Sequence[Sequence[int]], seconds: Sequence[float],
        spreads: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.ranges = [
            Range(name, min(column), max(column)) for name, column in zip(names, zip(*sizes, strict=True), strict=True)
        ]
        self._sizes, self._seconds = sizes, seconds
        self._spreads = spreads or [0.0] * len(seconds)  # half the interval of each row by its seconds

    def refusal(self, sizes: Sequence[int]) -> str:
        """Why a size cannot be predicted; empty if it can."""
        if not self.is_fitted:
            return "only one size was measured, which says nothing of others"
        told = (each.refusal(value) for each, value in zip(self.ranges, sizes, strict=True))
        return next((one for one in told if one), "")

    def at(self, sizes: Sequence[int]) -> Estimate | No:
        """The prediction for one size, or why there is none."""
        if reason := self.refusal(sizes):
            return No(reason)
        if not any(self._seconds):
            return Estimate(0.0, 0.0, 0.0, measured=False)
        seconds, error = self._fitted.at(sizes)
        return Estimate(seconds, seconds * exp(-error), seconds * exp(error), measured=False)

    def many(self, sizes: Matrix) -> Matrix:
        """The predictions for many sizes at once; NaN where there is none."""
        import numpy as np

        low = np.array([each.low / FARTHEST for each in self.ranges])
        high = np.array([each.high * FARTHEST for each in self.ranges])
        told = ((sizes >= low) & (sizes <= high)).all(axis=1)
        known = self._fitted.values(sizes) if any(self._seconds) else 0.0
        return np.where(told & self.is_fitted, known, np.nan)

    @property
    def is_fitted(self) -> bool:
        """Whether enough sizes were measured to fit a line: then shares of a size can be priced."""
        return len(self._seconds) >= FEWEST

    @cached_property
    def _fitted(self) -> _Fit:
        import numpy as np

        sizes = np.array(self._sizes, dtype=float).reshape(len(self._seconds), len(self.ranges))
        seconds = np.array(self._seconds, dtype=float)
        least = LEAST_SHARE * float(np.median(seconds[seconds > 0]))
        return _Fit(sizes, np.maximum(seconds, least), _trust(np.array(self._spreads, dtype=float)))


class _Fit:
    """The line, the correction, and the error at sizes that were left out."""

    def __init__(self, sizes: Matrix, seconds: Matrix, trust: Matrix) -> None:
        import numpy as np

        self.sizes, self.logs = sizes, _logs(sizes)
        rows = np.column_stack([np.ones(len(sizes)), sizes])
        self.factors, without = _lines(rows, seconds, trust)
        left_out = np.log(seconds / np.maximum((rows * without).sum(axis=1), LEAST_SECONDS))
        residuals = np.log(seconds / np.maximum(rows @ self.factors, LEAST_SECONDS))
        self.octaves, self.strength, self.error = _correction(self.logs, residuals, left_out, trust)
        self.weights = _weights(self.logs, residuals, trust, self.octaves, self.strength)

    def values(self, sizes: Matrix) -> Matrix:
        """The seconds of many sizes."""
        import numpy as np

        line = np.maximum(self.factors[0] + sizes @ self.factors[1:], LEAST_SECONDS)
        return np.asarray(line * np.exp(self._near(sizes) @ self.weights))

    def at(self, sizes: Sequence[int]) -> tuple[float, float]:
        """The seconds and the half width of their logarithm; wider where no measured size is near."""
        here = [log(max(size, 1)) for size in sizes]
        apart = [sum((a - b) ** 2 for a, b in zip(here, row, strict=True)) for row in self._rows]
        line = self._line[0] + sum(a * b for a, b in zip(self._line[1:], sizes, strict=True))
        wide = 2 * (self.octaves * log(2)) ** 2
        near = sum(weight * exp(-far / wide) for weight, far in zip(self._pulls, apart, strict=True) if weight)
        small = 1 + 2 / len(self._rows)
        seconds = max(line, LEAST_SECONDS) * exp(self.strength * near)
        return seconds, WIDTH * small * self.error * max(1.0, sqrt(min(apart)) / log(2))

    @cached_property
    def _rows(self) -> list[list[float]]:
        return [[float(one) for one in row] for row in self.logs]

    @cached_property
    def _line(self) -> list[float]:
        return [float(one) for one in self.factors]

    @cached_property
    def _pulls(self) -> list[float]:
        return [float(one) if self.strength else 0.0 for one in self.weights]

    def _near(self, sizes: Matrix) -> Matrix:
        return self.strength * _kernel(_logs(sizes), self.logs, self.octaves)


def _logs(sizes: Matrix) -> Matrix:
    import numpy as np

    found: Matrix = np.log(np.maximum(sizes, 1.0))
    return found


def _kernel(one: Matrix, other: Matrix, octaves: float) -> Matrix:
    import numpy as np

    apart = ((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)
    found: Matrix = np.exp(-apart / (2 * (octaves * log(2)) ** 2))
    return found


def _trust(spreads: Matrix) -> Matrix:
    """How much each row counts: one for a quiet row, less for one whose calls took very different times."""
    import numpy as np

    return np.asarray(1 / (1 + (spreads / NOISE) ** 2), float)


def _weights(logs: Matrix, residuals: Matrix, trust: Matrix, octaves: float, strength: float) -> Matrix:
    import numpy as np

    kernel = strength * _kernel(logs, logs, octaves) + np.diag(1 / trust)
    return np.asarray(np.linalg.solve(kernel, residuals), float)


def _correction(logs: Matrix, residuals: Matrix, left_out: Matrix, trust: Matrix) -> tuple[float, float, float]:
    """Reach, strength and left-out error of the correction that errs least where it is left out."""
    import numpy as np

    best = (OCTAVES[0], 0.0, _rms(left_out))
    for octaves in OCTAVES if len(logs) >= CORRECTED else ():
        kernel = _kernel(logs, logs, octaves)
        for strength in STRENGTHS[1:]:
            inverse = np.linalg.inv(strength * kernel + np.diag(1 / trust))
            # What the others' correction says of a point, without it: closed form, residuals of the whole line.
            told = residuals - (inverse @ residuals) / np.diag(inverse)
            error = _rms(left_out - told)
            if error < BETTER * best[2]:
                best = (octaves, strength, error)
    return best[0], best[1], max(best[2], LEAST_ERROR / WIDTH)


def _rms(errors: Matrix) -> float:
    return float((errors**2).mean() ** 0.5)


def _lines(rows: Matrix, seconds: Matrix, trust: Matrix) -> tuple[Matrix, Matrix]:
    """The non-negative factors of least relative error, and for each point those of the line without it."""
    import numpy as np

    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    shares = rows / scale / seconds[:, None]
    outer = trust[:, None, None] * shares[:, :, None] * shares[:, None, :]
    shares = trust[:, None] * shares
    grams = np.concatenate([outer.sum(axis=0)[None], outer.sum(axis=0)[None] - outer])
    sums = np.concatenate([shares.sum(axis=0)[None], shares.sum(axis=0)[None] - shares])
    found = _nonnegative(grams, sums)
    return found[0] / scale, found[1:] / scale


def _nonnegative(grams: Matrix, sums: Matrix) -> Matrix:
    """The non-negative least squares of many small problems at once, by trying every choice of columns."""
    import numpy as np

    count, width = sums.shape
    best, found = np.full(count, np.inf), np.zeros((count, width))
    for size in range(1, width + 1):
        for columns in combinations(range(width), size):
            chosen = list(columns)
            part = grams[:, chosen][:, :, chosen] + 1e-12 * np.eye(size) * grams[:, chosen, chosen].max()
            factors = np.linalg.solve(part, sums[:, chosen][..., None])[..., 0]
            error = -(factors * sums[:, chosen]).sum(axis=1)  # of the squares; the same constant is left out of each
            better = (factors >= 0).all(axis=1) & (error < best - 1e-12)
            best[better] = error[better]
            found[better] = 0.0
            found[np.ix_(better, chosen)] = factors[better]
    return found
