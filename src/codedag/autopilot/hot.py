"""Selection of hot functions: which of those that the sampler saw a change could reach, and their share of the time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from codedag.autopilot.budget import (
    COMPILER_PROCESS_SECONDS,
    OPEN_SOURCE_NBYTES_MAX,
    OPEN_SOURCE_SECONDS_PER_BYTE,
)
from codedag.instrument.codes import owner_of
from codedag.instrument.local_answers import LOCAL_SOURCE_NBYTES_MAX, source_nbytes
from codedag.instrument.places import PROTECTED_PACKAGES, is_installed, is_standard_library

if TYPE_CHECKING:
    from codedag.autopilot.heat import HeatReport, HotFunction

#: Share of the CPU time of late that a function of the user's must take, with all that it calls.
USER_SHARE_MIN = 0.03
#: Where numpy's functions lie: they are never opened, but calls of them are changed where they are written.
NUMPY = "/site-packages/numpy/"
#: And one of an installed package by itself, native calls included: what it calls in Python is opened for itself.
PACKAGE_SELF_SHARE_MIN = 0.03


def is_hot(function: HotFunction, report: HeatReport) -> bool:
    """Whether a function takes enough of the time of late that a change in it could pay."""
    if is_protected(function.file):
        return False
    least = PACKAGE_SELF_SHARE_MIN if _counts_by_itself(function) else USER_SHARE_MIN
    return share_of(function, report) >= least


def is_protected(path: str) -> bool:
    """Whether no function of this file is ever opened."""
    if path.startswith("<") or is_standard_library(path):
        return True
    package = path.partition("/site-packages/")[2].partition("/")[0]
    return package in PROTECTED_PACKAGES


def changeable_share(
    report: HeatReport, before: HeatReport | None = None, left_alone: Collection[tuple[str, str]] = ()
) -> float:
    """The share of the time since an earlier report in code in which, or in whose native calls, changes are made.

    Imports at the start of a program would hide for long what it does then.  Time in which the program waits, for
    others or for a core, is time that no change saves.
    """
    reached, passed = _changeable_seconds(report, left_alone), max(report.cpu_seconds, report.wall_seconds)
    if before is not None:
        reached -= _changeable_seconds(before, left_alone)
        passed = max(report.cpu_seconds - before.cpu_seconds, report.wall_seconds - before.wall_seconds)
    return min(max(reached, 0.0) / max(passed, 1e-9), 1.0) if passed > 0 else 0.0


def first_opening_price(report: HeatReport, left_alone: Collection[tuple[str, str]] = ()) -> float:
    """CPU seconds that opening the first hot function takes: one of the user's, where there is any."""
    hot = [each for each in _changeable(report, left_alone) if is_hot(each, report)]
    own = [opening_price(each.file) for each in hot if not is_installed(each.file)]
    return min(own or (opening_price(each.file) for each in hot), default=COMPILER_PROCESS_SECONDS)


def opening_price(path: str, *, is_compiler_running: bool = False) -> float:
    """CPU seconds that opening a function of a source file takes, by its size."""
    nbytes = source_nbytes(path)
    price = OPEN_SOURCE_SECONDS_PER_BYTE * min(nbytes, OPEN_SOURCE_NBYTES_MAX)
    is_started = nbytes > LOCAL_SOURCE_NBYTES_MAX and not is_compiler_running
    return price + COMPILER_PROCESS_SECONDS * is_started


def share_of(function: HotFunction, report: HeatReport) -> float:
    """The share of the CPU time of late that changes in a function could reach: of a package's, its own time alone."""
    seconds = function.recent_self_seconds if _counts_by_itself(function) else function.recent_seconds
    return min(seconds / max(report.recent_cpu_seconds, 1e-9), 1.0)


def _counts_by_itself(function: HotFunction) -> bool:
    """Whether a function is a package's; what makes items of a dataset is where work on each is written, anywhere."""
    return is_installed(function.file) and not function.qualname.endswith(".__getitem__")


def busy_share(report: HeatReport) -> float:
    """The share of the time in which the program computes; the rest it waits, for others or for a core."""
    return min(report.cpu_seconds / max(report.wall_seconds, 1e-9), 1.0)


def _changeable_seconds(report: HeatReport, left_alone: Collection[tuple[str, str]]) -> float:
    """Seconds of code that may be opened, and of numpy's functions in Python (einsum, mean) that it calls."""
    found = list(_changeable(report, left_alone))
    own = sum(each.self_seconds for each in found)
    beyond = max((each.cumulative_seconds - each.self_seconds for each in found if is_hot(each, report)), default=0.0)
    wrapped = sum(each.self_seconds for each in report.functions if NUMPY in each.file)
    return own + min(wrapped, max(beyond, 0.0))


def _changeable(report: HeatReport, left_alone: Collection[tuple[str, str]]) -> Iterator[HotFunction]:
    for each in report.functions:
        if not is_protected(each.file) and (each.file, owner_of(each.qualname)) not in left_alone:
            yield each
