"""Plain loops over values that are there already: some turns run ahead in threads, and the loop finds their results.

The part of a turn that can run ahead is a function of its own (instrument/loops.py), with the sites of the loop.  What
the sites gave there is given again when the program comes to that turn.  In a list that is built, nothing of the
program runs between two turns.  In other loops anything may: before a turn is used, what it can have read must be as
it was, its files unchanged and its generators where it found them.  Else that turn runs as written.
"""

from __future__ import annotations

import inspect
import sys
import types
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from codedag.instrument.program import InstrumentedFile
from codedag.instrument.sites import ITERATE
from codedag.ir import clock as time
from codedag.ir.verdict import No
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.trial import Trial

if TYPE_CHECKING:
    from codedag.autopilot.turns import Turns
    from codedag.autopilot.widen import Lane, Widen
    from codedag.instrument.loops import LoopAhead

CHUNK = 32  # turns that run ahead together: as many results wait to be used
LEAST_SECONDS = 150e-6  # of a turn: below this it is not worth a thread
FIRST = 2  # turns that run ahead while it is not known how much memory they hold
FEW = 16  # turns that are timed before that is decided
PATIENT = 64  # turns after which nobody waits any more for what else may be found in its function
ENOUGH, USED = 96, 0.75  # turns that have run ahead, and the share of them that must have been of use
IN_VAIN = 200  # times in a row that there was nothing to run ahead, after which nobody asks any more
MOST_NBYTES = 64_000_000  # that turns which have run ahead may hold together
_NEVER = 1 << 60


class Loops:
    """The loops of the program that may run ahead."""

    def __init__(self, widen: Widen) -> None:
        self.widen = widen

    def watch(self, file: InstrumentedFile) -> None:
        """Is told, from the first one on, what the loops of a file run over."""
        if self.widen.threads < 2:
            return
        for site in file.sites:
            if site.kind == ITERATE and site.variant is None:
                site.variant = Loop(self.widen, file, site.info.index)

    def keep(self, file: InstrumentedFile, owner: str) -> None:
        """Keeps the sites of loops that may still run ahead in the code that a function is about to get.

        In a worker none does: the program has as many of them as it wants.
        """
        if self.widen.has_left():
            return
        loops = [s.variant for s in file.sites_of(owner) if s.kind == ITERATE and isinstance(s.variant, Loop)]
        for loop in [each for each in loops if each.is_open()]:
            loop.list_sites(install=False)


class Loop:
    """What stands at the site of what a loop runs over."""

    def __init__(self, widen: Widen, file: InstrumentedFile, site: int) -> None:
        self.widen, self.file, self.site = widen, file, site
        self.lane: Lane | None = None
        self.seconds, self.turns = 0.0, 0
        self.turn_nbytes = 0  # that are kept of a turn until the loop comes to it
        self.unused = "the loop ended before it came to most turns that had run ahead"
        self.ran = self.used = 0  # turns that have run ahead, and those of which the loop found the results
        self._closed = self._is_listed = False
        self._in_vain = 0  # times since there was something that could run ahead
        self._whole: dict[types.CodeType, bool] = {}
        self._codes: dict[types.CodeType, tuple[types.CodeType, tuple[str, ...]]] = {}

    @property
    def ahead(self) -> LoopAhead:
        """What of the loop can run ahead."""
        return self.file.loops_ahead[self.site]

    def __call__(self, over: Any) -> Any:
        """What the program's loop goes through."""
        if self._closed:
            return over
        steps = attempt(self._steps, over)
        if isinstance(steps, Failed):
            self.close()
        return over if steps is None or isinstance(steps, Failed) else steps

    def is_open(self) -> bool:
        """Whether it may still run ahead."""
        return not self._closed and self.site in self.file.loops_ahead

    def close(self) -> None:
        """Runs as written from now on, and costs nothing any more."""
        self._closed = True
        site = self.file.sites[self.site]
        if site.variant is self:
            site.variant = None

    def _steps(self, over: Any) -> Any:
        from codedag.autopilot.turns import ahead_of
        from codedag.migrate import _order

        if _order.current() is not None:
            return None
        waiting = ahead_of(over) if self.widen.is_here() else None
        self._in_vain = self._in_vain + 1 if waiting is None else 0
        if self._in_vain >= IN_VAIN:
            self.close()
        if waiting is None:
            return None
        if self.site not in self.file.loops_ahead:
            self.close()
            return None
        return _order.Steps(over, Run(self, waiting).tell)

    # -- whether it is worth it

    def spent(self, turns: int, seconds: float) -> None:
        """Takes in how long some turns took as written."""
        self.turns += turns
        self.seconds += seconds
        if self.turns >= FEW and self.seconds / self.turns < LEAST_SECONDS:
            self.close()

    def ready(self) -> Lane | None:
        """The lane, if turns can run ahead now."""
        if self.turns < FEW:
            return None
        if self.lane is None:
            self.lane = self._new()
        lane = self.lane
        lane.batches += 1
        if self.ran >= ENOUGH and self.used < USED * self.ran and not lane.declined:
            self.widen.decline(lane, self.unused)
        if lane.retry_at and lane.batches >= lane.retry_at:
            self.widen.try_again(lane)
        if lane.declined:
            if not lane.retry_at:
                self.close()
            self.widen.relax()
            return None
        if not lane.is_ready and (self.turns >= PATIENT or self.widen.planned(lane.root)):
            self.widen.prepare_later(lane)
        if not lane.is_ready or not self.widen.is_usual() or self.widen.waits(lane):
            return None
        self.list_sites()
        return lane

    def _new(self) -> Lane:
        from codedag.autopilot.widen import Lane

        ahead = self.ahead
        lane = Lane((self.file.path, ahead.owner), Trial(f"the loop of line {ahead.line}"), site=self.site)
        self.widen.every.append(lane)
        return lane

    def list_sites(self, install: bool = True) -> None:
        """Makes the sites of what runs ahead ask, and write down what they give; wherever one stands all do."""
        if not self._is_listed:
            self._is_listed = True
            own = {self.site: self}
            self.widen.covering().list_sites(self.file, self.ahead.owner, self.ahead.sites, own, install=install)

    def stands_in(self, code: types.CodeType) -> bool:
        """Whether some code that is running has all the sites of what runs ahead, and will go through them."""
        if code not in self._whole:
            held = {id(each) for each in _constants(code)}
            self._whole[code] = all(id(self.file.sites[index]) in held for index in self.ahead.sites)
        switches = {number for index in self.ahead.sites for number in self.file.infos[index].loops}
        return self._whole[code] and all(self.file.switches[number].on for number in switches)

    def chunk(self, most: int) -> int:
        """How many turns may run ahead together, with all that their sites give."""
        if not self.turn_nbytes:
            return min(most, FIRST)
        budget = self.widen.memory.most_nbytes
        held = MOST_NBYTES if budget is None else min(MOST_NBYTES, budget // 4)  # the rest is for what is kept
        return min(most, held // (2 * self.turn_nbytes))  # where two ways are compared, both hold them

    def code_for(self, frame: Any) -> tuple[types.CodeType, tuple[str, ...]]:
        """The code of a turn, and the local names of the frame that it takes."""
        from codedag.instrument.loops import outlined

        code = frame.f_code
        if code not in self._codes:
            local = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
            names = tuple(name for name in self.ahead.names if name in local)
            file = self.file
            self._codes[code] = (outlined(self.ahead, file.path, names, file.sites, file.switches), names)
        return self._codes[code]


class Run:
    """One execution of a loop."""

    def __init__(self, loop: Loop, waiting: Any) -> None:
        self.loop, self.waiting = loop, waiting
        self._taken = 0  # of what is waiting
        self._turns: Turns | None = None
        self._around: dict[str, Any] = {}
        self._first = self._last = 0  # turns that have run ahead
        self._since, self._timed = time.perf_counter(), 0

    def tell(self, steps: Any) -> None:
        """A turn begins, or the loop has ended."""
        done = attempt(self._tell, steps, sys._getframe(1))
        if isinstance(done, Failed):
            self._turns, steps.due = None, _NEVER

    def _tell(self, steps: Any, frame: Any) -> None:
        if self._turns is not None and steps.count < self._last and not steps.ended:
            self._use(steps, frame)
            return
        self._time(steps.count)
        self._turns = None
        if not steps.ended:
            self._go_on(steps, frame)

    def _time(self, count: int) -> None:
        now = time.perf_counter()
        if count > self._timed:
            self.loop.spent(count - self._timed, now - self._since)
        self._since, self._timed = now, max(count, self._timed)

    def _go_on(self, steps: Any, frame: Any) -> None:
        lane = self.loop.ready() if not self.loop._closed else None
        steps.due = _NEVER if self.loop._closed else steps.count + min(max(steps.count, 4), CHUNK)
        if lane is not None:
            started = attempt(self._run_ahead, lane, steps, frame)
            if isinstance(started, Failed):
                self.loop.widen.decline(lane, started.reason)
        # turns that have run ahead are short, and say nothing about how long they take as written
        self._since, self._timed = time.perf_counter(), steps.count if self._turns is None else self._last

    # -- running ahead

    def _run_ahead(self, lane: Lane, steps: Any, frame: Any) -> None:
        from codedag.autopilot.turns import Turns

        due = lane.due()
        elements = self._next(steps.count, FEW if due else CHUNK)
        if len(elements) < 2:
            steps.due = _NEVER if not elements else steps.due
            return
        widen, ahead = self.loop.widen, self.loop.ahead
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED or frame.f_locals is frame.f_globals
        if not self.loop.stands_in(frame.f_code) or not is_function:
            return
        code, names = self.loop.code_for(frame)
        around = frame.f_locals
        if any(name not in around for name in names) or not ahead.stored.isdisjoint(frame.f_code.co_cellvars):
            return
        function, values = types.FunctionType(code, frame.f_globals), [around[name] for name in names]
        self._around = {} if ahead.whole else {name: around[name] for name in names}
        make = partial(Turns, function, values, elements, lane.habit, ahead.whole, ahead.stored)
        turns = make()
        if not (turns.can_be_watched() and turns.is_at(0, steps.value)):
            widen.decline(lane, turns.reason or "what it runs over is not what it comes to")
            return
        if self._both_ways(lane, turns, make if due else None):
            self._turns, self._first, self._last = turns, steps.count, steps.count + len(elements)
            self.loop.ran += len(elements)
            self.loop.turn_nbytes = max(self.loop.turn_nbytes, turns.nbytes() // len(elements), 1)
            self._use(steps, frame)
        else:
            steps.due = steps.count + len(elements)

    def _next(self, count: int, most: int) -> list[Any]:
        for _ in islice(self.waiting, count - self._taken):
            pass
        elements = list(islice(self.waiting, self.loop.chunk(most)))
        self._taken = count + len(elements)
        return elements

    def _both_ways(self, lane: Lane, turns: Turns, again: Any) -> bool:
        """Whether the turns have run ahead; if asked for, once more in order, to compare them."""
        widen = self.loop.widen
        widen.memory.paused = again is not None
        started = time.perf_counter()
        done = widen.run(turns)
        seconds = time.perf_counter() - started
        if done and not turns.is_useless():
            lane.trial.calls += len(turns.indices)
        else:
            widen.memory.paused = False
            turns.take_back()
            widen.gave_up(lane, turns)
            return False
        if again is not None:
            turns.take_back()
            done = self._in_order(lane, turns, again(), seconds)
            widen.memory.paused = False
        if done and not turns.whole:
            turns.take_back()  # the generators move on turn by turn
        return done

    def _in_order(self, lane: Lane, turns: Turns, plain: Turns, seconds: float) -> bool:
        widen = self.loop.widen
        started = time.perf_counter()
        done = widen.run(plain, 1)
        if not done:
            plain.take_back()
            if plain.unasked:
                widen.gave_up(lane, plain)
            return False
        widen.judge(lane, *plain.compared(turns), time.perf_counter() - started, seconds + turns.watching_seconds())
        if not lane.trial.active:
            plain.take_back()
        turns.take_over(plain)
        return lane.trial.active

    # -- using what has run ahead

    def _use(self, steps: Any, frame: Any) -> None:
        from codedag.migrate import _order

        turns, number = self._turns, steps.count - self._first
        assert turns is not None
        steps.due = steps.count + 1
        stands = turns.whole or (self.loop.stands_in(frame.f_code) and self._is_around(frame))
        why = turns.hand_over(number, steps.value) if stands else No("its code or a name around it was changed")
        if isinstance(why, No):
            self._turns, steps.replays, steps.due = None, 0, self._last
            self._missed(why.reason)
            return
        self.loop.used += 1
        steps.replays = 1
        _order.follow(turns.notes_of(number))

    def _is_around(self, frame: Any) -> bool:
        """Whether the names that turns were given still mean the same."""
        now = frame.f_locals if self._around else {}
        return all(now.get(name, now) is value for name, value in self._around.items())

    def _missed(self, why: str) -> None:
        lane = self.loop.lane
        assert lane is not None
        lane.trial.decline(why)
        self.loop.unused = why


def _constants(code: types.CodeType) -> list[Any]:
    """The constants of some code and of the code inside it; what a spread call stands for is its site."""
    own = [getattr(each, "site", each) for each in code.co_consts]
    return own + [each for inner in own if isinstance(inner, types.CodeType) for each in _constants(inner)]
