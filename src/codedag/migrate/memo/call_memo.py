"""Calls whose arguments come again, epoch after epoch: the result is kept, and found by the contents of the arguments.

A prefix (prefix.py) is followed through the source from the file on.  Where that ends (a value is unpacked, goes
through a method, or was read by something unknown), a slow call that is known to be pure may still be given the same
array each time round.  It is found by some of its elements, and taken only if all of its bytes are those of the copy
that was kept.  Nothing is copied for an argument that has not come twice; until one has, only some calls are looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from sys import _getframe
from typing import Any
from zlib import crc32

from codedag.backends.known import Effect, Known, known_call
from codedag.backends.same import same
from codedag.instrument.warned import Heard, calls_back
from codedag.ir import clock as time
from codedag.ir.verdict import No
from codedag.migrate.caller import Caller
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.memo.ambient import LibraryCode, around_now
from codedag.migrate.memo.copies import copied, size_of
from codedag.migrate.memo.key import is_plain, told_apart
from codedag.migrate.memo.store import Memory
from codedag.migrate.patches.proxies import behind
from codedag.migrate.substitute.call import Substitute
from codedag.migrate.trial import StopIfRaised, Trial

SHOWN = 64  # elements of an array by which it is found
LOOK_FIRST = 32  # calls that are all looked at until an argument comes again
LOOK_EVERY = 8  # then one in so many, chosen by content: the same arguments are chosen each time that they come
HOPEFUL = 250  # calls that were looked at without one that came again, after which none is expected
MARKS = 1 << 20  # arguments that are remembered as seen
LARGEST = 1 << 26  # bytes of one array
MOST_ALIKE = 32  # arguments that look like kept ones and are not, after which it is asked whether they are the rule
_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Kept:
    """What a call was given and what it gave."""

    arrays: tuple[Any, ...]
    value: Any


class Recall:
    """The variant of one call site that recalls what it gave before, and the trial that it is on."""

    def __init__(self, site: Any, trial: Trial, memory: Memory) -> None:
        self.site, self.trial, self.memory = site, trial, memory
        self._caller = Caller(site.info)
        self.inner = site.variant
        self._kept: dict[Any, Kept] = {}
        self._seen: set[int] = set()
        self._calls, self._asked, self._alike, self._nbytes = 0, 0, 0, 0
        self._has_repeated = False
        self._code = LibraryCode()

    @property
    def recalls(self) -> bool:
        """Whether it is still in use."""
        return self.trial.active

    def inner_is_active(self) -> bool:
        """Whether a substitute that is in use stands behind it."""
        substitute = getattr(self.inner, "__self__", None)
        return type(substitute) is Substitute and substitute.trial.active

    def variants(self) -> dict[int, Callable[..., Any]]:
        """What the site runs instead."""
        return {self.site.info.index: self._variant}

    def _variant(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
        space = _getframe(1).f_globals
        asked, began = self.trial.active and not self.memory.paused and self._looks(args, keywords), time.thread_time()
        key = attempt(self._key, function, args, keywords) if asked else None
        self.trial.cost += time.thread_time() - began
        started = time.perf_counter()
        if type(key) is not tuple:
            return self._run(space, function, args, keywords)
        found = attempt(self._recalled, key, args, keywords) if key in self._kept else _ABSENT
        if found is not _ABSENT and not isinstance(found, Failed):
            seconds = time.perf_counter() - started
            return self._given(found, seconds, space, function, args, keywords, self._kept.get(key))
        with Heard() as heard:
            value = self._run(space, function, args, keywords)
        if heard.warned:
            self.trial.decline("it warns, and would not if its result were kept")
        else:
            began = time.thread_time()
            attempt(self._note, key, args, keywords, value)
            self.trial.cost += time.thread_time() - began
        return value

    def _looks(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Whether a call is looked at: all are once arguments were seen to come again."""
        self._calls += 1
        return self._has_repeated or self._calls <= LOOK_FIRST or attempt(_is_chosen, _arrays(args, keywords)) is True

    def _run(self, space: dict[str, Any], function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """What the site would run without this: a substitute, or the call as written."""
        substitute = getattr(self.inner, "__self__", None)
        if type(substitute) is Substitute:
            return substitute.called(space, function, args, keywords)
        return self._caller.in_module(space)(function, args, keywords)

    def _given(
        self, found: Any, seconds: float, space: dict[str, Any], function: Any, args: tuple[Any, ...],
        keywords: dict[str, Any], kept: Kept | None,
    ) -> Any:  # fmt: skip
        """What was kept; now and then the call runs all the same, and its result is used and compared."""
        if not self.trial.due():
            return found
        started = time.perf_counter()
        with StopIfRaised(self.trial):
            original = self._run(space, function, args, keywords)
        ended = time.perf_counter()
        verdict = attempt(same, original, found)
        if kept is not None and attempt(_holds, kept, args, keywords) is not True:
            verdict = No("it wrote into an argument")
        self.trial.record(ended - started, seconds, verdict)
        return original

    # -- finding

    def _key(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """By what a call is found, or None; the reason why it cannot be is counted."""
        function = behind(function)
        known = known_call(function, args, keywords)
        if not isinstance(known, Known) or known.effect is not Effect.PURE or not known.deterministic:
            self.trial.decline("it is not known to give the same for the same")
            return None
        self._code.note(function)
        if not self._code.heed():
            self._forget()
        if calls_back():
            self.trial.decline("numpy is to call the program about odd numbers")
            return None
        shown = [_shown(value) for value in (*args, *keywords.values())]
        if any(each is None for each in shown):
            self.trial.decline("arguments that cannot be compared")
            return None
        return (function, around_now(), len(args), tuple(keywords), *shown)

    def _recalled(self, key: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A copy of what was kept if all bytes of the arguments are the same, else nothing."""
        kept = self._kept[key]
        return copied(kept.value) if _holds(kept, args, keywords) else _ABSENT

    # -- keeping

    def _note(self, key: Any, args: tuple[Any, ...], keywords: dict[str, Any], value: Any) -> None:
        self._asked += 1
        mark = hash(key)  # two keys of one hash only raise hope
        if mark not in self._seen:
            if len(self._seen) < MARKS:
                self._seen.add(mark)
            most = HOPEFUL * LOOK_EVERY if self._has_repeated else HOPEFUL
            if not self.trial.calls and self._asked > most:
                self._give_up(f"none of {most} arguments came again")
        elif key in self._kept:  # looks like one that was kept, and its bytes are others
            self._alike += 1
            if self._alike > MOST_ALIKE and self._alike > self.trial.calls:
                self._give_up(f"{self._alike} arguments only looked like ones that were kept")
        else:
            self._has_repeated = True
            arrays = _arrays(args, keywords)
            nbytes = sum(array.nbytes for array in arrays) + size_of(value) + 2048
            self._keep(key, arrays, value, nbytes)

    def _give_up(self, reason: str) -> None:
        self.trial.stop(reason)
        self._seen.clear()
        self._forget()

    def _forget(self) -> None:
        self._kept.clear()
        self.memory.nbytes -= self._nbytes
        self._nbytes = 0

    def _keep(self, key: Any, arrays: list[Any], value: Any, nbytes: int) -> None:
        if any(_shares(value, array) for array in arrays):
            self.trial.stop("its result is a view of an argument")
            return
        kept = copied(value)
        if kept is None or not same(value, kept):
            self.trial.stop(f"a {type(value).__name__} cannot be kept")
        elif key not in self._kept and self.memory.takes(nbytes):
            self._kept[key] = Kept(tuple(array.copy("K") for array in arrays), kept)
            self._nbytes += nbytes


def _is_chosen(arrays: list[Any]) -> bool:
    """Whether a call is one of those that are looked at; by a few elements in the middle of its first array."""
    if not arrays:
        return True
    flat = arrays[0].reshape(-1) if arrays[0].flags.c_contiguous else arrays[0].ravel("K")
    return crc32(flat[flat.size // 2 : flat.size // 2 + 16].tobytes()) % LOOK_EVERY == 0


def _holds(kept: Kept, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether all bytes of the arguments are those with which the result was kept."""
    return all(map(_equal, _arrays(args, keywords), kept.arrays))


def _shares(value: Any, array: Any) -> bool:
    """Whether writing into one of them could be seen in the other; an image may not own its pixels."""
    numpy, torch, pillow = (sys.modules.get(name) for name in ("numpy", "torch", "PIL.Image"))
    if type(value) is tuple:
        return any(_shares(each, array) for each in value)
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().numpy()
    if pillow is not None and isinstance(value, pillow.Image):
        return bool(value.readonly)
    return isinstance(value, numpy.ndarray) and bool(numpy.may_share_memory(value, array))  # type: ignore[union-attr]


def _shown(value: Any) -> Any:
    """What an argument is found by, or None if it cannot be compared."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray:
        if (
            value.dtype.hasobject
            or value.nbytes > LARGEST
            or not (value.flags.c_contiguous or value.flags.f_contiguous)
        ):
            return None
        flat = value.ravel("K")
        some = flat[:: max(1, flat.size // SHOWN)].tobytes()
        return (value.dtype.str, value.shape, value.strides, value.flags.writeable, value.flags.owndata, some)
    if is_plain(value):
        return told_apart(value)
    return ("function", value) if _is_of_numpy(numpy, value) else None


def _is_of_numpy(numpy: Any, value: Any) -> bool:
    """Whether a value is one of numpy's own functions, such as `ref=np.max`."""
    name = getattr(value, "__name__", None)
    return numpy is not None and callable(value) and isinstance(name, str) and getattr(numpy, name, None) is value


def _arrays(args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return []
    return [value for value in (*args, *keywords.values()) if type(value) is numpy.ndarray]


def _equal(left: Any, right: Any) -> bool:
    """Whether two arrays of one dtype and layout have the same bytes."""
    numpy: Any = sys.modules["numpy"]
    left, right = (each.ravel("K").view(numpy.uint8) for each in (left, right))
    if left.size != right.size:
        return False
    if left.size % 8 == 0:
        left, right = left.view(numpy.uint64), right.view(numpy.uint64)
    return bool((left == right).all())
