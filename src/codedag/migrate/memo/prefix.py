"""What an item reads and then always does to it, kept: the next time the result is there before the file is opened.

A prefix is a call that reads a file and the calls that its value goes through, one after the other, always with the
same other arguments.  The first calls only learn how far that reaches.  Later ones run as written and keep a copy of
the last value, under the arguments of the first call and what the file system says about the file.  When the same
file comes again unchanged, the calls in between are skipped and the last one gives a copy of what was kept.
"""

from __future__ import annotations

import hashlib
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePath
from sys import _getframe
from typing import Any

from codedag.backends.known import Effect, Known, known_call, known_operator
from codedag.backends.same import same
from codedag.instrument.sites import CALL, INPLACE, SETITEM
from codedag.instrument.warned import Heard
from codedag.ir import clock as time
from codedag.ir.verdict import No
from codedag.migrate.caller import Caller
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.memo.ambient import LibraryCode, around_now, settings_now
from codedag.migrate.memo.copies import ATOMS, copied, size_of
from codedag.migrate.memo.disk_store import Stored
from codedag.migrate.memo.file_state import file_state
from codedag.migrate.memo.key import is_plain, told_apart
from codedag.migrate.memo.pictures import Packed, is_picture, opens, packed, unpacked
from codedag.migrate.memo.prefix_value import Recall
from codedag.migrate.memo.shared_store import Lying, can_keep
from codedag.migrate.memo.store import Memory
from codedag.migrate.patches.proxies import behind
from codedag.migrate.placeholder import Method, Placeholder
from codedag.migrate.trial import StopIfRaised, Trial

MOST_CALLS = 1 << 16  # whose files are remembered; about 300 bytes each
LEARN = 16  # calls that only show how far the prefix reaches
SETTLED_NS = 100_000_000  # a file that was changed within this time may change again without a new time stamp
CAN_CHANGE_UNSEEN = "it reads a file that can change without being noticed"  # mapped to write by this process
_WRITES = (SETITEM, INPLACE)  # sites whose operation is an effect on an operand, not a new value
PATHS = frozenset({type(Path()), type(PurePath())})  # of pathlib: as immutable as texts
_WORDS = (ATOMS | PATHS) - {float}  # equal ones of one type cannot be told apart


@dataclass(frozen=True, slots=True)
class Link:
    """One call of a prefix: its site, and where the value of the call before stands (-1: it is a method of it)."""

    site: Any
    at: int


def unwritten(links: Sequence[Link]) -> list[Link]:
    """The steps before the first one that writes into an operand: what it writes to is nothing that could be kept."""
    return list(takewhile(lambda link: link.site.kind not in _WRITES, links))


class _Run(threading.local):
    """The prefix that runs as written in this thread: its key, the step it is at and the value there."""

    key: Any = None
    step: int = -1
    value: Any = None
    around: tuple[Any, ...] = ()  # filters and settings, when it began


class Prefix:
    """The variants of one prefix's sites, and the trial that it is on."""

    def __init__(self, links: Sequence[Link], trial: Trial, memory: Memory, repeats: Callable[[], bool]) -> None:
        links = unwritten(links)
        self.links, self.trial, self.memory, self._repeats = links, trial, memory, repeats
        self.kinds: list[type] = [object] * len(links)
        self.length = len(links)
        self._inner = [link.site.variant for link in links]
        self.constant: list[Any] = [None] * len(links)
        self._kept: dict[Any, Any] = {}
        self._calls: dict[Any, tuple[Any, list[Any]]] = {}
        self._latest: list[tuple[Any, ...] | None] = [None] * len(links)  # a call that was as it must be, as it was
        self._seen: set[Any] = set()
        self._learned, self._around, self._nbytes = 0, around_now(), 0
        self._code = LibraryCode()
        places = [link.site.info.index for link in links]
        self._apart = {number for number in range(1, len(links)) if places[number] != places[number - 1] + 1}
        self._keeps = self._is_sure = False  # is sure: a copy of it cannot be told from the original
        self._run = _Run()

    def variants(self) -> dict[int, Callable[..., Any]]:
        """What each site runs instead."""
        found = {self.links[0].site.info.index: self._first()}
        return found | {link.site.info.index: self._later(number) for number, link in enumerate(self.links) if number}

    # -- the sites

    def _first(self) -> Callable[..., Any]:
        caller, inner = Caller(self.links[0].site.info), self._inner[0]

        def first(function: Any, /, *args: Any, **keywords: Any) -> Any:
            asked, began = self.trial.active and self.memory.is_open(), time.thread_time()
            key = attempt(self._key, function, args, keywords) if asked else None
            kept = self._usable(key) if type(key) is tuple else None
            if kept is not None:
                recall = Recall(self, kept, key)
                return self._skip(recall, caller, function, args, keywords, _getframe(1).f_globals)
            call = caller.in_module(_getframe(1).f_globals)
            self.trial.cost += time.thread_time() - began
            if type(key) is not tuple:
                return inner(function, *args, **keywords) if inner is not None else call(function, args, keywords)
            with Heard() as heard:
                value = inner(function, *args, **keywords) if inner is not None else call(function, args, keywords)
            attempt(self._went, 0, key, value, heard)
            return value

        return first

    def _later(self, number: int) -> Callable[..., Any]:
        link, inner = self.links[number], self._inner[number]
        caller, place = Caller(link.site.info), max(link.at, 0) + int(link.at >= 0 and link.site.kind == CALL)
        operator = None if link.site.kind == CALL else link.site.function

        def later(*args: Any, **keywords: Any) -> Any:
            found = args[place] if place < len(args) else None
            found = found.placeholder if type(found) is Method else found
            function, rest = (operator, args) if operator is not None else (args[0], args[1:])
            space = _getframe(1).f_globals
            if type(found) is Placeholder and type(found.deferred) is Recall:
                recall = found.deferred
                if attempt(self._goes_on, recall, number, function, rest, keywords) is True:
                    return self._skip(recall, caller, _name(function), rest, keywords, space, found)
                function, rest = self._instead(link, function, rest, recall.settle(space))
                return caller.in_module(space)(function, rest, keywords)
            run, key = self._run, None
            if run.step == number - 1 and _taken(link, function, rest) is run.value and run.value is not None:
                key = run.key
                attempt(self._learn, number, function, rest, keywords)
            call = caller.in_module(space)
            if key is None:
                return inner(*args, **keywords) if inner is not None else call(function, rest, keywords)
            with Heard() as heard:
                value = inner(*args, **keywords) if inner is not None else call(function, rest, keywords)
            attempt(self._went, number, key, value, heard)
            return value

        return later

    def _instead(self, link: Link, function: Any, rest: tuple[Any, ...], value: Any) -> tuple[Any, tuple[Any, ...]]:
        self.trial.decline("other arguments than before")
        if link.at < 0:
            return getattr(value, function.name), rest
        return function, (*rest[: link.at], value, *rest[link.at + 1 :])

    # -- running as written

    def _key(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        function = behind(function)  # a patch of ours comes and goes, and reads what the function behind it reads
        if keywords or not _WORDS.issuperset(map(type, args)):
            found = self._asked(function, args, keywords)
        else:  # what it reads and how it is called does not change: asked once
            call = (function, args, tuple(map(type, args)))
            found = self._calls.get(call)
            if found is None and (found := self._asked(function, args, keywords)) is not None:
                if len(self._calls) >= MOST_CALLS:
                    self._calls.clear()
                self._calls[call] = found
        return None if found is None else self._with_states(*found)

    def _with_states(self, what: tuple[Any, ...], files: list[Any]) -> tuple[Any, ...] | None:
        """A key of what is called and of the files that it reads as they are now."""
        states = [*map(file_state, files)]
        if None in states:
            self.trial.decline(CAN_CHANGE_UNSEEN)
            return None
        return (*what, *states)

    def _asked(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, list[Any]] | None:
        """What tells this call from others, and the files that it reads; None if it is not known to do only that."""
        known = known_call(function, args, keywords)
        if not isinstance(known, Known) or known.effect is not Effect.READS or not known.files:
            self.trial.decline("it is not known to read only the files that it is given")
            return None
        if not all(type(value) in PATHS or is_plain(value) for value in (*args, *keywords.values())):
            self.trial.decline("an argument that is neither a number nor a text, a path or a dtype")
            return None
        if files := known.paths(function, args, keywords):
            return (function, told_apart(args), told_apart(tuple(keywords.items()))), files
        self.trial.decline("it reads a file that no argument names")
        return None

    def _learn(self, number: int, function: Any, rest: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Shortens the prefix to what always happens in the same way."""
        if number >= self.length:
            return
        link, part, function = self.links[number], None, behind(function)
        is_call = link.site.kind == CALL
        known = known_call(function, rest, keywords) if is_call else known_operator(function.__name__, rest)
        if number == 1 and self._run.key[0] is open:  # nothing else is known to leave nothing behind in a file
            known = Known(Effect.PURE) if opens(function, rest, keywords) else No("it reads a file")
        lazy = isinstance(known, Known) and known.effect is Effect.WRITES and known.writes == ("self",) and link.at < 0
        if isinstance(known, Known) and known.deterministic and (known.effect is Effect.PURE or lazy):
            part = _part(link, function, rest, keywords)
            self._code.note(function if link.at >= 0 else type(self._run.value))
        if part is None or self.constant[number] not in (None, part):
            self._ends_before(number)
        self.constant[number] = part

    def _ends_before(self, number: int) -> None:
        """Shortens the prefix: a step is not always the same, or gives nothing new, so that only its effect counts."""
        self.length = min(self.length, number)
        self._forget()
        self._learned, self._is_sure = 0, False

    def _went(self, number: int, key: Any, value: Any, heard: Heard) -> None:
        """Notes a step that ran as written; after the last one its value is kept, unless a step warned."""
        run = self._run
        if heard.warned or _may_warn(value):
            run.key, run.step, run.value = None, -1, None
            self.trial.decline("it warns, and would not if its result were kept")
            return
        if number and (value is None or value is run.value):
            self._ends_before(number)
            run.key, run.step, run.value = None, -1, None
            return
        self.kinds[number] = type(value)  # not the value: it is the program's, and nobody else may hold it
        self._code.note(type(value))
        run.key, run.step, run.value = key, number, value
        if number == 0:
            run.around = around_now()
            self._code.note(key[0])
        if number != self.length - 1:
            return
        run.key, run.step, run.value = None, -1, None
        self._learned += 1
        if self._learned > LEARN and not self._keeps:
            self._keeps = key in self._seen or self._repeats()
            self._seen.add(key)
        if self._keeps and self._learned > LEARN:
            began = time.thread_time()
            self._keep(key, value)
            self.trial.cost += time.thread_time() - began

    def _keep(self, key: Any, value: Any) -> None:
        if self.memory.in_worker and self._is_sure:
            self._keep_for_others(key, value)
            return
        if key in self._kept:
            return
        kept, nbytes = copied(value), size_of(value)
        if kept is None:
            self._cannot_keep(f"a {type(value).__name__} cannot be kept")
            return
        if not self._is_sure and not same(value, kept):
            self._cannot_keep("a copy of it could be told from the original")
            return
        self._is_sure = True
        if self.memory.in_worker:
            self._keep_for_others(key, value)
            return
        if _is_new(key) or self._run.around != (now := around_now()):
            return
        self._heed(now)
        if self.memory.takes(nbytes):
            self._kept[key] = kept
            self._nbytes += nbytes
        elif self.memory.disk is not None and (stored := self.memory.disk.keep(value)) is not None:
            self._kept[key] = stored

    def _cannot_keep(self, why: str) -> None:
        """Keeps the value of the step before instead, such as the picture of which this step gives a view."""
        self._ends_before(self.length - 1) if self.length > 1 else self.trial.stop(why)

    def _heed(self, now: tuple[Any, ...]) -> None:
        """Forgets what was kept under other filters and settings, or with other methods."""
        as_before = self._code.heed()
        if now != self._around or not as_before:
            self._forget()
            self._around = now

    def _forget(self) -> None:
        self._kept.clear()
        self.memory.nbytes -= self._nbytes
        self._nbytes = 0

    def _usable(self, key: Any) -> Any:
        """What was kept under a key, unless it lies on a disk that is not worth reading."""
        if key in self._kept:
            self._heed(around_now())
        kept = self._kept.get(key)
        if kept is None and self.memory.in_worker and self._learned > LEARN:
            return self._kept_by_others(key)
        if type(kept) is Stored and self.memory.disk is not None and self.memory.disk.is_slow:
            return None
        return kept

    def _copy(self, recall: Recall) -> Any:
        """What was kept, as the program's own."""
        if type(recall.kept) is Lying and self.memory.common is not None:
            return self.memory.common.read(recall.kept)
        if type(recall.kept) is Packed and self.memory.common is not None:
            return unpacked(self.memory.common.read(recall.kept.lying))
        if type(recall.kept) is not Stored:
            return copied(recall.kept)
        assert self.memory.disk is not None
        return self.memory.disk.read(recall.kept)

    def _keep_for_others(self, key: Any, value: Any) -> None:
        kept = packed(value) if is_picture(type(value)) else value
        if not can_keep(kept):
            self.trial.stop(f"a {type(value).__name__} cannot be kept for other processes")
            return
        name = self._common_name(key)
        if self.memory.common is not None and name is not None and not _is_new(key):
            self.memory.common.keep(name, kept)

    def _kept_by_others(self, key: Any) -> Any:
        """What a worker has kept under a key, or None."""
        name = self._common_name(key)
        if self.memory.common is None or name is None:
            return None
        found = attempt(self.memory.common.find, name)
        if found is None or isinstance(found, Failed):
            return None
        self._kept[key] = Packed(found) if is_picture(self.kinds[self.length - 1]) else found
        return self._kept[key]

    def _common_name(self, key: Any) -> bytes | None:
        """The same bytes in all workers for the same prefix and key; None if a function has no name."""
        steps = [part[0] for part in self.constant[1 : self.length] if part is not None]
        names = [function if type(function) is str else _dotted(function) for function in (key[0], *steps)]
        if None in names or len(steps) != self.length - 1:
            return None
        info = self.links[0].site.info
        others = [part[1:] for part in self.constant[1 : self.length]]
        sites = [link.site.info.index for link in self.links[: self.length]]
        kind, around = self.kinds[self.length - 1].__name__, (settings_now(), self._code.names())
        what = (info.file, sites, names, key[1:], others, kind, around)
        return hashlib.blake2b(repr(what).encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def _lost(self, recall: Recall, space: dict[str, Any], why: Failed) -> Any:
        """The value made anew, since what was kept of it cannot be read."""
        self._kept.pop(recall.key, None)
        self.trial.failed(why.reason)
        return recall.settle(space)

    # -- skipping what is known

    def _goes_on(
        self, recall: Recall, number: int, function: Any, rest: tuple[Any, ...], keywords: dict[str, Any]
    ) -> bool:
        if not len(recall.steps) == number < self.length or recall.done:
            return False
        if number in self._apart and not self._is_still(recall):
            return False
        link, latest = self.links[number], self._latest[number]
        others = rest if link.at < 0 else (*rest[: link.at], *rest[link.at + 1 :])
        what = _name(function) if link.at < 0 else behind(function)
        if latest is not None and not keywords and latest[0] is self.constant[number] and len(latest[2]) == len(others):
            same_name = latest[1] is what or (type(what) is str and bool(latest[1] == what))
            if same_name and all(map(operator.is_, latest[2], others)):
                return True
        same_part = bool(_part(link, function, rest, keywords) == self.constant[number])
        if same_part and not keywords and _WORDS.issuperset(map(type, others)):
            self._latest[number] = (self.constant[number], what, others)
        return same_part

    def _is_still(self, recall: Recall) -> bool:
        """Whether files and settings are as they were at the first step: other code has run since."""
        _, function, args, keywords = recall.steps[0]
        return self._key(function, args, keywords) == recall.key and around_now() == self._around

    def _skip(
        self, recall: Recall, caller: Caller, function: Any, args: tuple[Any, ...], keywords: dict[str, Any],
        space: dict[str, Any], placeholder: Any = None,
    ) -> Any:  # fmt: skip
        at = self.links[len(recall.steps)].at
        if recall.steps and at >= 0:  # not the placeholder: it and the recall would hold each other
            args = (*args[:at], None, *args[at + 1 :])
        recall.steps.append((caller, function, args, keywords))
        if len(recall.steps) < self.length:
            return Placeholder(recall) if placeholder is None else placeholder
        due, started = self.trial.due(), time.perf_counter()
        value = attempt(self._copy, recall)
        if isinstance(value, Failed):
            return self._lost(recall, space, value)
        if not due:
            return value
        between = time.perf_counter()
        with StopIfRaised(self.trial):
            original = recall.settle(space)
        ended = time.perf_counter()
        verdict = attempt(same, original, value) if self._unwritten(recall) else No("a step wrote into an argument")
        self.trial.record(ended - between, between - started, verdict)
        if type(recall.kept) is Stored and self.memory.disk is not None:
            self.memory.disk.timed(ended - between, between - started)
        return original

    def _unwritten(self, recall: Recall) -> bool:
        """Whether the other arguments of the steps, which ran as written just now, are what they were before."""
        for link, part, (_, _, args, keywords) in zip(self.links, self.constant, recall.steps, strict=False):
            others = args if link.at < 0 else (*args[: link.at], *args[link.at + 1 :])
            if part is not None and part[1:] != (told_apart(others), told_apart(tuple(keywords.items()))):
                return False
        return True


def _may_warn(value: Any) -> bool:
    """Whether a picture warns when it is converted; what hides that from us, having been shown, may change."""
    return getattr(value, "mode", None) in ("P", "PA") and type(getattr(value, "info", {}).get("transparency")) is bytes


def _is_new(key: Any) -> bool:
    """Whether a file was changed so short ago that it may change again without a new time stamp."""
    return bool(time.time_ns() - max(state.stamp_ns for state in key[3:]) < SETTLED_NS)


def _dotted(function: Any) -> str | None:
    """What a function is called in all processes; forked ones have what was loaded before at the same place."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if type(name) is not str:
        return None
    return f"{module}.{name}" if type(module) is str else f"{name} at {id(function)}"


def _name(function: Any) -> Any:
    return function.name if type(function) is Method else function


def _taken(link: Link, function: Any, rest: tuple[Any, ...]) -> Any:
    """The value that a call takes from the one before."""
    if link.at < 0:
        return getattr(function, "__self__", None)
    return rest[link.at] if link.at < len(rest) else None


def _part(link: Link, function: Any, rest: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What a call is beside the value that it takes, if that can be compared; else None."""
    what = (getattr(function, "__name__", None) or getattr(function, "name", None)) if link.at < 0 else behind(function)
    others = rest if link.at < 0 else (*rest[: link.at], *rest[link.at + 1 :])
    if what is None or not all(map(is_plain, (*others, *keywords.values()))):
        return None
    return (what, told_apart(others), told_apart(tuple(keywords.items())))
