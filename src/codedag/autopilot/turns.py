"""Turns of a loop that run ahead together: what their sites gave, and whether that may be used later."""

from __future__ import annotations

import copy
import os
import stat
import sys
from collections.abc import Collection, Iterator
from typing import Any

from codedag.autopilot.ordered import Batch, Habit, Item, settings
from codedag.autopilot.reach import Reach
from codedag.autopilot.streams import give_state, state_of
from codedag.backends.same import same
from codedag.instrument.guard import GaveUp, on_trial
from codedag.instrument.sites import CALL
from codedag.ir import clock as time
from codedag.ir.verdict import No, Verdict, Yes
from codedag.migrate import _order
from codedag.migrate.standin import StandIn

SETTLED_NS = 100_000_000  # a file that was changed within this time may change again without a new time stamp
_ROWS = (list, tuple, range)
_STEPS: tuple[type, ...] = (type(iter([])), type(iter(())), type(iter(range(0))))


class Turn(Item):
    """One turn: what its sites gave, which files it read, and where it left the generators."""

    __slots__ = ("_drew_at", "files", "notes", "stopped")
    is_in_loop = True

    def __init__(self, batch: Turns, number: int) -> None:
        super().__init__(batch, number)
        self.notes: list[Any] = []
        self.files: list[tuple[Any, Any]] = []
        self.stopped = ""
        self._drew_at = -1

    def draw(self, generator: Any, name: str, check: Any) -> None:
        """Waits for the turn, and remembers in which operation of the loop it drew."""
        super().draw(generator, name, check)
        self._drew_at = len(self.notes)

    def give_up(self, reason: str, check: Any = None, wants: bool = False) -> None:
        """Ends the turn here: what it did so far stands, unless more than that is wanted."""
        assert isinstance(self.batch, Turns)
        if wants or self.batch.whole:
            super().give_up(reason, check, wants)
        self.stopped = reason if check is None else f"{reason} (line {check.site.info.line})"
        raise GaveUp

    def noted(self, check: Any, target: Any) -> int:
        """How many references to something are in the notes; what is not in there cannot be written in a loop."""
        count = sum(each is target for each in self.notes[1::2])
        if check.listed and not count:
            self.give_up("it writes into something that was made without a call", check)
        return count

    def read(self, check: Any, known: Any, values: tuple[Any, ...]) -> None:
        """Keeps the state of the files that are read, so that a change is seen."""
        assert isinstance(self.batch, Turns)
        if self.batch.whole:
            return
        paths = [values[place + 1] for place in known.files if isinstance(place, int) and place + 1 < len(values)]
        states = [(path, file_state(path)) for path in paths]
        if not states or any(state is None for _, state in states):
            self.give_up("it reads something that is not a file, or was changed just now", check)
        self.files += states

    def drew(self, check: Any) -> None:
        """Passes the turn on once this was the last draw, if that is sure."""
        if self.batch.habit.is_last(check) and not self._passed:
            self._leave_generators()
        super().drew(check)

    def end(self) -> None:
        """The turn is done."""
        if self._has_turn and not self._passed:
            self._leave_generators()
        super().end()

    def drew_in_vain(self) -> bool:
        """Whether the operation of the loop that it last drew in has not ended: it will draw again."""
        return self._drew_at == len(self.notes)

    def _leave_generators(self) -> None:
        assert isinstance(self.batch, Turns)
        if not self.batch.whole:
            self.batch.left[self.number] = self.batch.states_now()


class Turns(Batch):
    """Some turns of a loop while they run, and until they are used."""

    def __init__(
        self, function: Any, around: list[Any], elements: list[Any], habit: Habit, whole: bool, bound: Collection[str]
    ) -> None:
        super().__init__(lambda element: function(element, *around), elements, habit)
        self.whole, self._around = whole, around
        self.turns: list[Turn | None] = [None] * len(elements)
        self.left: dict[int, dict[int, tuple[Any, Any]]] = {}  # turn -> where it left the generators
        self.until = len(elements)  # the turn from which on nothing may be used
        self._reach = None if whole else Reach([function, *around, *elements], function.__globals__, bound)
        self._settings = settings()
        self._expected: dict[int, Any] | None = None

    def given(self) -> list[Any]:
        """What turns are given: the names around the loop, and what it runs over."""
        return [*self._around, *self.indices]

    def can_be_watched(self) -> bool:
        """Whether changes of what the turns can read would be seen."""
        if self._reach is not None and self._reach.why is not None:
            self.reason = self._reach.why.reason
        return not self.reason

    def work(self) -> None:
        """Runs turns until none is left or all are given up."""
        while not self.reason and (number := self._take()) is not None:
            turn = self.turns[number] = Turn(self, number)
            _order.enter(turn)
            _order.keep_notes(turn.notes)
            try:
                _, raised = on_trial(self.get, self.indices[number])
            except GaveUp:
                raised = turn.stopped
            finally:
                _order.keep_notes(None)
                _order.enter(None)
            if raised:
                self._broke_off(turn, raised)
            elif turn.stopped:  # a library took what was to end it
                self.give_up(turn.stopped)
            if not self.reason:
                turn.end()

    def _broke_off(self, turn: Turn, why: str) -> None:
        """What a turn drew before it broke off is drawn again when the program comes to it: none after it is right."""
        turn.stopped = why
        if self.whole:
            self.give_up(f"a turn raised {why}", expected=True)
        elif turn.drew_in_vain():
            with self._lock:
                self.until = min(self.until, turn.number)

    def is_useless(self) -> bool:
        """Whether most turns did nothing ahead that could take long; then the reason is that of the first one."""
        empty = [t for t in self.turns if t is None or not any(check.kind == CALL for check in t.notes[::2])]
        if 2 * len(empty) > len(self.turns) or self.until < 2:
            found = [turn.stopped for turn in self.turns if turn is not None and turn.stopped]
            self.reason = found[0] if found else "nothing of it can run ahead"
        return bool(self.reason)

    def is_at(self, number: int, value: Any) -> bool:
        """Whether this is what the turn was run for."""
        return _is_it(self.indices[number], value)

    def nbytes(self) -> int:
        """The memory that is held for turns that have run ahead."""
        found = {id(v): v for turn in self.turns if turn is not None for v in turn.notes[1::2]}
        return sum(value.nbytes for value in found.values() if _is_array(value))

    def watching_seconds(self) -> float:
        """What it costs to see whether something has changed before each turn."""
        started = time.perf_counter()
        if self._reach is not None:
            self._reach.is_same()
        return (time.perf_counter() - started) * len(self.indices)

    def states_now(self) -> dict[int, tuple[Any, Any]]:
        """The states of all generators that were drawn from so far."""
        return {key: (generator, state_of(generator)) for key, (generator, _) in self._states.items()}

    def compared(self, other: Turns) -> tuple[list[Any], list[Any]]:
        """What the sites gave here and there, as far as both went and both have computed it."""
        every = [
            [pair for pair in zip(mine.notes[1::2], its.notes[1::2], strict=False) if StandIn not in map(type, pair)]
            for mine, its in zip(self.turns, other.turns, strict=True)
            if mine is not None and its is not None
        ]
        return [[one for one, _ in pairs] for pairs in every], [[two for _, two in pairs] for pairs in every]

    def take_over(self, other: Turns) -> None:
        """Uses what the same turns gave when they ran in order."""
        self.turns, self.left, self.until, self._states = other.turns, other.left, other.until, other._states

    # -- using them

    def hand_over(self, number: int, value: Any) -> Verdict:
        """Whether a turn may be used now; the generators are then where it left them."""
        turn = self.turns[number] if number < self.until else None
        if turn is None:
            return No("a turn drew from a generator and could not go on")
        if not self.is_at(number, value):
            return No("the loop changes what it runs over")
        if self.whole:
            return Yes
        if settings() != self._settings:
            return No("the loop changes a setting of the process")
        if self._reach is None or not self._reach.is_same():
            return No("the loop changes something that its turns read")
        if any(file_state(path) != state for path, state in turn.files):
            return No("a file was changed after it had been read ahead")
        return self._move_generators(number)

    def _move_generators(self, number: int) -> Verdict:
        if self._expected is None:
            self._expected = {key: state for key, (_, state) in self._states.items()}
        left = self.left.get(number, {})
        for key, (generator, _) in left.items():
            if not same(state_of(generator), self._expected[key]):
                return No("the loop draws from a generator that its turns draw from")
        for key, (generator, state) in left.items():
            give_state(generator, state)
            self._expected[key] = state
        return Yes

    def notes_of(self, number: int) -> list[Any]:
        """The notes of a turn, which are forgotten here."""
        turn = self.turns[number]
        self.turns[number] = None
        return turn.notes if turn is not None else []


def _is_array(value: Any) -> bool:
    """Whether this is an array or a tensor; an attribute of anything else may be code of the program."""
    kind = type(value)
    return (kind.__module__, kind.__name__) in (("numpy", "ndarray"), ("torch", "Tensor"))


def _is_it(one: Any, other: Any) -> bool:
    """Whether two elements are the same one; numbers and rows are made anew by some iterators."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is tuple:
        return len(one) == len(other) and all(map(_is_it, one, other))
    numpy = sys.modules.get("numpy")
    return (type(one) is int or (numpy is not None and isinstance(one, numpy.generic))) and bool(one == other)


def file_state(path: Any) -> tuple[int, int, int, int] | None:
    """What the file system says about a regular file that was not changed just now, else None."""
    try:
        found = os.stat(path)  # noqa: PTH116 - the path as the program wrote it, which may be bytes
    except (OSError, ValueError, TypeError):
        return None
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    if not stat.S_ISREG(found.st_mode) or time.time_ns() - changed < SETTLED_NS:
        return None
    return changed, found.st_size, found.st_ino, found.st_dev


# -- looking ahead of a loop, without moving what it runs over


def ahead_of(over: Any) -> Iterator[Any] | None:
    """An iterator over what a loop will come to, that leaves what it runs over where it is; None if there is none."""
    kind = type(over)
    if kind in _ROWS:
        return iter(over) if len(over) > 1 else None
    if kind in (enumerate, zip) or kind in _STEPS:
        return _copied(over)  # type: ignore[no-any-return]
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray and over.ndim == 1 and not over.dtype.hasobject:
        return iter(over) if len(over) > 1 else None
    inside = getattr(over, "iterable", None) if kind.__module__.partition(".")[0] == "tqdm" else None
    return None if inside is None else ahead_of(inside)


def _copied(over: Any, depth: int = 4) -> Any:
    kind = type(over)
    if kind in _STEPS:
        return copy.copy(over)
    parts: tuple[Any, ...] = over.__reduce__() if kind in (enumerate, zip) and depth else (None,)
    if len(parts) != 2:  # a strict zip says so in a third part
        return None
    inner = [_copied(part, depth - 1) for part in (parts[1][:1] if kind is enumerate else parts[1])]
    if any(part is None for part in inner):
        return None
    return enumerate(inner[0], parts[1][1]) if kind is enumerate else zip(*inner, strict=False)
