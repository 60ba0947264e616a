"""Observation of functions: each is observed until its operations were seen often enough, then it is planned."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from codedag.autopilot.applied import Function, Refused, Watch
from codedag.autopilot.moves import find
from codedag.autopilot.options import MAX_OVERHEAD
from codedag.instrument import sites as site_module
from codedag.ir import clock as time
from codedag.migrate.guard import Failed, attempt
from codedag.trace.recorder import Template, shown_path

if TYPE_CHECKING:
    from codedag.autopilot.pilot import Pilot

OBSERVE = 40  # executions of one operation after which its function has been seen enough
FEW, LONG = 6, 1.5  # or this many, if they took so many seconds
GRACE = 3.0  # seconds that observing may always take
MOST_PLANNING = 6.0  # seconds of the processor that planning may always take


class Observing:
    """Says of each function of one program when it has been observed enough."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self.watches: dict[Function, Watch] = {}
        self.unplanned: list[Function] = []  # settled, and their planning has not ended
        self.barren: set[Function] = set()  # nothing could be changed in them

    def saw(self, template: Template) -> None:
        """Counts a recorded operation: called for each of them, so it is short."""
        pilot = self._pilot
        pilot.background.start_again()
        info = template.site.info
        watch = self.watches.get((info.file, info.owner))
        if watch is None:
            watch = self.watches[info.file, info.owner] = Watch(time.perf_counter() - template.total_ns / 1e9)
        # by site too: once an enclosing function is settled, the same operation has another context and counts anew
        seen = watch.seen[info.index] = watch.seen.get(info.index, 0) + 1
        if template.count < FEW or watch.ended is not None or pilot.observe_only:
            return
        now = time.perf_counter()
        if template.count >= OBSERVE or seen >= OBSERVE or now - watch.started > LONG:
            watch.ended = now
            self._settle((info.file, info.owner))

    def is_over(self, function: Function) -> bool:
        """Whether observing a function has ended."""
        watch = self.watches.get(function)
        return watch is not None and watch.ended is not None

    def end(self, function: Function) -> bool:
        """Notes that observing a function ends now; whether it had not ended before."""
        watch = self.watches.setdefault(function, Watch(time.perf_counter()))
        is_new = watch.ended is None
        watch.ended = watch.ended or time.perf_counter()
        return is_new

    def settle(self, function: Function) -> None:
        """Ends observing a function now, and plans what it has shown."""
        if self.end(function):
            self._settle(function)

    def _settle(self, function: Function) -> None:
        """Ends observing a function, and has the rest of it planned."""
        pilot = self._pilot
        self.unplanned.append(function)
        pilot.program.settle(*function)
        pilot.recorder.freeze_around(*function)
        pilot.background.later(partial(self._try_to_plan, function))

    def seconds(self) -> float:
        """Seconds for which the program was held up by observing; what was planned meanwhile does not count."""
        spent: int = site_module.native.spent()
        return max(spent / 1e9 - self._pilot.background.inline, 0.0)

    def renew(self) -> None:
        """Begins anew in a process that was just forked: what its parent was about to plan is planned here."""
        self.watches = {function: watch for function, watch in self.watches.items() if watch.ended is not None}
        for function in self.unplanned:
            self._pilot.background.again(partial(self._try_to_plan, function))

    def _try_to_plan(self, function: Function) -> None:
        pilot = self._pilot
        if pilot.openings is not None and not pilot.openings.has_answers(function[0]):
            pilot.waiting.append(partial(self._try_to_plan, function))
            return
        passed, beside = time.perf_counter() - pilot.started_at, pilot.background.beside
        if beside > max(MOST_PLANNING, 2 * MAX_OVERHEAD * passed):  # hundreds of functions in one large file
            planned: Any = Failed(f"planning others has taken {beside:.0f} s already")
            attempt(pilot.planning.install, function[0], [function[1]])
        else:
            before = pilot.prove.questions, len(pilot.applied), len(pilot.refused)
            planned = attempt(pilot.planning.plan, *function)
            if (pilot.prove.questions, len(pilot.applied), len(pilot.refused)) == before:
                self.barren.add(function)
        if isinstance(planned, Failed):
            pilot.refused.append(Refused("planning", f"{shown_path(function[0])} {function[1]}", planned.reason))
        if function in self.unplanned:
            self.unplanned.remove(function)

    # -- looked at now and then

    def look(self) -> None:
        """Ends observing where it costs too much, or where the changes of an earlier run leave nothing to be seen."""
        if self._pilot.observe_only:
            return
        if self._pilot.openings is None:
            for applied in [a for a in self._pilot.applied if a.known and a.trial.calls >= OBSERVE]:
                self.settle((applied.path, applied.owner))
        if not self._pilot.synchronous:
            self._end_costly()

    def _end_costly(self) -> None:
        """Ends observing what is left if it has cost more than it may; what was seen until then is planned."""
        pilot = self._pilot
        spent, passed = self.seconds(), time.perf_counter() - pilot.started_at
        most = pilot.max_overhead * passed
        if spent <= (max(most, GRACE) if pilot.max_overhead == MAX_OVERHEAD else most):
            return
        open_ = [(path, owner) for path, file in list(pilot.program.files.items()) for owner in find.recorded(file)]
        for function in open_:
            self.end(function)
            self._settle(function)
        if open_:
            pilot.notes.append(
                f"observing was ended after {spent:.1f} s, {spent / passed:.0%} of the time (--max-overhead)"
            )
