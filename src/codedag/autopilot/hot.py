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
#: And one of an installed package by itself, native calls included: what it calls in Python is opened for itself.
PACKAGE_SELF_SHARE_MIN = 0.03


def is_hot(function: HotFunction, report: HeatReport) -> bool:
    """Whether a function takes enough of the time of late that a change in it could pay."""
    if is_protected(function.file):
        return False
    recent = max(report.recent_cpu_seconds, 1e-9)
    if is_installed(function.file):
        return function.recent_self_seconds >= PACKAGE_SELF_SHARE_MIN * recent
    return function.recent_seconds >= USER_SHARE_MIN * recent


def is_protected(path: str) -> bool:
    """Whether no function of this file is ever opened."""
    if path.startswith("<") or is_standard_library(path):
        return True
    package = path.partition("/site-packages/")[2].partition("/")[0]
    return package in PROTECTED_PACKAGES


def changeable_share(
    report: HeatReport, before: HeatReport | None = None, left_alone: Collection[tuple[str, str]] = ()
) -> float:
    """The share of the CPU time since an earlier report in code in which, or in whose native calls, changes are made.

    Imports at the start of a program would hide for long what it does then.
    """
    reached, passed = _changeable_seconds(report, left_alone), report.cpu_seconds
    if before is not None:
        reached, passed = reached - _changeable_seconds(before, left_alone), passed - before.cpu_seconds
    return min(max(reached, 0.0) / max(passed, 1e-9), 1.0) if passed > 0 else 0.0


def opening_price(report: HeatReport, left_alone: Collection[tuple[str, str]] = ()) -> float:
    """CPU seconds that opening the hottest function that could be changed takes, by the size of its source."""
    hottest = max(_changeable(report, left_alone), key=lambda each: each.self_seconds, default=None)
    if hottest is None:
        return COMPILER_PROCESS_SECONDS
    nbytes = source_nbytes(hottest.file)
    price = OPEN_SOURCE_SECONDS_PER_BYTE * min(nbytes, OPEN_SOURCE_NBYTES_MAX)
    return price if nbytes <= LOCAL_SOURCE_NBYTES_MAX else COMPILER_PROCESS_SECONDS + price


def _changeable_seconds(report: HeatReport, left_alone: Collection[tuple[str, str]]) -> float:
    return sum(each.self_seconds for each in _changeable(report, left_alone))


def _changeable(report: HeatReport, left_alone: Collection[tuple[str, str]]) -> Iterator[HotFunction]:
    for each in report.functions:
        if not is_protected(each.file) and (each.file, owner_of(each.qualname)) not in left_alone:
            yield each
