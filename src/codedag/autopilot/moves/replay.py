"""Changes that are known before the program runs: from a plan file, from an earlier run, from another process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from sys import _getframe
from typing import TYPE_CHECKING, Any

from codedag.autopilot.applied import PLACE, Refused
from codedag.autopilot.knowledge import KnownChange, Proven
from codedag.autopilot.moves import find
from codedag.autopilot.moves.row_apply import ROW_BY_ROW
from codedag.devices.present import load
from codedag.instrument.program import InstrumentedFile
from codedag.ir import Move
from codedag.migrate.caller import Caller
from codedag.migrate.fuse.chain import Link as ChainLink
from codedag.migrate.guard import Declined, Failed, attempt
from codedag.migrate.regions import region_at
from codedag.migrate.substitute.usable import library_of
from codedag.trace.recorder import shown_path

if TYPE_CHECKING:
    from codedag.autopilot.pilot import Pilot

_ANOTHER_VERSION = "the plan was made for another version of this file"
#: Kinds and variants of moves that older versions made: a plan with them is read, and they are declined so.
GONE = {
    "widen": "code of the program is not run ahead of its turn any more; use DataLoader(num_workers=...) or a pool",
    "overlap": "code of the program is not run ahead of its turn any more; use DataLoader(num_workers=...)",
    "flow": "chains of arrays other than uint8 are not made one walk any more",
    "inside": "calls inside libraries are not replaced by `codedag run`; codedag.PipelineMigrator does",
}


class Replay:
    """Makes changes in files that are loaded or will be, instead of finding them."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot
        self.stale: set[str] = set()
        self._postponed: list[tuple[InstrumentedFile, Proven]] = []  # prefixes around calls with a substitute to come

    # -- a plan that the user names

    def from_plan(self, file: InstrumentedFile) -> set[int]:
        """Applies the moves of a saved plan to a file as it is loaded; the sites that it needs."""
        plan = self.pilot.plan
        assert plan is not None
        source = next((s for s in plan.sources if s.file == shown_path(file.path)), None)
        moves = [m for m in plan.moves if m.file == shown_path(file.path) and m.kind != PLACE]
        if self.pilot.placed is not None:
            attempt(self.pilot.placed.prepare, file)
        for move in moves:
            if source is None or source.sha256 != file.sha256:
                done: Any = Failed(_ANOTHER_VERSION)
            else:
                done = attempt(self._make, file, move)
            if isinstance(done, Failed):
                self._refuse(f"{move.kind} of the plan", f"{move.file}:{move.line}", done.reason)
        return {index for index, site in enumerate(file.sites) if site.variant is not None}

    # -- what was proven before

    def from_known(self, file: InstrumentedFile) -> None:
        """Makes the changes that are known for a file as it is loaded; the rest of it is observed as ever."""
        mine = [move for move in self.pilot.known if move.file == file.path and move.sha256 == file.sha256]
        substituted = {move.sites[0] for move in mine if move.kind == "substitute"}
        around_them = [move for move in mine if move.kind == "remember" and not substituted.isdisjoint(move.sites)]
        self._postponed += [(file, move) for move in around_them]
        others = {site for move in mine if move.kind != "recall" for site in move.sites}
        for move in self.pilot.known:
            around = move.kind == "recall" and move.sites[0] in others
            if around or move in around_them or (move.kind == "substitute" and move.chain[0] in ROW_BY_ROW):
                continue  # found again in any case: the one around what is made here, the other before its first call
            if move.file == file.path and move.sha256 != file.sha256:
                if file.path not in self.stale:
                    self.stale.add(file.path)
                    self._refuse("the plan of an earlier run", shown_path(file.path), _ANOTHER_VERSION)
            elif move.file == file.path:
                self.known(file, move, "an earlier run", wait=True)

    def reserved(self, file: InstrumentedFile) -> set[int]:
        """The sites of prefixes that are made once the substitutes inside of them are there."""
        return {site for of, move in self._postponed if of is file for site in move.sites}

    def known(self, file: InstrumentedFile, move: Proven, whose: str, wait: bool = False) -> None:
        """Makes a change that was proven elsewhere; with `wait`, not before the libraries that it needs are there."""
        make = self._make_once_called if wait and move.kind == "substitute" else self._make
        before = len(self.pilot.applied)
        done = attempt(make, file, move)
        for applied in self.pilot.applied[before:]:
            applied.known = True
            if self.pilot.judging is not None:
                is_faster = isinstance(move, KnownChange) and bool(move.evidence.blocks)
                self.pilot.judging.take_as_known(applied, is_faster=is_faster)
        if isinstance(done, Failed):
            line = file.infos[move.sites[0]].line if move.sites and move.sites[0] < len(file.infos) else 0
            self._refuse(f"{move.kind} of {whose}", f"{shown_path(file.path)}:{line}", done.reason)

    def _make_once_called(self, file: InstrumentedFile, move: Proven) -> None:
        """Waits for the first call: looking a substitution up before could load libraries before the program does."""
        info = file.infos[move.sites[0]]
        caller = Caller(info)
        asked: list[bool] = []

        def waiting(function: Any, /, *args: Any, **keywords: Any) -> Any:
            if not asked:
                asked.append(True)
                self.pilot.background.later(partial(self._make_now, file, move))
            return caller.in_module(_getframe(1).f_globals)(function, args, keywords)

        self.pilot.program.plan(file.path, move.function, {info.index: waiting})

    def _make_now(self, file: InstrumentedFile, move: Proven) -> None:
        before = file.sites[move.sites[0]].variant
        self.known(file, move, "an earlier run")
        if file.sites[move.sites[0]].variant is before:  # refused: the call runs as written
            attempt(self.pilot.program.retire, file.path, move.function, move.sites)
        for postponed in [each for each in self._postponed if each[0] is file and move.sites[0] in each[1].sites]:
            self._postponed.remove(postponed)
            self.known(*postponed, "an earlier run")

    # -- both

    def _make(self, file: InstrumentedFile, move: Move | Proven) -> None:
        make: Callable[[InstrumentedFile, Move | Proven], None] | None
        make = {
            "fuse": self._chain,
            "substitute": self._call,
            "remember": self._prefix,
            "recall": self._kept_call,
            "memoise": self._kept_result,
        }.get(move.kind)
        if move.kind in GONE:
            raise Declined(GONE[move.kind])
        if make is None:
            raise LookupError(f"a move of kind {move.kind} cannot be made again from a plan")
        make(file, move)

    def _call(self, file: InstrumentedFile, move: Move | Proven) -> None:
        from codedag.backends.registry import find as substitutes

        for substitution in substitutes(move.chain[0]):
            if substitution.into == move.variant and not substitution.stays:  # accelerators are for Placed
                if self.pilot.plan is not None and substitution.pu != "cpu":
                    load(library_of(substitution.needs))  # the user's plan names it
                self.pilot.planning.apply_call(file, move.function, find.FoundCall(move.sites[0], substitution))
                return
        raise LookupError(f"{move.chain[0]} -> {move.variant} is not in the registry of this installation")

    def _chain(self, file: InstrumentedFile, move: Move | Proven) -> None:
        if move.variant == find.LOOPS:
            self.pilot.planning.apply_region(file, move.function, region_at(file, move.function, move.sites))
            return
        if move.variant not in ("", find.TABLE):
            raise Declined(GONE[move.variant])
        operand = {(link.source, link.target): link.operand for link in file.links}
        places = [None, *(operand[pair] for pair in zip(move.sites, move.sites[1:], strict=False))]
        links = tuple(ChainLink(file.sites[s], n, p) for s, n, p in zip(move.sites, move.chain, places, strict=True))
        self.pilot.planning.apply_chain(file, move.function, links, find.between(list(links)))

    def _prefix(self, file: InstrumentedFile, move: Move | Proven) -> None:
        self.pilot.planning.apply_prefix(file, move.function, find.prefix_at(file, move.sites, move.chain))

    def _kept_call(self, file: InstrumentedFile, move: Move | Proven) -> None:
        self.pilot.recalled.apply(file, move.function, move.sites[0], move.chain[0])

    def _kept_result(self, file: InstrumentedFile, move: Move | Proven) -> None:
        self.pilot.recalled.memoise(file, move.function, move.sites[0], move.chain[0], is_known=True)

    def _refuse(self, what: str, where: str, reason: str) -> None:
        self.pilot.refused.append(Refused(what, where, reason))
