"""The batch after the one that the program works on: its items run as far as nobody can notice, until it is asked for.

An item that wants to draw waits until the program asks for the batch: the draws then come in their place and order.
When it is asked for, everything that the items may have read must be as it was when they began, and every file that
they opened unchanged; else the batch is given up and fetched as written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from codedag.autopilot.ordered import Batch, Habit, Item, Second, settings, warned
from codedag.autopilot.reach import Reach
from codedag.autopilot.stacking import Stacking
from codedag.autopilot.turns import file_state
from codedag.instrument.guard import GaveUp, attempt, on_trial
from codedag.instrument.warned import Ear
from codedag.ir.verdict import No, Verdict, Yes
from codedag.migrate import _order


class EarlyItem(Item):
    """An item of the next batch."""

    __slots__ = ("_works",)

    def __init__(self, batch: EarlyBatch, number: int) -> None:
        super().__init__(batch, number)
        self._works = False

    def begin(self) -> None:
        """Waits until there is a core for it."""
        assert isinstance(self.batch, EarlyBatch)
        self.batch.slots.acquire()
        self._works = True

    def draw(self, generator: Any, name: str, check: Any) -> None:
        """Waits until the batch is asked for and it is this item's turn; others may work meanwhile."""
        assert isinstance(self.batch, EarlyBatch)
        if not self._has_turn:
            self.rest()
            self.batch.wait_for_the_program()
            self.batch.wait(self.number)
            self._has_turn = True
            self.begin()
        super().draw(generator, name, check)

    def wait_until_asked_for(self) -> None:
        """Returns when the program asks for the batch: the environment, the clock or a folder may differ until then."""
        assert isinstance(self.batch, EarlyBatch)
        if not self.batch.is_asked_for():
            self.rest()
            self.batch.wait_for_the_program()
            self.begin()

    def rest(self) -> None:
        """Gives its core to another item."""
        assert isinstance(self.batch, EarlyBatch)
        if self._works:
            self._works = False
            self.batch.slots.release()

    def read(self, check: Any, known: Any, values: tuple[Any, ...]) -> None:
        """Keeps the state of the files that are read before the batch is asked for."""
        assert isinstance(self.batch, EarlyBatch)
        if self.batch.is_asked_for():
            return
        paths = [values[place + 1] for place in known.files if isinstance(place, int) and place + 1 < len(values)]
        states = [(path, file_state(path)) for path in paths]
        if not states or any(state is None for _, state in states):
            self.give_up("it reads something that is not a file, or was changed just now", check)
        self.batch.files += states


class EarlyBatch(Batch):
    """The items of the next batch, from when the program gets the one before until it asks for them."""

    def __init__(
        self, get: Callable[[Any], Any], indices: Sequence[Any], habit: Habit, stacking: Stacking | None,
        helpers: int, roots: Iterable[Any],
    ) -> None:  # fmt: skip
        super().__init__(get, indices, habit, stacking)
        self.files: list[tuple[Any, Any]] = []
        self.reach = Reach(roots, beside=True)
        self.slots = threading.Semaphore(helpers)
        self._settings = settings()
        self._ear = Ear(warned)
        self._is_asked_for, self._through = threading.Event(), threading.Event()
        self._left, self._helpers = len(indices), helpers
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begins with the items, beside the program."""
        self._ear.open()
        for _ in range(self._helpers):
            self._spawn()

    def _spawn(self) -> None:
        if self._next < len(self.indices) and not self.reason:
            thread = Second(self)
            self._threads.append(thread)
            try:
                thread.start()
            except BaseException:
                self._threads.remove(thread)  # nobody can wait for it
                raise

    def is_asked_for(self) -> bool:
        """Whether the program waits for this batch."""
        return self._is_asked_for.is_set()

    def wait_for_the_program(self) -> None:
        """Returns when the batch is asked for; another thread goes on with the next item."""
        if not self._is_asked_for.is_set():
            self._spawn()
            self._is_asked_for.wait()
        if self.reason:
            raise GaveUp

    def work(self) -> None:
        """Runs items until none is left or the batch is given up."""
        while not self.reason and (number := self._take()) is not None:
            item = EarlyItem(self, number)
            item.begin()
            _order.enter(item)
            try:
                self.results[number], raised = on_trial(self.get, self.indices[number])
            except GaveUp:
                return
            finally:
                _order.enter(None)
                item.rest()
            if raised:
                self.give_up(f"an item raised {raised}", expected=True)
            item.end()
            if self.stacking is not None and not raised:
                attempt(self.stacking.put, number, self.results[number])
            self._count()

    def _count(self) -> None:
        with self._lock:
            self._left -= 1
        if self._left == 0:
            self._through.set()

    def give_up(self, reason: str, wants: bool = False, expected: bool = False) -> None:
        """Ends every item; the batch will run as written."""
        super().give_up(reason, wants, expected)
        self._is_asked_for.set()
        self._through.set()

    def as_it_was(self) -> Verdict:
        """Whether nothing has changed that the items may have read."""
        if self.reason:
            return No(self.reason)
        if settings() != self._settings:
            return No("a setting of the process was changed between two batches")
        if not self.reach.is_same():
            return No("the program changes something between two batches that its items read")
        if any(file_state(path) != state for path, state in list(self.files)):
            return No("a file was changed after it had been read ahead")
        return Yes

    def finish(self) -> bool:
        """Whether all items are done; the program waits here."""
        try:
            self.watch_generators()  # until now the program may have drawn itself
            self.slots.release()
            self._is_asked_for.set()
            self._spawn()
            self._through.wait()
        finally:
            self._close()
            self.end()
        self.look_at_generators()
        return not self.reason

    def end(self) -> None:
        """Waits until no thread works for this batch any more."""
        for thread in list(self._threads):
            thread.join()
        self._ear.close()

    def leave(self) -> None:
        """Gives the batch up: nobody will ask for it."""
        self.give_up("it was not asked for", expected=True)
        self._ear.close()
