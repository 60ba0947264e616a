"""Nearness of a PU's results to the reference: shape, type, NaN, and the largest difference by the largest value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

#: The largest difference by the largest value that rounding explains, by the bytes of a float: sums of some thousand
#: terms in another order differ by about 1e-6 in float32 (2.4e-6 was the most that was measured on seven stages).
ROUNDING = {2: 2e-2, 4: 1e-4, 8: 1e-10}
#: A reference that is farther from float64 than this is no measure of rounding: its model is random, or chaotic.
MOST_REFERENCE_ERROR = 1e-2
F32 = "f32"
#: The same for PUs that compute float32 models in a shorter type, by OpenVINO's name of it: 11 or 8 bits of a value.
PRECISION_ERRORS = {"f16": 1e-2, "bf16": 1e-2}


@dataclass(frozen=True, slots=True)
class Nearness:
    """Whether one tensor is what it should be: bit-equal, how far off at most, and in words what is wrong."""

    equal: bool
    worst: float
    wrong: str = ""

    def __bool__(self) -> bool:
        return not self.wrong


def nearness(expected: Any, got: Any, tolerance: float | None = None) -> Nearness:
    """How near `got` is to `expected`; whole numbers and truth values must be equal."""
    import numpy as np

    if got.shape != expected.shape or got.dtype != expected.dtype:
        return Nearness(
            False, float("inf"), f"it is {got.dtype}{list(got.shape)}, not {expected.dtype}{list(expected.shape)}"
        )
    if expected.dtype.kind != "f":
        differ = int((expected != got).sum())
        return Nearness(not differ, float(differ > 0), f"{differ} of {got.size} values differ" if differ else "")
    if np.array_equal(expected, got):  # not if there is a NaN
        return Nearness(True, 0.0)
    absent = np.isnan(expected)
    if (absent != np.isnan(got)).any():
        count = int((absent != np.isnan(got)).sum())
        return Nearness(
            False, float("inf"), f"{count} of {got.size} values are NaN where the reference has none, or not"
        )
    worst = largest_error(expected, got)
    allowed = ROUNDING[expected.dtype.itemsize] if tolerance is None else tolerance
    limit = f"{allowed:.0e} is rounding" if tolerance is None else f"{allowed:g} is allowed"
    wrong = f"it is off by {worst:.2g} of the largest value ({limit})" if worst > allowed else ""
    return Nearness(bool(np.array_equal(expected, got, equal_nan=True)), worst, wrong)


def largest_error(expected: Any, got: Any) -> float:
    """The largest difference by the largest finite value of the reference; infinities must be the same."""
    import numpy as np

    finite = np.isfinite(expected)
    if not finite.all():
        rest = ~finite & ~np.isnan(expected)
        if (expected[rest] != got[rest]).any():
            return float("inf")
        expected, got = expected[finite], got[finite]
    if not expected.size:
        return 0.0
    with np.errstate(over="ignore"):  # values that far apart are infinitely far off
        difference = np.abs(expected - got).max()
    scale = float(np.abs(expected).max())
    return float(difference / scale) if scale else float(difference)


Exact = Callable[[str], Any]  # a tensor by its name in float64, or None where there is no such form


def judged(name: str, expected: Any, got: Any, exact: Exact, tolerance: float | None = None) -> Nearness:
    """How near a result is; where float32 says that it is off, float64 decides whether it is worse than the reference.

    A result that is as near to the exact one as the reference itself (by a factor of two) is off by rounding only.
    """
    near = nearness(expected, got, tolerance)
    if near or expected.dtype.kind != "f" or not isfinite(near.worst):
        return near
    right = exact(name)
    if right is None:
        return near
    own, theirs = largest_error(right, expected), largest_error(right, got)
    rounding = ROUNDING[expected.dtype.itemsize]
    is_rounding = own <= max(MOST_REFERENCE_ERROR, rounding) and theirs <= max(2 * own, rounding)
    return Nearness(False, near.worst) if is_rounding else near
