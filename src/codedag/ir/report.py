"""The final facts of `codedag run`: what was changed, what was declined, what it brought, and the proof."""

from __future__ import annotations

from typing import Literal

import msgspec

from codedag.ir.fields import Natural, Seconds


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the changed program computed the same: how many results were compared and differed, and how.

    `unverified` results had been used unchecked before the first difference was found.
    """

    identical: bool
    checked: Natural
    mismatches: Natural
    how: str
    unverified: Natural = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was made: what, where (`file:line`), and the seconds of its calls before and after."""

    what: str
    where: str
    kind: str = ""
    variant: str = ""
    equivalence: str = ""
    reason: str = ""
    seconds: Seconds | None = None
    baseline_seconds: Seconds | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    calls: Natural = 0  # that ran as the variant, in all processes; the checked ones ran both ways
    checked: Natural = 0


class Declined(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was not made, the reason, and the seconds that were at stake."""

    what: str
    where: str
    reason: str
    seconds: Seconds | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """report.json: gain is baseline over optimised (1.0 = same), with an interval; None = not measured.

    Seconds and gain are of the whole process, our own work before and after the program included.
    """

    format: Literal["codedag/report"] = "codedag/report"
    version: Literal[1] = 1
    baseline_seconds: Seconds | None = None
    optimised_seconds: Seconds | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    verdict: Proof
    changes: list[Change] = msgspec.field(default_factory=list)
    declined: list[Declined] = msgspec.field(default_factory=list)
    void: str = ""  # why the gain cannot be told after all
    steady_gain: float | None = None  # without our own work, once the changes are made
    steady_low: float | None = None
    steady_high: float | None = None
    workers: Natural = 0  # processes beside the program's own that told what they did
