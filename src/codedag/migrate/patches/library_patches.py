"""Library patches: another function in the place of a library's, for calls made inside third-party packages.

A function is replaced everywhere it is held, by a proxy that answers for it in all but its calls; each reference is
put back by identity.  Where two sets of patches name the same function, the newest is asked first and what it declines
goes to the one before; they can be taken back in any order, and the last one puts the function back.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import accumulate
from types import TracebackType
from typing import Any
from weakref import getweakrefcount

from codedag.backends.registry import Substitution
from codedag.instrument.children import renew_in_fork
from codedag.ir.verdict import Code, No, Verdict, Yes
from codedag.migrate.patches import proxies
from codedag.migrate.patches.call_counts import CallCounts
from codedag.migrate.patches.dispatch import REASONS, Dispatcher
from codedag.migrate.patches.import_hook import ImportWatcher
from codedag.migrate.patches.referrers import Sweep, class_of, space
from codedag.migrate.substitute.usable import is_loading, library_of, loaded_to_its_end

UNDISTURBED = 10.0  # seconds


class Patch:
    """One function and what runs in its place: a function, a substitution, or None to count its calls only.

    A function given by its dotted name is patched as soon as the program has loaded it.  A replacement may return
    `DECLINED`: the original then runs, called from the program's own frame.
    """

    __slots__ = ("_original", "guarded", "layer", "ready", "replacement", "source")

    def __init__(
        self, original: Any, replacement: Callable[..., Any] | Substitution | Dispatcher | None = None
    ) -> None:
        self._original = None if isinstance(original, str) else proxies.behind(original)
        self.source = original if isinstance(original, str) else proxies.name_of(self._original)
        self.guarded = Dispatcher(replacement) if isinstance(replacement, Substitution) else None
        self.guarded = replacement if isinstance(replacement, Dispatcher) else self.guarded
        self.replacement = replacement
        self.ready: Callable[[], Verdict] = lambda: Yes  # asked once its library is there, before it is replaced
        self.layer = proxies.native.Layer(self.guarded or replacement)
        if self.guarded is not None:  # once taken back, a call costs no more than being counted
            self.guarded.on_stop = partial(setattr, self.layer, "run", None)

    @property
    def original(self) -> Any:
        """The function itself, or None while its library is not loaded."""
        if self._original is None:
            self._original = proxies.behind(_loaded(self.source))
        return self._original

    def possible(self) -> Verdict:
        """Yes if it can be replaced here and now, else why not."""
        if self.original is None:
            return No(f"{self.source} is not loaded yet", Code.NOT_LOADED)
        possible = proxies.possible(self.original)
        return possible and self.ready()

    def libraries(self) -> set[str]:
        """The libraries on whose loading it may wait."""
        arms = self.guarded.arms if self.guarded is not None else []
        return {self.source.partition(".")[0], *(library_of(arm.substitution.needs) for arm in arms)}

    def counts(self) -> CallCounts:
        """What became of the calls so far."""
        layer, guarded = self.layer, self.guarded
        if guarded is None:
            declined = {"the replacement declined it": layer.declined} if layer.declined else {}
            return CallCounts(calls=layer.calls, fast=layer.fast, declined=declined)
        declined, calls = dict(guarded.declined), layer.calls - guarded.proofs
        rest = calls - layer.fast - guarded.checked - sum(declined.values())
        if rest > 0:
            reason = guarded.reason or "an exception that is not ours"
            declined[reason] = declined.get(reason, 0) + rest
        trials = [arm.trial for arm in guarded.arms]
        sent, fetched, resident = guarded.moved
        return CallCounts(
            calls=calls, fast=layer.fast, checked=guarded.checked, declined=declined, mismatches=guarded.mismatches,
            gain=guarded.gain(), active=guarded.active, reason=guarded.reason,
            unverified=sum(t.unverified for t in trials), evidence="; ".join(t.evidence for t in trials if t.evidence),
            sent_nbytes=sent, fetched_nbytes=fetched, resident=resident,
        )  # fmt: skip


class _Live:
    """The proxy of a function that is replaced now, held where no walk looks: in an object of ours."""

    def __init__(self, proxy: Any) -> None:
        self.proxy = proxy


class Patches:
    """A set of patches that is applied and restored together."""

    def __init__(self, *patches: Patch) -> None:
        self.patches = patches
        self.refused: dict[str, No] = {}
        self.applied: list[Patch] = []
        self.active = False

    def __enter__(self) -> Patches:
        self.apply()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    def apply(self) -> int:
        """How many references were changed; a second apply changes nothing."""
        with _state.alone():
            if self.active:
                return 0
            self.active = True
            self.refused = {}
            _state.add(self)
            try:
                return self._apply_possible(self.patches)
            except BaseException:
                self.restore()
                raise

    def _apply_possible(self, patches: Iterable[Patch]) -> int:
        wanted = []
        for patch in patches:
            verdict = patch.possible()
            if isinstance(verdict, No):
                self.refused[patch.source] = verdict
            elif patch not in self.applied:
                self.refused.pop(patch.source, None)
                wanted.append(patch)
        return _state.put([live for live in map(self._put_proxy, wanted) if live is not None])

    def _put_proxy(self, patch: Patch) -> _Live | None:
        """Puts the patch on the proxy of its function; the live function, if nobody had replaced it yet."""
        live = _state.live.get(id(patch.original))
        if live is None:
            proxy = _state.retired.pop(id(patch.original), None)
            proxy = proxies.make(patch.original) if proxy is None else proxy
            live = _state.live[id(patch.original)] = _Live(proxy)
        new = not proxies.native.layers(live.proxy)  # also one whose restore was interrupted
        for arm in patch.guarded.arms if patch.guarded is not None else ():
            arm.substitution.remember(patch.original)  # by name it soon is not found
        native = proxies.native
        native.set_layers(live.proxy, (*native.layers(live.proxy), patch.layer))
        self.applied.append(patch)
        return live if new else None

    def restore(self) -> int:
        """How many references were put back; what the program has set meanwhile stays as it set it."""
        with _state.alone():
            if not self.active:
                return 0
            self.active = False
            _state.remove(self)
            free = [live for patch in self.applied if (live := self._take_off(patch)) is not None]
            self.applied = []
            return _state.put_back(free)

    def _take_off(self, patch: Patch) -> _Live | None:
        """Takes the patch from the proxy of its function; the live function, if that was the last one."""
        live = _state.live[id(patch.original)]
        rest = tuple(layer for layer in proxies.native.layers(live.proxy) if layer is not patch.layer)
        proxies.native.set_layers(live.proxy, rest)
        return None if rest else live

    def late(self, library: str) -> None:
        """Applies the patches that waited for this library."""
        waiting = [patch for patch in self.patches if patch not in self.applied and library in patch.libraries()]
        if any(patch.original is not None for patch in waiting):
            self._apply_possible(waiting)

    def counts(self) -> dict[str, CallCounts]:
        """What became of the calls, by function."""
        return {patch.source: patch.counts() for patch in self.patches}


class _State:
    """The functions that are replaced in this process, and the sets of patches that are applied."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.live: dict[int, _Live] = {}
        self.sets: list[Patches] = []
        self.retired: dict[int, Any] = {}
        self.watch = ImportWatcher(self.loaded)
        self._working = False
        self._news: list[Any] = []  # modules that were loaded and not looked at yet

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A block in which nobody else changes anything, and imports are only noted.

        A proof may import, and must not be begun again for that; nor may an import in another thread wait for a proof,
        which may be waiting for that import.
        """
        with self.lock:
            outermost, self._working = not self._working, True
            try:
                yield
            finally:
                self._working = not outermost
        self._attend_to_news()

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """A block in which no other thread changes anything; what it imported meanwhile is looked at afterwards."""
        try:
            with self.lock:
                yield
        finally:
            self._attend_to_news()

    def _attend_to_news(self) -> None:
        """What was loaded is looked at, unless somebody is at work, who then does it afterwards."""
        while self._news and not self._working and self.lock.acquire(blocking=False):
            try:
                self._working = True
                while self._news:
                    self._attend(self._news.pop(0))
            finally:
                self._working = False
                self.lock.release()

    def _attend(self, module: Any) -> None:
        """Functions that the module got past us are replaced, and patches that waited for it are applied."""
        names = space(module)
        name = str(names.get("__name__")) if names is not None else ""
        with loaded_to_its_end(name):
            for patches in list(self.sets):
                patches.late(name.partition(".")[0])
        if names is None or not self.live or not any(id(value) in self.live for value in list(names.values())):
            return
        Sweep(tuple(live.proxy for live in self.live.values()), to_proxy=True).module(names)

    def fresh_lock(self) -> None:
        """After a fork: another thread may have held the lock."""
        self.lock = threading.RLock()
        self._working, self._news = False, []

    def add(self, patches: Patches) -> None:
        """Counts a set as applied; imports are watched as long as there is one."""
        self.sets.append(patches)
        self.watch.start()

    def remove(self, patches: Patches) -> None:
        """Counts a set as no longer applied."""
        self.sets.remove(patches)
        if not self.sets:
            self.watch.stop()

    def put(self, fresh: list[_Live]) -> int:
        """Puts the proxies in place of their functions."""
        if not fresh:
            return 0
        with _undisturbed():
            return Sweep(tuple(live.proxy for live in fresh), to_proxy=True).run()

    def put_back(self, free: list[_Live]) -> int:
        """Puts the functions back in place of their proxies, those that were put there and those held since."""
        if not free:
            return 0
        with _undisturbed():
            now = tuple(live.proxy for live in free)
            changed = Sweep(now, to_proxy=False).run()
            if threading.active_count() > 1:  # others may have passed a proxy on while we walked: look again
                changed += Sweep(now, to_proxy=False).run()
            for live in free:
                self._let_go(live)
        return changed

    def _let_go(self, live: _Live) -> None:
        """Forgets a function, unless the program refers weakly to its proxy: a registry would lose that entry."""
        original = id(live.proxy.__wrapped__)
        del self.live[original]
        if type(live.proxy).__weakrefoffset__ and getweakrefcount(live.proxy):
            self.retired[original] = live.proxy

    def loaded(self, module: Any) -> None:
        """After an import."""
        self._news.append(module)
        self._attend_to_news()


_state = _State()
renew_in_fork(_state.fresh_lock)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A block in which no other thread comes to its turn, as long as nothing is waited for: none sees half a change."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(UNDISTURBED)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_turn() -> AbstractContextManager[None]:
    """A block in which no other thread applies or restores anything."""
    return _state.in_turn()


def _loaded(source: str) -> Any:
    """The function of a dotted name if its library is loaded to its end; nothing is imported."""
    path, _, name = source.rpartition(".")
    if any(is_loading(outer) for outer in accumulate(path.split("."), "{}.{}".format)):
        return None  # a library that sets itself up looks at its own functions, and has others of the same names
    module = sys.modules.get(path)
    names = space(module) if module is not None else None
    if names is None:
        return _in_class(path, name)
    return names[name] if name in names else _in_private_part(path, name)


def _in_class(path: str, name: str) -> Any:
    """A function that a class of a loaded module defines."""
    found = class_of(f"{path}.{name}")
    return vars(found).get(name) if found is not None else None


def _in_private_part(path: str, name: str) -> Any:
    """A function that a package shows only when asked: it is looked for in those of its modules that are loaded."""
    for other, module in list(sys.modules.items()):
        inside, _, last = other.rpartition(".")
        names = space(module) if inside == path and last and module is not None else None
        found = names.get(name) if names is not None else None
        if callable(found) and getattr(found, "__module__", None) == other:
            return found
    return None


__all__ = ["REASONS", "CallCounts", "Dispatcher", "Patch", "Patches", "Yes"]
