"""A chain of sites replaced as a whole: its operations are deferred, its last one computes a table and applies it.

Whatever is not as expected (another dtype, an unknown call in between, a failure of ours) ends in the same place:
the steps run as the program wrote them, in the same order, on the same values.
"""

from __future__ import annotations

import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from sys import _getframe
from typing import Any

import msgspec

from codedag.backends.effects import Effects
from codedag.backends.elementwise import ROLES, Operand, Role
from codedag.backends.same import same
from codedag.instrument.floating_point import is_usual
from codedag.instrument.sites import CALL, SETITEM
from codedag.ir.clock import perf_counter
from codedag.ir.verdict import No
from codedag.migrate.caller import Caller
from codedag.migrate.fuse import native_chain
from codedag.migrate.fuse.deferred import OTHER, Deferred, Step, as_written_seconds, opening, replayed
from codedag.migrate.fuse.lookup_table import Known, elements
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.placeholder import Method, Placeholder
from codedag.migrate.substitute.clock import Clock, clock_for
from codedag.migrate.trial import Trial

# Nine steps cost 30 us in Python, 100 us with a new table, 7 us in the extension (tests/unit/migrate/overhead.py);
# above this the trial judges.
SMALLEST = 1024  # elements
SHORT = 2e-4  # seconds of the steps as written, below which what it takes to write them down and replay them shows
Kernels = Callable[[Any, tuple[int, ...], Any, Any], Any]
Variant = Callable[..., Any]


class Link(msgspec.Struct, frozen=True):
    """One operation of a chain: its site, its name as traced, and where the array stands (None: found at run time)."""

    site: Any
    name: str
    operand: Operand | None

    @property
    def role(self) -> Role:
        """What the operation does."""
        return ROLES[self.name]

    @property
    def places(self) -> tuple[int, ...]:
        """Where the array may stand among the operands; -1: the operation is a method of it."""
        operands = self.role.operands if self.operand is None else (self.operand,)
        return tuple(-1 if isinstance(operand, str) else operand for operand in operands)


class _Pending(threading.local):
    """The deferred arrays of this thread; only weakly, so that an exception that ends a frame also ends them."""

    def __init__(self) -> None:
        self.deferred: list[weakref.ref[Any]] = []

    def drop(self, deferred: Any = None) -> None:
        """Forgets one that has ended, and those whose frame is gone."""
        self.deferred = [ref for ref in self.deferred if ref() is not None and ref() is not deferred]


class Chain:
    """The variants of one chain's sites, and the trial that it is on."""

    def __init__(
        self, links: Sequence[Link], between: Sequence[Any], kernels: Kernels, trial: Trial, effects: Effects
    ) -> None:
        self.links, self.between = list(links), list(between)
        self.trial = trial
        self._kernels = kernels
        self._clock = clock_for(["cpu"])
        self._effects = effects
        self._pending = _Pending()
        self._known: Known | None = None
        self._callers = [Caller(link.site.info) for link in self.links]
        self._native = self._native_form()
        self._places, self._shift = self.links[0].places, int(self.links[0].site.kind == CALL)

    def variants(self) -> dict[int, Variant]:
        """What each site of the chain, and each site between them, runs instead."""
        found: dict[int, Variant] = {}
        for number, link in enumerate(self.links):
            make = self._opener if number == 0 else self._follower
            variant = make(link, self._callers[number], last=number == len(self.links) - 1)
            if self._native is not None:
                variant = native_chain.native.Site(self._native.chain, number, link.site.kind, None, variant)
            found[link.site.info.index] = variant
        for site in self.between:
            variant = self._bystander(site)
            if self._native is not None:
                variant = native_chain.native.Site(self._native.chain, -1, site.kind, site.function, variant)
            found[site.info.index] = variant
        return found

    def _native_form(self) -> native_chain.NativeChain | None:
        if native_chain.native is None:
            return None
        own = (self._checked, _replay, self._steps_of, self._effects.harmless, self._clock is not perf_counter)
        chain = native_chain.native.Chain(self.trial, Placeholder, Method, native_chain.nothing_raises, *own)
        return native_chain.NativeChain([link.name for link in self.links], chain)

    def _steps_of(self, specs: tuple[Any, ...], parameters: tuple[tuple[Any, ...], ...]) -> list[Step]:
        """The steps of a native run, which has noted only their parameters."""
        steps = []
        for link, caller, own, spec in zip(self.links, self._callers, parameters, specs, strict=False):
            at, function, name, words, values, *_ = spec
            keywords = dict(zip(words or (), values, strict=True))
            step = Step(link.role, function if at >= 0 else name, at, own, keywords)
            step.caller = caller
            steps.append(step)
        return steps

    # -- the sites

    def _opener(self, link: Link, caller: Caller, last: bool) -> Variant:
        called, split = as_call(link.site), _splitter(link)

        def first(*args: Any, **keywords: Any) -> Any:
            started = perf_counter()
            opened = attempt(self._open, split, args, keywords) if self.trial.active else None
            if opened is None or isinstance(opened, Failed):
                if opened is not None:
                    self.trial.decline(opened.reason)
                return caller.in_module(_getframe(1).f_globals)(*called(args, keywords))
            placeholder, step = opened
            self._pending.deferred.append(weakref.ref(placeholder.deferred))
            return self._step(placeholder, step, started, caller, last)

        return first

    def _follower(self, link: Link, caller: Caller, last: bool) -> Variant:
        called, split = as_call(link.site), _splitter(link)
        at = link.places[0]
        place = 0 if at < 0 else at + (link.site.kind == CALL)

        def later(*args: Any, **keywords: Any) -> Any:
            started = perf_counter()
            found = args[place] if place < len(args) else None
            if type(found) is Method:
                found = found.placeholder
            if type(found) is not Placeholder:
                return caller.in_module(_getframe(1).f_globals)(*called(args, keywords))
            return self._step(found, split(args, keywords, at), started, caller, last)

        return later

    def _bystander(self, site: Any) -> Variant:
        kind, caller, called = site.kind, Caller(site.info), as_call(site)
        pending = self._pending

        def passing(*args: Any, **keywords: Any) -> Any:
            space = _getframe(1).f_globals
            is_under_way = pending.deferred or self._is_native_under_way()
            if is_under_way and attempt(self._effects.harmless, kind, args, keywords) is not True:
                self._settle_all(shown(args[0] if kind == CALL else site.function), space)
            return caller.in_module(space)(*called(args, keywords))

        return passing

    def _is_native_under_way(self) -> bool:
        return self._native is not None and bool(self._native.chain.waiting())

    def _settle_all(self, what: str, space: dict[str, Any]) -> None:
        waiting = [deferred for ref in self._pending.deferred if (deferred := ref()) is not None]
        waiting += self._native.chain.waiting() if self._native is not None else []
        self._pending.deferred = []
        for deferred in waiting:
            self.trial.decline(f"{what} runs in between")
            deferred.settle(space)

    # -- the steps

    def _open(
        self, split: Callable[..., Step], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Placeholder, Step] | None:
        reason = ""
        if len(self._pending.deferred) > 8:
            self._pending.drop()
        for place in self._places:
            step = split(args, keywords, place)
            if step.role is OTHER:
                self.trial.decline(f"another function than {self.links[0].name} is called")
                return None
            where = place + self._shift
            source = _own(args[0]) if place < 0 else args[where] if where < len(args) else None
            placeholder = opening(source, SMALLEST, self._known)
            if isinstance(placeholder, Placeholder):
                return placeholder, step
            reason = reason or placeholder.reason
        self.trial.decline(reason)
        return None

    def _step(self, placeholder: Placeholder, step: Step, started: float, caller: Caller, last: bool) -> Any:
        step.caller = caller
        if type(placeholder.deferred) is _NativeRun and not placeholder.deferred.done:
            self._analyse(placeholder, _getframe(2).f_globals)
        deferred: Deferred = placeholder.deferred
        if not deferred.done:
            written = attempt(deferred.add, step)
            deferred.spent += perf_counter() - started
            if not isinstance(written, Failed):
                return self._finish(deferred, _getframe(2).f_globals) if last else placeholder
            self.trial.decline(written.reason)
            self._pending.drop(deferred)
        # run as written up to here: the placeholder is replaced by the real value
        space = _getframe(2).f_globals
        return caller.in_module(space)(*step.on(deferred.settle(space)))

    def _analyse(self, placeholder: Placeholder, space: dict[str, Any]) -> None:
        """Analyses a call that is not as those that the extension takes, with its steps so far."""
        run: Any = placeholder.deferred
        careful = opening(run.source, SMALLEST, self._known)
        if isinstance(careful, Placeholder):
            for step in run.steps:
                written = attempt(careful.deferred.add, step)
                if isinstance(written, Failed):
                    self.trial.decline(written.reason)
                    break
            else:
                placeholder.deferred = careful.deferred
                run.end()
                self._pending.deferred.append(weakref.ref(careful.deferred))
                return
        run.settle(space)

    # -- the end of the chain

    def _finish(self, deferred: Deferred, space: dict[str, Any]) -> Any:
        self._pending.drop(deferred)
        if not self.trial.active:
            return deferred.settle(space)
        # The few microseconds of the steps before are by the wall: a thread's own time takes as long to read.
        clock = self._clock if self.trial.is_next() else perf_counter
        started = clock()
        result = attempt(self._compute, deferred)
        variant_seconds = deferred.spent + clock() - started
        if isinstance(result, Failed | No):
            self._did_not_work(result)
            return deferred.settle(space)
        if type(deferred) is Deferred and self._native is not None and is_usual():
            attempt(self._native.learn, deferred, result, self._kernels)
        if not self.trial.due():
            return result
        return self._compared(deferred, result, variant_seconds, clock, space)

    def _checked(self, run: Any, result: Any) -> Any:
        """What the program gets where a result of the extension is due to be checked."""
        clock = self._clock if run.own_time else perf_counter
        return self._compared(run, result, run.spent, clock, _getframe(1).f_globals)

    def _compared(self, deferred: Any, result: Any, variant_seconds: float, clock: Clock, space: dict[str, Any]) -> Any:
        started = clock()
        source, steps = deferred.source, deferred.steps
        original = deferred.settle(space)
        original_seconds = clock() - started
        if original_seconds < SHORT:
            original_seconds = as_written_seconds(source, steps, clock)
        verdict = attempt(same, original, result)
        self.trial.record(original_seconds, variant_seconds, verdict)
        return original

    def _did_not_work(self, result: Failed | No) -> None:
        self.trial.decline(result.reason, lasting=isinstance(result, Failed))
        if isinstance(result, Failed) and not result.expected:
            self.trial.stop(f"it failed ({result.reason})")

    def _compute(self, deferred: Deferred) -> Any:
        self._known = deferred.root
        known = deferred.finished()
        table, rows = known.table, known.rows
        result = deferred.layout.make(table.dtype)
        out = elements(result)
        view = deferred.view
        kernel = self._kernels(view, rows, table, out)
        if isinstance(kernel, No):
            return kernel
        kernel.apply(view, table, rows, out)
        return result


_NativeRun: Any = native_chain.native.Run if native_chain.native is not None else None


def _replay(run: Any, space: dict[str, Any] | None) -> Any:
    """The value of a native run when its steps run as written."""
    return replayed(run.source, run.steps, space)


def _own(function: Any) -> Any:
    """The object whose built-in method this is; looked up only where no code of the program's can run."""
    return function.__self__ if type(function) is types.BuiltinMethodType else None


def as_call(site: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """What a site calls, given what it is called with: a function, its arguments and keywords."""
    function = site.function
    if site.kind == CALL:
        return lambda args, keywords: (args[0], args[1:], keywords)
    if site.kind == SETITEM:
        return lambda args, keywords: (function, (args[1], args[2], args[0]), keywords)
    if function is None:
        return lambda args, keywords: (_same_value, args, keywords)
    return lambda args, keywords: (function, args, keywords)


def _same_value(value: Any) -> Any:
    return value


def _splitter(link: Link) -> Callable[[tuple[Any, ...], dict[str, Any], int], Step]:
    """Makes a step of the arguments of a site; a call of another function than the traced one has no role."""
    role, name, function = link.role, link.name.rpartition(".")[2], link.site.function
    if link.site.kind != CALL:
        return lambda args, keywords, at: Step(role, function, at, args[:at] + args[at + 1 :], keywords)
    expected: Any = None  # found at the first call: a plan is applied before its libraries are loaded

    def split(args: tuple[Any, ...], keywords: dict[str, Any], at: int) -> Step:
        nonlocal expected
        called = args[0]
        if at < 0:
            method = called.name if type(called) is Method else _method_name(called)
            return Step(role if method == name else OTHER, method, at, args[1:], keywords)
        expected = _named(link.name) if expected is None else expected
        return Step(role if called is expected else OTHER, called, at, args[1 : at + 1] + args[at + 2 :], keywords)

    return split


def _method_name(function: Any) -> str:
    return function.__name__ if type(function) is types.BuiltinMethodType else ""


def _named(name: str) -> Any:
    """What a dotted name stands for in the loaded modules; None if nothing (then no call is as traced)."""
    module, _, last = name.rpartition(".")
    return getattr(sys.modules.get(module), last, None)


def shown(function: Any) -> str:
    """The name of a function for people."""
    known = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)
    return str(function.__qualname__) if isinstance(function, known) else type(function).__name__
