"""The items of a batch in several threads, each draw and each result in the order that the program would have had.

Items run ahead of their turn as far as nobody can notice (cover.py).  A generator's state is kept before its first draw
in a batch; so whenever something cannot be done ahead, or an item raises, the batch is taken back as if nothing had
happened and runs as written, in the program's own thread, where its exception has the program's own traceback.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from codedag.autopilot.stacking import Stacking
from codedag.autopilot.streams import MOST, Streams, among, give_state, of_everybody, parts_of, state_of, unwatched
from codedag.instrument.guard import GaveUp, attempt, on_trial
from codedag.instrument.python import uncollected
from codedag.instrument.warned import Ear, calls_back, numbers_mode
from codedag.migrate import _order

SURE = 48  # times that a draw was the last one of its item before the turn is passed on right after it


class Habit:
    """Which draw is the last one of an item, as far as seen: after it the next item may draw."""

    def __init__(self) -> None:
        self.last: Counter[Any] = Counter()
        self.never: set[Any] = set()
        self.generators: dict[int, Any] = {}  # that items have drawn from

    def is_last(self, check: Any) -> bool:
        """Whether nothing has ever been drawn after this draw, and that was often enough."""
        return check not in self.never and self.last[check] >= SURE

    def ended(self, check: Any) -> None:
        """Notes the last draw of an item that has ended."""
        if check is not None:
            self.last[check] += 1

    def went_on(self, check: Any) -> None:
        """Notes that an item drew again after this draw."""
        if check is not None:
            self.never.add(check)


class Item:
    """One item of a batch: what it has drawn, and whether it has its turn."""

    __slots__ = ("_has_turn", "_last", "_passed", "batch", "number")
    is_in_loop = False  # the program runs between it and the next one

    def __init__(self, batch: Batch, number: int) -> None:
        self.batch, self.number = batch, number
        self._has_turn = self._passed = False
        self._last: Any = None

    def look(self) -> None:
        """Ends the item if the batch is given up."""
        if self.batch.reason:
            raise GaveUp

    def draw(self, generator: Any, name: str, check: Any) -> None:
        """Waits for the turn and keeps the generator's state, so that the draw can be taken back."""
        self.look()
        if self._passed:  # its turn went on to the next item, which may have drawn
            self.batch.habit.never.add(self._last)
            self.give_up(f"{name} is drawn after what was always the last draw", check)
        if not self._has_turn:
            self.batch.wait(self.number)
            self._has_turn = True
        if not self.batch.keep(generator):
            self.give_up(f"{name} draws from a generator whose state cannot be kept", check)
        self.batch.habit.went_on(self._last)
        self._last = check

    def drew(self, check: Any) -> None:
        """Passes the turn on once this was the item's last draw, if that is sure."""
        if self.batch.habit.is_last(check) and not self._passed:
            self._passed = True
            self.batch.pass_on(self.number)

    def give_up(self, reason: str, check: Any = None, wants: bool = False) -> None:
        """Gives the whole batch up, with the reason."""
        if check is not None:
            reason = f"{reason} (line {check.site.info.line})"
        self.batch.give_up(reason, wants)
        raise GaveUp

    def noted(self, check: Any, target: Any) -> int:
        """How many references to something are ours."""
        return 0

    def read(self, check: Any, known: Any, values: tuple[Any, ...]) -> None:
        """Is told of files that are read: within a batch nothing of the program runs that could change them."""

    def wait_until_asked_for(self) -> None:
        """Returns when the program waits for the batch: as it does for this one."""

    def end(self) -> None:
        """The item is done."""
        self.batch.habit.ended(self._last)
        if not self._passed:
            self.batch.pass_on(self.number)


class Batch:
    """The items of one batch while they run."""

    def __init__(
        self, get: Callable[[Any], Any], indices: Sequence[Any], habit: Habit, stacking: Stacking | None = None
    ) -> None:
        self.get, self.indices, self.habit, self.stacking = get, indices, habit, stacking
        self.results: list[Any] = [None] * len(indices)
        self.reason = ""
        self.wants = False
        self.unasked = False  # whether a generator has moved that no item asked for
        self._states: dict[int, tuple[Any, Any]] = {}
        self._streams: Streams | None = None
        self._lock = threading.Lock()
        self._next = self._turn = 0
        self._ended: set[int] = set()
        self._waiting: dict[int, Any] = {}

    def run(self, threads: int) -> bool:
        """Runs the items in this thread and others; True if all of them are done."""
        if calls_back():
            self.give_up("numpy is to call the program about odd numbers")
            return False
        shared = unwatched(self.given())
        if shared:
            self.give_up(f"items are given a {shared}, which they may move on or find another in each thread")
            return False
        helpers: list[Second] = []
        self.watch_generators()
        with (
            Ear(warned),
            uncollected(),
        ):  # what garbage does when it goes belongs to no item, and to the program's thread
            try:
                for _ in range(min(threads, len(self.indices)) - 1):
                    helper = Second(self)
                    helper.start()
                    helpers.append(helper)
                self.work()
            finally:
                self._close()
                for helper in helpers:
                    helper.join()
        self.look_at_generators()
        return not self.reason

    def work(self) -> None:
        """Runs items until none is left or the batch is given up."""
        while not self.reason and (number := self._take()) is not None:
            item = Item(self, number)
            _order.enter(item)
            try:
                self.results[number], raised = on_trial(self.get, self.indices[number])
            except GaveUp:
                return
            finally:
                _order.enter(None)
            if raised:
                self.give_up(f"an item raised {raised}", expected=True)
            item.end()
            if self.stacking is not None and not raised:
                attempt(self.stacking.put, number, self.results[number])

    def _take(self) -> int | None:
        with self._lock:
            number = self._next
            self._next += 1
        return number if number < len(self.indices) else None

    def _close(self) -> None:
        """No thread may go on once this one has been left: an interrupt has come."""
        if sys.exc_info()[0] is not None:
            self.give_up("interrupted")

    # -- turns

    def wait(self, number: int) -> None:
        """Returns when it is this item's turn."""
        with self._lock:
            if self._turn == number:
                return
            gate = self._waiting[number] = threading.Lock()
            gate.acquire()
        if not self.reason:
            gate.acquire()
        if self.reason:
            raise GaveUp

    def pass_on(self, number: int) -> None:
        """This item draws no more."""
        with self._lock:
            self._ended.add(number)
            while self._turn in self._ended:
                self._turn += 1
            gate = self._waiting.pop(self._turn, None)
        if gate is not None:
            gate.release()

    def give_up(self, reason: str, wants: bool = False, expected: bool = False) -> None:
        """Ends every item; the batch will run as written."""
        with self._lock:
            if not self.reason:
                self.reason, self.wants = reason, wants or expected
            gates, self._waiting = list(self._waiting.values()), {}
        for gate in gates:
            gate.release()

    # -- generators

    def keep(self, generator: Any) -> bool:
        """Keeps the state of a generator before its first draw in this batch; False if that is not known how."""
        if id(generator) in self._states:
            return True
        state = state_of(generator) if self._streams is None else self._streams.state_of(generator)
        if state is None:
            return False
        self._states[id(generator)] = (generator, state)
        if len(self.habit.generators) < MOST:
            self.habit.generators[id(generator)] = generator
        return True

    def given(self) -> list[Any]:
        """What items are given."""
        return [*getattr(self.get, "args", ()), *self.indices]

    def watch_generators(self) -> None:
        """Notes where the generators are that items could draw from."""
        self._streams = Streams([*of_everybody(), *self.habit.generators.values(), *among(self.given())])

    def look_at_generators(self) -> None:
        """Gives the batch up if a generator has moved that no item asked for."""
        if self._streams is not None and self._streams.moved(self._asked()):
            self.give_up("a generator was drawn from where that could not be seen")
            self.unasked = True

    def _asked(self) -> set[int]:
        parts = [part for generator, _ in self._states.values() for part in parts_of(generator)]
        return {*self._states, *map(id, parts)}

    def take_back(self) -> None:
        """Gives the generators the states that they had before the batch."""
        if self._streams is not None:
            self._streams.put_back(self._asked())
        for generator, state in reversed(self._states.values()):  # two may share a stream: the first state is the last
            give_state(generator, state)


def settings() -> tuple[Any, ...]:
    """What is set for the whole process, or for the program's thread, that items depend on."""
    torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
    mode = (torch.is_grad_enabled(), torch.get_default_dtype()) if torch is not None else ()
    return (*mode, numbers_mode(), cv2.getNumThreads() if cv2 is not None else 0, _folder())


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def warned(message: str) -> None:
    """Gives an item up that warns, before that is shown: it warns when the program comes to it."""
    item = _order.current()
    if item is not None:
        item.give_up(f"it warns: {str(message)[:60]}")


class Second(threading.Thread):
    """A thread for items, in the same context as the program's own thread."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(name="codedag-items", daemon=True)
        self.batch, self.context = batch, contextvars.copy_context()
        torch = sys.modules.get("torch")
        self.grad: bool | None = torch.is_grad_enabled() if torch is not None else None

    def run(self) -> None:
        """Works until the batch needs no more of it."""
        if self.grad is not None:
            sys.modules["torch"].set_grad_enabled(self.grad)
        _, raised = on_trial(self.context.run, self.batch.work)
        if raised:  # a failure of ours: nobody may wait for this thread
            self.batch.give_up(f"a thread ended with {raised}")
