"""The calls that a plan places on units, in force while the program runs: as `codedag.apply` does it.

Their functions are replaced where they are held; in the program's own files, values may stay on a device from one call
to the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from codedag.autopilot.applied import PLACE, Applied, Refused
from codedag.backends.registry import EXACT, Equivalence
from codedag.instrument.program import InstrumentedFile
from codedag.ir import Plan, load
from codedag.migrate.patches.call_counts import CallCounts
from codedag.migrate.placement.device_chain import DeviceChain
from codedag.migrate.placement.migrator import Migrator
from codedag.migrate.placement.requests import (
    ORIGINAL,
    Request,
    Requests,
    is_migration_plan,
    requests_of,
)
from codedag.migrate.trial import Trial
from codedag.trace.recorder import shown_path

if TYPE_CHECKING:
    from codedag.autopilot.pilot import Pilot

Home = tuple[str, str, int]  # file, function and site


def read(path: str | os.PathLike[str]) -> tuple[Plan, Requests]:
    """What a plan.json or migration_plan.json asks for: changes at places of the source, and units for functions."""
    if is_migration_plan(path):
        nothing = Plan(
            sources=[], placement=[], moves=[], makespan_seconds=0.0, lower_bound_seconds=0.0, baseline_seconds=0.0
        )
        return nothing, requests_of(path)
    plan = load(path, "plan")
    return plan, _beside(plan)


def _beside(plan: Plan) -> Requests:
    """What a plan asks for beside the changes that are made at their places in the source."""
    covered = {op for move in plan.moves if move.kind != PLACE for op in move.ops}
    asked = [p for p in plan.placement if p.op not in covered and p.variant.partition(",")[0] != ORIGINAL]
    wanted = {(p.name, p.context): Request(p.name, p.context, p.pu, p.variant) for p in asked}
    for move in plan.moves:
        if move.kind == PLACE:
            keys = [(name, f"{move.function}/{name}" if move.function else name) for name in move.chain]
            wanted.update({key: Request(*key, move.variant) for key in keys})
    return Requests(tuple(wanted.values()))


class Placed:
    """The placements of one plan and what became of them."""

    def __init__(self, pilot: Pilot, requests: Requests) -> None:
        self.pilot = pilot
        self.migrator = Migrator(requests, allow=pilot.allow)
        self.migrator.passages.attaches = False  # files are given their code as they are loaded
        self._chains: list[tuple[Applied, DeviceChain]] = []

    def start(self) -> None:
        """Puts the plan in force; what is not loaded yet, and what units, are asked for when the program has them."""
        self.migrator.apply()

    def prepare(self, file: InstrumentedFile) -> None:
        """Lets values stay on their device along the chains of a file that is being loaded."""
        passages = self.migrator.passages
        before = len(passages.every)
        passages.prepare(self.pilot.program, file)
        full = {request.function.rpartition(".")[2]: request for request in self.migrator.requests.wanted}
        for passage in passages.every[before:]:
            sites = [stop.site.info.index for stop in passage.stops]
            called = file.called
            requests = [full[called[site]] for site in sites]
            owner = passage.stops[0].site.info.owner
            names = [request.function for request in requests]
            applied = Applied(PLACE, file.path, owner, sites, names, passage.trial, requests[0].pu)
            self._chains.append((applied, passage))
            self.pilot.planning.begin(applied)

    def stop(self) -> None:
        """Takes the plan back, and adds to what the run reports."""
        migrator = self.migrator
        trials, counted, shown = migrator.trials(), migrator.counted(), migrator.stats()
        classes = {
            name: _loosest(arm.substitution.equivalence for arm in arms) for name, arms in migrator.arms().items()
        }
        migrator.restore()
        for applied, passage in self._chains:
            applied.equivalence = _loosest(passage.classes)
            applied.names = [passage.sources.get(number, name) for number, name in enumerate(applied.names)]
        for request in {migrator.source_of(request): request for request in migrator.requests.wanted}.values():
            source = migrator.source_of(request)
            if counted.get(source, CallCounts()).calls:
                self._made(request, trials.get(source), counted[source], classes.get(source, EXACT.value))
            else:
                reason = (
                    migrator.why_not(request) or shown.get(source, {}).get("reason") or "the program has not called it"
                )
                self.pilot.refused.append(Refused(f"{source} on {request.pu}", self._shown(request), reason))

    def _made(self, request: Request, trial: Trial | None, counted: CallCounts, equivalence: str) -> None:
        """Counts single calls as one change, at the first place where the function is called; chains are counted."""
        home = next(self._homes(request), None)
        chains = self.migrator.passages.counted().get(self.migrator.source_of(request), CallCounts())
        others = counted.mismatches - chains.mismatches
        if trial is not None and home is not None and (trial.pairs or trial.mismatches or others > 0):
            trial.mismatches = max(trial.mismatches, others)
            path, owner, site = home
            self.pilot.planning.begin(
                Applied(PLACE, path, owner, [site], [request.function], trial, request.pu, equivalence)
            )
        elif counted.fast + counted.checked > chains.fast + chains.checked:
            done = f"{counted.fast + counted.checked} calls, {counted.checked} compared"
            self.pilot.notes.append(f"{request.function} on {request.pu}: {done}, {counted.mismatches} different")

    def _homes(self, request: Request) -> Iterator[Home]:
        """The calls of a function in the program's files, then the first line: a library calls it, too."""
        yield from self._calls(request)
        files = list(self.pilot.program.files.values())
        yield from ((file.path, file.infos[0].owner, 0) for file in files if file.infos)

    def _calls(self, request: Request) -> list[Home]:
        """The calls of a function in the program's files, those of its contexts first."""
        last = request.function.rpartition(".")[2]
        contexts = [w.context.split("/") for w in self.migrator.requests.wanted if w.function == request.function]
        owners = {parts[-2] for parts in contexts if len(parts) > 1}
        files = list(self.pilot.program.files.values())
        found = [(f.path, f.infos[i].owner, i) for f in files for i, name in f.called.items() if name == last]
        return sorted(found, key=lambda home: home[1] not in owners)

    def _shown(self, request: Request) -> str:
        for path, _, site in self._calls(request):
            return f"{shown_path(path)}:{self.pilot.program.files[path].infos[site].line}"
        return "no line of the program"


def _loosest(classes: Iterable[Equivalence]) -> str:
    return next((one.value for one in classes if one is not EXACT), EXACT.value)
