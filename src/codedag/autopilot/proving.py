"""The proofs of one program: in another process, which is started for the first that is not known."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from codedag.autopilot.applied import Refused
from codedag.autopilot.budget import CHANCE, proof_price
from codedag.autopilot.moves.memoised_calls import recall_at
from codedag.backends.proof import proven_here
from codedag.backends.registry import Equivalence, Substitution
from codedag.instrument.guard import attempt
from codedag.ir import clock as time
from codedag.ir.verdict import Code, No, Verdict, Yes
from codedag.migrate.substitute.usable import is_there, may_run
from codedag.trace.recorder import shown_path

if TYPE_CHECKING:  # with what starts processes: only for what is not known
    from collections.abc import Callable, Collection, Sequence

    from codedag.autopilot.applied import Function
    from codedag.autopilot.budget import Budget
    from codedag.autopilot.moves.find import FoundCall
    from codedag.autopilot.pilot import Pilot
    from codedag.backends.apart import Prover
    from codedag.instrument.program import InstrumentedFile

ENDED = "the program ended before it was proven"
LITTLE = "its calls took too little time to have it proven"
#: Seconds saved that a proof must promise for each that it takes: it holds for all later programs of this machine.
WORTH_FACTOR = 1.0
AHEAD_SHARE_MAX = 0.2  # of the expected run: proofs that it begins with may take so much, on another core
LOADING, LOOK = 30.0, 0.02  # seconds for which a library that is being imported is waited for, and between two looks


class Proving:
    """Says whether a substitution is proven on this machine.

    `aside` is a block in which a fork need not wait, `is_beside` says whether the program goes on meanwhile.
    """

    def __init__(
        self, synchronous: bool, aside: Callable[[], AbstractContextManager[None]], is_beside: Callable[[], bool],
        budget: Budget,
    ) -> None:  # fmt: skip
        self._synchronous, self._aside, self._is_beside, self._budget = synchronous, aside, is_beside, budget
        self._prover: Prover | None = None
        self._ended = False
        self._waiting: list[tuple[Substitution, Callable[[], None], Callable[[], float]]] = []
        self._asked = False  # the first of these
        self.questions = 0  # that were asked so far
        self._little: set[str] = set()  # what was never asked for
        self.unproven: dict[str, tuple[str, str]] = {}  # what was wanted and not proven: source and library by name

    def __call__(self, substitution: Substitution) -> Verdict:
        """Yes if it is; what is not known is proven where the program does not notice."""
        if self._synchronous:
            return proven_here(substitution)
        prover = self._there()
        with self._aside():
            verdict = self._why_ended(substitution) if self._ended else prover(substitution)
        if isinstance(verdict, No) and verdict.code is Code.ENDED:
            self.unproven[substitution.name] = (substitution.source, substitution.into)
        return verdict

    def _why_ended(self, substitution: Substitution) -> No:
        return No(LITTLE) if substitution.name in self._little else No(ENDED, Code.ENDED)

    def permits(self, substitution: Substitution, allow: Collection[Equivalence]) -> Verdict:
        """Yes if it may run in this program and is proven; what the program is just importing is waited for."""
        if self._is_beside():
            self._wait_for_imports(substitution)
        return may_run(substitution, allow, self)

    def _wait_for_imports(self, substitution: Substitution) -> None:
        until = time.monotonic() + LOADING
        while not self._ended and not is_there(substitution) and time.monotonic() < until:
            with self._aside():
                time.sleep(LOOK)

    def _there(self) -> Prover:
        if self._prover is None:
            from codedag.backends.apart import Prover

            self._prover = Prover()
        return self._prover

    # -- what nobody waits for

    def is_known(self, substitution: Substitution) -> bool:
        """Whether asking takes no time."""
        return self._synchronous or self._there().known(substitution) is not None

    def soon(self, substitution: Substitution, then: Callable[[], None], taken: Callable[[], float]) -> None:
        """Has a substitution proven, and does something once that is known; meanwhile other things are planned.

        `taken` says how many seconds the calls that it is for have taken.
        """
        self.questions += 1
        self._waiting.append((substitution, then, taken))

    def ahead(self, questions: Sequence[tuple[str, str]]) -> None:
        """Has proven what an earlier run wanted and ended before, while the program is still loading its libraries."""
        most, price, number = AHEAD_SHARE_MAX * self._budget.remaining_expected(), 0.0, 0
        for number, question in enumerate(questions, 1):
            price += proof_price(*question, is_prover_running=number > 1)
            if price > most and not self._budget.is_unlimited:
                number -= 1
                break
        if number and not self._synchronous and not self._ended:
            self._there().ahead(questions[:number])

    def cpu_seconds(self) -> float:
        """CPU seconds of the other process."""
        return 0.0 if self._prover is None else self._prover.cpu_seconds()

    def is_affordable(self, substitution: Substitution, calls_seconds: float) -> bool:
        """Whether a proof may be asked for now, for calls that have taken so many seconds."""
        share = calls_seconds / max(self._budget.elapsed(), 1e-9)
        return self._budget.may(self._price(substitution), share, factor=WORTH_FACTOR)

    def is_refused(self, substitution: Substitution, calls_seconds: float) -> bool:
        """Whether a proof is needed that cannot be afforded now; the next run begins with it if that is worth it."""
        if self.is_known(substitution) or self.is_affordable(substitution, calls_seconds):
            return False
        self._little.add(substitution.name)
        self._want(substitution, calls_seconds)
        return True

    def _price(self, substitution: Substitution) -> float:
        is_running = self._prover is not None and self._prover.is_running()
        return proof_price(substitution.source, substitution.into, is_running)

    def _want(self, substitution: Substitution, calls_seconds: float) -> None:
        """Notes for the next run what could have saved more in this one than its proof takes."""
        if calls_seconds * CHANCE >= self._price(substitution):
            self.unproven[substitution.name] = (substitution.source, substitution.into)

    def waits(self) -> bool:
        """Whether something is to be done once a proof has ended, or there is one that is worth its time."""
        return not self._ended and (
            self._asked or any(self.is_affordable(what, taken()) for what, _, taken in self._waiting)
        )

    def look(self) -> None:
        """Asks for the next proof, that of the longest calls, or does what waited for the one that has ended."""
        if not self._asked:
            self._waiting.sort(key=lambda each: -each[2]())
        substitution, then, _ = self._waiting[0]
        prover = self._there()
        if not self._asked:
            self._asked = not self.is_known(substitution) and prover.begin(substitution)
            if self._asked:
                return
        elif not prover.has_answered():
            return
        self._asked = False
        del self._waiting[0]
        then()

    def left(self) -> list[Callable[[], None]]:
        """What still waits at the end: it hears that there will be no proof."""
        self._little |= {each.name for each, _, _ in self._waiting[self._asked :]}
        for each, _, taken in self._waiting:
            self._want(each, taken())
        return [then for _, then, _ in self._waiting]

    def end(self) -> None:
        """Ends the proof that runs, if any; there will be no more."""
        self._ended = True
        if self._prover is not None:
            attempt(self._prover.end)

    def rest(self) -> None:
        """Ends the other process while there is nothing to prove."""
        if self._prover is not None and not self.waits() and (self._ended or not self._prover.is_asked()):
            attempt(self._prover.rest)

    def forget(self) -> None:
        """In a process that was just forked: the other process is its parent's."""
        self._asked = False
        if self._prover is not None:
            attempt(self._prover.forget)


class WhenProven:
    """Changes of one program that are made once their proof has ended; everything else is planned meanwhile."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot

    def apply(self, file: InstrumentedFile, owner: str, call: FoundCall, now: bool) -> None:
        """Makes a change at once if its proof is known or what else is done to the call needs it, else later."""
        pilot = self.pilot
        taken = partial(self._taken, (file.path, owner), self._share(file, owner, call.site))
        if now and pilot.background.is_beside() and pilot.prove.is_refused(call.substitution, taken()):
            where = f"{shown_path(file.path)}:{file.infos[call.site].line}"
            pilot.refused.append(Refused(call.substitution.name, where, LITTLE))
        elif now or not pilot.background.is_beside() or pilot.prove.is_known(call.substitution):
            pilot.planning.apply_call(file, owner, call)
        elif may_run(call.substitution, pilot.allow, lambda _: Yes) or not is_there(call.substitution):
            pilot.prove.soon(call.substitution, partial(self._apply, file, owner, call), taken)
        else:
            pilot.planning.apply_call(file, owner, call)  # which says why not

    def _share(self, file: InstrumentedFile, owner: str, site: int) -> float:
        """The share of the time for which a function was observed that one of its calls took.

        For a call that is no operation, since it makes no data, the other calls of its line stand.
        """
        watch, line = self.pilot.observed.watches[file.path, owner], file.infos[site].line
        every = [t for t in list(self.pilot.recorder.templates) if t.site.info.file == file.path]
        own = [t for t in every if t.site.info.index == site] or [t for t in every if t.site.info.line == line]
        spent = sum(t.total_ns for t in own) / 1e9
        return spent / max((watch.ended or time.perf_counter()) - watch.started, spent, 1e-9)

    def _taken(self, function: Function, share: float) -> float:
        """The seconds that a call has taken since it was first seen, if it goes on as it did while it was observed."""
        return share * (time.perf_counter() - self.pilot.observed.watches[function].started)

    def _apply(self, file: InstrumentedFile, owner: str, call: FoundCall) -> None:
        """Makes a change in a function that was planned without it; around it results of the call may be kept."""
        pilot = self.pilot
        recall, before = recall_at(file.sites[call.site]), len(pilot.applied)
        pilot.planning.apply_call(file, owner, call)
        if len(pilot.applied) > before:
            if recall is not None:
                pilot.recalled.around(recall, file, owner)
            pilot.planning.install(file.path, [owner])
