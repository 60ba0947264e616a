"""Planning of one function: the changes that were found in it are made, each on trial, and its lean code installed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from codedag.autopilot.applied import Applied, Refused
from codedag.autopilot.moves import find
from codedag.autopilot.moves.memoised_calls import is_recalled
from codedag.autopilot.moves.repeats import Repeats
from codedag.backends.effects import Effects
from codedag.instrument.program import InstrumentedFile
from codedag.instrument.sites import VARIANT
from codedag.ir.clock import perf_counter
from codedag.ir.verdict import Code, No
from codedag.migrate.fuse.chain import Chain
from codedag.migrate.fuse.chain import Link as ChainLink
from codedag.migrate.guard import attempt
from codedag.migrate.region import Region
from codedag.migrate.regions import FoundRegion
from codedag.migrate.substitute.call import Substitute
from codedag.migrate.trial import Trial
from codedag.trace.recorder import shown_path

if TYPE_CHECKING:
    from codedag.autopilot.pilot import Pilot

#: Between looks at all objects for functions that only values hold; these may take one part in so many of the time.
REACH_SECONDS, REACH_SHARE = 2.0, 30


class Planning:
    """Makes the changes of one program, and takes them back."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot
        self._effects = Effects()
        self._reach_at = perf_counter() + REACH_SECONDS

    def take_back(self, applied: Applied, indexes: Iterable[int]) -> None:
        """Takes a change out of the program's code once its trial has ended badly."""
        if any(is_recalled(self.pilot.program.site(applied.path, index)) for index in indexes):
            return  # what keeps the results of the call goes on, and leaves the change aside
        attempt(self.pilot.program.retire, applied.path, applied.owner, indexes)

    def plan(self, path: str, owner: str) -> None:
        """Makes the changes that the recorded operations of a function allow."""
        file = self.pilot.program.files[path]
        every = [
            t for t in list(self.pilot.recorder.templates) if t.site.info.file == path and t.site.info.owner == owner
        ]
        seen = [t for t in every if t.site.mode != VARIANT]  # what was known from the start has its variant already
        taken: set[int] = set()
        for region in find.regions(file, owner, seen):
            self.apply_region(file, owner, region)
            taken |= {*region.sites, *region.between}
        seen = [t for t in seen if t.site.info.index not in taken]
        for found in find.chains(file, owner, seen):
            self.apply_chain(file, owner, found.links, found.between)
            taken |= {link.site.info.index for link in found.links} | set(found.between)
        prefixes = find.prefixes(file, owner, seen, taken)
        kept = {link.site.info.index for prefix in prefixes for link in prefix.links}
        for call in (*find.calls(file, owner, seen, self.pilot.allow), *find.made(file, owner, every)):
            if call.site not in taken and not self.pilot.background.is_ending:
                self.pilot.when_proven.apply(file, owner, call, now=call.site in kept)
        if self.pilot.background.is_ending:
            return
        for prefix in prefixes:
            self.apply_prefix(file, owner, prefix)
            taken |= {link.site.info.index for link in prefix.links}
        self.pilot.recalled.look(file, owner, seen, taken)
        self.install(path, [owner], near=True)
        self.pilot.rest.enter()

    def install(self, path: str, owners: list[str], near: bool = False) -> None:
        """Gives functions their lean code; one that was opened keeps the code with all sites until it has arrived."""
        is_opened = self.pilot.openings is not None and self.pilot.program.files[path].is_lazy
        if is_opened and not self.pilot.openings.has_answers(path, self.pilot.program.lean_sites(path, owners)):  # type: ignore[union-attr]
            self.pilot.waiting.append(partial(self.install, path, owners, near))
        else:
            self.pilot.program.install(path, owners, near=near)

    def reach(self) -> None:
        """Now and then gives lean code to functions that only values hold; in a worker that would copy its memory."""
        now, program = perf_counter(), self.pilot.program
        if now >= self._reach_at and program.has_left_over() and not self.pilot.team.crew.is_worker:
            program.reach()
            ended = perf_counter()
            self._reach_at = ended + max(REACH_SECONDS, REACH_SHARE * (ended - now))

    def trial(self, what: str) -> Trial:
        """A new trial; the judge decides about its speed, and in a run that must be repeatable nobody does."""
        return Trial(what, ignores_speed=self.pilot.synchronous or self.pilot.judging is not None)

    def apply_chain(
        self, file: InstrumentedFile, owner: str, links: tuple[ChainLink, ...], between: tuple[int, ...]
    ) -> None:
        """Puts one kernel in the place of a chain, on trial."""
        names = [link.name for link in links]
        trial = self.trial(" ".join(names))
        others = [file.sites[i] for i in between if file.sites[i].mode != VARIANT]
        chain = Chain(links, others, self.pilot.shelf.take, trial, self._effects)
        sites = [link.site.info.index for link in links]
        applied = Applied("fuse", file.path, owner, sites, names, trial, find.TABLE)
        self.switch(file, applied, chain.variants())

    def apply_region(self, file: InstrumentedFile, owner: str, found: FoundRegion) -> None:
        """Puts one kernel in the place of a region, on trial."""
        trial = self.trial(" ".join(found.words))
        between = [file.sites[i] for i in found.between if file.sites[i].mode != VARIANT]
        region = Region(
            found, [file.sites[i] for i in found.sites], between, self.pilot.shelf.loops, trial, self._effects
        )
        applied = Applied("fuse", file.path, owner, list(found.sites), list(found.words), trial, find.LOOPS)
        self.switch(file, applied, region.variants())

    def apply_call(self, file: InstrumentedFile, owner: str, call: find.FoundCall) -> None:
        """Puts a substitute in the place of a call, on trial, if it may be used and is proven on this machine."""
        substitution = call.substitution
        verdict = self.pilot.prove.permits(substitution, self.pilot.allow)
        if isinstance(verdict, No):
            where = f"{shown_path(file.path)}:{file.infos[call.site].line}"
            self.pilot.refused.append(Refused(substitution.name, where, verdict.reason, verdict.code))
            return
        trial = self.trial(substitution.source)
        change = Substitute(file.sites[call.site], substitution, trial)
        names, variant = [substitution.source], substitution.into
        applied = Applied("substitute", file.path, owner, [call.site], names, trial, variant)
        applied.equivalence = substitution.equivalence.value
        self.switch(file, applied, change.variants())

    def apply_prefix(self, file: InstrumentedFile, owner: str, found: find.FoundPrefix) -> None:
        """Keeps what a function reads and always does to it."""
        from codedag.migrate.memo.prefix import Prefix  # with all that is known about effects: only where it is used

        trial = self.trial(" ".join(found.names))
        prefix = Prefix(found.links, trial, self.pilot.memory, Repeats(self.pilot.program).expected)
        sites = [link.site.info.index for link in found.links]
        applied = Applied("remember", file.path, owner, sites, list(found.names), trial, "kept in memory")
        self.switch(file, applied, prefix.variants())

    def switch(self, file: InstrumentedFile, applied: Applied, variants: dict[int, Any]) -> None:
        """Puts the variants of a change in their places, on trial; not if an earlier run found it not faster."""
        why_not = self.pilot.earlier_verdict(applied)
        if why_not:
            where = f"{shown_path(file.path)}:{applied.lines(file)[0]}"
            self.pilot.refused.append(Refused(" > ".join(applied.names), where, why_not, Code.NOT_WORTH))
            return
        self.begin(applied)
        applied.trial.on_stop = partial(self.pilot.background.later, partial(self.take_back, applied, list(variants)))
        self.pilot.program.plan(file.path, applied.owner, variants)
        if self.pilot.judging is not None:
            self.pilot.judging.add(applied, {index: file.sites[index] for index in variants})

    def begin(self, applied: Applied) -> None:
        """Counts a change as made."""
        self.pilot.applied.append(applied)
        if self.pilot.first_change_at is None:
            self.pilot.first_change_at = perf_counter()
