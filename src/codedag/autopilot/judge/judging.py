"""Judging of the changes of one running program: each is a Change under the one judge, timed by the program's turns."""

from __future__ import annotations

import sys
from itertools import count
from typing import TYPE_CHECKING, Any

from codedag.autopilot.judge.change import Account, Change, Place, Reason
from codedag.autopilot.judge.judge import Decision, Judge, Verdict
from codedag.autopilot.judge.turn_clock import FETCHER, LOADER, Flags, TurnClock
from codedag.ir import clock as time
from codedag.ir.verdict import Code

if TYPE_CHECKING:
    from codedag.autopilot.applied import Applied
    from codedag.autopilot.heat import HeatReport
    from codedag.autopilot.pilot import Pilot
    from codedag.migrate.trial import Trial

#: Seconds without a counted turn after which another source of turns is looked for.
SOURCE_SECONDS_MAX = 5.0
TAKES_BACK = (Decision.SLOWER, Decision.NO_GAIN)


class Judging:
    """The changes of this process with the judge, the clock of turns and the flags that turn changes on and off."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self._begun_at = pilot.started_at
        self.judge = Judge(clock=self._now)
        self.flags = Flags()
        self.clock = TurnClock(self.judge, self.flags, on_verdict=self._decided)
        self.made: dict[int, tuple[Change, Applied]] = {}
        self.source = ""  # of turns: loop, batch or call
        self._numbers = count(1)
        self._turns, self._turned_at = 0, 0.0

    def _now(self) -> float:
        return time.perf_counter() - self._begun_at

    # -- changes

    def add(self, applied: Applied, sites: dict[int, Any]) -> None:
        """Takes on a change whose variants were put at these sites."""
        number, file = next(self._numbers), self._pilot.program.files[applied.path]
        line, end_line = applied.lines(file)
        place = Place(applied.path, file.sha256, applied.owner, tuple(applied.sites), line, end_line)
        change = Change(number, applied.kind, place, " > ".join(applied.names), applied.variant, applied.equivalence)
        own = [site for index in applied.sites if (site := sites.get(index)) is not None]
        with self.clock.lock:
            self.flags.add(number, own[:1], own[1:])
            self.judge.add(change)
            self.clock.dirty()
        self.made[number] = (change, applied)

    def take_as_known(self, applied: Applied, *, is_faster: bool) -> None:
        """Begins with a change that an earlier run has kept; `is_faster`: its turns have shown that."""
        for change, each in self.made.values():
            if each is applied:
                change.is_known = True
                if is_faster:
                    with self.clock.lock:
                        self.judge.trust(change)

    def look(self, report: HeatReport) -> None:
        """Brings the accounts up to date, decides by them, and sees to it that turns are counted."""
        for change, applied in list(self.made.values()):
            if change.is_in_program:
                self._look_at(change, applied)
        if self.judge.active:
            self._find_turns(report)
        elif self.source:
            self.clock.leave()
            self.source = ""

    def _look_at(self, change: Change, applied: Applied) -> None:
        trial = applied.trial
        change.account = account_of(trial)
        if not trial.active:
            code = Code.MISMATCH if trial.mismatches else Code.REFUSED
            with self.clock.lock:
                self.judge.remove(change, Reason(code, trial.reason))
            self.flags.remove(change.id)
            return
        with self.clock.lock:
            verdict = self.judge.decide_by_account(change)
        self._act(verdict)

    def saved_seconds(self) -> float:
        """Seconds that the changes in the program have saved by their accounts."""
        return sum(max(change.account.net, 0.0) for change, _ in self.made.values() if change.is_in_program)

    # -- verdicts

    def _decided(self, verdict: Verdict) -> None:
        """Called in the program's thread at the end of a block."""
        self._pilot.background.later(lambda: self._act(verdict))

    def _act(self, verdict: Verdict) -> None:
        if verdict.decision in TAKES_BACK:
            for number in verdict.changes:
                change, applied = self.made[number]
                reason = change.reason.text if change.reason is not None else ""
                self.flags.set(self.judge.active)
                applied.trial.stop(f"not faster here: {reason}")

    # -- turns

    def _find_turns(self, report: HeatReport) -> None:
        """Follows a loop of the main file, the batches of a DataLoader, or the calls at a site of a change."""
        now = self._now()
        if self.clock.turns != self._turns:
            self._turns, self._turned_at = self.clock.turns, now
        if self.source and now - self._turned_at < SOURCE_SECONDS_MAX:
            return
        self._turned_at = now
        with self.clock.lock:
            self.source = self._followed(report)

    def _followed(self, report: HeatReport) -> str:
        switch = self._switch_of(report)
        if switch is not None and self.source != "turn":
            self.clock.follow_switch(switch)
            return "turn"
        in_worker = self._pilot.team.crew.is_worker
        is_batched = LOADER[0] in sys.modules and self.source != "batch" and _is_used(report, in_worker)
        if is_batched and self.clock.follow_method(*(FETCHER if in_worker else LOADER)):
            return "batch"
        site = self._most_called()
        if site is None:
            self.clock.leave()
            return ""
        self.clock.follow_site(site)
        return "call"

    def _switch_of(self, report: HeatReport) -> Any:
        """The switch of the turn's loop, if that stands in code with doubled loops."""
        turn = report.turn
        file = None if turn is None else self._pilot.program.files.get(turn.file)
        if turn is None or file is None:
            return None
        for number in sorted(file.filled):
            begin, end, _ = file.entry.loop_lines[number]
            if begin == turn.loop_first_line and end >= turn.loop_last_line:
                return file.switches[number]
        return None

    def _most_called(self) -> Any:
        active = [applied for change, applied in self.made.values() if change.id in self.judge.active]
        calls = [(applied.trial.calls, applied) for applied in active if applied.sites]
        if not calls:
            return None
        applied = max(calls, key=lambda each: each[0])[1]
        return self._pilot.program.site(applied.path, applied.sites[0])

    # -- the end

    def stop(self) -> None:
        """Counts no more turns."""
        with self.clock.lock:
            self.clock.leave()
        for change, applied in self.made.values():
            change.account = account_of(applied.trial)

    def with_changes_seconds(self, ended_at: float) -> float:
        """Seconds of the program until its end in which changes were on, from the first on."""
        first = [change.log[0][0] for change, _ in self.made.values() if change.log]
        off = sum(each.seconds for each in self.clock.speeds if not each.on)
        return max(ended_at - self._begun_at - min(first) - off, 0.0) if first else 0.0

    def renew(self) -> None:
        """Begins anew in a process that was just forked: it judges by its own turns."""
        kept = [(change, applied) for change, applied in self.made.values() if change.is_in_program]
        self.__init__(self._pilot)  # type: ignore[misc] # no lock or thread of the parent's is left
        for _, applied in kept:
            file = self._pilot.program.files[applied.path]
            self.add(applied, {index: file.sites[index] for index in applied.sites})


def _is_used(report: HeatReport, in_worker: bool) -> bool:
    """Whether batches of a DataLoader are made, or taken, of late."""
    name = FETCHER[1] if in_worker else LOADER[1]
    names = (name, "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter")
    return any(each.qualname.startswith(names) for each in report.functions)


def account_of(trial: Trial) -> Account:
    """What a trial has counted and timed, as the account of its change; comparing calls is no cost of the change."""
    served = trial.served()
    saved = trial.saved(served) if len(trial.pairs) > 1 else 0.0
    return Account(
        saved=saved, spent=trial.cost, calls=trial.calls, served=served, checked=trial.checked,
        mismatches=trial.mismatches,
    )  # fmt: skip
