"""A plan in force: its functions are replaced everywhere by substitutes on trial, and put back at the end."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

from codedag.backends.registry import EXACT, Equivalence, Substitution, find, runs_on
from codedag.backends.supported import why_as_written
from codedag.devices.present import bring, load, present
from codedag.ir.verdict import Code, No, Verdict, Yes
from codedag.migrate.guard import attempt
from codedag.migrate.malloc_trim import holding
from codedag.migrate.patches.call_counts import CallCounts, summed
from codedag.migrate.patches.dispatch import Arm, Dispatcher
from codedag.migrate.patches.library_patches import Patch, Patches, in_turn
from codedag.migrate.placement import loopback, workers
from codedag.migrate.placement.contexts import Contexts
from codedag.migrate.placement.device_chains import DeviceChains
from codedag.migrate.placement.modes import Mode, mode_of
from codedag.migrate.placement.requests import ORIGINAL, Request, Requests
from codedag.migrate.substitute.usable import library_of, may_run
from codedag.migrate.trial import Trial

log = logging.getLogger("codedag.migrate")
DISABLED = "CODEDAG_DISABLE is set"
WAITING = (Code.NOT_LOADED, Code.NOT_USED, Code.NOT_ALLOWED)  # what may still be replaced, here or under another plan
_holding: dict[str, Migrator] = {}  # which migrator has replaced which function


def is_disabled() -> bool:
    """Whether CODEDAG_DISABLE=1 asks to run programs as if CodeDAG were not there."""
    return os.environ.get("CODEDAG_DISABLE", "") not in ("", "0")


@dataclass(slots=True)
class Outcome:
    """What became of the functions of a plan: replaced, impossible, or left as they are; with reasons."""

    patched: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """The number of each."""
        return {"patched": len(self.patched), "failed": len(self.failed), "skipped": len(self.skipped)}


class Migrator:
    """Applies what a plan asks for, counts what becomes of the calls, and restores."""

    def __init__(
        self,
        requests: Requests,
        mode: str | Mode = "sample",
        allow: Collection[Equivalence] = (EXACT,),
        demote: bool = True,
    ) -> None:
        self.requests, self.mode, self.allow, self.demote = requests, mode_of(mode), tuple(allow), demote
        self.patches: Patches | None = None
        self.outcome = Outcome()
        self.elsewhere: dict[str, CallCounts] = {}  # what other processes counted
        self.missing: tuple[str, ...] = ()  # what is not known of them, in words
        self._last: dict[str, CallCounts] = {}
        self.passages = DeviceChains(self)
        self._early: set[Request] = set()  # for units whose library was not loaded when the plan was applied

    def __enter__(self) -> Migrator:
        self.apply()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    @property
    def is_applied(self) -> bool:
        """Whether the plan is in force."""
        return self.patches is not None

    def apply(self) -> dict[str, int]:
        """How many functions were patched, failed and were skipped; zeros if the plan is in force already."""
        with in_turn():
            return Outcome().counts() if self.is_applied else self._apply().counts()

    def _apply(self) -> Outcome:
        self.outcome = Outcome()
        prepared = [one for group in self._groups().values() if (one := self._prepare(group)) is not None]
        patches = Patches(*prepared)
        patches.apply()
        self.patches = patches
        _holding.update({patch.source: self for patch in prepared})
        self._note_results()
        attempt(self.passages.attach)
        workers.join(self)
        attempt(holding.begin)
        return self.outcome

    def _groups(self) -> dict[str, list[Request]]:
        groups: dict[str, list[Request]] = {}
        for request in self.requests.wanted:
            groups.setdefault(self.source_of(request), []).append(request)
        return groups

    def _prepare(self, group: list[Request]) -> Patch | None:
        """The patch of one function, or None with the reason noted."""
        wanted = {request.context: _wanted(request) for request in group}
        self._early |= {request for request in group if _is_early(request)}
        chosen = _together(wanted.values())
        source = chosen[0].source if chosen else group[0].function
        if is_disabled() or not chosen or source in _holding:
            reasons = [verdict.reason for verdict in wanted.values() if isinstance(verdict, No)]
            other = "another migrator has replaced it" if source in _holding else ""
            self.outcome.skipped[source[:200]] = DISABLED if is_disabled() else other or _joined(reasons)
            return None
        guarded = Dispatcher(
            *chosen,
            mode=self.mode,
            contexts=Contexts({request.context: _unit(request, wanted[request.context]) for request in group}),
            demote=self.demote and chosen[0].pu != loopback.PU,
        )
        guarded.on_device = self.passages.first_call if self.passages.waits else None
        patch = Patch(source, guarded)
        patch.ready = partial(self._ready, patch, guarded)
        return patch

    def source_of(self, request: Request) -> str:
        """The name by which the registry knows the function of a request."""
        found = find(request.function)
        return found[0].source if found else request.function

    def why_not(self, request: Request) -> str:
        """Why a request was not granted, as far as can be told now; empty if it could be."""
        verdict = _wanted(request)
        return verdict.reason if isinstance(verdict, No) else ""

    def trials(self) -> dict[str, Trial]:
        """What the calls that were replaced one by one have shown in this process, by function."""
        patches = self.patches.patches if self.patches is not None else ()
        return {patch.source: _joined_trial(patch) for patch in patches if patch.guarded is not None}

    def arms(self) -> dict[str, list[Arm]]:
        """The substitutes that may run, by function."""
        patches = self.patches.applied if self.patches is not None else ()
        return {p.source: [a for a in p.guarded.arms if a.trial.calls] for p in patches if p.guarded is not None}

    def guarded_of(self, function: Any) -> Dispatcher | None:
        """The substitutes of a library's function that this plan has replaced, or None."""
        applied = self.patches.applied if self.patches is not None else ()
        return next((patch.guarded for patch in applied if patch.original is function), None)

    def only_patch(self) -> Patch | None:
        """The patch of a plan for one function, or None if that has no substitute here."""
        found = [one for group in self._groups().values() if (one := self._prepare(group)) is not None]
        return found[0] if found else None

    def stats_of(self, patch: Patch | None) -> dict[str, Any]:
        """What became of the calls of one patch."""
        reason = _joined(self.outcome.skipped.values())
        return patch.counts().shown() if patch else CallCounts(active=False, reason=reason).shown()

    def _ready(self, patch: Patch, guarded: Dispatcher) -> Verdict:
        """Yes if one of the substitutes may run in this program; the others are set aside."""
        verdicts = []
        for arm in guarded.arms:
            arm.substitution.remember(patch.original)  # what is found under its name may be another's proxy
            verdict = Yes if arm.substitution.pu == loopback.PU else self._may_run(arm.substitution)
            arm.trial.active, arm.trial.reason = bool(verdict), getattr(verdict, "reason", "")
            verdicts.append(verdict)
        return Yes if any(verdicts) else _all_of([v for v in verdicts if isinstance(v, No)])

    def _may_run(self, substitution: Substitution) -> Verdict:
        """Yes if the units that the plan names for it are here, now that its library is loaded, and it may run."""
        for request in self._early:
            mine = substitution in find(request.function) and runs_on(substitution, request.pu)
            here = present(request.pu) if mine else Yes
            if isinstance(here, No):
                return here
        if not substitution.stays:
            return may_run(substitution, self.allow)
        from codedag.backends.on_device import using  # it needs numpy, which the function's library has loaded

        units = [w.pu for w in self.requests.wanted if substitution in find(w.function) and runs_on(substitution, w.pu)]
        with using(units[0] if units else ""):  # a proof holds for the device on which it was made
            return may_run(substitution, self.allow)

    def _note_results(self) -> None:
        assert self.patches is not None
        self.outcome.patched = [patch.source for patch in self.patches.applied]
        for source, why in self.patches.refused.items():
            (self.outcome.skipped if why.code in WAITING else self.outcome.failed)[source] = why.reason
        for source, reason in {**self.outcome.failed, **self.outcome.skipped}.items():
            log.info("%s runs as written: %s", source, reason)

    def restore(self) -> int:
        """How many functions were put back; 0 if nothing was replaced."""
        with in_turn():
            return 0 if self.patches is None else self._restore(self.patches)

    def _restore(self, patches: Patches) -> int:
        workers.leave(self)
        attempt(self.passages.give_back)
        self._last = self.counted()
        self.patches = None
        for patch in patches.patches:
            _holding.pop(patch.source, None)
        count = len(patches.applied)
        patches.restore()
        attempt(holding.end)
        return count

    def own(self) -> dict[str, CallCounts]:
        """What this process counted, by function."""
        if self.patches is None:
            return self._last
        patched = {patch.source: patch.counts() for patch in self.patches.patches}
        return summed([patched, self.passages.counted()])

    def counted(self) -> dict[str, CallCounts]:
        """What this process and those that it started counted, by function."""
        if self.patches is None:
            return self._last
        workers.collect(self)
        own = {name: one.minus(self._base.get(name)) for name, one in self.own().items()}
        return summed([own, self.elsewhere])

    _base: Mapping[str, CallCounts] = {}

    def stats(self) -> dict[str, dict[str, Any]]:
        """Per function: calls, fast, checked, declined with reasons, mismatches, gain, and whether it is in use."""
        found = {name: one.shown() for name, one in self.counted().items()}
        refused = {} if self.patches is None else {name: why.reason for name, why in self.patches.refused.items()}
        in_force = {patch.source for patch in self.patches.applied} if self.patches is not None else set()
        for name, reason in {**self.outcome.skipped, **self.outcome.failed, **refused}.items():
            if name not in in_force and (name not in found or not found[name]["calls"]):
                found[name] = CallCounts(active=False, reason=reason).shown()
        return dict(sorted(found.items()))

    def verdict(self) -> dict[str, Any]:
        """Whether all compared results were identical; else DIFFERENT, and how many were used unchecked before.

        Where nothing was compared, nothing is said: UNCHECKED.
        """
        counted = self.counted().values()
        mismatches, checked = sum(one.mismatches for one in counted), sum(one.checked for one in counted)
        return {
            "verdict": "DIFFERENT" if mismatches else "IDENTICAL" if checked else "UNCHECKED",
            "checked": checked,
            "mismatches": mismatches,
            "unverified": sum(one.unverified for one in counted),
        }

    def begin_count(self) -> None:
        """Counts from here on only: what happened before belongs to the process that this one was forked from."""
        self._base, self.elsewhere = self.own(), {}


def _wanted(request: Request) -> tuple[Substitution, ...] | No:
    """The registered substitutions that a request can mean, or why there are none."""
    if request.variant.partition(",")[0] == ORIGINAL:  # also "original, reused buffers"
        return No("the plan leaves it as it is")
    if request.function.startswith("operator."):
        return No("an operator has no function to replace: only a plan.json for `codedag run --plan` names its place")
    known = find(request.function)
    loaded = bring if request.variant else present  # a plan that names what runs there gets its library
    here = Yes if request.pu == loopback.PU else loaded(request.pu)
    if isinstance(here, No) and not (known and _is_early(request)):
        return here
    if not known:
        return No(why_as_written(request.function))
    if request.pu == loopback.PU:
        return (loopback.loopback(known[0].source),)
    fitting = tuple(one for one in known if runs_on(one, request.pu) and request.variant in ("", one.into, one.name))
    own = tuple(one for one in fitting if one.pu in (request.pu, request.pu.partition(":")[0]))
    fitting = own or fitting  # what names the unit itself comes before what torch runs anywhere
    for one in fitting:
        if request.variant == one.name:  # as `codedag plan` names it: what the user was shown is to be had
            load(library_of(one.needs))
    variant = f" as {request.variant}" if request.variant else ""
    if not fitting and isinstance(here, No):
        return here
    return fitting or No(f"no substitution for {request.pu}{variant} is registered")


def _is_early(request: Request) -> bool:
    """Whether the library of the unit that is requested for is not loaded yet, so that the unit may still turn up."""
    here = Yes if request.pu == loopback.PU else present(request.pu)
    return isinstance(here, No) and here.code is Code.NOT_USED


def _unit(request: Request, verdict: tuple[Substitution, ...] | No) -> str:
    return "" if isinstance(verdict, No) else request.pu


def _together(found: Iterable[tuple[Substitution, ...] | No]) -> list[Substitution]:
    """All substitutions that any of the contexts can use, each once."""
    every = [one for some in found if not isinstance(some, No) for one in some]
    return list({one.name: one for one in every}.values())


def _joined_trial(patch: Patch) -> Trial:
    """One trial for all substitutes of a function."""
    made, counts = Trial(patch.source, ignores_speed=True), patch.counts()
    made.calls, made.checked = counts.fast + counts.checked, counts.checked
    made.mismatches, made.unverified = counts.mismatches, counts.unverified
    made.active, made.reason, made.evidence = counts.active, counts.reason, counts.evidence
    made.declined.update(counts.declined)
    arms = patch.guarded.arms if patch.guarded is not None else ()
    made.pairs = [pair for arm in arms for pair in arm.trial.pairs]
    return made


def _all_of(answers: list[No]) -> No:
    """One answer for several; what they have in common is its code."""
    codes = {each.code for each in answers}
    return No(_joined(each.reason for each in answers), codes.pop() if len(codes) == 1 else Code.OTHER)


def _joined(reasons: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(reasons)) or "the plan does not ask for it"
