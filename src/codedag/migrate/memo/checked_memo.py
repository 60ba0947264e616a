"""Memo of what Python code makes that draws nothing and has no effect: items of datasets, results of functions.

A value is kept after the code that makes it was followed (`checker.py`) down to functions that are known to have no
effect.  It is handed out again, as a copy, while everything that it was made from is as it was: names, attributes and
elements that the code read, the state of its files, settings and code of libraries.
"""

from __future__ import annotations

import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from types import CodeType, FrameType, FunctionType
from typing import Any

from codedag.backends.same import same
from codedag.instrument.warned import Heard, calls_back, unheard
from codedag.ir import clock as time
from codedag.ir.verdict import No
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.memo.ambient import LibraryCode, around_now
from codedag.migrate.memo.checker import Checker, Refused
from codedag.migrate.memo.copies import copied, is_atom, size_of
from codedag.migrate.memo.file_state import file_state
from codedag.migrate.memo.reads import AGAIN, Read, Reads, arrays_read, for_index, is_array
from codedag.migrate.memo.store import Memory
from codedag.migrate.trial import StopIfRaised, Trial, median

SETTLED_NS = 100_000_000  # a file that was changed within this time may change again without a new time stamp
REFUSALS_MAX = 6  # items of a dataset that cannot be kept, after which no other is tried unless some were kept
FOLLOW_EVERY = 64  # items per one that is followed, where all others are known to do the same
CHECKED_FIRST = 4  # items of a dataset whose checked twin is compared with the item as written
SEEN_MAX = 1 << 20  # keys of one holder that are remembered as seen
STATES_EVERY = 16  # items per comparison of the random streams, after the first ones
#: Seconds that filling may always take, and the share of the time since the beginning: for items that came twice, and
#: for those that are only expected to.
FILL_SECONDS, FILL_SHARE, FILL_SHARE_EXPECTED = 0.2, 0.1, 0.03
TIMED_ITEMS = 9  # of a dataset that run as written first; their median decides
TOO_SHORT = "its items take less time than keeping them does"
_CONTAINERS = frozenset({tuple, list, dict})
_LISTS = frozenset({list, tuple, range, type(iter([])), type(iter(())), type(iter(range(0)))})


class Entry:
    """An item that is kept, and what it was made from."""

    __slots__ = ("files", "shared", "single", "value")

    def __init__(self, value: Any, shared: tuple[Read, ...], single: tuple[Read, ...], files: tuple[Any, ...]) -> None:
        self.value, self.shared, self.single, self.files = value, shared, single, files


class Kept:
    """What is kept of one holder."""

    def __init__(self, reads: Reads, *, is_function: bool = False) -> None:
        self.reads, self.is_function = reads, is_function
        self.entries: dict[Any, Entry] = {}
        self.seen: set[Any] = set()
        self.refused: dict[Any, str] = {}
        self.made, self.nbytes, self.calls = 0, 0, 0
        self.timed: list[float] = []  # seconds of the first items, as written
        self.is_short = False  # whether these say that keeping items takes longer than making them
        self.recipe: Entry | None = None  # an item such that all others read and run the same, for their own index


class Wanted:
    """A value that is asked for: of which holder, under which key, and how it is made as written."""

    __slots__ = ("args", "function", "holder", "is_item", "key", "keywords")

    def __init__(
        self, holder: Any, key: Any, function: Any, args: tuple[Any, ...], keywords: dict[str, Any],
        *, is_item: bool = False,
    ) -> None:  # fmt: skip
        self.holder, self.key, self.function, self.args, self.keywords = holder, key, function, args, keywords
        self.is_item = is_item  # of a container, whose subscript is followed

    def made(self, call: Callable[..., Any]) -> Any:
        """The value as the program makes it."""
        return call(self.function, self.args, self.keywords)

    def followed(self, checker: Checker, reads: Reads) -> Any:
        """The value made by its checked twin."""
        if self.is_item:
            return checker.run(lambda: checker.item(*self.args), reads, self.key)
        return checker.run(lambda: checker.call(self.function, *self.args, **self.keywords), reads)


class CheckedMemo:
    """What is kept of all holders (datasets, functions), and the trial that it is on."""

    refusals_max = REFUSALS_MAX
    has_batches = False  # whether no code of the program's runs between two values of one loop

    def __init__(
        self, trial: Trial, memory: Memory, plain: Callable[[CodeType], CodeType] = lambda code: code,
        expects_repeats: Callable[[], bool] = lambda: False, least_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        self.trial, self.memory, self._expects = trial, memory, expects_repeats
        self._least_seconds = least_seconds  # that a value takes to make if it is worth keeping
        self._plain = plain
        self._checker = Checker(plain)
        self._holders: dict[int, tuple[Any, Kept]] = {}
        self._lock = threading.Lock()  # one value is followed at a time; who finds it taken runs as written
        self._code, self._around = LibraryCode(), around_now()
        self.reasons: dict[str, int] = {}  # why values are not kept
        self._is_eager: bool | None = None
        #: What was found to be as it was in this batch, in which nothing but kept items ran since; None: not known.
        self._held: set[int] | None = None
        self._batch_seconds = 0.0  # of looking at what all items of a batch share, in this call
        self._began, self._fill_seconds, self._native_seconds = time.perf_counter(), 0.0, 0.0
        self.names: list[str] = []  # of the holders that were looked at

    def given(self, wanted: Wanted, call: Callable[..., Any], frame: FrameType | None, *, is_open: bool) -> Any:
        """The value: as it was kept, or made and perhaps kept."""
        began, self._batch_seconds = time.thread_time(), 0.0
        found = attempt(self._found, wanted, frame) if is_open else None
        if type(found) is tuple:
            return self._handed_out(found[0], began, wanted, call)
        self.trial.cost += time.thread_time() - began
        if type(found) is _Fill:
            return self._filled(found, wanted, call, frame)
        self._held = None
        if type(found) is Kept:
            return self._timed(found, wanted, call)
        return wanted.made(call)

    def _timed(self, kept: Kept, wanted: Wanted, call: Any) -> Any:
        """A value as written, one of those whose times decide whether those of its holder are kept."""
        began = time.thread_time()
        value = wanted.made(call)
        kept.timed.append(time.thread_time() - began)
        kept.is_short = len(kept.timed) >= TIMED_ITEMS and median(kept.timed) < self._least_seconds
        if kept.is_short:
            self.reasons[TOO_SHORT] = self.reasons.get(TOO_SHORT, 0) + 1
            self.trial.decline(TOO_SHORT)
        return value

    # -- finding

    def _found(self, wanted: Wanted, frame: FrameType | None) -> Any:
        """A copy of a kept value in a tuple, what is to be filled, or nothing."""
        kept, index = self._of(wanted.holder), wanted.key
        entry = kept.entries.get(index)
        if entry is not None:
            if self._holds(kept, entry, frame):
                return (copied(entry.value),)
            self._drop(kept, index)
        if self._is_hopeless(kept) or index in kept.refused or kept.is_short:
            return None
        kept.calls += 1
        if self._least_seconds and len(kept.timed) < TIMED_ITEMS:
            return kept
        has_come = index in kept.seen
        if len(kept.seen) < SEEN_MAX:
            kept.seen.add(index)
        return _Fill(kept) if self._may_fill(kept, has_come or entry is not None) else None

    def _may_fill(self, kept: Kept, has_come: bool) -> bool:
        """Whether an item is kept now: it has come before or will come again, and filling takes little time."""
        if self._is_eager is None:
            self._is_eager = self._expects()
        share = FILL_SHARE if has_come else FILL_SHARE_EXPECTED
        allowed = FILL_SECONDS + share * (time.perf_counter() - self._began)
        return (has_come or self._is_eager) and self._fill_seconds < allowed

    def _of(self, holder: Any) -> Kept:
        found = self._holders.get(id(holder))
        if found is None or found[0]() is not holder:
            forget = partial(self._gone, id(holder))
            kept = Kept(Reads(self._plain), is_function=type(holder) is FunctionType)
            self._holders[id(holder)] = found = (weakref.ref(holder, forget), kept)
            name = getattr(holder, "__qualname__", type(holder).__qualname__)
            self.names += [] if name in self.names else [name]
        return found[1]

    def _is_hopeless(self, kept: Kept) -> bool:
        """Whether so many values could not be kept that no other is tried."""
        return len(kept.refused) >= self.refusals_max and len(kept.refused) > 8 * kept.made

    def _gone(self, number: int, _: Any) -> None:
        gone = self._holders.pop(number, None)
        self.memory.nbytes -= gone[1].nbytes if gone is not None else 0

    def _holds(self, kept: Kept, entry: Entry, frame: FrameType | None) -> bool:
        """Whether an item would be made now as it was."""
        if not self._is_current(kept, entry, frame) or not kept.reads.hold(entry.single):
            return False
        return all(file_state(path) == state for path, state in entry.files)

    def _is_current(self, kept: Kept, entry: Entry, frame: FrameType | None) -> bool:
        """Whether settings, library code and what an item shares with others are as they were; once a batch."""
        held = self._held
        if held is None:
            began = time.thread_time()
            now = around_now()
            if now != self._around or not self._code.heed() or calls_back():
                self._around = now
                self._forget()
                return False
            held = self._held = set() if self.has_batches and frame is not None and _is_plain_loop(frame) else None
            self._batch_seconds += time.thread_time() - began
        if held is None or id(entry.shared) not in held:
            began = time.thread_time()
            if not kept.reads.hold(entry.shared):
                return False
            if held is not None:
                held.add(id(entry.shared))
            self._batch_seconds += time.thread_time() - began
        return True

    # -- handing out

    def _handed_out(self, value: Any, began: float, wanted: Wanted, call: Any) -> Any:
        """What was kept; now and then the item is made all the same, used and compared."""
        batch_seconds = self._batch_seconds  # paid by one item for all: no time of this one
        if not self.trial.due():
            self.trial.cost += batch_seconds
            return value
        between, self._held = time.thread_time(), None
        with StopIfRaised(self.trial):
            original = wanted.made(call)
        ended = time.thread_time()
        seconds = max(between - began - batch_seconds, 1e-7)
        self.trial.record(ended - between, seconds, attempt(same, original, value))
        return original

    # -- filling

    def _filled(self, fill: _Fill, wanted: Wanted, call: Any, frame: FrameType | None) -> Any:
        """The item, kept: made by its checked twin, or as written if that cannot be or is proven to do the same."""
        began, kept, index = time.thread_time(), fill.kept, wanted.key
        as_others = kept.recipe is not None and kept.made % FOLLOW_EVERY != 0
        made = None if as_others else attempt(self._checked, fill, wanted)
        is_current = as_others and attempt(self._is_as_recipe, kept, frame) is True
        if not is_current:
            self._held = None  # an item that does as others has no effect
        between = time.thread_time()
        if type(made) is tuple and kept.made > CHECKED_FIRST:
            self._spend(between - began - self._native_seconds)
            return made[0]
        with Heard() if is_current else nullcontext() as heard:
            original = wanted.made(call)
        ended = time.thread_time()
        if heard is not None and not heard.warned:
            attempt(self._keep_as_others, kept, index, original)
        elif type(made) is tuple:
            self._native_seconds = ended - between
            verdict = attempt(same, original, made[0])
            if isinstance(verdict, No | Failed):
                self._drop(kept, index)
                self._refuse(kept, index, f"its twin gave something else ({verdict.reason})")
        self._spend(between - began + time.thread_time() - ended)
        return original

    def _is_as_recipe(self, kept: Kept, frame: FrameType | None) -> bool:
        """Whether the recipe would be made now as it was, but for its index."""
        recipe = kept.recipe
        return (
            recipe is not None
            and self._is_current(kept, recipe, frame)
            and kept.reads.hold(tuple(read for read in recipe.single if read[0] == AGAIN))
        )

    def _keep_as_others(self, kept: Kept, index: int, value: Any) -> None:
        """Keeps an item that ran as written: what it reads and runs is that of the recipe, but for the index."""
        recipe = kept.recipe
        if recipe is None or not _is_alike(value, recipe.value):
            return
        single = tuple(read for each in recipe.single if (read := for_index(each, index)) is not None)
        if len(single) != len(recipe.single):
            return
        copy, places = copied(value), _places(value)
        others = [_bounds(each) for each in arrays_read((*recipe.shared, *single))]
        is_own = all(end <= first or last <= start for start, end in places for first, last in others)
        if is_own and not _why_no_copy(value, copy, places):
            self._put(kept, index, Entry(copy, recipe.shared, single, ()))

    def _spend(self, seconds: float) -> None:
        self._fill_seconds += seconds
        self.trial.cost += max(seconds, 0.0)

    def _checked(self, fill: _Fill, wanted: Wanted) -> Any:
        """The item in a tuple if its checked twin ran to its end and it is kept now; else nothing."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._follow(fill, wanted)
        finally:
            self._checker.end()
            fill.kept.reads.begin()
            self._lock.release()

    def _follow(self, fill: _Fill, wanted: Wanted) -> Any:
        kept, index = fill.kept, wanted.key
        compares = kept.made < STATES_EVERY or kept.made % STATES_EVERY == 0
        streams = _streams() if compares else None
        around = around_now()
        try:
            with unheard("error"):
                value = wanted.followed(self._checker, kept.reads)
        except Refused:
            self._refuse(kept, index, self._checker.reason)
            return None
        why = self._why_not(value) or ("it draws random numbers" if compares and streams != _streams() else "")
        if why or around != around_now():
            self._refuse(kept, index, why or "it changes settings of a library")
            return None
        return self._keep(kept, index, value, around)

    def _keep(self, kept: Kept, index: Any, value: Any, around: tuple[Any, ...]) -> Any:
        for leaf in self._checker.leaves:
            self._code.note(leaf)
        self._checker.leaves.clear()
        made_from = kept.reads.freeze()
        if around != self._around or not self._code.heed():
            self._around = around
            self._forget()
        files = tuple(dict.fromkeys(self._checker.files))
        newest = max((state.stamp_ns for _, state in files), default=0)
        if time.time_ns() - newest < SETTLED_NS or any(file_state(path) != state for path, state in files):
            return (value,)
        entry = Entry(copied(value), *made_from, files)
        self._put(kept, index, entry)
        is_general = self._checker.is_general and not files
        kept.recipe = entry if is_general and kept.made > CHECKED_FIRST else None
        return (value,)

    def _put(self, kept: Kept, index: Any, entry: Entry) -> None:
        frozen = sum(len(getattr(read[3], "content", b"")) for read in entry.single)
        nbytes = size_of(entry.value) + 600 + 120 * len(entry.single) + frozen
        if self.memory.takes(nbytes):
            kept.entries[index] = entry
            kept.made, kept.nbytes = kept.made + 1, kept.nbytes + nbytes

    def _why_not(self, value: Any) -> str:
        """Why an item cannot be kept: it is not its own, or no copy could stand for it."""
        if not self._is_free(value):
            return "it hands out something that it did not make"
        return _why_no_copy(value, copied(value), _places(value))

    def _is_free(self, value: Any) -> bool:
        """Whether nobody else holds what could be changed in an item."""
        if type(value) in (list, dict) and not self._checker.is_own(value):
            return False
        if type(value) in _CONTAINERS:
            return all(map(self._is_free, _parts(value)))
        return is_atom(value) or self._checker.is_own(value)

    def _refuse(self, kept: Kept, index: Any, why: str) -> None:
        kept.refused[index] = why
        if not kept.entries:
            kept.reads = Reads(self._plain)  # what was read is nobody's
        self.reasons[why] = self.reasons.get(why, 0) + 1
        self.trial.decline(why)

    def _drop(self, kept: Kept, index: Any) -> None:
        if kept.entries.pop(index, None) is not None:
            share = kept.nbytes // (len(kept.entries) + 1)
            kept.nbytes -= share
            self.memory.nbytes -= share

    def _forget(self) -> None:
        for _, kept in self._holders.values():
            self.memory.nbytes -= kept.nbytes
            kept.entries.clear()
            kept.nbytes, kept.reads, kept.recipe = 0, Reads(self._plain), None


class _Fill:
    """An item that is to be followed and kept."""

    __slots__ = ("kept",)

    def __init__(self, kept: Kept) -> None:
        self.kept = kept


def _why_no_copy(value: Any, copy: Any, places: list[tuple[int, int]]) -> str:
    """Why a copy of an item cannot stand for it, of which these places of memory are seen."""
    places.sort()
    if any(end > start for (_, end), (start, _) in pairwise(places)):
        return "two parts of it share memory"
    if _comes_twice(value, set()):
        return "it holds the same object twice"
    if copy is None or not same(value, copy):
        return f"a copy of its {type(value).__name__} could be told from the original"
    return ""


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if type(value) is dict else value


def _places(value: Any) -> list[tuple[int, int]]:
    """First and last byte of each array or tensor in an item."""
    if type(value) in _CONTAINERS:
        return [place for each in _parts(value) for place in _places(each)]
    return [_bounds(value)] if is_array(value) else []


def _comes_twice(value: Any, seen: set[int]) -> bool:
    """Whether something that could be changed is in an item under two names."""
    if is_atom(value):
        return False
    if type(value) is not tuple:
        if id(value) in seen:
            return True
        seen.add(id(value))
    return type(value) in _CONTAINERS and any(_comes_twice(each, seen) for each in _parts(value))


def _is_alike(value: Any, other: Any) -> bool:
    """Whether two items have the same types all the way down."""
    if type(value) is not type(other):
        return False
    if type(value) in (tuple, list):
        return len(value) == len(other) and all(map(_is_alike, value, other))
    if type(value) is dict:
        return value.keys() == other.keys() and all(_is_alike(value[key], other[key]) for key in value)
    return True


def _is_plain_loop(frame: FrameType) -> bool:
    """Whether torch goes through a list of indices, so that no code of the program runs between two items."""
    space = frame.f_locals
    return type(space.get(".0", space.get("possibly_batched_index"))) in _LISTS


def _bounds(value: Any) -> tuple[int, int]:
    """First and last byte of an array or tensor."""
    numpy: Any = sys.modules["numpy"]
    low, high = numpy.lib.array_utils.byte_bounds(value if hasattr(value, "flags") else value.numpy())
    return int(low), int(high)


def _streams() -> list[Any]:
    """The states of the three global random streams."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    found: list[Any] = [random.getstate()]
    if numpy is not None and "numpy.random" in sys.modules:
        state = numpy.random.get_state()
        found.append((state[1].tobytes(), *state[2:]))
    if torch is not None:
        found.append(torch.get_rng_state().numpy().tobytes())
    return found
